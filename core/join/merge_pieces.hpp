// A merge of one tree into another in small pieces, so that several workers share it and each goes on with
// the join in between. Stages follow each other: the entries to keep are counted, so that each part of the
// next tree has its place; they are copied; and once the next tree is in use, chunks of the queue that were
// left to the merge are inserted. A piece takes some 60 us; handing it out costs two atomic operations.
#pragma once

#include "../spin_lock.hpp"
#include "../workers.hpp"

// Tests have trees too small to be divided otherwise.
#ifndef SLIDEJOIN_PART_ENTRIES
#define SLIDEJOIN_PART_ENTRIES (1 << 14)
#endif

namespace slidejoin::SLIDEJOIN_TARGET {

enum class MergeStage : std::uint8_t { none, count, copy, insert };

template <class Tree>
class MergePieces {
  public:
    // How many pieces a merge of `from` has before its result is in use.
    static std::size_t pieces(const Tree& from) { return parts(from) + parts(from) / kCounted + 1; }

    // Whether a merge is under way.
    bool any() const { return stage_.load(std::memory_order_acquire) != MergeStage::none; }

    // Begins a merge, while nobody makes pieces. Nobody changes `from` or uses `to` before all is copied.
    void start(const Tree& from, Tree& to) {
        from_ = &from;
        to_ = &to;
        parts_.assign(parts(from), {});
        for (Progress& each : progress_) {
            each.taken.store(0, std::memory_order_relaxed);
            each.made.store(0, std::memory_order_relaxed);
        }
        begin(MergeStage::count, (parts_.size() + kCounted - 1) / kCounted);
    }

    // Chunks [from, to) of the queue are looked through for what was left. Returns whether there are any.
    bool insert(std::size_t from, std::size_t to) {
        chunks_ = {from, to};
        if (from < to) begin(MergeStage::insert, (to - from + kInserted - 1) / kInserted);
        return from < to;
    }

    // Makes a piece, if there is one left; insert(chunk) inserts a chunk. Returns the stage that ends with it
    // if the caller has to go on from there: copy or insert. The caller announces its phase meanwhile, so
    // that no other merge begins.
    template <class Insert>
    MergeStage make(Insert insert) {
        const MergeStage stage = stage_.load(std::memory_order_acquire);
        if (stage == MergeStage::none) return MergeStage::none;
        Progress& progress = this->progress(stage);
        const std::size_t piece = progress.taken.fetch_add(1, std::memory_order_relaxed);
        if (piece >= progress.pieces) return MergeStage::none;
        if (stage == MergeStage::count) count(piece);
        if (stage == MergeStage::copy) copy(piece);
        if (stage == MergeStage::insert) {
            const std::size_t from = chunks_.from + piece * kInserted;
            for (std::size_t i = from; i < std::min(from + kInserted, chunks_.to); ++i) insert(i);
        }
        SLIDEJOIN_YIELD(before a piece counts as made);
        if (progress.made.fetch_add(1, std::memory_order_acq_rel) + 1 < progress.pieces)
            return MergeStage::none;
        if (stage == MergeStage::count) place();
        if (stage == MergeStage::copy) from_->finish_merge(*to_, parts_.back().recent);
        return stage == MergeStage::count ? MergeStage::none : stage;
    }

    void end() { stage_.store(MergeStage::none, std::memory_order_release); }

  private:
    static constexpr std::size_t kEntries = SLIDEJOIN_PART_ENTRIES;  // of a part
    static constexpr std::size_t kCounted = 8;                       // parts that are counted together
    static constexpr std::size_t kInserted = 8;                      // chunks that are inserted together

    // Each stage has its own, since a worker may still look for a piece of the one before.
    struct alignas(kCacheLine) Progress {
        std::size_t pieces = 0;
        std::atomic<std::size_t> taken{0};
        std::atomic<std::size_t> made{0};
    };

    static std::size_t parts(const Tree& from) {
        return std::clamp<std::size_t>(from.size() / kEntries, 1, from.nodes());
    }

    Progress& progress(MergeStage stage) { return progress_[static_cast<std::size_t>(stage) - 1]; }

    void begin(MergeStage stage, std::size_t pieces) {
        progress(stage).pieces = pieces;
        stage_.store(stage, std::memory_order_release);
    }

    Slice nodes(std::size_t part) const { return Slice(from_->nodes(), part, parts_.size()); }

    void count(std::size_t piece) {
        const std::size_t end = std::min((piece + 1) * kCounted, parts_.size());
        for (std::size_t i = piece * kCounted; i < end; ++i)
            parts_[i] = from_->count_entries(nodes(i).from, nodes(i).to);
    }

    void place() {
        for (std::size_t i = 1; i < parts_.size(); ++i) {
            parts_[i].live += parts_[i - 1].live;
            parts_[i].recent += parts_[i - 1].recent;
        }
        from_->start_merge(*to_, parts_.back().live);
        begin(MergeStage::copy, parts_.size());
    }

    void copy(std::size_t piece) {
        const std::size_t at = piece ? parts_[piece - 1].live : 0;
        from_->merge_nodes(nodes(piece).from, nodes(piece).to, *to_, at, parts_[piece].live);
    }

    const Tree* from_ = nullptr;
    Tree* to_ = nullptr;
    std::vector<typename Tree::NodeEntries> parts_;  // what each has; then what all up to it have
    Slice chunks_{0, 0};
    Progress progress_[3];
    alignas(kCacheLine) std::atomic<MergeStage> stage_{MergeStage::none};
};

}  // namespace slidejoin::SLIDEJOIN_TARGET
