// Windows: how an arrival's place in the streams becomes the range of positions that it may see.
//
// A position is a tuple's number on its own side, counted from 0. Structures store its low 32 bits; since a
// window holds fewer than 2^31 tuples, the distance from the first visible position is unambiguous, and one
// unsigned comparison decides visibility, before and after a wrap-around alike.
#pragma once

#include "engine.hpp"
#include "memory.hpp"
#include "probe.hpp"

namespace slidejoin::SLIDEJOIN_TARGET {

struct Visible {
    std::uint32_t first;  // low bits of the first visible position
    std::uint32_t count;

    std::uint32_t relative(std::uint32_t position) const { return position - first; }
    bool contains(std::uint32_t position) const { return relative(position) < count; }
};

// One tuple's place: its own position and the positions [first, last) of the other side that it meets.
struct Place {
    std::uint64_t position;
    std::uint64_t first;
    std::uint64_t last;

    Visible visible() const {
        return {static_cast<std::uint32_t>(first), static_cast<std::uint32_t>(last - first)};
    }
};

// Counts both sides and, for time windows, remembers the timestamps of what is still visible.
// Every admission costs O(1) amortised.
class Window {
  public:
    explicit Window(const WindowSpec& spec, bool self_join) : spec_(spec), self_join_(self_join) {}

    // The next tuple of `side`. `time` is read by time windows only and must not decrease.
    Place admit(Side side, std::int64_t time, bool null) {
        if (self_join_) side = Side::left;
        Stream& own = stream(side);
        Stream& met = self_join_ ? own : stream(other(side));
        if (spec_.kind == WindowKind::time) {
            latest_ = time;
            expire(own);
            if (!self_join_) expire(met);
        }
        const Place place{own.next, met.first, met.next};
        if (spec_.kind == WindowKind::time) own.times.push(time);
        if (null) own.add_null();
        ++own.next;
        if (spec_.kind == WindowKind::rows && own.next > kept(side)) own.first = own.next - kept(side);
        return place;
    }

    // Positions of `side` before this one will never be seen again.
    std::uint64_t first(Side side) const { return stream(side).first; }
    std::uint64_t next(Side side) const { return stream(side).next; }
    std::int64_t latest() const { return latest_; }

    std::uint64_t nulls(Side side) const { return stream(side).null_count(); }

    // Tuples of `side` that may still match.
    std::uint64_t stored(Side side) {
        Stream& s = stream(side);
        if (spec_.kind == WindowKind::time) expire(s);
        s.forget_nulls();
        return s.next - s.first - (s.nulls.size() - s.nulls_gone);
    }

    std::size_t bytes() const { return streams_[0].bytes() + streams_[1].bytes(); }

  private:
    struct Stream {
        std::uint64_t next = 0;            // position of the next tuple
        std::uint64_t first = 0;           // first position still visible
        Ring<std::int64_t> times;          // of positions [first, next), time windows only
        std::vector<std::uint64_t> nulls;  // positions without a key; those before nulls_gone have left
        std::size_t nulls_gone = 0;
        std::uint64_t nulls_dropped = 0;

        std::uint64_t null_count() const { return nulls_dropped + nulls.size(); }
        std::size_t bytes() const { return times.bytes() + nulls.capacity() * sizeof(std::uint64_t); }

        void add_null() {
            forget_nulls();
            nulls.push_back(next);
        }

        void forget_nulls() {
            while (nulls_gone < nulls.size() && nulls[nulls_gone] < first) ++nulls_gone;
            if (nulls_gone * 2 > nulls.size()) {
                nulls.erase(nulls.begin(), nulls.begin() + static_cast<std::ptrdiff_t>(nulls_gone));
                nulls_dropped += nulls_gone;
                nulls_gone = 0;
            }
        }
    };

    Stream& stream(Side side) { return streams_[static_cast<int>(side)]; }
    const Stream& stream(Side side) const { return streams_[static_cast<int>(side)]; }
    std::uint64_t kept(Side side) const { return side == Side::left ? spec_.left : spec_.right; }

    // Drops what lies more than the duration before the latest timestamp.
    void expire(Stream& s) const {
        std::size_t gone = 0;
        while (gone < s.times.size() && too_old(s.times[gone])) ++gone;
        s.times.drop(gone);
        s.first += gone;
    }

    bool too_old(std::int64_t time) const {  // time < latest - duration, without overflow
        return static_cast<std::uint64_t>(latest_) - static_cast<std::uint64_t>(time) > spec_.duration;
    }

    WindowSpec spec_;
    bool self_join_;
    std::int64_t latest_ = std::numeric_limits<std::int64_t>::min();
    Stream streams_[2];
};

}  // namespace slidejoin::SLIDEJOIN_TARGET
