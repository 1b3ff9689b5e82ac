// The chooser alone: which index it chooses after which pushes, and when it changes its choice.
#include "../target.hpp"
#include "testing.hpp"

SLIDEJOIN_TARGET_BEGIN

#include "../join/chooser.hpp"

using namespace slidejoin;
using namespace slidejoin::SLIDEJOIN_TARGET;

static constexpr std::uint64_t kWindows = 1 << 16;  // tuples of both windows

struct Pushes {
    std::uint64_t arrivals;
    std::uint64_t matches;  // of an arrival
    bool listed = true;
    std::uint64_t live = kWindows;
};

// Notes pushes until the chooser has decided this many times; it decides after 4,096 arrivals or half of the
// windows. Changes the index when told to, and returns how often.
static int look(Chooser& chooser, const Pushes& pushes, int looks = 2) {
    int changes = 0;
    const std::uint64_t arrivals_of_look = std::max<std::uint64_t>(pushes.live / 2, 4096);
    const std::uint64_t pushes_of_look = (arrivals_of_look + pushes.arrivals - 1) / pushes.arrivals;
    for (std::uint64_t i = 0; i < static_cast<std::uint64_t>(looks) * pushes_of_look; ++i)
        if (chooser.note(pushes.arrivals, std::min(pushes.arrivals, pushes.live / 2),
                         pushes.arrivals * pushes.matches, pushes.listed, pushes.live)) {
            CHECK(i % pushes_of_look == pushes_of_look - 1);
            chooser.changed();
            ++changes;
        }
    return changes;
}

static IndexKind chosen_for(const Pushes& pushes) {
    Chooser chooser;
    look(chooser, pushes);
    CHECK(chooser.wanted() == chooser.kind());
    CHECK(chooser.changes() == (chooser.kind() != Chooser::kFirst));
    return chooser.kind();
}

TEST(index_follows_what_is_seen) {
    CHECK(chosen_for({16, 2}) == IndexKind::bucket_tree);
    // Matches.
    CHECK(chosen_for({16, 191}) == IndexKind::bucket_tree);
    CHECK(chosen_for({16, 192}) == IndexKind::im_tree);
    CHECK(chosen_for({16, 255, false}) == IndexKind::im_tree);
    // Batches: an eighth of both windows, at least 1,024 arrivals.
    CHECK(chosen_for({kWindows / 8 - 1, 2}) == IndexKind::bucket_tree);
    CHECK(chosen_for({kWindows / 8, 2}) == IndexKind::sorted_run);
    CHECK(chosen_for({kWindows / 8, 1000}) == IndexKind::sorted_run);
    CHECK(chosen_for({1023, 2, true, 4096}) == IndexKind::bucket_tree);
    CHECK(chosen_for({1024, 2, true, 4096}) == IndexKind::sorted_run);
    // Matches that are only counted, in batches of 1/32 of both windows.
    CHECK(chosen_for({kWindows / 32, 256, false}) == IndexKind::bi_sort);
    CHECK(chosen_for({kWindows / 32, 256, true}) == IndexKind::im_tree);
    CHECK(chosen_for({kWindows / 32, 255, false}) == IndexKind::im_tree);
    CHECK(chosen_for({kWindows / 32 - 1, 256, false}) == IndexKind::im_tree);
    CHECK(chosen_for({kWindows / 4, 256, false}) == IndexKind::bi_sort);
}

TEST(limits_are_those_of_the_window) {
    const std::vector<ChoiceLimits> limits{{0, 0.25, 0.25, 10, 20}, {kWindows, 0.5, 0.5, 1000, 2000}};
    const auto chosen = [&](const Pushes& pushes) {
        Chooser chooser(limits);
        look(chooser, pushes);
        return chooser.kind();
    };
    CHECK(chosen({16, 9, true, kWindows - 1}) == IndexKind::bucket_tree);
    CHECK(chosen({16, 10, true, kWindows - 1}) == IndexKind::im_tree);
    CHECK(chosen({16, 999}) == IndexKind::bucket_tree);
    CHECK(chosen({16, 1000}) == IndexKind::im_tree);
    CHECK(chosen({kWindows / 4, 2, true, kWindows - 1}) == IndexKind::sorted_run);
    CHECK(chosen({kWindows / 4, 2}) == IndexKind::bucket_tree);
    CHECK(chosen({kWindows / 2, 2}) == IndexKind::sorted_run);
    CHECK(chosen({kWindows / 16, 20, false, kWindows - 1}) == IndexKind::bi_sort);
    CHECK(chosen({kWindows / 16, 1999, false, 4 * kWindows}) == IndexKind::im_tree);
    CHECK(chosen({kWindows / 8, 2000, false, 4 * kWindows}) == IndexKind::bi_sort);
}

TEST(plain_joins_have_a_limit_of_their_own) {
    const std::vector<ChoiceLimits> limits{{0, 0.125, 0.25, 1000, 2000}};
    for (const bool plain : {false, true}) {
        const std::uint64_t least = kWindows / (plain ? 4 : 8);
        for (const std::uint64_t arrivals : {least - 1, least}) {
            Chooser chooser(limits, plain);
            look(chooser, {arrivals, 2});
            CHECK((chooser.kind() == IndexKind::sorted_run) == (arrivals == least));
        }
    }
}

TEST(a_change_takes_two_looks_that_agree) {
    Chooser chooser;
    CHECK(look(chooser, {16, 500}, 1) == 0);
    CHECK(chooser.wanted() == IndexKind::im_tree);
    CHECK(chooser.kind() == IndexKind::bucket_tree);
    CHECK(look(chooser, {16, 2}, 1) == 0);  // not the same choice twice
    CHECK(look(chooser, {16, 500}, 1) == 0);
    CHECK(look(chooser, {kWindows / 8, 2}, 1) == 0);
    CHECK(chooser.changes() == 0);
    CHECK(look(chooser, {kWindows / 8, 2}, 1) == 1);
    CHECK(chooser.kind() == IndexKind::sorted_run);
    CHECK(look(chooser, {kWindows / 8, 2}, 3) == 0);
    CHECK(look(chooser, {16, 2}, 3) == 1);
    CHECK(chooser.kind() == IndexKind::bucket_tree);
    CHECK(chooser.changes() == 2);
}

TEST(a_change_that_was_not_made_is_asked_for_again) {
    Chooser chooser;
    look(chooser, {16, 500}, 1);
    for (int i = 0; i < 3; ++i) CHECK(chooser.note(kWindows / 2, 16, 500 * kWindows / 2, true, kWindows));
}

TEST(a_look_has_enough_arrivals) {
    Chooser small;
    for (int i = 0; i < 4095; ++i) small.note(1, 1, 500, true, 100);
    CHECK(small.wanted() == IndexKind::bucket_tree);
    small.note(1, 1, 500, true, 100);
    CHECK(small.wanted() == IndexKind::im_tree);
    Chooser large;
    large.note(kWindows / 2 - 1, 16, 500 * kWindows, true, kWindows);
    CHECK(large.wanted() == IndexKind::bucket_tree);
    large.note(0, 0, 0, true, 0);  // an empty push is ignored
    CHECK(large.wanted() == IndexKind::bucket_tree);
    large.note(1, 1, 0, true, kWindows);
    CHECK(large.wanted() == IndexKind::im_tree);
}

TEST(a_look_is_of_the_arrivals_since_the_last) {
    Chooser chooser;
    look(chooser, {16, 2000}, 1);
    look(chooser, {16, 100}, 1);  // the mean of both would count as many
    CHECK(chooser.wanted() == IndexKind::bucket_tree);
    look(chooser, {kWindows / 2, 2}, 1);
    look(chooser, {64, 2}, 1);
    CHECK(chooser.wanted() == IndexKind::bucket_tree);
    // The majority of arrivals decides whether matches are counted.
    chooser.note(kWindows / 4 - 1, kWindows / 4, kWindows * 256, false, kWindows);
    chooser.note(kWindows / 4 + 1, kWindows / 4, kWindows * 256, true, kWindows);
    CHECK(chooser.wanted() == IndexKind::sorted_run);
    chooser.note(kWindows / 4 + 1, kWindows / 4, kWindows * 256, false, kWindows);
    chooser.note(kWindows / 4 - 1, kWindows / 4, kWindows * 256, true, kWindows);
    CHECK(chooser.wanted() == IndexKind::bi_sort);
}

TEST(the_reason_is_of_the_index_in_use) {
    const auto contains = [](const Chooser& chooser, const char* text) {
        return chooser.why().find(text) != std::string::npos;
    };
    Chooser chooser;
    CHECK(chooser.why() == "too little has been seen yet");
    look(chooser, {16, 2});
    CHECK(contains(chooser, "matches are few: 16 arrivals go through together"));
    CHECK(contains(chooser, "65536 tuples, 2 matches an arrival"));
    look(chooser, {16, 500}, 1);
    CHECK(contains(chooser, "another index would suit the last look"));
    look(chooser, {16, 500}, 1);
    CHECK(contains(chooser, "arrivals have many matches"));
    look(chooser, {kWindows / 8, 500});
    CHECK(contains(chooser, "batches are large"));
    look(chooser, {kWindows / 8, 500, false});
    CHECK(contains(chooser, "many matches are counted"));
    CHECK(contains(chooser, "500 matches an arrival, counted"));
}

SLIDEJOIN_TARGET_END
