// Which index a join has where nobody says: by what was seen of it since it was last asked.
//
// The bucket-tree is the fastest nearly everywhere, whatever the keys do. One sorted run is where arrivals
// come in batches that are large against the window, and several (bi-sort) where partners are many and only
// counted: there one search tells a whole range. The figures are in docs/indexes.md. The chooser looks once
// for each window that has passed, or grown, and changes its mind only when it would have done so twice in a
// row: moving the window into another structure costs a sort and about as much as inserting it anew.
#pragma once

#include "../engine.hpp"

namespace slidejoin::SLIDEJOIN_TARGET {

class Chooser {
  public:
    static constexpr IndexKind kFirst = IndexKind::bucket_tree;

    IndexKind kind() const { return kind_; }
    std::uint64_t changes() const { return changes_; }

    // Notes a push: its arrivals, how many of them may go through the join together, their matches, whether
    // these were listed or only counted, and how many positions both windows hold. Returns whether the index
    // is to be changed to wanted().
    bool note(std::uint64_t arrivals, std::uint64_t together, std::uint64_t matches, bool listed,
              std::uint64_t live) {
        if (arrivals == 0) return false;
        ++pushes_;
        arrivals_ += arrivals;
        together_ += together;
        matches_ += matches;
        counted_ += listed ? 0 : arrivals;
        if (arrivals_ < std::max(live / 2, kLeast)) return false;
        seen_ = {together_ / pushes_, static_cast<double>(matches_) / static_cast<double>(arrivals_), live,
                 2 * counted_ > arrivals_};
        pushes_ = arrivals_ = together_ = matches_ = counted_ = 0;
        const IndexKind before = wanted_;
        wanted_ = choose(seen_);
        return wanted_ != kind_ && wanted_ == before;
    }

    IndexKind wanted() const { return wanted_; }

    // The index was changed to wanted().
    void changed() {
        kind_ = wanted_;
        ++changes_;
    }

    std::string why() const {
        if (!seen_.together) return "too little has been seen yet";
        char text[200];
        std::snprintf(
            text, sizeof text,
            "%llu arrivals go through together, both windows hold %llu tuples, %.3g partners each%s",
            static_cast<unsigned long long>(seen_.together), static_cast<unsigned long long>(seen_.live),
            seen_.partners, seen_.counted ? ", counted" : "");
        return text;
    }

  private:
    static constexpr std::uint64_t kLeast = 4096;  // arrivals that are looked at together
    static constexpr std::uint64_t kLarge = 1024;  // arrivals that are worth a pass over the window
    static constexpr double kMany = 256;           // partners whose counting by ranges pays

    struct Seen {
        std::uint64_t together;
        double partners;
        std::uint64_t live;
        bool counted;
    };

    static IndexKind choose(const Seen& seen) {
        if (seen.counted && seen.partners >= kMany && seen.together >= seen.live / 32)
            return IndexKind::bi_sort;
        const bool large = seen.together >= kLarge && seen.together >= seen.live / 8;
        return large ? IndexKind::sorted_run : IndexKind::bucket_tree;
    }

    IndexKind kind_ = kFirst;
    IndexKind wanted_ = kFirst;
    std::uint64_t changes_ = 0;
    // Since the last look.
    std::uint64_t pushes_ = 0, arrivals_ = 0, together_ = 0, matches_ = 0, counted_ = 0;
    Seen seen_{};
};

}  // namespace slidejoin::SLIDEJOIN_TARGET
