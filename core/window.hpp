// Windows: how an arrival's place in the streams becomes the range of positions that it may see.
//
// A position is a tuple's number on its own side, counted from 0. Structures store its low 32 bits; since a
// window holds at most kMaxLive tuples, the distance from the first visible position is unambiguous, and one
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

// How far event time has come: the least, over the sides that are not idle, of the greatest timestamp less
// the lateness, or of what was promised. It never goes back.
class Watermark {
  public:
    Watermark(const WindowSpec& spec, bool self_join)
        : moves_(spec.moves), lateness_(spec.lateness), sides_(self_join ? 1 : 2) {}

    bool known() const { return at_ > kNever; }
    __int128 at() const { return at_; }
    bool is_late(std::int64_t time) const { return time <= at_; }

    void see(Side side, std::int64_t time) {
        raise(side, moves_ ? static_cast<__int128>(time) - lateness_ : kNever);
    }
    void promise(Side side, std::int64_t time) { raise(side, time); }
    void wake(Side side) { idle_[static_cast<int>(side)] = false; }
    void rest(Side side) {
        idle_[static_cast<int>(side)] = true;
        move();
    }

  private:
    static constexpr __int128 kNever = -(static_cast<__int128>(1) << 100);

    void raise(Side side, __int128 to) {
        wake(side);
        __int128& progress = progress_[static_cast<int>(side)];
        if (to <= progress) return move();
        progress = to;
        move();
    }

    void move() {
        __int128 least = -kNever;
        for (int i = 0; i < sides_; ++i)
            if (!idle_[i]) least = std::min(least, progress_[i]);
        if (least < -kNever) at_ = std::max(at_, least);
    }

    bool moves_;
    std::uint64_t lateness_;
    int sides_;
    bool idle_[2] = {false, false};
    __int128 progress_[2] = {kNever, kNever};
    __int128 at_ = kNever;
};

// Counts both sides and remembers what decides when a tuple leaves. Every admission costs O(1) amortised, in
// event windows O(log w).
class Window {
  public:
    Window(const WindowSpec& spec, bool self_join)
        : spec_(spec), self_join_(self_join), watermark_(spec, self_join) {}

    // Event windows: whether a tuple of this time comes too late. A late one is not admitted, but counted.
    bool refuse(Side side, std::int64_t time) {
        watermark_.wake(side);
        if (!watermark_.is_late(time)) return false;
        ++stream(side).late;
        return true;
    }

    // The next tuple of `side`. A time window's timestamps must not decrease. A tuple without a key or a
    // timestamp is null: it takes its position and is never seen; with `timed` unset it does not move time.
    Place admit(Side side, std::int64_t time, bool timed, bool null) {
        Stream& own = stream(side);
        Stream& met = self_join_ ? own : stream(other(side));
        if (spec_.kind == WindowKind::time && timed && !spec_.self_purge) {
            latest_ = time;
            expire(own);
            if (!self_join_) expire(met);
        }
        const Place place{own.next, met.first, met.next};
        if (null) own.add_null();
        ++own.next;
        ++own.admitted;
        if (spec_.kind == WindowKind::rows) {
            if (own.next > kept(side)) own.first = own.next - kept(side);
        } else if (spec_.kind == WindowKind::time) {
            if (timed) latest_ = own.latest = time;
            own.times.push(own.latest_or(latest_, spec_.self_purge));
            if (spec_.self_purge) expire(own);
        } else {
            own.times.push(time);
            own.keyless.push(null);
            if (!null) own.add_live(time);
            if (timed) watermark_.see(side, time);
            forget_dead();
        }
        return place;
    }

    void advance(std::int64_t to, Side side) {
        watermark_.promise(side, to);
        forget_dead();
    }

    void idle(Side side) {
        watermark_.rest(side);
        forget_dead();
    }

    // Positions of `side` before this one will never be seen again.
    std::uint64_t first(Side side) const { return stream(side).first; }
    std::uint64_t next(Side side) const { return stream(side).next; }
    std::int64_t latest() const { return latest_; }
    std::uint64_t admitted(Side side) const { return stream(side).admitted; }
    std::uint64_t nulls(Side side) const { return stream(side).null_count(); }
    std::uint64_t late(Side side) const { return stream(side).late; }
    const Watermark& watermark() const { return watermark_; }

    // Tuples of `side` that may still match.
    std::uint64_t stored(Side side) {
        Stream& s = stream(side);
        if (spec_.kind == WindowKind::event) return s.live.size();
        s.forget_nulls();
        return s.next - s.first - (s.nulls.size() - s.nulls_gone);
    }

    // Event windows: tuples leave in the order of time, not of arrival, and one that stays long holds back
    // the positions behind it. When most of what is held is dead, the living get new positions at the end.
    bool wasteful(Side side) const {
        const Stream& s = stream(side);
        return spec_.kind == WindowKind::event && s.next - s.first > 2 * s.live.size() + kWaste;
    }

    // The positions of the living, in order, and the first of the new ones that they get now.
    std::vector<std::uint64_t> renumber(Side side) {
        Stream& s = stream(side);
        const std::int64_t reach = reach_of(side);
        std::vector<std::uint64_t> living;
        const std::size_t held = s.times.size();
        for (std::size_t i = 0; i < held; ++i) {
            if (s.keyless[i] || dead(s.times[i], reach)) continue;
            living.push_back(s.first + i);
            const std::int64_t time = s.times[i];
            s.times.push(time);
            s.keyless.push(false);
        }
        s.times.drop(held);
        s.keyless.drop(held);
        s.first = s.next;
        s.next += living.size();
        return living;
    }

    std::size_t bytes() const { return streams_[0].bytes() + streams_[1].bytes(); }

  private:
    static constexpr std::uint64_t kWaste = 4096;

    struct Stream {
        std::uint64_t next = 0;   // position of the next tuple
        std::uint64_t first = 0;  // first position still visible
        std::uint64_t admitted = 0;
        std::uint64_t late = 0;
        Ring<std::int64_t> times;  // of positions [first, next), time and event windows only
        Ring<bool> keyless;        // of the same, event windows only: whether it can never match
        std::int64_t latest = std::numeric_limits<std::int64_t>::min();
        std::vector<std::int64_t> live;    // event windows: times of tuples that may match, least on top
        std::vector<std::uint64_t> nulls;  // positions without a key; those before nulls_gone have left
        std::size_t nulls_gone = 0;
        std::uint64_t nulls_dropped = 0;

        std::uint64_t null_count() const { return nulls_dropped + nulls.size(); }
        std::size_t bytes() const {
            return times.bytes() + keyless.bytes() + live.capacity() * sizeof(std::int64_t) +
                   nulls.capacity() * sizeof(std::uint64_t);
        }

        std::int64_t latest_or(std::int64_t of_both, bool own) const { return own ? latest : of_both; }

        void add_live(std::int64_t time) {
            live.push_back(time);
            std::push_heap(live.begin(), live.end(), std::greater<>());
        }

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

    // Time windows: drops what lies more than the duration before the latest timestamp.
    void expire(Stream& s) const {
        const std::int64_t latest = s.latest_or(latest_, spec_.self_purge);
        std::size_t gone = 0;  // time < latest - duration, without overflow
        while (gone < s.times.size() &&
               static_cast<std::uint64_t>(latest) - static_cast<std::uint64_t>(s.times[gone]) >
                   spec_.duration)
            ++gone;
        s.times.drop(gone);
        s.first += gone;
    }

    // Event windows: drops what the watermark has passed. A tuple leaves for good when all before it have.
    void forget_dead() {
        if (!watermark_.known()) return;
        for (const Side side : {Side::left, Side::right}) forget_dead(stream(side), reach_of(side));
    }

    // How long after its time a tuple may still be met.
    std::int64_t reach_of(Side side) const {
        if (self_join_) return std::max(spec_.after, spec_.before);
        return side == Side::left ? spec_.after : spec_.before;
    }

    bool dead(std::int64_t time, std::int64_t reach) const {
        return static_cast<__int128>(time) + reach <= watermark_.at();
    }

    void forget_dead(Stream& s, std::int64_t reach) {
        while (!s.live.empty() && dead(s.live.front(), reach)) {
            std::pop_heap(s.live.begin(), s.live.end(), std::greater<>());
            s.live.pop_back();
        }
        std::size_t gone = 0;
        while (gone < s.times.size() && (s.keyless[gone] || dead(s.times[gone], reach))) ++gone;
        s.times.drop(gone);
        s.keyless.drop(gone);
        s.first += gone;
    }

    WindowSpec spec_;
    bool self_join_;
    Watermark watermark_;
    std::int64_t latest_ = std::numeric_limits<std::int64_t>::min();
    Stream streams_[2];
};

}  // namespace slidejoin::SLIDEJOIN_TARGET
