// Turns matches into pairs of positions: arrivals in their order, each arrival's partners by position. 1-3 ns
// a pair; a few partners of one arrival are sorted in a vector.
#pragma once

#include "../index/concept.hpp"

namespace slidejoin::SLIDEJOIN_TARGET {

// Pairs that a group may write at once, and slots behind them.
inline constexpr std::size_t kPairRoom = 2 * kChosen * kGroup + kFew;

// Where pairs are written: behind those of a result, or where room was left for them.
struct PairRoom {
    PairRoom(std::int64_t* left, std::int64_t* right, std::size_t room, std::uint64_t before)
        : left(left), right(right), room(room), before(before) {}

    // All that a result has reserved.
    explicit PairRoom(const Pairs& pairs)
        : PairRoom(pairs.left() + pairs.size(), pairs.right() + pairs.size(), pairs.room(), pairs.size()) {}

    std::int64_t* left;
    std::int64_t* right;
    std::size_t room;
    std::uint64_t before;  // pairs of the result that come before
    std::size_t size = 0;  // written

    std::size_t left_over() const { return room - size; }
};

// Writes what an index reports for one arrival as pairs, in the order in which it comes.
class PairList {
  public:
    PairList(Pairs& pairs, const Place& place, unsigned own)
        : pairs_(pairs),
          position_(static_cast<std::int64_t>(place.position)),
          first_(place.first),
          own_(own) {}

    void among(const std::uint32_t* positions, std::uint64_t chosen, Visible visible) {
        pairs_.add(each_among(positions, chosen, visible, writing(64)));
    }
    void padded(const std::uint32_t* positions, std::size_t count, Visible visible) {
        pairs_.add(each_padded(positions, count, visible, writing(count)));
    }
    void all(const std::uint32_t* at, std::size_t count, Visible visible) { padded(at, count, visible); }

  private:
    struct Writing {
        std::int64_t* own;
        std::int64_t* met;
        std::int64_t position;
        std::uint64_t first;
        std::size_t count = 0;

        [[gnu::always_inline]] void operator()(const PositionBlock& block, unsigned lanes) {
            block.store(met + count, lanes, first);
            for (std::size_t i = 0; i < kBlock; i += kFew) fill_few(position, own + count + i);
            count += lane_count(lanes);
        }
    };

    // For so many pairs at most.
    Writing writing(std::size_t most) {
        pairs_.reserve(most + std::max(kBlock, kFew));
        std::int64_t* own = pairs_.left() + pairs_.size();
        std::int64_t* met = pairs_.right() + pairs_.size();
        if (own_) std::swap(own, met);
        return {own, met, position_, first_};
    }

    Pairs& pairs_;
    std::int64_t position_;
    std::uint64_t first_;
    unsigned own_;  // 1 for a right arrival
};

class ResultWriter {
  public:
    explicit ResultWriter(bool sorted) : sorted_(sorted) {}

    bool sorted() const { return sorted_; }  // an arrival's partners

    // Writes the matches of all tasks, for which there is room, or only counts them if `out` is null. Tasks
    // stand in the order of their arrivals; an arrival has several tasks if it probes for several intervals,
    // or can be either side of a pair (self-joins). With `ends`, ends[i] becomes the number of pairs up to
    // arrival i, of the arrivals from `first` on.
    template <class Key>
    std::uint64_t write(const Task<Key>* tasks, std::size_t count, const Place* places,
                        FoundPositions& matches, PairRoom* out, std::uint64_t* ends = nullptr,
                        std::size_t arrivals = 0, std::size_t first = 0) {
        std::uint64_t total = 0;
        std::size_t ended = first;
        const auto end_until = [&](std::size_t arrival) {
            for (; ends && ended < arrival; ++ended) ends[ended] = out->before + out->size;
        };
        if (matches.size() == 0) {
            end_until(arrivals);
            return 0;
        }
        if (out) matches.pad(std::max(kFew, kBlock));
        for (std::size_t i = 0; i < count;) {
            if (i + kAhead < count) {
                const std::uint32_t* next = matches.data() + tasks[i + kAhead].found_from;
                prefetch(next);
                prefetch(next + kBlock - 1);
            }
            end_until(tasks[i].arrival);
            const Place& place = places[tasks[i].arrival];
            std::size_t end = i + 1;
            while (end < count && tasks[end].arrival == tasks[i].arrival) ++end;
            total += end == i + 1 ? write_one(tasks[i], place, matches, out)
                                  : write_several(tasks + i, tasks + end, place, matches, out);
            i = end;
        }
        end_until(arrivals);
        return total;
    }

    std::size_t bytes() const { return sorting_.bytes() + mixed_.bytes() + mixed_sorting_.bytes(); }

  private:
    static constexpr std::size_t kAhead = 16;  // tasks whose matches are prefetched

    template <class Key>
    std::size_t write_one(const Task<Key>& task, const Place& place, FoundPositions& matches, PairRoom* out) {
        std::uint32_t* found = matches.data() + task.found_from;
        const std::size_t count = task.found_to - task.found_from;
        if (!out) return count;
        std::int64_t* left = out->left + out->size;
        std::int64_t* right = out->right + out->size;
        std::int64_t* partners = task.partner_is_left ? left : right;
        std::int64_t* own = task.partner_is_left ? right : left;
        const bool few = count <= kFew && out->left_over() >= kFew;  // the next pairs overwrite the rest
        out->size += count;
        if (few) {
            write_few(found, count, sorted_, place.first, partners);
            fill_few(static_cast<std::int64_t>(place.position), own);
            return count;
        }
        std::fill_n(own, count, static_cast<std::int64_t>(place.position));
        if (sorted_) sort_positions(found, count, sorting_);
        for (std::size_t i = 0; i < count; ++i)
            partners[i] = static_cast<std::int64_t>(place.first + found[i]);
        return count;
    }

    // A self-join's partner that was found in both ways counts once, as the left tuple.
    template <class Key>
    std::size_t write_several(const Task<Key>* task, const Task<Key>* end, const Place& place,
                              FoundPositions& matches, PairRoom* out) {
        std::size_t count = 0;
        for (; task != end; ++task) {
            mixed_.reserve(count + task->found_to - task->found_from, count);
            for (std::size_t i = task->found_from; i < task->found_to; ++i)
                mixed_[count++] = std::uint64_t{matches.data()[i]} << 1 | task->partner_is_left;
        }
        radix_sort(mixed_.data(), count, mixed_sorting_, [](std::uint64_t match) { return match; });
        std::size_t written = 0;
        for (std::size_t i = 0; i < count; ++i) {
            if (i + 1 < count && mixed_[i] >> 1 == mixed_[i + 1] >> 1)
                continue;  // the next one is the left one
            if (out) {
                const unsigned own = mixed_[i] & 1;
                (own ? out->right : out->left)[out->size] = static_cast<std::int64_t>(place.position);
                (own ? out->left : out->right)[out->size++] =
                    static_cast<std::int64_t>(place.first + (mixed_[i] >> 1));
            }
            ++written;
        }
        return written;
    }

    bool sorted_;
    Buffer<std::uint32_t> sorting_;
    Buffer<std::uint64_t> mixed_;  // relative position * 2 + whether the partner is the left tuple
    Buffer<std::uint64_t> mixed_sorting_;
};

}  // namespace slidejoin::SLIDEJOIN_TARGET
