// Memory that runs out at a chosen allocation: the n-th allocation of the thread inside a scope fails, and so
// do all that follow.
//
// The core allocates with operator new, which is replaced here, and with aligned_alloc, mmap and realloc,
// which the linker redirects to the functions below (--wrap, see CMakeLists.txt). The core itself is not
// changed. Include this file in one source of a program.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>

namespace testing {

class FailingAllocations {
  public:
    // The number of the allocation that fails, counted from 1; 0 if none fails.
    explicit FailingAllocations(std::uint64_t at) : at_(at), outer_(current_) { current_ = this; }
    ~FailingAllocations() { current_ = outer_; }
    FailingAllocations(const FailingAllocations&) = delete;
    FailingAllocations& operator=(const FailingAllocations&) = delete;

    std::uint64_t count() const { return count_; }
    bool failed() const { return at_ != 0 && count_ >= at_; }

    static bool next_fails() {
        if (!current_) return false;
        ++current_->count_;
        return current_->failed();
    }

  private:
    std::uint64_t at_;
    std::uint64_t count_ = 0;
    FailingAllocations* outer_;
    static inline thread_local FailingAllocations* current_ = nullptr;
};

inline void* allocate(std::size_t bytes) {
    void* memory = FailingAllocations::next_fails() ? nullptr : std::malloc(bytes ? bytes : 1);
    if (!memory) throw std::bad_alloc();
    return memory;
}

}  // namespace testing

extern "C" {
void* __real_aligned_alloc(std::size_t alignment, std::size_t bytes);
void* __real_realloc(void* memory, std::size_t bytes);
void* __real_mmap(void* at, std::size_t bytes, int protection, int flags, int file, off_t offset);

void* __wrap_aligned_alloc(std::size_t alignment, std::size_t bytes) {
    return testing::FailingAllocations::next_fails() ? nullptr : __real_aligned_alloc(alignment, bytes);
}

void* __wrap_realloc(void* memory, std::size_t bytes) {
    return testing::FailingAllocations::next_fails() ? nullptr : __real_realloc(memory, bytes);
}

void* __wrap_mmap(void* at, std::size_t bytes, int protection, int flags, int file, off_t offset) {
    return testing::FailingAllocations::next_fails()
               ? MAP_FAILED
               : __real_mmap(at, bytes, protection, flags, file, offset);
}
}

void* operator new(std::size_t bytes) { return testing::allocate(bytes); }
void* operator new[](std::size_t bytes) { return testing::allocate(bytes); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }
