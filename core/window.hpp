// Windows: how an arrival's place in the streams becomes the range of positions that it may see.
//
// A position is a tuple's number on its own side, counted from 0. Structures store its low 32 bits; since a
// window holds at most kMaxLive tuples, the distance from the first visible position is unambiguous, and one
// unsigned comparison decides visibility, before and after a wrap-around alike.
#pragma once

#include "engine.hpp"
#include "live_tuples.hpp"
#include "memory.hpp"
#include "probe.hpp"
#include "watermark.hpp"

namespace slidejoin::SLIDEJOIN_TARGET {

struct Visible {
    std::uint32_t first;  // low bits of the first visible position
    std::uint32_t count;

    std::uint32_t relative(std::uint32_t position) const { return position - first; }
    bool contains(std::uint32_t position) const { return relative(position) < count; }
};

// A position as an index holds it.
inline std::uint32_t low_bits(std::uint64_t position) { return static_cast<std::uint32_t>(position); }

// One tuple's place: its own position and the positions [first, last) of the other side that it meets.
struct Place {
    std::uint64_t position;
    std::uint64_t first;
    std::uint64_t last;

    Visible visible() const { return {low_bits(first), low_bits(last - first)}; }
};

// Counts both sides and remembers what decides when a tuple leaves. Every admission costs O(1) amortised; for
// tuples out of order in event windows see live_tuples.hpp.
class Window {
  public:
    struct Final {
        Side side;
        std::uint64_t position;
        auto operator<=>(const Final&) const = default;
    };

    // What is known of a tuple: whether it has a timestamp, whether its key or timestamp is null, and whether
    // it is stored.
    struct Manner {
        bool timed;
        bool null;
        bool store;
    };

    explicit Window(const JoinSpec& spec)
        : spec_(spec.window), self_join_(spec.self_join), watermark_(spec.window, spec.self_join) {
        for (int i = 0; i < 2; ++i) streams_[i].told = spec.finals[i];
        if (spec_.kind == WindowKind::rows) {
            std::uint64_t* const kept[2] = {&spec_.left, &spec_.right};
            for (int i = 0; i < 2; ++i) {
                streams_[i].drops = spec_.most[i] && spec_.most[i] < *kept[i];
                if (streams_[i].drops) *kept[i] = spec_.most[i];
            }
        }
    }

    // Event windows: whether a tuple of this time is late. A late tuple is counted, and not admitted.
    bool refuse(Side side, std::int64_t time) {
        watermark_.wake(side);
        if (!watermark_.is_late(time)) return false;
        ++stream(side).late;
        return true;
    }

    // Admits the next tuple of `side`. A time window's timestamps must not decrease. A null tuple takes its
    // position and is never seen. A probe-only tuple is not seen either; it keeps its position only in a
    // window of rows, where it takes a place.
    Place admit(Side side, std::int64_t time, Manner manner) {
        const Place place = enter(side, time, manner);
        if (spec_.kind != WindowKind::event) return place;
        forget_dead();
        Stream& own = stream(side);
        if (const std::uint64_t most = spec_.most[static_cast<int>(side)]; most && own.living() > most)
            drop_oldest(own, side);
        return place;
    }

    // Event windows: whether expired tuples may be forgotten once a group. Arrivals cannot match them,
    // because the time condition is tested.
    bool may_defer_expiry() const {
        return spec_.kind == WindowKind::event && !streams_[0].told && !streams_[1].told && !spec_.most[0] &&
               !spec_.most[1];
    }

    // The same as admit(), but in event windows nothing is forgotten.
    Place enter(Side side, std::int64_t time, Manner manner) {
        Stream& own = stream(side);
        Stream& met = self_join_ ? own : stream(other(side));
        if (spec_.kind == WindowKind::time && manner.timed && !spec_.self_purge) {
            latest_ = time;
            expire(own, side);
            if (!self_join_) expire(met, other(side));
        }
        const bool unseen = manner.null || !manner.store;
        const bool placed = manner.store || spec_.kind == WindowKind::rows;
        const Place place{own.next + (placed ? 0 : own.passing++), met.first, met.next};
        if (unseen) tell(own, side, place.position);
        ++own.admitted;
        own.nulls += manner.null;
        if (manner.timed) latest_ = own.latest = time;  // used by time windows only
        if (placed) keep(own, own.latest_or(latest_, spec_.self_purge), time, unseen);
        if (spec_.kind == WindowKind::rows) {
            if (own.next > kept(side)) leave(own, side, own.next - kept(side));
        } else if (spec_.kind == WindowKind::time) {
            if (spec_.self_purge) expire(own, side);
            if (const std::uint64_t most = spec_.most[static_cast<int>(side)];
                most && own.next - own.first > most) {
                own.times.drop(1);
                ++own.dropped;
                leave(own, side, own.first + 1);
            }
        } else if (manner.timed) {
            watermark_.see(side, time);
        }
        return place;
    }

    // Admits tuples to a window of rows when final tuples are not reported: all have keys and are stored.
    void admit_rows(const std::uint8_t* sides, std::size_t count, Place* places) {
        std::uint64_t next[2] = {streams_[0].next, streams_[1].next};
        place_rows(sides, count, next, places);
        advance_rows(next);
    }

    // The same in two steps: the places of tuples before which there are `next` positions of each side, which
    // are counted on; and taking the positions before `next`.
    void place_rows(const std::uint8_t* sides, std::size_t count, std::uint64_t (&next)[2],
                    Place* places) const {
        const std::uint64_t most[2] = {spec_.left, spec_.right};
        std::uint64_t first[2] = {first_row(0, next[0]), first_row(1, next[1])};
        if (next[0] - first[0] == most[0] && next[1] - first[1] == most[1]) {  // both are full and stay so
            for (std::size_t i = 0; i < count; ++i) {
                const unsigned own = sides[i] & 1, met = own ^ 1;
                places[i] = {next[own]++, next[met] - most[met], next[met]};
            }
            return;
        }
        for (std::size_t i = 0; i < count; ++i) {
            const unsigned own = sides[i] & 1, met = own ^ 1;
            places[i] = {next[own], first[met], next[met]};
            ++next[own];
            first[own] = next[own] > most[own] ? next[own] - most[own] : first[own];
        }
    }

    void advance_rows(const std::uint64_t (&next)[2]) {
        for (int i = 0; i < 2; ++i) {
            const std::uint64_t first = first_row(i, next[i]);
            if (streams_[i].drops) streams_[i].dropped += first - streams_[i].first;
            streams_[i].first = first;
            streams_[i].admitted += next[i] - streams_[i].next;
            streams_[i].next = next[i];
        }
    }

    // The same two steps for a window of time. All tuples have timestamps; those that were placed and are not
    // taken are given back.
    void place_times(const std::uint8_t* sides, const std::int64_t* times, std::size_t count,
                     std::uint64_t (&next)[2], Place* places) {
        std::size_t gone[2] = {0, 0};
        for (std::size_t i = 0; i < count; ++i) {
            const unsigned own = sides[i], met = own ^ 1;
            for (int side = 0; side < 2; ++side) gone[side] = expired(streams_[side], times[i], gone[side]);
            places[i] = {next[own]++, streams_[met].first + gone[met], next[met]};
            streams_[own].times.push(times[i]);
        }
    }

    void advance_times(const std::uint8_t* sides, std::size_t taken, std::size_t placed) {
        for (std::size_t i = placed; i-- > taken;) streams_[sides[i]].times.drop_last(1);
        for (std::size_t i = 0; i < taken; ++i) {
            Stream& own = streams_[sides[i]];
            latest_ = own.latest = own.times[own.next++ - own.first];
            ++own.admitted;
        }
        for (const Side side : {Side::left, Side::right})
            if (taken) expire(stream(side), side);
    }

    // Frees the positions of probe-only tuples at the end of a push.
    void let_pass() {
        for (Stream& s : streams_) s.passing = 0;
    }

    void wake(Side side) { watermark_.wake(side); }
    void promise(std::int64_t to, Side side) { watermark_.promise(side, to); }
    void rest(Side side) { watermark_.rest(side); }

    // Event windows: expires tuples that the watermark has passed. Positions are freed from the oldest on.
    void forget_dead() {
        if (!watermark_.known()) return;
        for (const Side side : {Side::left, Side::right}) forget_dead(stream(side), side);
    }

    // Tuples that became final since the list was last cleared.
    std::vector<Final>& finals() { return finals_; }

    // Positions of `side` before this one will never be seen again.
    std::uint64_t first(Side side) const { return stream(side).first; }
    std::uint64_t next(Side side) const { return stream(side).next; }
    std::int64_t latest() const { return latest_; }
    std::uint64_t admitted(Side side) const { return stream(side).admitted; }
    std::uint64_t nulls(Side side) const { return stream(side).nulls; }
    std::uint64_t late(Side side) const { return stream(side).late; }
    std::uint64_t dropped(Side side) const { return stream(side).dropped; }
    // Tuples that count against a limit: in event windows those that may match, else all that are kept.
    std::uint64_t held(Side side) const {
        const Stream& s = stream(side);
        return spec_.kind == WindowKind::event ? s.living() : s.next - s.first;
    }
    const Watermark& watermark() const { return watermark_; }

    // Tuples of `side` that may still match.
    std::uint64_t stored(Side side) {
        Stream& s = stream(side);
        if (spec_.kind == WindowKind::event) return s.living();
        s.forget_unseen();
        return s.next - s.first - (s.unseen.size() - s.unseen_gone);
    }

    // Event windows: tuples expire in the order of time, not of arrival, and one that stays long holds the
    // positions behind it. When most positions are held by expired tuples, the live ones get new positions.
    bool wasteful(Side side) const {
        const Stream& s = stream(side);
        return spec_.kind == WindowKind::event && s.next - s.first > 2 * s.living() + kWaste;
    }

    // Gives the live tuples new positions, from `next` on; returns their old ones in order.
    std::vector<std::uint64_t> renumber(Side side) {
        Stream& s = stream(side);
        std::vector<std::uint64_t> living;
        const std::size_t held = s.times.size();
        s.live.clear();
        s.gone = 0;
        for (std::size_t i = 0; i < held; ++i) {
            if (!lives(s, side, i)) continue;
            const std::int64_t time = s.times[i];
            s.live.push(time, s.next + living.size());
            living.push_back(s.first + i);
            s.times.push(time);
            s.hidden.push(false);
        }
        s.times.drop(held);
        s.hidden.drop(held);
        s.first = s.next;
        s.next += living.size();
        return living;
    }

    JoinState state() const {
        JoinState state;
        for (const Side side : {Side::left, Side::right}) {
            const Stream& s = stream(side);
            state.sides[static_cast<int>(side)] = {s.first,
                                                   s.next,
                                                   s.admitted,
                                                   s.nulls,
                                                   s.late,
                                                   s.latest,
                                                   watermark_.progress(side),
                                                   watermark_.idle(side),
                                                   s.dropped};
        }
        state.latest = latest_;
        state.watermark = watermark_.at();
        return state;
    }

    std::vector<std::uint8_t> unseen(Side side, std::uint64_t from, std::uint64_t to) const {
        const Stream& s = stream(side);
        if (from < s.first || to > s.next || from > to) throw std::out_of_range("tuples that are not held");
        std::vector<std::uint8_t> flags(to - from);
        if (spec_.kind == WindowKind::event)
            for (std::uint64_t i = from; i < to; ++i) flags[i - from] = s.hidden[i - s.first];
        auto at = std::lower_bound(s.unseen.begin(), s.unseen.end(), from);
        for (; at != s.unseen.end() && *at < to; ++at) flags[*at - from] = true;
        return flags;
    }

    // Loads a state; its tuples follow by `store`, one side after the other, in the order of positions.
    void load(const JoinState& state) {
        latest_ = state.latest;
        watermark_.load(state);
        for (const Side side : {Side::left, Side::right}) {
            const SideState& from = state.sides[static_cast<int>(side)];
            Stream& s = stream(side);
            s.first = s.next = from.first;
            s.admitted = from.admitted;
            s.nulls = from.nulls;
            s.late = from.late;
            s.latest = from.latest;
            s.dropped = from.dropped;
        }
    }

    // The next tuple of a state that is being loaded; returns whether an arrival may meet it.
    bool store(Side side, std::int64_t time, bool timed, bool unseen) {
        Stream& s = stream(side);
        const std::size_t held = s.times.size();
        unseen |= spec_.kind == WindowKind::event && dead(time, side);
        keep(s,
             timed  ? time
             : held ? s.times[held - 1]
                    : std::numeric_limits<std::int64_t>::min(),
             time, unseen);
        return !unseen;
    }

    // Gives back memory that is not needed any more.
    void shrink() {
        finals_.shrink_to_fit();
        for (Stream& s : streams_) {
            s.times.shrink();
            s.hidden.shrink();
            s.live.shrink();
            s.unseen.shrink_to_fit();
        }
    }

    std::size_t bytes() const { return streams_[0].bytes() + streams_[1].bytes(); }

  private:
    static constexpr std::uint64_t kWaste = 4096;

    // The first position that a window of rows keeps of a side when it has had `next`.
    std::uint64_t first_row(int side, std::uint64_t next) const {
        const std::uint64_t most = side ? spec_.right : spec_.left;
        return next > most ? std::max(next - most, streams_[side].first) : streams_[side].first;
    }

    struct Stream {
        std::uint64_t next = 0;     // position of the next tuple
        std::uint64_t first = 0;    // first position still visible
        std::uint64_t passing = 0;  // probe-only tuples of the current push
        std::uint64_t admitted = 0;
        std::uint64_t nulls = 0;
        std::uint64_t late = 0;
        std::uint64_t dropped = 0;
        bool drops = false;        // windows of rows: whether those that leave are dropped before their time
        bool told = false;         // whether its final tuples are reported
        Ring<std::int64_t> times;  // of positions [first, next), time and event windows only
        Ring<bool> hidden;         // of the same, event windows only: whether no arrival may meet it
        std::int64_t latest = std::numeric_limits<std::int64_t>::min();
        LiveTuples live;                    // event windows: tuples that may match, and
        std::size_t gone = 0;               // so many that were dropped, whose positions are before `first`
        std::vector<std::uint64_t> unseen;  // other windows: positions that no arrival may meet; those before
        std::size_t unseen_gone = 0;        // this one have left

        std::size_t bytes() const {
            return times.bytes() + hidden.bytes() + live.bytes() + unseen.capacity() * sizeof(std::uint64_t);
        }

        std::int64_t latest_or(std::int64_t of_both, bool own) const { return own ? latest : of_both; }

        std::size_t living() const { return live.size() - gone; }

        // Whether a tuple that is no longer among the live ones was still there to match.
        bool was_there(std::uint64_t position) {
            gone -= position < first;
            return position >= first;
        }

        void add_unseen() {
            forget_unseen();
            unseen.push_back(next);
        }

        void forget_unseen() {
            while (unseen_gone < unseen.size() && unseen[unseen_gone] < first) ++unseen_gone;
            if (unseen_gone * 2 > unseen.size()) {
                unseen.erase(unseen.begin(), unseen.begin() + static_cast<std::ptrdiff_t>(unseen_gone));
                unseen_gone = 0;
            }
        }
    };

    Stream& stream(Side side) { return streams_[static_cast<int>(side)]; }
    const Stream& stream(Side side) const { return streams_[static_cast<int>(side)]; }
    std::uint64_t kept(Side side) const { return side == Side::left ? spec_.left : spec_.right; }

    // Gives a tuple the next position. `arrived` is its time in a time window, `time` in an event window.
    void keep(Stream& s, std::int64_t arrived, std::int64_t time, bool unseen) {
        if (spec_.kind == WindowKind::event) {
            s.times.push(time);
            s.hidden.push(unseen);
            if (!unseen) s.live.push(time, s.next);
        } else {
            if (spec_.kind == WindowKind::time) s.times.push(arrived);
            if (unseen) s.add_unseen();
        }
        ++s.next;
    }

    void tell(const Stream& s, Side side, std::uint64_t position) {
        if (s.told) finals_.push_back({side, position});
    }

    void leave(Stream& s, Side side, std::uint64_t first) {
        for (std::uint64_t position = s.first; s.told && position < first; ++position)
            tell(s, side, position);
        if (s.drops) s.dropped += first - s.first;
        s.first = first;
    }

    // Event windows: drops the tuple that came first of those that may match.
    void drop_oldest(Stream& s, Side side) {
        drop_dead(s, side);  // null tuples, where the watermark is not known: now a living one is in front
        tell(s, side, s.first);
        ++s.gone;
        ++s.dropped;
        s.times.drop(1);
        s.hidden.drop(1);
        ++s.first;
        drop_dead(s, side);
        if (s.gone * 2 <= s.live.size()) return;
        s.live.erase_before(s.first);
        s.gone = 0;
    }

    // Event windows: frees the positions before the first tuple that may match.
    void drop_dead(Stream& s, Side side) {
        std::size_t gone = 0;
        while (gone < s.times.size() && !lives(s, side, gone)) ++gone;
        s.times.drop(gone);
        s.hidden.drop(gone);
        s.first += gone;
    }

    // Time windows: expires tuples more than the duration before the latest timestamp.
    void expire(Stream& s, Side side) {
        const std::size_t gone = expired(s, s.latest_or(latest_, spec_.self_purge), 0);
        s.times.drop(gone);
        leave(s, side, s.first + gone);
    }

    // How many tuples are before `latest` by more than the duration, of which `gone` are known to be.
    std::size_t expired(const Stream& s, std::int64_t latest, std::size_t gone) const {
        const auto ago = [&](std::int64_t time) {  // without overflow
            return static_cast<std::uint64_t>(latest) - static_cast<std::uint64_t>(time);
        };
        while (gone < s.times.size() && ago(s.times[gone]) > spec_.duration) ++gone;
        return gone;
    }

    // How long after its time a tuple may still be met.
    std::int64_t reach_of(Side side) const {
        if (self_join_) return std::max(spec_.after, spec_.before);
        return side == Side::left ? spec_.after : spec_.before;
    }

    // The earliest time of tuples that may still be met.
    Instant earliest(Side side) const { return watermark_.at() - reach_of(side); }
    bool dead(std::int64_t time, Side side) const { return time < earliest(side); }

    bool lives(const Stream& s, Side side, std::size_t i) const {
        return !s.hidden[i] && !dead(s.times[i], side);
    }

    void forget_dead(Stream& s, Side side) {
        s.live.expire(earliest(side), [&](std::uint64_t position) {
            if (s.was_there(position)) tell(s, side, position);
        });
        drop_dead(s, side);
    }

    WindowSpec spec_;
    bool self_join_;
    Watermark watermark_;
    std::int64_t latest_ = std::numeric_limits<std::int64_t>::min();
    std::vector<Final> finals_;
    Stream streams_[2];
};

// What a join reports of its windows.
inline Stats stats_of(Window& window) {
    Stats stats{};
    for (const Side side : {Side::left, Side::right}) {
        const int i = static_cast<int>(side);
        stats.rows[i] = window.admitted(side);
        stats.next[i] = window.next(side);
        stats.nulls[i] = window.nulls(side);
        stats.late[i] = window.late(side);
        stats.dropped[i] = window.dropped(side);
        stats.stored[i] = window.stored(side);
        stats.first[i] = window.first(side);
    }
    // A watermark before the least timestamp is not reported.
    using Limits = std::numeric_limits<std::int64_t>;
    const __int128 watermark = window.watermark().at();
    stats.has_watermark = watermark >= Limits::min();
    if (stats.has_watermark)
        stats.watermark = static_cast<std::int64_t>(std::min<__int128>(watermark, Limits::max()));
    stats.latest = window.latest();
    return stats;
}

}  // namespace slidejoin::SLIDEJOIN_TARGET
