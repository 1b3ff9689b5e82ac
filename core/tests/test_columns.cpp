// Bytes of stored columns: those that are borrowed are read in place and never written.
#include "../columns.hpp"
#include "testing.hpp"

using namespace slidejoin;

TEST(borrowed_bytes_are_never_written) {
    for (const std::size_t dropped : {0u, 40u, 100u})
        for (const std::size_t kept : {0u, 10u, 60u}) {
            if (dropped + kept > 100) continue;
            std::vector<std::uint8_t> lent(100, 7);
            Flat bytes;
            bytes.borrow(lent.data(), lent.size(), std::make_shared<int>(0));
            bytes.drop(dropped);
            bytes.truncate(kept);
            CHECK_EQUAL(bytes.bytes(), std::size_t{0});
            Copies copies;
            std::memset(bytes.extend(20, copies), 1, 20);
            copies.make();
            CHECK_EQUAL(std::count(lent.begin(), lent.end(), 7), std::ptrdiff_t{100});
            CHECK_EQUAL(bytes.size(), kept + 20);
            CHECK_EQUAL(std::count(bytes.data(), bytes.data() + kept, 7), static_cast<std::ptrdiff_t>(kept));
        }
}
