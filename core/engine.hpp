// The core's outer face: a join that takes batches of (side, key, time) and returns pairs of positions.
// Nothing here depends on an instruction set; make_engine picks the copy of the core that fits the machine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace slidejoin {

enum class Level { portable = 0, avx2 = 1, avx512 = 2 };
inline constexpr Level kLevels[] = {Level::portable, Level::avx2, Level::avx512};

const char* name(Level level);
bool supported(Level level);  // compiled in, and this processor can run it

enum class KeyType { int8, int16, int32, int64, uint8, uint16, uint32, uint64, float32, float64 };
enum class IndexKind { nested_loop, b_tree };
enum class WindowKind { rows, time };

struct WindowSpec {
    WindowKind kind;
    std::uint64_t left;  // rows kept of each side
    std::uint64_t right;
    std::uint64_t duration;  // of a time window, in units of the timestamps
};

// An offset of a band. Integers are exact, at most 2^64 in magnitude: high * 2^64 + low.
struct Bound {
    std::int64_t high;
    std::uint64_t low;
    double real;
};

struct JoinSpec {
    KeyType key;
    IndexKind index;
    WindowSpec window;
    Bound lower;
    Bound upper;
    bool self_join;
    std::uint32_t group;  // arrivals inserted together before they probe: 1, 2..kGroup, or a sorted batch
};

// Live tuples of one side that the core can address.
inline constexpr std::uint64_t kMaxLive = std::uint64_t{1} << 31;

struct Batch {
    const std::uint8_t* sides;  // 0 left, 1 right; ignored by self-joins
    const void* keys;
    const std::int64_t* times;  // time windows only
    std::size_t size;
    bool null_times;  // the least timestamp stands for a missing one
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

    void fit();  // gives back what was reserved in vain

  private:
    void grow(std::size_t count);
    void resize_storage(std::size_t capacity);

    std::int64_t* left_ = nullptr;
    std::int64_t* right_ = nullptr;
    std::size_t size_ = 0;
    std::size_t capacity_ = 0;
};

struct Stats {
    std::uint64_t rows[2];
    std::uint64_t nulls[2];
    std::uint64_t stored[2];
    std::uint64_t matches;
    std::uint64_t memory_bytes;
};

// Thrown before anything has changed: the batch breaks a rule.
struct BatchError : std::runtime_error {
    enum class Kind { side, order, capacity };
    BatchError(Kind kind, std::size_t row, const std::string& message)
        : std::runtime_error(message), kind(kind), row(row) {}
    Kind kind;
    std::size_t row;
};

// An earlier push ran out of memory half way through: the state is lost.
struct BrokenJoin : std::runtime_error {
    BrokenJoin() : std::runtime_error("an earlier push ran out of memory; this join cannot go on") {}
};

// A structure contradicts itself: a defect of this library.
struct BrokenInvariant : std::logic_error {
    using std::logic_error::logic_error;
};

class Engine {
  public:
    virtual ~Engine() = default;
    // Joins the batch and appends its matches to `pairs`; with nullptr they are only counted.
    virtual std::uint64_t push(const Batch& batch, Pairs* pairs) = 0;
    virtual Stats stats() = 0;
    // Throws BrokenInvariant where a structure contradicts itself. O(n).
    virtual void check() = 0;
};

std::unique_ptr<Engine> make_engine(const JoinSpec& spec, Level level);

}  // namespace slidejoin
