// Memory of the core: uninitialised, cache-line aligned buffers, a pool of nodes of one size, a ring. Large
// blocks come from the system in huge pages and go back to it when they are freed.
#pragma once

#include "target.hpp"

namespace slidejoin::SLIDEJOIN_TARGET {

inline constexpr std::size_t kCacheLine = 64;
inline constexpr std::size_t kHugePage = std::size_t{2} << 20;

#if defined(__linux__)
// Large blocks come directly from the system: malloc reuses pages that were touched before, which the system
// does not turn into huge pages.
inline void* map_block(std::size_t bytes) {
    void* mapped =
        mmap(nullptr, bytes + kHugePage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapped == MAP_FAILED) throw std::bad_alloc();
    char* start = static_cast<char*>(mapped);
    const std::size_t before = -reinterpret_cast<std::uintptr_t>(start) % kHugePage;
    if (before) munmap(start, before);
    munmap(start + before + bytes, kHugePage - before);
    madvise(start + before, bytes, MADV_HUGEPAGE);
    return start + before;
}
#endif

inline std::size_t block_bytes(std::size_t bytes) {
    const std::size_t unit = bytes >= kHugePage ? kHugePage : kCacheLine;
    return (bytes + unit - 1) / unit * unit;
}

inline void* allocate_block(std::size_t bytes) {
    bytes = block_bytes(bytes);
#if defined(__linux__)
    if (bytes >= kHugePage) return map_block(bytes);
#endif
    void* block = std::aligned_alloc(kCacheLine, bytes);
    if (!block) throw std::bad_alloc();
    return block;
}

inline void free_block(void* block, std::size_t bytes) {
#if defined(__linux__)
    bytes = block_bytes(bytes);
    if (bytes >= kHugePage) {
        munmap(block, bytes);
        return;
    }
#endif
    (void)bytes;
    std::free(block);
}

// Gives free memory back to the system, which malloc would keep. Some ms: for rare occasions.
inline void trim_memory() {
#if defined(__GLIBC__)
    malloc_trim(0);
#endif
}

template <class T>
class Buffer {
    static_assert(std::is_trivially_copyable_v<T>);

  public:
    Buffer() = default;
    explicit Buffer(std::size_t capacity)
        : data_(static_cast<T*>(allocate_block(capacity * sizeof(T)))), capacity_(capacity) {}
    Buffer(Buffer&& from) noexcept { swap(from); }
    Buffer& operator=(Buffer&& from) noexcept {
        swap(from);
        return *this;
    }
    ~Buffer() {
        if (data_) free_block(data_, bytes());
    }

    T* data() { return data_; }
    const T* data() const { return data_; }
    T& operator[](std::size_t i) { return data_[i]; }
    const T& operator[](std::size_t i) const { return data_[i]; }
    std::size_t capacity() const { return capacity_; }
    std::size_t bytes() const { return capacity_ * sizeof(T); }

    // Makes room for `needed` elements and keeps the first `used`. Grows at least by half.
    void reserve(std::size_t needed, std::size_t used = 0) {
        if (needed <= capacity_) return;
        Buffer larger(std::max(needed, capacity_ + capacity_ / 2));
        if (used) std::memcpy(larger.data(), data(), used * sizeof(T));
        *this = std::move(larger);
    }

  private:
    void swap(Buffer& with) {
        std::swap(data_, with.data_);
        std::swap(capacity_, with.capacity_);
    }

    T* data_ = nullptr;
    std::size_t capacity_ = 0;
};

// Nodes of one size in slabs that double up to 2 MiB; freed nodes are used again, slabs stay until the pool
// is destroyed. A slab's memory is first touched when its nodes are taken, so that no single call pays for
// all.
template <class Node>
class Pool {
  public:
    // Afterwards `count` calls of take() cannot fail.
    void reserve(std::size_t count) {
        while (free_count_ + fresh_count_ < count) grow();
    }

    Node* take() {
        reserve(1);
        if (!free_) {
            Node* node = reinterpret_cast<Node*>(fresh_);
            fresh_ += sizeof(Node);
            --fresh_count_;
            return new (node) Node;
        }
        Free* node = free_;
        free_ = node->next;
        --free_count_;
        return new (node) Node;
    }

    void give_back(Node* node) {
        free_ = new (node) Free{free_};
        ++free_count_;
    }

    // Takes all nodes back. Cost: one write for each.
    void clear() {
        free_ = nullptr;
        free_count_ = fresh_count_ = 0;
        for (std::size_t i = slabs_.size(); i-- > 0;) {
            begin(slabs_[i]);
            if (i > 0) give_back_fresh();
        }
    }

    std::size_t bytes() const { return bytes_; }

  private:
    struct Free {
        Free* next;
    };
    static_assert(sizeof(Node) >= sizeof(Free) && sizeof(Node) % kCacheLine == 0);

    void grow() {
        slabs_.reserve(slabs_.size() + 1);
        Buffer<std::byte> slab(std::max(next_slab_, sizeof(Node)));
        give_back_fresh();
        begin(slab);
        bytes_ += slab.bytes();
        slabs_.push_back(std::move(slab));
        next_slab_ = std::min(next_slab_ * 2, kHugePage);
    }

    void begin(Buffer<std::byte>& slab) {
        fresh_ = slab.data();
        fresh_count_ = slab.capacity() / sizeof(Node);
    }

    void give_back_fresh() {
        while (fresh_count_ > 0) give_back(reinterpret_cast<Node*>(fresh_ + --fresh_count_ * sizeof(Node)));
    }

    Free* free_ = nullptr;
    std::size_t free_count_ = 0;
    std::byte* fresh_ = nullptr;  // nodes of the last slab that were never taken
    std::size_t fresh_count_ = 0;
    std::size_t next_slab_ = 4096;
    std::size_t bytes_ = 0;
    std::vector<Buffer<std::byte>> slabs_;
};

// A growing first-in-first-out ring.
template <class T>
class Ring {
  public:
    Ring() = default;
    Ring(Ring&&) = default;
    Ring& operator=(Ring&&) = default;
    Ring(const Ring& from) {
        if (from.size_) {
            size_ = from.size_;
            copy(from, from.data_.capacity());
        }
    }

    std::size_t size() const { return size_; }
    const T& operator[](std::size_t i) const { return data_[slot(i)]; }

    void push(T value) {
        if (size_ == data_.capacity()) resize(std::max(kLeast, data_.capacity() * 2));
        data_[slot(size_++)] = value;
    }

    void drop(std::size_t count) {
        head_ = slot(count);
        size_ -= count;
    }

    void drop_last(std::size_t count) { size_ -= count; }

    // Gives back memory that the entries do not need.
    void shrink() {
        const std::size_t needed = std::max(kLeast, std::bit_ceil(size_));
        if (needed < data_.capacity()) resize(needed);
    }

    // How many entries from entry i on lie contiguously in memory.
    std::size_t run(std::size_t i) const { return std::min(size_ - i, data_.capacity() - slot(i)); }

    std::size_t bytes() const { return data_.bytes(); }

  private:
    static constexpr std::size_t kLeast = 64;

    std::size_t slot(std::size_t i) const { return (head_ + i) & mask_; }

    void resize(std::size_t capacity) { copy(*this, capacity); }

    // The entries of a ring, which may be this one, in memory of this capacity.
    void copy(const Ring& from, std::size_t capacity) {
        Buffer<T> moved(capacity);
        for (std::size_t i = 0; i < from.size_; i += from.run(i))
            std::memcpy(moved.data() + i, &from[i], from.run(i) * sizeof(T));
        data_ = std::move(moved);
        head_ = 0;
        mask_ = data_.capacity() - 1;
    }

    Buffer<T> data_;
    std::size_t head_ = 0;
    std::size_t size_ = 0;
    std::size_t mask_ = 0;
};

}  // namespace slidejoin::SLIDEJOIN_TARGET
