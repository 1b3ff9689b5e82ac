// The chain of subwindows, with a subwindow that records its calls.
#include "../target.hpp"
#include "../workers.hpp"
#include "testing.hpp"

SLIDEJOIN_TARGET_BEGIN

#include "../index/subwindows.hpp"
#include "../join/subwindow_workers.hpp"
#include "index_cases.hpp"

using namespace slidejoin::SLIDEJOIN_TARGET;
using slidejoin::IndexOptions;

namespace {

// The calls of all subwindows since the record was last cleared.
struct Log {
    std::size_t made = 0, dropped = 0, sealed = 0, probed = 0, probed_whole = 0, batches = 0;
};
Log note;

constexpr std::uint32_t kMostLive = (1u << 31) - (1u << 20);  // of any window

// A subwindow as a plain list.
template <class Key>
class NotingPart {
  public:
    NotingPart(std::size_t capacity, const IndexOptions&, const NotingPart* before) : capacity_(capacity) {
        require(!before || before->sealed_, "the part before is sealed");
        ++note.made;
    }
    ~NotingPart() { ++note.dropped; }

    void insert(Key key, std::uint32_t position) {
        require(!sealed_, "nothing comes after the seal");
        keys_.push_back(key);
        positions_.push_back(position);
    }

    void insert_sorted(const Entry<Key>* sorted, std::size_t count) {
        ++note.batches;
        for (std::size_t i = 0; i < count; ++i) {
            require(i == 0 || sorted[i - 1].key <= sorted[i].key, "a batch is sorted");
            insert(sorted[i].key, sorted[i].value);
        }
    }

    void seal() {
        sealed_ = true;
        ++note.sealed;
    }

    template <class Visit>
    void each(Visit visit) const {
        for (std::size_t i = 0; i < keys_.size(); ++i) visit(keys_[i], positions_[i]);
    }

    template <class Matches>
    void probe(Interval<Key> interval, Visible visible, bool whole, Matches& matches) const {
        ++note.probed;
        note.probed_whole += whole;
        if (whole)
            for (const std::uint32_t position : positions_)
                require(visible.contains(position), "whole: all positions are visible");
        matches.entries(keys_.data(), positions_.data(), keys_.size(), interval, visible);
    }

    void check() const { require(size() <= capacity_, "no more than the part was made for"); }
    std::size_t size() const { return keys_.size(); }
    std::size_t bytes() const { return 0; }

  private:
    std::size_t capacity_;
    bool sealed_ = false;
    std::vector<Key> keys_;
    std::vector<std::uint32_t> positions_;
};

template <class Key>
class Noting : public SubwindowIndex<Key, NotingPart<Key>> {
  public:
    explicit Noting(const IndexOptions& options = {})
        : SubwindowIndex<Key, NotingPart<Key>>(options, options.subwindows) {}
};

IndexOptions small(std::uint32_t least, std::uint32_t subwindows) {
    IndexOptions options;
    options.min_entries = least;
    options.subwindows = subwindows;
    return options;
}

std::vector<Entry<std::uint32_t>> entries(std::uint32_t first, std::uint32_t count) {
    std::vector<Entry<std::uint32_t>> made;
    for (std::uint32_t i = 0; i < count; ++i) made.push_back({i * 31 % 17, first + i});
    return made;
}

std::size_t count_all(const Noting<std::uint32_t>& index, Visible visible) {
    MatchCount count;
    index.probe({0, ~0u}, visible, count);
    return count.size();
}

}  // namespace

TEST(subwindows) {
    check_all<Noting>(small(1, 8));
    check_all<Noting>(small(16, 2));
    check_all<Noting>();
}

TEST(subwindows_go_whole) {
    for (const std::uint32_t start : {0u, 0xffffffe0u}) {
        Noting<std::uint32_t> index(small(10, 8));
        note = {};
        for (std::uint32_t i = 0; i < 10; ++i) index.insert(1, start + i);
        CHECK_EQUAL(note.made, 1u);
        for (std::uint32_t i = 10; i < 40; ++i) index.insert(1, start + i);
        const std::size_t made = note.made;
        CHECK_EQUAL(note.sealed, made - 1);
        index.forget(start + 9);  // its last entry is still there
        index.check(start + 9, start + 40);
        CHECK_EQUAL(note.dropped, 0u);
        CHECK_EQUAL(count_all(index, {start + 9, 31}), 31u);  // the forgotten ones are filtered out
        index.forget(start + 10);
        CHECK_EQUAL(note.dropped, 1u);
        index.forget(start + 40);
        CHECK_EQUAL(note.dropped, made);
        index.check(start + 40, start + 40);
        index.insert(2, start + 50);
        index.check(start + 40, start + 51);
        CHECK_EQUAL(count_all(index, {start + 40, 11}), 1u);
    }
}

// Entries are so rare that a subwindow is never full, but it never runs empty: it must be sealed before the
// positions of its forgotten entries are used again.
TEST(subwindows_end_before_their_positions_wrap) {
    Noting<std::uint32_t> index(small(1024, 8));
    constexpr std::uint64_t kStep = std::uint64_t{1} << 28;
    const auto low = [](std::uint64_t position) { return static_cast<std::uint32_t>(position); };
    for (std::uint64_t i = 0; i < 200; ++i) {
        const std::uint64_t first = i < 2 ? 0 : (i - 2) * kStep;
        index.insert(7, low(i * kStep));
        index.forget(low(first));
        index.check(low(first), low(i * kStep + 1));
        CHECK_EQUAL(count_all(index, {low(first), kMostLive}), std::min<std::uint64_t>(i + 1, 3));
    }
}

TEST(subwindows_forget_the_largest_window_at_once) {
    for (const std::uint32_t start : {0u, 0u - 77u}) {
        Noting<std::uint32_t> index(small(1024, 8));
        const std::uint32_t last = start + (1u << 30);  // of the same subwindow
        index.insert(7, start);
        index.insert(8, last);
        index.forget(last);
        CHECK_EQUAL(count_all(index, {last, kMostLive}), 1u);
        index.forget(last + kMostLive);
        index.insert(9, last + kMostLive);
        CHECK_EQUAL(count_all(index, {last + kMostLive, kMostLive}), 1u);
        index.check(last + kMostLive, last + kMostLive + 1);
    }
}

TEST(subwindows_that_a_probe_cannot_see_are_skipped) {
    for (const std::uint32_t start : {0u, 0xfffffff0u}) {
        Noting<std::uint32_t> index(small(10, 8));
        for (std::uint32_t i = 0; i < 10; ++i) index.insert(1, start + i);
        index.forget(start + 1);  // from here on subwindows keep their size
        for (std::uint32_t i = 10; i < 40; ++i) index.insert(1, start + i);
        note = {};
        CHECK_EQUAL(count_all(index, {start + 10, 10}), 10u);
        CHECK_EQUAL(note.probed, 1u);
        CHECK_EQUAL(note.probed_whole, 1u);
        note = {};
        CHECK_EQUAL(count_all(index, {start + 9, 12}), 12u);
        CHECK_EQUAL(note.probed, 3u);
        CHECK_EQUAL(note.probed_whole, 1u);
        note = {};
        CHECK_EQUAL(count_all(index, {start + 40, 0}), 0u);
        CHECK_EQUAL(note.probed, 0u);
    }
}

TEST(subwindows_keep_batches_together) {
    Noting<std::uint32_t> index(small(10, 8));
    note = {};
    const auto batch = [&](std::uint32_t first, std::uint32_t count) {
        const auto made = entries(first, count);
        insert_sorting(index, made.data(), made.size());
    };
    batch(0, 50);  // larger than a subwindow would be
    CHECK_EQUAL(note.made, 1u);
    CHECK_EQUAL(note.batches, 1u);
    index.forget(1);
    batch(50, 20);  // room for one
    batch(70, 20);  // the one before is full
    CHECK_EQUAL(note.made, 3u);
    for (std::uint32_t i = 90; i < 93; ++i) index.insert(1, i);
    CHECK_EQUAL(note.made, 4u);
    batch(93, 20);  // fills a subwindow that is nearly empty, and begins the next
    CHECK_EQUAL(note.made, 5u);
    CHECK_EQUAL(note.batches, 5u);
    index.check(1, 113);
    CHECK_EQUAL(count_all(index, {1, 112}), 112u);
}

TEST(subwindows_of_a_sliding_window_are_as_many_as_asked_for) {
    for (const std::uint32_t length : {2u, 8u, 40u}) {
        Noting<std::uint32_t> index(small(1, length));
        constexpr std::uint32_t kWindow = 10'000;
        for (std::uint32_t i = 0; i < 5 * kWindow; ++i) {
            index.insert(i, i);
            if (i >= kWindow) index.forget(i - kWindow + 1);
        }
        index.check(4 * kWindow, 5 * kWindow);
        note = {};
        count_all(index, {4 * kWindow, kWindow});
        CHECK(note.probed >= length - 1 && note.probed <= length + 1);
    }
}

TEST(a_subwindow_is_begun_when_told) {
    Noting<std::uint32_t> index(IndexOptions{});
    note = {};
    index.create(5, 100);
    for (std::uint32_t i = 0; i < 40; ++i) index.insert(i, 5 + i);
    index.create(60, 10);
    for (std::uint32_t i = 0; i < 10; ++i) index.insert(i, 60 + i);
    CHECK_EQUAL(note.made, std::size_t{2});
    CHECK_EQUAL(note.sealed, std::size_t{1});
    index.check(5, 70);
}

TEST(a_batch_is_closed_by_count_or_by_time) {
    BatchTrigger by_count(500, 0);
    by_count.note(100, 1'000'000);
    CHECK_EQUAL(by_count.size(), std::size_t{500});
    BatchTrigger trigger(5000, 1'000'000);
    CHECK_EQUAL(trigger.size(), std::size_t{5000});  // no batch has been timed
    trigger.note(5000, 2'000'000);                   // took twice the time
    CHECK_EQUAL(trigger.size(), std::size_t{2500});
    trigger.note(2500, 10'000);
    CHECK_EQUAL(trigger.size(), std::size_t{5000});
    trigger.note(10, 1'000'000'000);
    CHECK_EQUAL(trigger.size(), kGroup);
}
SLIDEJOIN_TARGET_END
