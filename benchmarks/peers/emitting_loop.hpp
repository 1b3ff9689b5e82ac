// The core's nested loop, scanned in pieces: the matches of a piece are emitted (emission.hpp) before the
// next piece is read.
#pragma once

#include "index/nested_loop.hpp"

namespace slidejoin::SLIDEJOIN_TARGET {

template <class Key>
class EmittingLoop : public NestedLoop<Key> {
  public:
    using NestedLoop<Key>::NestedLoop;

    template <class Matches>
    void probe(Interval<Key> interval, Visible visible, Matches& matches) const {
        Pieces<Matches> pieces{matches};
        NestedLoop<Key>::probe(interval, visible, pieces);
    }

  private:
    static constexpr std::size_t kPiece = 64;

    template <class Matches>
    struct Pieces {
        Matches& matches;

        void entries(const Key* keys, const std::uint32_t* positions, std::size_t count,
                     Interval<Key> interval, Visible visible) {
            for (std::size_t from = 0; from < count; from += kPiece) {
                const std::size_t before = matches.size(), piece = std::min(kPiece, count - from);
                matches.entries(keys + from, positions + from, piece, interval, visible);
                peers::Emission::compared(piece);
                if constexpr (requires { matches.data(); })
                    peers::Emission::emit(matches.data() + before, matches.size() - before, visible.first);
            }
        }
    };
};

}  // namespace slidejoin::SLIDEJOIN_TARGET
