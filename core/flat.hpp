// Bytes that grow at the end and are dropped from the start, as the columns of a window do, in memory or in
// files (spill.hpp). What is appended, and what has to move for it, is copied by several workers.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <utility>
#include <vector>

#include "crew.hpp"
#include "spill.hpp"

namespace slidejoin {

struct Free {
    void operator()(std::uint8_t* block) const { std::free(block); }
};

// Bytes that are still to be copied. They are copied in any order, by several workers.
class Copies {
  public:
    // Makes room for two more copies, and for what a move needs kept: adding them cannot fail.
    void prepare(bool move) {
        if (copies_.capacity() < copies_.size() + 2) copies_.reserve(2 * copies_.size() + 8);
        if (!move) return;
        blocks_.reserve(blocks_.size() + 1);
        lenders_.reserve(lenders_.size() + 1);
    }

    void add(std::uint8_t* to, const void* from, std::size_t bytes) {
        copies_.push_back({to, static_cast<const std::uint8_t*>(from), bytes});
        total_ += bytes;
    }

    // Keeps a block that is copied from, or who lends it, until all is copied.
    void keep(std::uint8_t* block) { blocks_.emplace_back(block); }
    void keep(std::shared_ptr<void> lender) { lenders_.push_back(std::move(lender)); }

    void make() { make(Slice(total_, 0, 1)); }
    void make(Crew& crew) {
        crew.run(total_, crew.parts_of(total_, kLeast), [&](std::size_t, Slice bytes) { make(bytes); });
    }

  private:
    static constexpr std::size_t kLeast = std::size_t{1} << 15;  // bytes that are worth another worker

    struct Copy {
        std::uint8_t* to;
        const std::uint8_t* from;
        std::size_t bytes;
    };

    // Makes a part of the copies, which are one after the other.
    void make(Slice part) const {
        std::size_t before = 0;
        for (const Copy& copy : copies_) {
            const std::size_t from = std::clamp(part.from, before, before + copy.bytes) - before;
            const std::size_t to = std::clamp(part.to, before, before + copy.bytes) - before;
            if (from < to) std::memcpy(copy.to + from, copy.from + from, to - from);
            before += copy.bytes;
        }
    }

    std::vector<Copy> copies_;
    std::vector<std::unique_ptr<std::uint8_t, Free>> blocks_;
    std::vector<std::shared_ptr<void>> lenders_;
    std::size_t total_ = 0;
};

// Bytes that grow at the end and are dropped from the start.
class Flat {
  public:
    Flat() = default;
    explicit Flat(std::shared_ptr<SpillFiles> files) : spilled_(std::move(files)) {}  // nullptr: in memory
    Flat(Flat&& from) noexcept { *this = std::move(from); }
    Flat& operator=(Flat&& from) noexcept {
        std::swap(data_, from.data_);
        std::swap(capacity_, from.capacity_);
        std::swap(start_, from.start_);
        std::swap(stop_, from.stop_);
        std::swap(lender_, from.lender_);
        std::swap(spilled_, from.spilled_);
        return *this;
    }
    ~Flat() {
        if (!lender_ && !spilled_) std::free(data_);
    }

    const std::uint8_t* data() const { return data_ + start_; }
    template <class T>
    const T* as() const {
        return reinterpret_cast<const T*>(data());
    }
    std::size_t size() const { return stop_ - start_; }
    std::size_t bytes() const { return spilled_ ? 0 : capacity_; }
    std::size_t spilled() const { return spilled_ ? capacity_ : 0; }

    // Room for more bytes at the end, which the caller fills. Those before are there once the copies are
    // made.
    std::uint8_t* extend(std::size_t count, Copies& copies) {
        const std::size_t needed = size() + count;
        copies.prepare(stop_ + count > capacity_);
        reserve(count);
        if (stop_ + count > capacity_)
            move(needed <= capacity_ / 2 ? capacity_ : 2 * needed + kLeast, copies);
        stop_ += count;
        return data_ + stop_ - count;
    }

    // Bytes that are allocated to extend by so many, besides those that there are; 0 if they fit, or in
    // files.
    std::size_t growth(std::size_t count) const {
        const std::size_t needed = size() + count;
        const bool fits = stop_ + count <= capacity_ || needed <= capacity_ / 2;
        return spilled_ || fits ? 0 : 2 * needed + kLeast;
    }

    // In files, makes room for more bytes: to extend by so many then cannot fail for want of it.
    void reserve(std::size_t count) {
        if (!spilled_ || stop_ + count <= capacity_) return;
        try {
            spilled_.grow(stop_ + count - capacity_, size());
        } catch (...) {
            follow_files();
            throw;
        }
        follow_files();
    }

    // Forgets everything.
    void clear() { *this = Flat(spilled_.files()); }

    void truncate(std::size_t size) { stop_ = start_ + size; }

    void drop(std::size_t count) {
        start_ += count;
        if (spilled_ && capacity_) give_back();
        if (start_ == stop_) start_ = stop_ = 0;
        if (spilled_) return;
        if (capacity_ <= 8 * size() + kSlack) return;
        try {
            Copies copies;
            copies.prepare(true);
            move(2 * size() + kLeast, copies);
            copies.make();
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

    // Moves the bytes to the front, of a new block if the capacity changes. If not, at least half of it is
    // free in front of them: they do not overlap.
    void move(std::size_t capacity, Copies& copies) {
        const std::size_t used = size();
        const std::uint8_t* const before = data_ + start_;
        if (capacity != capacity_) {
            auto* moved = static_cast<std::uint8_t*>(std::malloc(capacity));
            if (!moved) throw std::bad_alloc();
            if (lender_) copies.keep(std::move(lender_));
            else copies.keep(data_);
            lender_.reset();
            data_ = moved;
            capacity_ = capacity;
        }
        if (used) copies.add(data_, before, used);
        start_ = 0;
        stop_ = used;
    }

    // Gives segments back whose bytes were dropped; the last one is used again.
    void give_back() {
        const std::size_t gone = spilled_.release(std::min(start_, capacity_ - 1));
        follow_files();
        start_ -= gone;
        stop_ -= gone;
    }

    void follow_files() {
        data_ = spilled_.data();
        capacity_ = spilled_.bytes();
    }

    std::uint8_t* data_ = nullptr;
    std::size_t capacity_ = 0;  // 0 for borrowed bytes
    std::size_t start_ = 0;
    std::size_t stop_ = 0;
    std::shared_ptr<void> lender_;
    SpilledBytes spilled_;  // where the bytes are, if not in memory
};

}  // namespace slidejoin
