// The core's outer face: a join that takes batches of (side, key, time) and returns pairs of positions.
// Nothing here depends on an instruction set; make_engine picks the copy of the core that fits the machine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "catalog.hpp"

namespace slidejoin {

class Workers;

enum class Level { portable = 0, avx2 = 1, avx512 = 2 };
inline constexpr Level kLevels[] = {Level::portable, Level::avx2, Level::avx512};

const char* name(Level level);
bool supported(Level level);  // compiled in, and this processor can run it

enum class KeyType { int8, int16, int32, int64, uint8, uint16, uint32, uint64, float32, float64 };
enum class WindowKind { rows, time, event };

struct WindowSpec {
    WindowKind kind = WindowKind::rows;
    std::uint64_t left = 0;  // rows: kept of each side
    std::uint64_t right = 0;
    std::uint64_t duration = 0;  // time: in units of the timestamps
    bool self_purge = false;     // time: only arrivals of its own side make a tuple leave
    std::int64_t before = 0;     // event: -before <= right.time - left.time <= after
    std::int64_t after = 0;
    bool moves = true;  // event: whether rows move the watermark, to their time - lateness
    std::uint64_t lateness = 0;
    std::uint64_t most[2] = {0,
                             0};  // tuples of each side that are kept; the oldest are dropped; 0: any number
};

// One end of a range: none, the key plus an offset in the key's own type (of floats also without the sum
// itself: beyond), or so many places further in the order of keys. Integer offsets are exact, at most 2^64 in
// magnitude: high * 2^64 + low.
enum class BoundKind { none, sum, step, beyond };
struct Bound {
    BoundKind kind = BoundKind::none;
    std::int64_t high = 0;
    std::uint64_t low = 0;
    double real = 0;
};

struct Range {  // of the right key, seen from the left one
    Bound lower;
    Bound upper;
};

// One conjunct of a condition: the right key lies in one of these ranges around the left key.
struct ConjunctSpec {
    KeyType key = KeyType::int32;
    std::vector<Range> ranges;
};

// What the index orders tuples by: the first `equalities` conjuncts hashed together, and one band: the
// conjunct behind them, or the time of an event window. A band without equalities is indexed as it is and
// need not be tested again; whatever else there is filters the candidates.
enum class Banded { none, conjunct, time };
struct IndexedSpec {
    std::uint32_t equalities = 0;
    Banded band = Banded::conjunct;
};

// How several threads share the work of a join (docs/concurrency.md).
enum class Strategy { automatic, phases, shared_index, round_robin, subwindows };

// From where on a join that chooses its index takes another one than the bucket-tree. The numbers come from
// the costs of the machine; these are typical.
struct ChoiceLimits {
    std::uint64_t live = 0;     // for windows that hold so many tuples together, or more
    double share = 0.125;       // of these that go through the join together: sorted-run;
    double plain_share = 0.5;   // the same for joins of plain arrivals (join/plain.hpp)
    double many = 192;          // matches of an arrival: im-tree
    double many_counted = 256;  // matches of an arrival that are only counted: bi-sort
};

struct JoinSpec {
    std::vector<ConjunctSpec> on;
    IndexedSpec indexed;
    IndexKind index = IndexKind::b_tree;
    bool automatic = false;  // the join chooses its index, and changes it when that pays
    std::vector<ChoiceLimits> limits{ChoiceLimits{}};  // by ascending windows
    IndexOptions options;
    WindowSpec window;
    bool self_join = false;
    bool sorted = true;               // an arrival's partners in the order of their positions
    bool finals[2] = {false, false};  // of which sides Engine::finals tells
    std::uint32_t group =
        16;  // arrivals inserted together before they probe: 1, 2..kGroup, or a sorted batch
    Strategy strategy = Strategy::automatic;
    std::shared_ptr<Workers> pool;  // the threads of the join, or null if it has its own
    std::uint32_t workers = 1;      // threads, the caller's among them
    std::uint32_t task_size = 32;   // shared index: arrivals that a worker takes at a time
    bool blocking_merge = false;    // shared index: all wait for a merge
    std::uint32_t subwindows = 8;   // subwindows: of a window, at least two for each worker
    std::uint32_t batch = 4096;     // subwindows: arrivals of a batch, at most
    std::uint64_t batch_us = 0;     // subwindows: microseconds of a batch, at most; 0: any
};

inline bool is_compound(const JoinSpec& spec) { return spec.indexed.equalities > 0; }

// Whether indexed keys have 64 bits, or 32.
inline bool has_wide_keys(const JoinSpec& spec) {
    if (is_compound(spec) || spec.indexed.band == Banded::time) return true;
    const KeyType type = spec.on.at(0).key;
    return type == KeyType::int64 || type == KeyType::uint64 || type == KeyType::float64;
}

// Live tuples of one side that the core can address: with a group on top, positions stay less than 2^31
// apart.
inline constexpr std::uint64_t kMaxLive = (std::uint64_t{1} << 31) - (std::uint64_t{1} << 20);

struct Column {
    const void* values;
    const bool* nulls;  // or nullptr
};

struct Batch {
    const std::uint8_t* sides;  // 0 left, 1 right; ignored by self-joins
    const Column* keys;         // one for each conjunct
    const std::int64_t* times;  // time and event windows only
    const bool* null_times;     // or nullptr
    std::size_t size;
    bool store = true;  // or the tuples only meet those that are stored
};

// Matches as two arrays of positions; sorted by arrival, then by the partner's position.
class Pairs {
  public:
    Pairs() = default;
    Pairs(Pairs&& from) noexcept;
    Pairs& operator=(Pairs&& from) noexcept;
    ~Pairs();

    std::int64_t* left() const { return left_; }
    std::int64_t* right() const { return right_; }
    std::size_t size() const { return size_; }

    // Writable room for `count` more pairs, taken up by add(count).
    void reserve(std::size_t count) {
        if (capacity_ - size_ < count) grow(count);
    }
    void add(std::size_t count) { size_ += count; }
    std::size_t room() const { return capacity_ - size_; }
    std::size_t bytes() const { return 2 * capacity_ * sizeof(std::int64_t); }

    void clear() { size_ = 0; }
    void keep(const bool* wanted);  // and drops the others
    void fit();                     // gives back what was reserved in vain

  private:
    void grow(std::size_t count);
    void resize_storage(std::size_t capacity);

    std::int64_t* left_ = nullptr;
    std::int64_t* right_ = nullptr;
    std::size_t size_ = 0;
    std::size_t capacity_ = 0;
};

// Matches as parts of runs, and as pairs where they are no part of one. A run is an array of positions of one
// side; it is handed over once, and referred to by its number until it is gone.
struct RangeResult {
    struct NumberedRun {
        std::uint64_t number;
        std::vector<std::int64_t> positions;
    };

    std::vector<std::int64_t> probe, run, start, end;  // arrival `probe` of the batch meets run[start, end)
    Pairs pairs;
    std::vector<std::int64_t> arrival;    // of each pair
    std::vector<std::int64_t> positions;  // of the batch's arrivals
    std::vector<NumberedRun> runs;        // that no result before referred to
    std::vector<std::uint64_t> gone;      // that none refers to from now on
};

// Tuples that no arrival to come can meet, in the order in which that became certain; `after` counts the
// pairs of the same push that come before. A tuple may be told twice, on arrival and when its place is given
// up.
struct Finals {
    std::vector<std::uint64_t> after;
    std::vector<std::uint64_t> position;
    std::vector<std::uint8_t> side;

    void clear() {
        after.clear();
        position.clear();
        side.clear();
    }
};

// Everything about a join but its tuples: what it needs, with them, to go on elsewhere.
using Instant = __int128;  // a time less a lateness
inline constexpr Instant kNever = -(static_cast<Instant>(1) << 100);

struct SideState {
    std::uint64_t first = 0;  // positions [first, next) are stored
    std::uint64_t next = 0;
    std::uint64_t admitted = 0;
    std::uint64_t nulls = 0;
    std::uint64_t late = 0;
    std::int64_t latest = INT64_MIN;  // time windows
    Instant progress = kNever;        // event windows
    bool idle = false;
    std::uint64_t dropped = 0;  // before their time, since there were too many
};

struct JoinState {
    SideState sides[2];
    std::int64_t latest = INT64_MIN;
    Instant watermark = kNever;
    std::uint64_t matches = 0;
};

// The tuples of positions [first, next) of a side, to be stored without meeting any.
struct Stored {
    Batch tuples;        // `sides` are not read
    const bool* unseen;  // those that no arrival may meet
};

struct Stats {
    std::uint64_t rows[2];
    std::uint64_t nulls[2];
    std::uint64_t late[2];
    std::uint64_t dropped[2];
    std::uint64_t stored[2];
    std::uint64_t first[2];  // positions before this one are forgotten
    std::uint64_t next[2];   // the next tuple's position
    std::uint64_t matches;
    std::uint64_t memory_bytes;
    std::int64_t latest;  // time windows: the last timestamp
    bool has_watermark;
    std::int64_t watermark;
};

// How far a push in portions has come.
struct Portion {
    std::size_t taken;  // tuples of the batch that were joined; the others were not looked at
    bool more;          // whether matches of theirs are still to be listed
};

// What a batch would do.
struct Rehearsed {
    std::uint64_t held[2];  // the most tuples of each side that are kept at one time
    std::uint64_t fanout;   // the most matches of a tuple
    std::size_t row;        // the first tuple that has so many
};

// Thrown before anything has changed: the batch breaks a rule.
struct BatchError : std::runtime_error {
    enum class Kind { side, order, capacity };
    BatchError(Kind kind, std::size_t row, const std::string& message, std::int64_t time = 0,
               std::int64_t latest = 0)
        : std::runtime_error(message), kind(kind), row(row), time(time), latest(latest) {}
    Kind kind;
    std::size_t row;
    std::int64_t time;  // order: of the row, and the latest before it
    std::int64_t latest;
};

// Memory ran out in the middle of a call: the state is lost.
struct BrokenJoin : std::runtime_error {
    BrokenJoin()
        : std::runtime_error(
              "memory ran out in the middle of a call; this join cannot go on, restore its "
              "last snapshot") {}
};

// A structure contradicts itself: a defect of this library.
struct BrokenInvariant : std::logic_error {
    using std::logic_error::logic_error;
};

// The index in use; where the join chooses it, why, and how often it was changed.
struct IndexInUse {
    IndexKind kind;
    std::string why;
    std::uint64_t changes;
};

class Engine {
  public:
    virtual ~Engine() = default;
    // Joins the batch and appends its matches to `pairs`; with nullptr they are only counted.
    virtual std::uint64_t push(const Batch& batch, Pairs* pairs) = 0;
    // The same for the first tuples of the batch, until `limit` matches are listed or a few more. Where one
    // group of tuples has too many, list_more() lists the rest of them; until it has, no other call may
    // change the join. A join whose workers have indexes of their own takes the whole batch.
    virtual Portion push_some(const Batch& batch, Pairs& pairs, std::size_t limit) = 0;
    // Goes on listing; returns whether there are more matches.
    virtual bool list_more(Pairs& pairs, std::size_t limit) = 0;
    // What the batch would do; changes nothing. If not `exact`, the tuples that leave meanwhile count, too,
    // which costs a probe for each tuple; else the windows are copied. Partners in the same batch are
    // candidates of the index. `enough` matches of one tuple end the count.
    virtual Rehearsed rehearse(const Batch& batch, bool exact, std::uint64_t enough) = 0;
    // The same, with matches as parts of runs where the index has them.
    virtual std::uint64_t ranges(const Batch& batch, RangeResult& result) = 0;
    // Rows of the last batch that came too late, by their number in it. Event windows only.
    virtual const std::vector<std::uint32_t>& late() const = 0;
    // Event windows: old positions of the tuples of a side that the last call moved to new positions, which
    // run from Stats::first to Stats::next; empty if it moved none.
    virtual const std::vector<std::uint64_t>& renumbered(int side) const = 0;
    // Tuples of the last call that became final, of the sides in JoinSpec::finals.
    virtual const Finals& finals() const = 0;
    // Event windows: no tuple up to this time comes any more on a side (2: on both); a side is silent until
    // its next one.
    virtual void advance(std::int64_t to, int side) = 0;
    virtual void idle(int side) = 0;
    // What a new engine is told to go on where this one stands: load() is its first call.
    virtual JoinState state() const = 0;
    // Which of the tuples at positions [from, to), all of them held, no arrival may meet.
    virtual std::vector<std::uint8_t> unseen(int side, std::uint64_t from, std::uint64_t to) const = 0;
    virtual void load(const JoinState& state, const Stored (&sides)[2]) = 0;
    virtual Stats stats() = 0;
    virtual IndexInUse index() const = 0;
    // The strategy in use where there are several workers.
    virtual Strategy strategy() const = 0;
    // From the next group on, so many threads at most. May be called while another thread is in a call.
    virtual void set_workers(std::uint32_t workers) = 0;
    // Throws BrokenInvariant where a structure contradicts itself. O(n).
    virtual void check() = 0;
};

std::unique_ptr<Engine> make_engine(const JoinSpec& spec, Level level);

}  // namespace slidejoin
