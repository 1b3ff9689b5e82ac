// The chained indexes.
#include "../target.hpp"
#include "testing.hpp"

SLIDEJOIN_TARGET_BEGIN

#include "../index/chain.hpp"
#include "index_cases.hpp"

using namespace slidejoin::SLIDEJOIN_TARGET;
using slidejoin::IndexOptions;

namespace {

IndexOptions chain_of(std::uint32_t length, std::uint32_t least) {
    IndexOptions options;
    options.chain_length = length;
    options.min_entries = least;
    return options;
}

// Tuple by tuple, with prefetch hints: the hint of an insert is valid until that insert, the hint of a probe
// until the next insert.
template <class Index>
void check_hints(const IndexOptions& options) {
    testing::Random random(9);
    Index index(options);
    Model<std::uint32_t> model;
    for (std::uint32_t next = 0; next < 3000; ++next) {
        const auto key = static_cast<std::uint32_t>(testing::below(random, 500));
        index.insert(key, next, index.prefetch_insert(key));
        model.entries.push_back({key, next});
        const Interval<std::uint32_t> interval{key / 2, key / 2 + 40};
        const std::uint32_t first = next < 700 ? 0 : next - 700;
        MatchList list;
        index.probe(interval, {first, next - first}, list, index.prefetch_probe(interval));
        std::vector<std::uint32_t> found(list.data(), list.data() + list.size());
        std::sort(found.begin(), found.end());
        if (next % 7 == 0) CHECK(found == model.probe(interval, {first, next - first}));
        index.forget(first);
        if (next % 101 == 0) index.check(first, next + 1);
    }
}

template <template <class> class Chain>
void check_memory() {
    // A chain frees the memory of what it has dropped.
    Chain<std::uint64_t> chain(chain_of(2, 64));
    testing::Random random(5);
    std::size_t most = 0;
    for (std::uint32_t i = 0; i < 100'000; ++i) {
        chain.insert(random(), i);
        if (i >= 1000) chain.forget(i - 1000);
        if (i == 20'000) most = chain.bytes();
    }
    chain.check(98'999, 100'000);
    CHECK(chain.bytes() < 2 * most);
}

}  // namespace

TEST(b_chain) { check_all(slidejoin::IndexKind::b_chain); }
TEST(ib_chain) { check_all(slidejoin::IndexKind::ib_chain); }

TEST(chains_of_many_lengths) {
    for (const IndexOptions& options : {chain_of(2, 16), chain_of(3, 64), chain_of(9, 16)}) {
        check_all(slidejoin::IndexKind::b_chain, options);
        check_all(slidejoin::IndexKind::ib_chain, options);
    }
}

TEST(chains_hints) {
    for (const std::uint32_t length : {2u, 3u, 9u}) {
        check_hints<BChain<std::uint32_t>>(chain_of(length, 16));
        check_hints<IbChain<std::uint32_t>>(chain_of(length, 16));
    }
}

TEST(chains_give_memory_back) {
    check_bytes(slidejoin::IndexKind::b_chain, 30, 55);
    check_bytes(slidejoin::IndexKind::ib_chain, 20, 35);
    check_memory<BChain>();
    check_memory<IbChain>();
}
SLIDEJOIN_TARGET_END
