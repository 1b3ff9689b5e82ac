// The columns of stored rows, and the columns of a result: plain Arrow memory.
//
// A stored column holds fixed-width values, booleans (a byte each), or strings or binary values (64-bit
// offsets and bytes). It grows at the end and is dropped from the start.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <utility>
#include <vector>

#include "arrow.hpp"
#include "gather.hpp"

namespace slidejoin {

// Bytes that grow at the end and are dropped from the start.
class Flat {
  public:
    Flat() = default;
    Flat(Flat&& from) noexcept { *this = std::move(from); }
    Flat& operator=(Flat&& from) noexcept {
        std::swap(data_, from.data_);
        std::swap(capacity_, from.capacity_);
        std::swap(start_, from.start_);
        std::swap(stop_, from.stop_);
        std::swap(lender_, from.lender_);
        return *this;
    }
    ~Flat() {
        if (!lender_) std::free(data_);
    }

    const std::uint8_t* data() const { return data_ + start_; }
    template <class T>
    const T* as() const {
        return reinterpret_cast<const T*>(data());
    }
    std::size_t size() const { return stop_ - start_; }
    std::size_t bytes() const { return capacity_; }

    // Room for more bytes at the end, which the caller fills.
    std::uint8_t* extend(std::size_t count) {
        const std::size_t needed = size() + count;
        if (stop_ + count > capacity_) move(needed <= capacity_ / 2 ? capacity_ : 2 * needed + kLeast);
        stop_ += count;
        return data_ + stop_ - count;
    }

    void truncate(std::size_t size) { stop_ = start_ + size; }

    void drop(std::size_t count) {
        start_ += count;
        if (start_ == stop_) start_ = stop_ = 0;
        if (capacity_ <= 8 * size() + kSlack) return;
        try {
            move(2 * size() + kLeast);
        } catch (const std::bad_alloc&) {
            // The larger block stays.
        }
    }

    // Reads bytes where they are, which `lender` keeps alive. There is no room behind them: more bytes move
    // them first.
    void borrow(const void* bytes, std::size_t size, std::shared_ptr<void> lender) {
        *this = Flat();
        data_ = static_cast<std::uint8_t*>(const_cast<void*>(bytes));
        stop_ = size;
        lender_ = std::move(lender);
    }

  private:
    static constexpr std::size_t kLeast = 256;
    static constexpr std::size_t kSlack = 4096;  // bytes that are not worth giving back

    // Moves the bytes to the front, of a new block if the capacity changes.
    void move(std::size_t capacity) {
        const std::size_t used = size();
        if (capacity == capacity_) {
            std::memmove(data_, data_ + start_, used);
        } else {
            auto* moved = static_cast<std::uint8_t*>(std::malloc(capacity));
            if (!moved) throw std::bad_alloc();
            if (used) std::memcpy(moved, data_ + start_, used);
            if (!lender_) std::free(data_);
            lender_.reset();
            data_ = moved;
            capacity_ = capacity;
        }
        start_ = 0;
        stop_ = used;
    }

    std::uint8_t* data_ = nullptr;
    std::size_t capacity_ = 0;  // 0 for borrowed bytes
    std::size_t start_ = 0;
    std::size_t stop_ = 0;
    std::shared_ptr<void> lender_;
};

// Rows to take: their places among those stored, and which of them are missing (place 0, if so).
struct Picks {
    const std::int64_t* rows = nullptr;
    const std::uint8_t* missing = nullptr;  // or nullptr
    std::size_t count = 0;
};

// One column of a result, or a table of them, in the form of the Arrow C data interface.
class ArrowResult {
  public:
    ArrowResult(std::size_t length, std::size_t buffers) {
        array_.length = static_cast<std::int64_t>(length);
        array_.n_buffers = static_cast<std::int64_t>(buffers);
    }

    ArrowResult(const ArrowResult&) = delete;
    ~ArrowResult() {
        for (ArrowArray& child : handed_)
            if (child.release) child.release(&child);
    }

    template <class T>
    T* allocate(std::size_t buffer, std::size_t count) {
        const std::size_t bytes = (std::max<std::size_t>(count * sizeof(T), 1) + 63) / 64 * 64;
        // Few values do not gain from an aligned block.
        owned_[buffer].reset(
            static_cast<std::uint8_t*>(bytes <= kShort ? std::malloc(bytes) : std::aligned_alloc(64, bytes)));
        if (!owned_[buffer]) throw std::bad_alloc();
        buffers_[buffer] = owned_[buffer].get();
        return reinterpret_cast<T*>(owned_[buffer].get());
    }

    void set_null_count(std::int64_t count) { array_.null_count = count; }
    void add(std::unique_ptr<ArrowResult> child) { children_.push_back(std::move(child)); }

    // Hands everything over to whoever calls out.release.
    static void hand_over(std::unique_ptr<ArrowResult> result, ArrowArray& out) {
        const std::size_t count = result->children_.size();
        result->handed_.resize(count);
        result->pointers_.resize(count);
        for (std::size_t i = 0; i < count; ++i) {
            result->pointers_[i] = &result->handed_[i];
            hand_over(std::move(result->children_[i]), result->handed_[i]);
        }
        out = result->array_;
        out.offset = 0;
        out.n_children = static_cast<std::int64_t>(count);
        out.buffers = result->buffers_.data();
        out.children = result->pointers_.data();
        out.dictionary = nullptr;
        out.private_data = result.release();
        out.release = [](ArrowArray* array) {
            delete static_cast<ArrowResult*>(array->private_data);
            array->release = nullptr;
        };
    }

  private:
    static constexpr std::size_t kShort = 1024;

    struct Free {
        void operator()(std::uint8_t* block) const { std::free(block); }
    };

    ArrowArray array_{};
    std::array<const void*, 3> buffers_{};
    std::array<std::unique_ptr<std::uint8_t, Free>, 3> owned_;
    std::vector<std::unique_ptr<ArrowResult>> children_;
    std::vector<ArrowArray> handed_;  // the children, once they are handed over
    std::vector<ArrowArray*> pointers_;
};

// What a column stores: a positive width in bytes, bits, or bytes behind offsets of 32 or 64 bits.
using ColumnKind = int;
inline constexpr ColumnKind kBits = 0;
inline constexpr ColumnKind kOffsets32 = -4;
inline constexpr ColumnKind kOffsets64 = -8;

class StoredColumn {
  public:
    explicit StoredColumn(ColumnKind kind) : kind_(kind) {
        if (is_bytes()) std::memset(offsets_.extend(sizeof(std::int64_t)), 0, sizeof(std::int64_t));
    }
    StoredColumn(StoredColumn&&) noexcept = default;

    std::size_t bytes() const { return values_.bytes() + offsets_.bytes() + validity_.bytes(); }
    bool is_bytes() const { return kind_ < 0; }

    // Appends the rows [from, from + count) of an array to the `stored` rows there are. With a lender, a
    // first array may be read in place.
    void append(const ArrowArray& array, std::size_t from, std::size_t count, std::size_t stored,
                const std::shared_ptr<void>& lender) {
        if (!count) return;
        from += static_cast<std::size_t>(array.offset);
        if (kind_ == kBits) {
            expand(array.buffers[1], from, count, values_.extend(count));
        } else if (kind_ > 0) {
            const auto width = static_cast<std::size_t>(kind_);
            add_bytes(array.buffers[1], from * width, count * width, stored ? nullptr : lender);
        } else if (kind_ == kOffsets32) {
            append_strings<std::int32_t>(array, from, count, stored ? nullptr : lender);
        } else {
            append_strings<std::int64_t>(array, from, count, stored ? nullptr : lender);
        }
        append_validity(array, from, count, stored);
    }

    void truncate(std::size_t rows) {
        if (is_bytes()) {
            offsets_.truncate((rows + 1) * sizeof(std::int64_t));
            values_.truncate(static_cast<std::size_t>(offsets()[rows] - offsets()[0]));
        } else {
            values_.truncate(rows * width());
        }
        if (nullable_) validity_.truncate(rows);
        if (!rows) forget_validity();
    }

    void drop(std::size_t rows, std::size_t stored) {
        if (is_bytes()) {
            const std::int64_t gone = offsets()[rows] - offsets()[0];
            offsets_.drop(rows * sizeof(std::int64_t));
            values_.drop(static_cast<std::size_t>(gone));
        } else {
            values_.drop(rows * width());
        }
        if (nullable_) validity_.drop(rows);
        if (rows == stored) forget_validity();
    }

    // The values at these places, or nullptr where 32-bit offsets cannot address `most` bytes.
    std::unique_ptr<ArrowResult> take(const Picks& picks, std::size_t stored, std::int64_t most) const {
        auto result = std::make_unique<ArrowResult>(picks.count, is_bytes() ? 3 : 2);
        take_validity(picks, stored, *result);
        if (kind_ == kBits) {
            std::vector<std::uint8_t> flags(picks.count);
            if (stored) gather_values(picks, stored, flags.data());
            pack(flags.data(), picks.count, result->allocate<std::uint8_t>(1, (picks.count + 7) / 8));
        } else if (kind_ > 0) {
            auto* out = result->allocate<std::uint8_t>(1, picks.count * width());
            if (stored) gather_values(picks, stored, out);
            else std::memset(out, 0, picks.count * width());
        } else if (!take_strings(picks, stored, most, *result)) {
            return nullptr;
        }
        return result;
    }

    // Whether two byte strings are equal.
    static bool same(const StoredColumn& a, std::int64_t row_a, const StoredColumn& b, std::int64_t row_b) {
        const std::int64_t *at_a = a.offsets() + row_a, *at_b = b.offsets() + row_b;
        const std::int64_t length = at_a[1] - at_a[0];
        return length == at_b[1] - at_b[0] && std::memcmp(a.values_.data() + (at_a[0] - a.offsets()[0]),
                                                          b.values_.data() + (at_b[0] - b.offsets()[0]),
                                                          static_cast<std::size_t>(length)) == 0;
    }

  private:
    std::size_t width() const { return kind_ == kBits ? 1 : static_cast<std::size_t>(kind_); }
    const std::int64_t* offsets() const { return offsets_.as<std::int64_t>(); }
    std::size_t offset_count() const { return offsets_.size() / sizeof(std::int64_t); }

    void forget_validity() {
        validity_ = Flat();
        nullable_ = false;
    }

    void add_bytes(const void* source, std::size_t from, std::size_t count,
                   const std::shared_ptr<void>& lender) {
        if (!count) return;
        const auto* bytes = static_cast<const std::uint8_t*>(source) + from;
        const bool aligned = reinterpret_cast<std::uintptr_t>(bytes) % sizeof(std::int64_t) == 0;
        if (lender && aligned) values_.borrow(bytes, count, lender);
        else std::memcpy(values_.extend(count), bytes, count);
    }

    template <class Offset>
    void append_strings(const ArrowArray& array, std::size_t from, std::size_t count,
                        const std::shared_ptr<void>& lender) {
        const Offset* ends = static_cast<const Offset*>(array.buffers[1]) + from;
        const auto begin = static_cast<std::int64_t>(ends[0]), end = static_cast<std::int64_t>(ends[count]);
        const std::int64_t shift = offsets()[offset_count() - 1] - begin;
        add_bytes(array.buffers[2], static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin),
                  lender);
        auto* room = reinterpret_cast<std::int64_t*>(offsets_.extend(count * sizeof(std::int64_t)));
        for (std::size_t i = 0; i < count; ++i) room[i] = static_cast<std::int64_t>(ends[i + 1]) + shift;
    }

    void append_validity(const ArrowArray& array, std::size_t from, std::size_t count, std::size_t stored) {
        const bool may_be_null = array.buffers[0] && array.null_count != 0;
        if (!may_be_null && !nullable_) return;
        if (!nullable_) {
            std::vector<std::uint8_t> flags(count);
            expand(array.buffers[0], from, count, flags.data());
            if (std::memchr(flags.data(), 0, count) == nullptr) return;
            if (stored) std::memset(validity_.extend(stored), 1, stored);
            nullable_ = true;
        }
        std::uint8_t* room = validity_.extend(count);
        if (may_be_null) expand(array.buffers[0], from, count, room);
        else std::memset(room, 1, count);
    }

    void take_validity(const Picks& picks, std::size_t stored, ArrowResult& result) const {
        if (!picks.missing && !nullable_) return;
        std::vector<std::uint8_t> flags(picks.count, 1);
        if (nullable_ && stored) gather(validity_.data(), stored, picks.rows, picks.count, flags.data());
        std::int64_t valid = 0;
        for (std::size_t i = 0; i < picks.count; ++i) {
            if (picks.missing && picks.missing[i]) flags[i] = 0;
            valid += flags[i];
        }
        const std::int64_t nulls = static_cast<std::int64_t>(picks.count) - valid;
        result.set_null_count(nulls);
        if (nulls) pack(flags.data(), picks.count, result.allocate<std::uint8_t>(0, (picks.count + 7) / 8));
    }

    void gather_values(const Picks& picks, std::size_t stored, std::uint8_t* out) const {
        const auto typed = [&]<class Value>(Value) {
            gather(values_.as<Value>(), stored, picks.rows, picks.count, reinterpret_cast<Value*>(out));
        };
        switch (width()) {
            case 1:
                return typed(std::uint8_t{});
            case 2:
                return typed(std::uint16_t{});
            case 4:
                return typed(std::uint32_t{});
            case 8:
                return typed(std::uint64_t{});
            default:
                for (std::size_t i = 0; i < picks.count; ++i)
                    std::memcpy(out + i * width(),
                                values_.data() + static_cast<std::size_t>(picks.rows[i]) * width(), width());
        }
    }

    bool take_strings(const Picks& picks, std::size_t stored, std::int64_t most, ArrowResult& result) const {
        const std::size_t count = picks.count;
        if (!stored) {
            const std::size_t bytes = (count + 1) * static_cast<std::size_t>(-kind_);
            std::memset(result.allocate<std::uint8_t>(1, bytes), 0, bytes);
            result.allocate<std::uint8_t>(2, 0);
            return true;
        }
        std::vector<std::int64_t> narrowed;
        std::int64_t* ends;
        if (kind_ == kOffsets64) {
            ends = result.allocate<std::int64_t>(1, count + 1);
        } else {
            narrowed.resize(count + 1);
            ends = narrowed.data();
        }
        const std::int64_t total = gather_offsets(offsets(), stored, picks.rows, count, ends, picks.missing);
        if (kind_ == kOffsets32) {
            if (total > most) return false;
            auto* out = result.allocate<std::int32_t>(1, count + 1);
            for (std::size_t i = 0; i <= count; ++i) out[i] = static_cast<std::int32_t>(ends[i]);
        }
        gather_bytes(offsets(), values_.data(), picks.rows, count,
                     result.allocate<std::uint8_t>(2, static_cast<std::size_t>(total)), picks.missing);
        return true;
    }

    // Bits as bytes, and bytes as bits.
    static void expand(const void* bits, std::size_t from, std::size_t count, std::uint8_t* out) {
        const auto* bytes = static_cast<const std::uint8_t*>(bits);
        for (std::size_t i = 0; i < count; ++i) out[i] = bytes[(from + i) / 8] >> ((from + i) % 8) & 1;
    }
    static void pack(const std::uint8_t* flags, std::size_t count, std::uint8_t* out) {
        for (std::size_t i = 0; i < count; i += 8) {
            unsigned byte = 0;
            for (std::size_t j = 0; j < std::min<std::size_t>(8, count - i); ++j)
                byte |= static_cast<unsigned>(flags[i + j]) << j;
            out[i / 8] = static_cast<std::uint8_t>(byte);
        }
    }

    ColumnKind kind_;
    Flat values_;    // values, or the bytes of strings
    Flat offsets_;   // strings: one more than rows; counted from the first byte ever stored
    Flat validity_;  // a byte for each row, once there has been a null
    bool nullable_ = false;
};

}  // namespace slidejoin
