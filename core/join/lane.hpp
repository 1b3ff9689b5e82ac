// What one worker needs for its part of a group of arrivals: it reads them, notes what they insert and probe
// for, lists their matches and writes the pairs. A join by one thread has one lane.
#pragma once

#include "arrivals.hpp"
#include "batch.hpp"
#include "filter.hpp"
#include "index_pair.hpp"
#include "result.hpp"

namespace slidejoin::SLIDEJOIN_TARGET {

template <class Key>
class Lane {
  public:
    // The lanes of a join test the keys that its first lane stores.
    explicit Lane(const JoinSpec& spec, const Lane* first = nullptr)
        : filter(spec),
          reader(spec, filter),
          buffer(spec.self_join, reader.width()),
          spec_(spec),
          writer_(spec.sorted),
          filtered_(filter) {
        if (first) filter.share(first->filter);
    }
    Lane(const Lane&) = delete;
    Lane& operator=(const Lane&) = delete;

    CandidateFilter filter;
    ArrivalReader<Key> reader;
    GroupBuffer<Key> buffer;

    // The arrivals of the buffer as a group, sorted if they are many.
    Group<Key> group(std::size_t count, bool may_be_single) {
        return buffer.group(count, reader.ascending(), may_be_single);
    }

    // Whether every match that is listed is one pair.
    bool exact() const { return reader.width() == 1 && !spec_.self_join; }

    // Candidates that are tested, or may be found twice, are listed even to be counted.
    bool listed(bool wanted) const { return wanted || !filter.empty() || spec_.self_join; }

    // More matches than so many are listed only in portions (portions.hpp).
    void limit(std::size_t most) {
        limit_ = most;
        list_.limit(most);
        filtered_.limit(most);
    }

    // Calls find(matches) with what takes the matches of the group. Returns their number, or throws
    // TooManyMatches.
    template <class Find>
    std::size_t collect(bool listed, Find find) {
        if (!listed) {
            counter_.clear();
            find(counter_);
            return counter_.size();
        }
        found().clear();
        if (filter.empty()) find(list_);
        else find(filtered_);
        if (found().size() / 2 > limit_) throw TooManyMatches();  // what is found last may be long
        return found().size();
    }

    FoundPositions& found() {
        return filter.empty() ? static_cast<FoundPositions&>(list_) : static_cast<FoundPositions&>(filtered_);
    }
    FilteredList& filtered() { return filtered_; }
    ResultWriter& writer() { return writer_; }
    MatchList& list() { return list_; }

    // Writes the pairs of the matches that were listed, as ResultWriter::write does.
    std::uint64_t write(FoundPositions& matches, PairRoom* out, std::uint64_t* ends = nullptr,
                        std::size_t arrivals = 0) {
        return writer_.write(buffer.tasks(), buffer.task_count(), buffer.places(), matches, out, ends,
                             arrivals);
    }

    // Appends them to a result, or only counts them if it is null.
    std::uint64_t append(FoundPositions& matches, Pairs* pairs, std::uint64_t* ends = nullptr,
                         std::size_t arrivals = 0) {
        if (!pairs) return write(matches, nullptr);
        pairs->reserve(matches.size() + kFew);
        PairRoom room(*pairs);
        const std::uint64_t written = write(matches, &room, ends, arrivals);
        pairs->add(room.size);
        return written;
    }

    Pairs pairs;  // where the number of pairs is not known before they are written

    void free() {
        buffer = GroupBuffer<Key>(spec_.self_join, reader.width());
        reader.free();
        list_.free();
        filtered_.free();
        writer_ = ResultWriter(spec_.sorted);
        pairs = Pairs();
    }

    std::size_t bytes() const {
        return filter.bytes() + reader.bytes() + buffer.bytes() + list_.bytes() + filtered_.bytes() +
               writer_.bytes() + pairs.bytes();
    }

  private:
    const JoinSpec& spec_;
    std::size_t limit_ = FoundPositions::kNoLimit;
    ResultWriter writer_;
    MatchList list_;
    FilteredList filtered_;
    MatchCount counter_;
};

}  // namespace slidejoin::SLIDEJOIN_TARGET
