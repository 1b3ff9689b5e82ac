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

#if defined(__linux__)
#include <sys/mman.h>
#endif

#include "arrow.hpp"
#include "flat.hpp"
#include "gather.hpp"

namespace slidejoin {

// Rows to take: their places among those stored, and which of them are missing (place 0, if so).
struct Picks {
    const std::int64_t* rows;
    const std::uint8_t* missing;  // or nullptr
    std::size_t count;
    std::size_t stored;  // rows that there are; if none, all are missing
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
        owned_[buffer].reset(static_cast<std::uint8_t*>(allocate_bytes(count * sizeof(T))));
        if (!owned_[buffer]) throw std::bad_alloc();
        buffers_[buffer] = owned_[buffer].get();
        return reinterpret_cast<T*>(owned_[buffer].get());
    }

    // Without nulls, validity is not handed over.
    void set_null_count(std::int64_t count) {
        array_.null_count = count;
        if (!count) owned_[0].reset();
        buffers_[0] = owned_[0].get();
    }
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
    static constexpr std::size_t kHuge = std::size_t{2} << 20;  // bytes of a huge page

    // Few bytes do not gain from an aligned block; many are cleared in huge pages by whoever writes them
    // first.
    static void* allocate_bytes(std::size_t bytes) {
        if (bytes <= kShort) return std::malloc(std::max<std::size_t>(bytes, 1));
        const std::size_t unit = bytes >= 4 * kHuge ? kHuge : 64;
        void* block = std::aligned_alloc(unit, (bytes + unit - 1) / unit * unit);
#if defined(__linux__)
        if (block && unit == kHuge) madvise(block, bytes, MADV_HUGEPAGE);
#endif
        return block;
    }

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
    explicit StoredColumn(ColumnKind kind, const std::shared_ptr<SpillFiles>& files = nullptr)
        : kind_(kind), values_(files), offsets_(files), validity_(files) {
        if (!is_bytes()) return;
        Copies none;
        std::memset(offsets_.extend(sizeof(std::int64_t), none), 0, sizeof(std::int64_t));
    }
    StoredColumn(StoredColumn&&) noexcept = default;

    std::size_t bytes() const { return values_.bytes() + offsets_.bytes() + validity_.bytes(); }
    std::size_t spilled() const { return values_.spilled() + offsets_.spilled() + validity_.spilled(); }
    bool is_bytes() const { return kind_ < 0; }
    bool nullable() const { return nullable_; }  // there has been a null

    // Appends the rows [from, from + count) of an array to the `stored` rows there are. With a lender, a
    // first array may be read in place.
    void append(const ArrowArray& array, std::size_t from, std::size_t count, std::size_t stored,
                const std::shared_ptr<void>& lender, Copies& copies) {
        if (!count) return;
        from += static_cast<std::size_t>(array.offset);
        if (kind_ == kBits) {
            expand(array.buffers[1], from, count, values_.extend(count, copies));
        } else if (kind_ > 0) {
            const auto width = static_cast<std::size_t>(kind_);
            add_bytes(array.buffers[1], from * width, count * width, stored ? nullptr : lender, copies);
        } else if (kind_ == kOffsets32) {
            append_strings<std::int32_t>(array, from, count, stored ? nullptr : lender, copies);
        } else {
            append_strings<std::int64_t>(array, from, count, stored ? nullptr : lender, copies);
        }
        append_validity(array, from, count, stored, copies);
    }

    // What rows of an array need: their number, the bytes of their values, and whether one is null.
    struct Room {
        std::size_t rows = 0;
        std::size_t bytes = 0;
        bool nulls = false;
    };
    void add_room(const ArrowArray& array, std::size_t from, std::size_t count, Room& room) const {
        if (!count) return;
        from += static_cast<std::size_t>(array.offset);
        room.rows += count;
        room.bytes += kind_ == kOffsets32   ? bytes_of<std::int32_t>(array, from, count)
                      : kind_ == kOffsets64 ? bytes_of<std::int64_t>(array, from, count)
                                            : count * width();
        room.nulls = room.nulls || nullable_ || has_null(array, from, count);
    }

    // Bytes that are allocated for rows behind the `stored` ones.
    std::size_t growth(const Room& room, std::size_t stored) const {
        return values_.growth(room.bytes) +
               (is_bytes() ? offsets_.growth(room.rows * sizeof(std::int64_t)) : 0) +
               (room.nulls ? validity_.growth(nullable_ ? room.rows : stored + room.rows) : 0);
    }

    // In files, makes room for rows behind the `stored` ones.
    void reserve(const Room& room, std::size_t stored) {
        values_.reserve(room.bytes);
        if (is_bytes()) offsets_.reserve(room.rows * sizeof(std::int64_t));
        if (room.nulls) validity_.reserve(nullable_ ? room.rows : stored + room.rows);
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

    // Bytes of so many taken values; of strings, those of their offsets.
    std::size_t taken_bytes(std::size_t count) const {
        if (is_bytes()) return (count + 1) * static_cast<std::size_t>(-kind_);
        return kind_ == kBits ? (count + 7) / 8 : count * width();
    }

    // Writes values of rows to a result, from its row `at` on, a multiple of 8.
    void take_values(const Picks& picks, std::uint8_t* values, std::size_t at) const {
        if (kind_ != kBits) return gather_values(picks, values + at * width());
        std::vector<std::uint8_t> flags(picks.count);
        gather_values(picks, flags.data());
        pack(flags.data(), picks.count, values + at / 8);
    }

    // Writes their bits of validity. Returns how many are null.
    std::int64_t take_validity(const Picks& picks, std::uint8_t* validity, std::size_t at) const {
        if (!picks.missing && !nullable_) {
            std::memset(validity + at / 8, 0xff, (picks.count + 7) / 8);
            return 0;
        }
        std::vector<std::uint8_t> flags(picks.count, 1);
        if (nullable_ && picks.stored) gather(validity_.data(), picks.rows, picks.count, flags.data());
        std::int64_t valid = 0;
        for (std::size_t i = 0; i < picks.count; ++i) {
            if (picks.missing && picks.missing[i]) flags[i] = 0;
            valid += flags[i];
        }
        pack(flags.data(), picks.count, validity + at / 8);
        return static_cast<std::int64_t>(picks.count) - valid;
    }

    // Finds the strings of rows: where each begins here, and where it ends in a result in which the first one
    // begins at 0. Returns the bytes of all.
    std::int64_t find_strings(const Picks& picks, std::int64_t* begins, std::uint8_t* ends,
                              std::size_t at) const {
        return with_offset([&]<class Offset>(Offset) {
            Offset* const to = reinterpret_cast<Offset*>(ends) + at;
            if (picks.stored)
                return slidejoin::find_strings(offsets(), picks.rows, picks.count, picks.missing, begins, to);
            std::fill_n(to, picks.count, Offset{0});
            std::fill_n(begins, picks.count, 0);
            return std::int64_t{0};
        });
    }

    // Copies strings that were found to a result, from its byte `byte` on. Returns the last end.
    std::int64_t copy_strings(const std::int64_t* begins, std::size_t count, std::uint8_t* ends,
                              std::size_t at, std::uint8_t* strings, std::int64_t byte) const {
        return with_offset([&]<class Offset>(Offset) {
            return slidejoin::copy_strings(values_.data(), values_.size(), begins, count,
                                           reinterpret_cast<Offset*>(ends) + at, strings, byte);
        });
    }

    // Whether a result can have so many bytes of strings, 32-bit offsets at most `most`.
    bool can_address(std::int64_t bytes, std::int64_t most) const {
        return kind_ == kOffsets64 || bytes <= most;
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
    template <class Call>
    std::int64_t with_offset(const Call& call) const {
        return kind_ == kOffsets32 ? call(std::int32_t{}) : call(std::int64_t{});
    }
    std::size_t width() const { return kind_ == kBits ? 1 : static_cast<std::size_t>(kind_); }
    const std::int64_t* offsets() const { return offsets_.as<std::int64_t>(); }
    std::size_t offset_count() const { return offsets_.size() / sizeof(std::int64_t); }

    void forget_validity() {
        validity_.clear();
        nullable_ = false;
    }

    template <class Offset>
    static std::size_t bytes_of(const ArrowArray& strings, std::size_t from, std::size_t count) {
        const Offset* ends = static_cast<const Offset*>(strings.buffers[1]) + from;
        return static_cast<std::size_t>(ends[count]) - static_cast<std::size_t>(ends[0]);
    }

    static bool may_be_null(const ArrowArray& array) { return array.buffers[0] && array.null_count != 0; }

    static bool has_null(const ArrowArray& array, std::size_t from, std::size_t count) {
        if (!may_be_null(array)) return false;
        std::vector<std::uint8_t> flags(count);
        expand(array.buffers[0], from, count, flags.data());
        return std::memchr(flags.data(), 0, count) != nullptr;
    }

    void add_bytes(const void* source, std::size_t from, std::size_t count,
                   const std::shared_ptr<void>& lender, Copies& copies) {
        if (!count) return;
        const auto* bytes = static_cast<const std::uint8_t*>(source) + from;
        const bool aligned = reinterpret_cast<std::uintptr_t>(bytes) % sizeof(std::int64_t) == 0;
        if (lender && aligned) values_.borrow(bytes, count, lender);
        else copies.add(values_.extend(count, copies), bytes, count);
    }

    template <class Offset>
    void append_strings(const ArrowArray& array, std::size_t from, std::size_t count,
                        const std::shared_ptr<void>& lender, Copies& copies) {
        const Offset* ends = static_cast<const Offset*>(array.buffers[1]) + from;
        const auto begin = static_cast<std::int64_t>(ends[0]), end = static_cast<std::int64_t>(ends[count]);
        const std::int64_t shift = offsets()[offset_count() - 1] - begin;
        add_bytes(array.buffers[2], static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin),
                  lender, copies);
        auto* room = reinterpret_cast<std::int64_t*>(offsets_.extend(count * sizeof(std::int64_t), copies));
        for (std::size_t i = 0; i < count; ++i) room[i] = static_cast<std::int64_t>(ends[i + 1]) + shift;
    }

    void append_validity(const ArrowArray& array, std::size_t from, std::size_t count, std::size_t stored,
                         Copies& copies) {
        if (!nullable_) {
            if (!has_null(array, from, count)) return;
            if (stored) std::memset(validity_.extend(stored, copies), 1, stored);
            nullable_ = true;
        }
        std::uint8_t* room = validity_.extend(count, copies);
        if (may_be_null(array)) expand(array.buffers[0], from, count, room);
        else std::memset(room, 1, count);
    }

    void gather_values(const Picks& picks, std::uint8_t* out) const {
        if (!picks.stored) {
            std::memset(out, 0, picks.count * width());
            return;
        }
        const auto typed = [&]<class Value>(Value) {
            gather(values_.as<Value>(), picks.rows, picks.count, reinterpret_cast<Value*>(out));
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
