// The libFuzzer target of the indexes: `make fuzz`.
#include "../target.hpp"
#include "testing.hpp"

SLIDEJOIN_TARGET_BEGIN

#include "fuzz_index.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    // Any exception is a finding: it ends the program, and libFuzzer writes the input to a file.
    slidejoin::SLIDEJOIN_TARGET::fuzz_index(data, size);
    return 0;
}

SLIDEJOIN_TARGET_END
