// Picks the instruction set's copy of the core, and holds what all copies share.
#include "engine.hpp"

#include <algorithm>
#include <cstdlib>
#include <new>
#include <utility>

#include "processor.hpp"
#include "run_join.hpp"

namespace slidejoin {

namespace portable {
std::unique_ptr<Engine> make(const JoinSpec& spec);
std::unique_ptr<RunJoin> make_runs(const JoinSpec& spec);
void join_tables(const TableJoinSpec& spec, const Batch& left, const Batch& right, TableJoinResult& result);
}  // namespace portable
#if defined(SLIDEJOIN_AVX2)
namespace avx2 {
std::unique_ptr<Engine> make(const JoinSpec& spec);
std::unique_ptr<RunJoin> make_runs(const JoinSpec& spec);
void join_tables(const TableJoinSpec& spec, const Batch& left, const Batch& right, TableJoinResult& result);
}  // namespace avx2
#endif
#if defined(SLIDEJOIN_AVX512)
namespace avx512 {
std::unique_ptr<Engine> make(const JoinSpec& spec);
std::unique_ptr<RunJoin> make_runs(const JoinSpec& spec);
void join_tables(const TableJoinSpec& spec, const Batch& left, const Batch& right, TableJoinResult& result);
}  // namespace avx512
#endif

const char* name(Level level) {
    switch (level) {
        case Level::portable:
            return "portable";
        case Level::avx2:
            return "avx2";
        case Level::avx512:
            return "avx512";
    }
    return "unknown";
}

bool supported(Level level) {
#if !defined(SLIDEJOIN_AVX2)
    if (level == Level::avx2) return false;
#endif
#if !defined(SLIDEJOIN_AVX512)
    if (level == Level::avx512) return false;
#endif
    return processor_has(static_cast<int>(level));
}

std::unique_ptr<Engine> make_engine(const JoinSpec& spec, Level level) {
    if (!supported(level)) throw std::invalid_argument("this processor lacks " + std::string(name(level)));
#if defined(SLIDEJOIN_AVX512)
    if (level == Level::avx512) return avx512::make(spec);
#endif
#if defined(SLIDEJOIN_AVX2)
    if (level == Level::avx2) return avx2::make(spec);
#endif
    return portable::make(spec);
}

void join_tables(const TableJoinSpec& spec, const Batch& left, const Batch& right, Level level,
                 TableJoinResult& result) {
    if (!supported(level)) throw std::invalid_argument("this processor lacks " + std::string(name(level)));
    for (const Batch* side : {&left, &right})
        if (side->size > kMaxRows)
            throw BatchError(BatchError::Kind::capacity, 0, "a table of more than 2^32 - 1 rows");
#if defined(SLIDEJOIN_AVX512)
    if (level == Level::avx512) return avx512::join_tables(spec, left, right, result);
#endif
#if defined(SLIDEJOIN_AVX2)
    if (level == Level::avx2) return avx2::join_tables(spec, left, right, result);
#endif
    portable::join_tables(spec, left, right, result);
}

std::unique_ptr<RunJoin> make_run_join(const JoinSpec& spec, Level level) {
    if (!supported(level)) throw std::invalid_argument("this processor lacks " + std::string(name(level)));
#if defined(SLIDEJOIN_AVX512)
    if (level == Level::avx512) return avx512::make_runs(spec);
#endif
#if defined(SLIDEJOIN_AVX2)
    if (level == Level::avx2) return avx2::make_runs(spec);
#endif
    return portable::make_runs(spec);
}

Pairs::Pairs(Pairs&& from) noexcept { *this = std::move(from); }

Pairs& Pairs::operator=(Pairs&& from) noexcept {
    std::swap(left_, from.left_);
    std::swap(right_, from.right_);
    std::swap(size_, from.size_);
    std::swap(capacity_, from.capacity_);
    return *this;
}

Pairs::~Pairs() {
    std::free(left_);
    std::free(right_);
}

void Pairs::resize_storage(std::size_t capacity) {
    const std::size_t bytes = std::max<std::size_t>(capacity, 1) * sizeof(std::int64_t);
    for (std::int64_t** side : {&left_, &right_}) {
        void* moved = std::realloc(*side, bytes);
        if (!moved) throw std::bad_alloc();
        *side = static_cast<std::int64_t*>(moved);
    }
    capacity_ = capacity;
}

void Pairs::grow(std::size_t count) { resize_storage(std::max(size_ + count, capacity_ + capacity_ / 2)); }

void Pairs::keep(const bool* wanted) {
    std::size_t kept = 0;
    for (std::size_t i = 0; i < size_; ++i) {
        left_[kept] = left_[i];
        right_[kept] = right_[i];
        kept += wanted[i];
    }
    size_ = kept;
}

void Pairs::fit() {
    if (capacity_ > size_ + size_ / 8) resize_storage(size_);
}

}  // namespace slidejoin
