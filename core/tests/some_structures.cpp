// Stands for what thread_tests does without, so that it is built quickly: the indexes whose part in a join of
// several threads another one has, too, and the join of runs, which has one thread.
#include "../engine.hpp"
#include "../run_join.hpp"
#include "../structures.hpp"
#include "../target.hpp"
#include "../workers.hpp"

namespace slidejoin::portable {

#define SLIDEJOIN_WITHOUT(kind)                                                      \
    template <class Key>                                                             \
    std::unique_ptr<IndexPair<Key>> make_##kind(const JoinSpec&) {                   \
        throw std::logic_error("this program has no " #kind);                        \
    }                                                                                \
    template std::unique_ptr<IndexPair<std::uint32_t>> make_##kind(const JoinSpec&); \
    template std::unique_ptr<IndexPair<std::uint64_t>> make_##kind(const JoinSpec&);
SLIDEJOIN_WITHOUT(nested_loop)
SLIDEJOIN_WITHOUT(b_chain)
SLIDEJOIN_WITHOUT(ib_chain)
SLIDEJOIN_WITHOUT(im_tree)
SLIDEJOIN_WITHOUT(rap_table)
SLIDEJOIN_WITHOUT(wib_tree)

std::unique_ptr<RunJoin> make_runs(const JoinSpec&) {
    throw std::logic_error("this program has no join of runs");
}

}  // namespace slidejoin::portable
