// Validates a batch completely before any row of it is used. 1-2 ns a row.
#pragma once

#include "../window.hpp"

namespace slidejoin::SLIDEJOIN_TARGET {

inline void validate_sides(const Batch& batch) {
    unsigned all = 0;
    for (std::size_t i = 0; i < batch.size; ++i) all |= batch.sides[i];
    for (std::size_t i = 0; all > 1 && i < batch.size; ++i)
        if (batch.sides[i] > 1)
            throw BatchError(BatchError::Kind::side, i,
                             "sides[" + std::to_string(i) + "] is " + std::to_string(batch.sides[i]) +
                                 "; expected 0 for left or 1 for right");
}

inline void validate_order(const Batch& batch, std::int64_t latest) {
    for (std::size_t i = 0; i < batch.size; ++i) {
        if (batch.null_times && batch.null_times[i]) continue;
        if (batch.times[i] < latest)
            throw BatchError(BatchError::Kind::order, i,
                             "times[" + std::to_string(i) + "] is " + std::to_string(batch.times[i]) +
                                 ", earlier than " + std::to_string(latest) +
                                 " before it; tuples of both sides must arrive in time order",
                             batch.times[i], latest);
        latest = batch.times[i];
    }
}

inline void validate(const Batch& batch, const JoinSpec& spec, const Window& window) {
    if (!spec.self_join) validate_sides(batch);
    if (spec.window.kind == WindowKind::time) validate_order(batch, window.latest());
    if (spec.window.kind == WindowKind::rows) return;
    for (const Side side : {Side::left, Side::right})
        if (window.next(side) - window.first(side) + batch.size > kMaxLive)
            throw BatchError(BatchError::Kind::capacity, 0,
                             "the window would hold more than 2^31 - 2^20 tuples of one side");
}

}  // namespace slidejoin::SLIDEJOIN_TARGET
