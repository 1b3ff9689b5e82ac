// Measures one structure on the workload of workload.hpp.
//
// The windows are filled and then replaced once, untimed; then `--runs` times the next `--tuples` arrivals
// are joined and one line of JSON is printed: {"seconds", "tuples", "matches", "checksum",
// "bytes_per_tuple"}. Runs continue the stream, so two structures with the same options see the same arrivals
// and must print the same matches and checksums. With --wait a run starts on a line of standard input, which
// lets a driver alternate between programs whose windows are full; {"ready": true} says that they are.
//
// --shape says which arrivals come:
//   turns  left and right ones in turn;
//   probe  the left window is full, as above, and right ones meet it and are stored;
//   ask    the same, but they are not stored;
//   fill   each run has a new structure and fills its left window, tuple `--tuples` being the last; nothing
//          is there to be met. What was stored is then asked for, untimed: matches and checksum are of that.
//
// --keys says how keys are distributed (keys.hpp), for arrivals in turns; --bits 64 widens them.
//
// --order none lets slidejoin give an arrival's partners as they are found, as absl does; full sorts them by
// their positions.
//
// --mode says what is done with matches, and how it is timed:
//   push    pairs are produced;
//   count   they are counted;
//   pauses  as push, each push timed by itself: the line also has {"p50", "p99", "p99.9", "p99.99", "max"} of
//           the pushes' microseconds, as a user sees them; {"thread_p50", ...} of the thread's processor
//           time; and of the longest push, by either, its number, the page faults and the involuntary
//           switches during it: {"max_at", "max_faults", "max_switches", "thread_max_at", ...}. Interrupts
//           and what a hypervisor takes away are part of both times; a structure does the same in every
//           replica, so with --replicas the least processor time of each push, {"least_p50", ...}, leaves
//           them out and keeps what the structure itself does.
//   traced  as push, of --strategy shared-index and in shared_peer only: the line also has {"longest_gap"}
//           between two propagations of results and {"p50", "p99", "p99.9"} of the time from when a worker
//           takes an arrival until its results are propagated, in microseconds (trace.hpp);
//   steps   as push, of the bucket-tree and in steps_peer only: the line also has the nanoseconds of each
//           step of the join, and {"lines"}, those of four random cache lines of as much memory (steps.hpp).
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <iostream>
#include <map>
#include <string>

#include "slidejoin_join.hpp"
#include "spin_join.hpp"
#include "steps.hpp"
#include "structure.hpp"
#include "trace.hpp"
#ifdef SLIDEJOIN_WITH_ABSL
#include "absl_join.hpp"
#endif

namespace peers {
namespace {

constexpr const char* kUsage =
    "join_peer --about | [--structure absl|slidejoin|spin] [--window N] [--matches M] [--tuples N] [--runs "
    "N]\n"
    "          [--wait] [--shape turns|probe|ask|fill] [--mode count|push|pauses|traced|steps] [--push N] "
    "[--seed "
    "N]\n"
    "          [--replicas N]   (of pauses)\n"
    "          [--keys uniform|gauss|gamma1|gamma3|driftR|increasing|decreasing|sawtooth|abrupt]\n"
    "          [--index NAME] [--options NAME=NUMBER,...] [--group N] [--bits 32|64] [--order full|none]\n"
    "          [--level portable|avx2|avx512|best] [--workers N] [--strategy NAME] [--task-size N]\n"
    "          [--blocking 0|1]   (these of slidejoin)\n";

#ifdef SLIDEJOIN_WITH_ABSL
constexpr bool kWithAbsl = true;
#else
constexpr bool kWithAbsl = false;
#endif

#ifdef SLIDEJOIN_TRACED
constexpr bool kTraced = true;
#else
constexpr bool kTraced = false;
#endif

#ifdef SLIDEJOIN_STEPS
constexpr bool kSteps = true;
#else
constexpr bool kSteps = false;
#endif

class Options {
  public:
    Options(int count, char** words) {
        for (int i = 1; i < count; ++i) {
            const std::string name = words[i];
            if (!values_.count(name)) throw std::invalid_argument("unknown option " + name + "\n" + kUsage);
            if (name == "--about" || name == "--wait") values_[name] = "yes";
            else if (++i < count) values_[name] = words[i];
            else throw std::invalid_argument(name + " needs a value\n" + kUsage);
        }
    }

    const std::string& text(const std::string& name) const { return values_.at(name); }
    bool given(const std::string& name) const { return text(name) == "yes"; }

    template <class Number>
    Number number(const std::string& name, Number least) const {
        const std::string& word = text(name);
        Number value{};
        const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
        if (error != std::errc() || end != word.data() + word.size() || value < least)
            throw std::invalid_argument(name + " " + word + "; expected a number from " +
                                        std::to_string(least));
        return value;
    }

  private:
    std::map<std::string, std::string> values_{
        {"--about", ""},       {"--structure", "slidejoin"}, {"--window", "131072"},
        {"--matches", "2"},    {"--tuples", "1000000"},      {"--runs", "1"},
        {"--wait", ""},        {"--mode", "push"},           {"--push", "8192"},
        {"--seed", "1"},       {"--index", "b-tree"},        {"--group", "1"},
        {"--level", "best"},   {"--shape", "turns"},         {"--options", ""},
        {"--bits", "32"},      {"--keys", "uniform"},        {"--order", "full"},
        {"--replicas", "1"},   {"--workers", "1"},           {"--strategy", "auto"},
        {"--task-size", "32"}, {"--blocking", "0"}};
};

bool sorted_of(const Options& options) {
    const std::string& order = options.text("--order");
    if (order != "full" && order != "none")
        throw std::invalid_argument("--order " + order + "; expected full or none");
    return order == "full";
}

Sharing sharing_of(const Options& options) {
    return {options.text("--strategy"), options.number<std::uint32_t>("--workers", 1),
            options.number<std::uint32_t>("--task-size", 1), options.number<int>("--blocking", 0) != 0};
}

std::unique_ptr<Structure> make_structure(const Options& options, const Workload& workload) {
    const std::string& name = options.text("--structure");
    if (name == "slidejoin")
        return std::make_unique<SlidejoinJoin>(workload, options.text("--index"), options.text("--options"),
                                               options.number<std::uint32_t>("--group", 1),
                                               options.text("--level"), sorted_of(options),
                                               sharing_of(options));
#ifdef SLIDEJOIN_WITH_ABSL
    if (name == "absl") return std::make_unique<AbslJoin>(workload);
#endif
    if (name == "absl")
        throw std::invalid_argument("built without absl; install libabsl-dev, then build again");
    if (name == "spin") return std::make_unique<SpinJoin>();
    throw std::invalid_argument("--structure " + name + "; expected absl, slidejoin or spin");
}

void print_about() {
    std::printf("{\"compiler\": \"%s\", \"absl\": %s}\n", __VERSION__, kWithAbsl ? "true" : "false");
}

void print_ranks(const char* prefix, std::vector<double> pauses) {
    std::sort(pauses.begin(), pauses.end());
    for (const char* percent : {"50", "99", "99.9", "99.99"}) {
        const double rank = std::ceil(std::stod(percent) / 100 * static_cast<double>(pauses.size()));
        std::printf(", \"%sp%s\": %.3f", prefix, percent, pauses[static_cast<std::size_t>(rank) - 1]);
    }
    std::printf(", \"%smax\": %.3f", prefix, pauses.back());
}

void print_longest(const char* prefix, const std::vector<Pause>& pauses, const std::vector<double>& times) {
    const std::size_t at =
        static_cast<std::size_t>(std::max_element(times.begin(), times.end()) - times.begin());
    std::printf(", \"%sat\": %zu, \"%sfaults\": %ld, \"%sswitches\": %ld", prefix, at, prefix,
                pauses[at].faults, prefix, pauses[at].switches);
}

// What a run found, and the pauses of each replica and what was traced, if there are any.
void print(const Found& found, std::size_t tuples, Structure& structure,
           const std::vector<std::vector<Pause>>& pauses, const std::string& traced = "") {
    std::printf(
        "{\"seconds\": %.9f, \"tuples\": %zu, \"matches\": %llu, \"checksum\": %llu, \"bytes_per_tuple\": "
        "%.3f",
        found.seconds, tuples, static_cast<unsigned long long>(found.matches),
        static_cast<unsigned long long>(31 * found.left_sum + found.right_sum), structure.bytes_per_tuple());
    if (!pauses.empty()) {
        const std::vector<Pause>& first = pauses[0];
        std::vector<double> wall, thread, least;
        for (std::size_t i = 0; i < first.size(); ++i) {
            wall.push_back(first[i].wall);
            thread.push_back(first[i].thread);
            least.push_back(first[i].thread);
            for (const std::vector<Pause>& replica : pauses) least[i] = std::min(least[i], replica[i].thread);
        }
        print_longest("max_", first, wall);
        print_longest("thread_max_", first, thread);
        print_ranks("", std::move(wall));
        print_ranks("thread_", std::move(thread));
        print_ranks("least_", std::move(least));
    }
    std::printf("%s}\n", traced.c_str());
    std::fflush(stdout);
}

// Whether a run may begin: at once, or on a line of input.
bool may_begin(const Options& options) {
    std::string line;
    return !options.given("--wait") || std::getline(std::cin, line);
}

struct Measurement {
    const Options& options;
    Workload workload;
    std::size_t tuples;
    std::size_t push_size;
    std::string mode;
    std::size_t runs;
    std::size_t replicas;

    // Whether a push has many pairs.
    bool many() const { return static_cast<double>(push_size) * std::max(1.0, workload.matches) >= 64; }

    void join(Sides before, Sides sides, bool store) const {
        std::vector<std::unique_ptr<Structure>> structures(replicas);
        for (auto& each : structures) each = make_structure(options, workload);
        std::uint64_t next = std::uint64_t{before == Sides::in_turn ? 4u : 2u} * workload.window;
        const Arrivals first = workload.arrivals(0, next, before);
        for (auto& each : structures) each->join(first, push_size, false, many());
        if (options.given("--wait")) std::cout << "{\"ready\": true}" << std::endl;
        for (std::size_t run = 0; run < runs; ++run) {
            Arrivals arrivals = workload.arrivals(next, tuples, sides);
            arrivals.store = store;
            next += tuples;
            if (!may_begin(options)) return;
            std::vector<std::vector<Pause>> pauses;
            Found found;
            if (mode == "pauses") {
                pauses.resize(replicas);
                for (std::size_t i = 0; i < replicas; ++i)
                    found = structures[i]->join(arrivals, push_size, pauses[i]);
            } else {
                if (mode == "traced") Trace::restart(tuples);
                if (mode == "steps") Steps::restart();
                found = structures[0]->join(arrivals, push_size, mode != "count", many());
            }
            print(found, tuples, *structures[0], pauses,
                  mode == "traced"  ? Trace::summary()
                  : mode == "steps" ? steps(*structures[0])
                                    : "");
        }
    }

    // The time of each step, and of memory as large as the join's.
    std::string steps(Structure& structure) const {
        const std::string text = Steps::summary();
        return text +
               Steps::lines(static_cast<std::size_t>(structure.bytes_per_tuple() * 2 * workload.window));
    }

    void fill() const {
        if (options.given("--wait")) std::cout << "{\"ready\": true}" << std::endl;
        for (std::size_t run = 0; run < runs; ++run) {
            const std::unique_ptr<Structure> structure = make_structure(options, workload);
            const std::uint64_t first = run * (tuples + kAsked);
            const Arrivals stored = workload.arrivals(first, tuples, Sides::left);
            const Arrivals asked = workload.arrivals(first + tuples, kAsked, Sides::right);
            if (!may_begin(options)) return;
            const double seconds = structure->join(stored, push_size, false, many()).seconds;
            Found found = structure->join(asked, push_size, true, many());
            found.seconds = seconds;
            print(found, tuples, *structure, {});
        }
    }

    static constexpr std::size_t kAsked = 4096;
};

Workload workload_of(const Options& options) {
    const std::string& bits = options.text("--bits");
    if (bits != "32" && bits != "64") throw std::invalid_argument("--bits " + bits + "; expected 32 or 64");
    return {options.number<std::uint32_t>("--window", 1), options.number<double>("--matches", 0),
            options.number<std::uint64_t>("--seed", 0), options.text("--keys"), bits == "64"};
}

void measure(const Options& options) {
    const std::string& mode = options.text("--mode");
    if (mode != "push" && mode != "count" && mode != "pauses" && !(kTraced && mode == "traced") &&
        !(kSteps && mode == "steps"))
        throw std::invalid_argument(
            "--mode " + mode +
            "; expected count, push, pauses, traced of shared_peer, or steps of steps_peer");
    const Measurement measurement{options,
                                  workload_of(options),
                                  options.number<std::size_t>("--tuples", 1),
                                  options.number<std::size_t>("--push", 1),
                                  mode,
                                  options.number<std::size_t>("--runs", 1),
                                  options.number<std::size_t>("--replicas", 1)};
    if (measurement.replicas > 1 && mode != "pauses")
        throw std::invalid_argument("--replicas " + options.text("--replicas") +
                                    "; expected 1 but for --mode pauses");
    const std::string& shape = options.text("--shape");
    if (shape != "turns" && !measurement.workload.uniform())
        throw std::invalid_argument("--shape " + shape + "; expected turns, or --keys uniform");
    if (shape == "turns") measurement.join(Sides::in_turn, Sides::in_turn, true);
    else if (shape == "probe") measurement.join(Sides::left, Sides::right, true);
    else if (shape == "ask") measurement.join(Sides::left, Sides::right, false);
    else if (shape == "fill" && mode != "pauses") measurement.fill();
    else if (shape == "fill") throw std::invalid_argument("--mode pauses; expected count or push to fill");
    else throw std::invalid_argument("--shape " + shape + "; expected turns, probe, ask or fill");
}

}  // namespace
}  // namespace peers

int main(int count, char** words) {
    try {
        const peers::Options options(count, words);
        if (options.given("--about")) peers::print_about();
        else peers::measure(options);
        return 0;
    } catch (const std::exception& error) {
        std::fprintf(stderr, "join_peer: %s\n", error.what());
        return 1;
    }
}
