// Picks the instruction set's copy of the core, and holds what all copies share.
#include "engine.hpp"

#include <algorithm>
#include <cstdlib>
#include <new>
#include <utility>

#include "processor.hpp"
#include "run_join.hpp"

namespace slidejoin {

namespace {

// What one instruction set's copy of the core makes.
struct Copy {
    std::unique_ptr<Engine> (*make)(const JoinSpec& spec);
    std::unique_ptr<RunJoin> (*make_runs)(const JoinSpec& spec);
    void (*join_tables)(const TableJoinSpec& spec, const Batch& left, const Batch& right,
                        TableJoinResult& result);
};

}  // namespace

#define SLIDEJOIN_COPY(level)                                                             \
    namespace level {                                                                     \
    std::unique_ptr<Engine> make(const JoinSpec&);                                        \
    std::unique_ptr<RunJoin> make_runs(const JoinSpec&);                                  \
    void join_tables(const TableJoinSpec&, const Batch&, const Batch&, TableJoinResult&); \
    static constexpr Copy kCopy{make, make_runs, join_tables};                            \
    }

SLIDEJOIN_COPY(portable)
#if defined(SLIDEJOIN_AVX2)
SLIDEJOIN_COPY(avx2)
#endif
#if defined(SLIDEJOIN_AVX512)
SLIDEJOIN_COPY(avx512)
#endif

// The copy of a level, or null if this build has none.
static const Copy* copy_of(Level level) {
#if defined(SLIDEJOIN_AVX2)
    if (level == Level::avx2) return &avx2::kCopy;
#endif
#if defined(SLIDEJOIN_AVX512)
    if (level == Level::avx512) return &avx512::kCopy;
#endif
    return level == Level::portable ? &portable::kCopy : nullptr;
}

const char* name(Level level) {
    static constexpr const char* kNames[] = {"portable", "avx2", "avx512"};
    return kNames[static_cast<int>(level)];
}

bool supported(Level level) { return copy_of(level) && processor_has(static_cast<int>(level)); }

static const Copy& supported_copy(Level level) {
    if (supported(level)) return *copy_of(level);
    throw std::invalid_argument("this processor or this build lacks " + std::string(name(level)));
}

std::unique_ptr<Engine> make_engine(const JoinSpec& spec, Level level) {
    return supported_copy(level).make(spec);
}

std::unique_ptr<RunJoin> make_run_join(const JoinSpec& spec, Level level) {
    return supported_copy(level).make_runs(spec);
}

void join_tables(const TableJoinSpec& spec, const Batch& left, const Batch& right, Level level,
                 TableJoinResult& result) {
    for (const Batch* side : {&left, &right})
        if (side->size > kMaxRows)
            throw BatchError(BatchError::Kind::capacity, 0, "a table of more than 2^32 - 1 rows");
    supported_copy(level).join_tables(spec, left, right, result);
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
