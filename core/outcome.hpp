// What a join type returns for pairs and for tuples that became final.
//
// The join finds pairs and reports the tuples that no later arrival can match. The join type decides what is
// returned: the unmatched rows of an outer join, the rows of a semi join at their first match. It keeps one
// flag for each tuple of a side where the join type needs it: whether the tuple has matched or was already
// returned. Pairs come here after their hashes are verified, so false positives have no effect. Cost: a few
// ns per pair and final tuple, a byte for each tuple held.
#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <vector>

#include "engine.hpp"

namespace slidejoin {

// The join types by their properties (src/slidejoin/join_type.py lists them by name).
struct JoinType {
    bool preserves[2] = {false, false};  // a side whose final tuples are returned if they never matched
    int only = -1;  // semi and anti joins: the one side whose tuples are returned, each once at most

    bool is_semi() const { return only >= 0 && !preserves[only]; }
};

class Outcome {
  public:
    static constexpr std::int64_t kNone = -1;  // no partner

    explicit Outcome(const JoinType& type) : type_(type) {
        for (int side = 0; side < 2; ++side) flags_[side].used = type.preserves[side] || type.only == side;
    }

    // Positions of a side up to `next` exist; new ones have not matched.
    void extend(int side, std::uint64_t next) { flags_[side].resize(next); }

    // Follows a side to the positions [first, next), where those in `moved` went on under new numbers.
    void follow(int side, std::uint64_t first, std::uint64_t next, const std::vector<std::uint64_t>& moved) {
        Flags& flags = flags_[side];
        if (!flags.used) return;
        flags.resize(moved.empty() ? next : first);
        flags.resize(next);
        for (std::size_t i = 0; i < moved.size(); ++i) flags.at(first + i) = flags.at(moved[i]);
        flags.drop(first);
    }

    // What comes out for these pairs and final tuples. `wanted` says which pairs are matches; nullptr: all.
    void write(const Pairs& found, const bool* wanted, const Finals& finals, Pairs& out) {
        std::size_t done = 0;
        const auto write_finals = [&](std::size_t before) {
            for (; done < finals.after.size() && finals.after[done] <= before; ++done)
                write_final(finals.side[done], static_cast<std::int64_t>(finals.position[done]), out);
        };
        out.reserve(found.size() + finals.after.size());
        for (std::size_t i = 0; i < found.size(); ++i) {
            write_finals(i);
            if (!wanted || wanted[i]) write_pair(found.left()[i], found.right()[i], out);
        }
        write_finals(found.size());
    }

    // The end of input: all that is held and never matched. Changes nothing.
    void finish(Pairs& out) const {
        for (int side = 0; side < 2; ++side) {
            if (!type_.preserves[side]) continue;
            const Flags& flags = flags_[side];
            for (std::uint64_t position = flags.first; position < flags.next(); ++position)
                if (!flags.data[position - flags.first + flags.gone])
                    add_alone(side, static_cast<std::int64_t>(position), out);
        }
    }

    // The flags of a side's positions from the first on; none where the join type needs none.
    std::vector<std::uint8_t> flags(int side) const {
        const Flags& flags = flags_[side];
        return {flags.data.begin() + static_cast<std::ptrdiff_t>(flags.gone), flags.data.end()};
    }

    void load(int side, std::uint64_t first, const std::uint8_t* data, std::size_t count) {
        Flags& flags = flags_[side];
        flags.first = first;
        flags.gone = 0;
        if (flags.used) flags.data.assign(data, data + count);
    }

    const JoinType& type() const { return type_; }
    bool uses(int side) const { return flags_[side].used; }
    std::size_t bytes() const { return flags_[0].data.capacity() + flags_[1].data.capacity(); }

  private:
    static constexpr std::size_t kSlack = 4096;  // bytes that are not worth giving back

    struct Flags {
        bool used = false;
        std::uint64_t first = 0;
        std::size_t gone = 0;  // entries of `data` before the first position
        std::vector<std::uint8_t> data;

        std::uint64_t next() const { return first + data.size() - gone; }

        std::uint8_t& at(std::uint64_t position) {
            const std::uint64_t i = position - first + gone;
            if (position < first || i >= data.size()) throw BrokenInvariant("a position that is not held");
            return data[i];
        }

        void resize(std::uint64_t to) {
            if (used) data.resize(to - first + gone);
        }

        void drop(std::uint64_t to) {
            if (!used) return;
            gone += to - first;
            first = to;
            if (2 * gone <= data.size()) return;
            data.erase(data.begin(), data.begin() + static_cast<std::ptrdiff_t>(gone));
            gone = 0;
            if (data.capacity() > 8 * data.size() + kSlack) data.shrink_to_fit();
        }
    };

    void write_pair(std::int64_t left, std::int64_t right, Pairs& out) {
        const std::int64_t pair[2] = {left, right};
        bool first = false;  // the first match of the one side that is returned
        for (int side = 0; side < 2; ++side) {
            if (!flags_[side].used) continue;
            std::uint8_t& matched = flags_[side].at(static_cast<std::uint64_t>(pair[side]));
            if (type_.only == side) first = !matched;
            matched = 1;
        }
        if (type_.only < 0) add(left, right, out);
        else if (type_.is_semi() && first) add_alone(type_.only, pair[type_.only], out);
    }

    void write_final(int side, std::int64_t position, Pairs& out) {
        std::uint8_t& done = flags_[side].at(static_cast<std::uint64_t>(position));
        if (done) return;
        done = 1;
        add_alone(side, position, out);
    }

    static void add_alone(int side, std::int64_t position, Pairs& out) {
        add(side == 0 ? position : kNone, side == 0 ? kNone : position, out);
    }

    static void add(std::int64_t left, std::int64_t right, Pairs& out) {
        out.reserve(1);
        out.left()[out.size()] = left;
        out.right()[out.size()] = right;
        out.add(1);
    }

    JoinType type_;
    Flags flags_[2];
};

}  // namespace slidejoin
