// Chooses the index of a join with index="auto", by what the join has been given since the last look.
//
// The bucket-tree is the fastest nearly everywhere, whatever the keys do. Where a batch is large against the
// window, one sorted run is faster. Where an arrival has hundreds of matches, sorted structures are: matches
// stand side by side, in runs of which bi-sort counts a stretch by two searches, and im-tree lists it without
// testing keys. docs/indexes.md has the figures. The chooser looks whenever half of both windows has passed
// or grown, and changes the index only after two looks that agree: moving the windows into another structure
// costs a sort and about as much as inserting them anew. Where "large" and "many" begin comes from the costs
// of the machine (src/slidejoin/model/choice.py).
#pragma once

#include "../engine.hpp"

namespace slidejoin::SLIDEJOIN_TARGET {

class Chooser {
  public:
    static constexpr IndexKind kFirst = IndexKind::bucket_tree;

    // `plain`: whether the bucket-tree joins the arrivals in one pass (plain.hpp).
    explicit Chooser(const std::vector<ChoiceLimits>& limits = {ChoiceLimits{}}, bool plain = false)
        : limits_(limits), plain_(plain) {}

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
        if (!seen_.live) return "too little has been seen yet";
        char text[240];
        std::snprintf(text, sizeof text,
                      "%s: %llu arrivals go through together, both windows hold %llu tuples, %.3g matches "
                      "an arrival%s",
                      wanted_ == kind_ ? reason() : "another index would suit the last look, two must agree",
                      static_cast<unsigned long long>(seen_.together),
                      static_cast<unsigned long long>(seen_.live), seen_.matches,
                      seen_.counted ? ", counted" : "");
        return text;
    }

  private:
    static constexpr std::uint64_t kLeast = 4096;  // arrivals of a look
    static constexpr std::uint64_t kLarge = 1024;  // arrivals of a batch that is worth a pass over the window

    struct Seen {
        std::uint64_t together;
        double matches;  // of an arrival
        std::uint64_t live;
        bool counted;
    };

    IndexKind choose(const Seen& seen) const {
        std::size_t i = limits_.size() - 1;
        while (i > 0 && limits_[i].live > seen.live) --i;
        const ChoiceLimits& limits = limits_[i];
        const double share = static_cast<double>(seen.together) / static_cast<double>(seen.live);
        if (seen.counted && seen.matches >= limits.many_counted && share >= 1.0 / 32)
            return IndexKind::bi_sort;
        if (seen.together >= kLarge && share >= (plain_ ? limits.plain_share : limits.share))
            return IndexKind::sorted_run;
        return seen.matches >= limits.many ? IndexKind::im_tree : IndexKind::bucket_tree;
    }

    const char* reason() const {
        switch (kind_) {
            case IndexKind::bi_sort:
                return "many matches are counted";
            case IndexKind::sorted_run:
                return "batches are large against the windows";
            case IndexKind::im_tree:
                return "arrivals have many matches";
            default:
                return "batches are small and matches are few";
        }
    }

    std::vector<ChoiceLimits> limits_;  // one at least
    bool plain_;
    IndexKind kind_ = kFirst;
    IndexKind wanted_ = kFirst;
    std::uint64_t changes_ = 0;
    // Since the last look.
    std::uint64_t pushes_ = 0, arrivals_ = 0, together_ = 0, matches_ = 0, counted_ = 0;
    Seen seen_{};
};

}  // namespace slidejoin::SLIDEJOIN_TARGET
