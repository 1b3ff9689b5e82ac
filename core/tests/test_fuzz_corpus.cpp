// Replays the inputs that fuzzing starts from and those that it has found (fuzz_index.hpp).
#include <filesystem>
#include <fstream>
#include <iterator>

#include "../target.hpp"
#include "testing.hpp"

SLIDEJOIN_TARGET_BEGIN

#include "fuzz_index.hpp"

#ifndef SLIDEJOIN_CORPUS
#define SLIDEJOIN_CORPUS "core/tests/corpus"
#endif

using namespace slidejoin::SLIDEJOIN_TARGET;

TEST(fuzz_corpus) {
    int replayed = 0;
    for (const auto& entry : std::filesystem::directory_iterator(SLIDEJOIN_CORPUS)) {
        if (entry.path().extension() != ".fuzz") continue;
        std::ifstream file(entry.path(), std::ios::binary);
        const std::string bytes{std::istreambuf_iterator<char>(file), {}};
        try {
            fuzz_index(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size());
            ++replayed;
        } catch (const std::exception& error) {
            testing::fail(__FILE__, __LINE__, entry.path().filename().string() + ": " + error.what());
        }
    }
    CHECK(replayed >= 12);
}

// Every single byte is an input, and so is the empty input.
TEST(fuzz_short_inputs) {
    fuzz_index(nullptr, 0);
    for (int byte = 0; byte < 256; ++byte) {
        std::uint8_t bytes[40];
        std::fill_n(bytes, std::size(bytes), static_cast<std::uint8_t>(byte));
        fuzz_index(bytes, 1);
        fuzz_index(bytes, std::size(bytes));
    }
}

SLIDEJOIN_TARGET_END
