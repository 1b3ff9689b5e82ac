// Stands for the indexes that thread_tests does without, so that it is built quickly: those whose part in a
// join of several threads another one has, too.
#include "../engine.hpp"
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

}  // namespace slidejoin::portable
