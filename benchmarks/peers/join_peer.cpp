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
//   is
//          there to be met. What was stored is then asked for, untimed: matches and checksum are of that.
#include <charconv>
#include <cstdio>
#include <iostream>
#include <map>
#include <string>

#include "slidejoin_join.hpp"
#include "structure.hpp"
#ifdef SLIDEJOIN_WITH_ABSL
#include "absl_join.hpp"
#endif

namespace peers {
namespace {

constexpr const char* kUsage =
    "join_peer --about | [--structure absl|slidejoin] [--window N] [--matches M] [--tuples N] [--runs N]\n"
    "          [--wait] [--shape turns|probe|ask|fill] [--mode count|push] [--push N] [--seed N]\n"
    "          [--index NAME] [--options NAME=NUMBER,...] [--group N]\n"
    "          [--level portable|avx2|avx512|best]   (these of slidejoin)\n";

#ifdef SLIDEJOIN_WITH_ABSL
constexpr bool kWithAbsl = true;
#else
constexpr bool kWithAbsl = false;
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
        {"--about", ""},     {"--structure", "slidejoin"}, {"--window", "131072"},
        {"--matches", "2"},  {"--tuples", "1000000"},      {"--runs", "1"},
        {"--wait", ""},      {"--mode", "push"},           {"--push", "8192"},
        {"--seed", "1"},     {"--index", "b-tree"},        {"--group", "1"},
        {"--level", "best"}, {"--shape", "turns"},         {"--options", ""}};
};

std::unique_ptr<Structure> make_structure(const Options& options, const Workload& workload) {
    const std::string& name = options.text("--structure");
    if (name == "slidejoin")
        return std::make_unique<SlidejoinJoin>(workload, options.text("--index"), options.text("--options"),
                                               options.number<std::uint32_t>("--group", 1),
                                               options.text("--level"));
#ifdef SLIDEJOIN_WITH_ABSL
    if (name == "absl") return std::make_unique<AbslJoin>(workload);
#endif
    if (name == "absl")
        throw std::invalid_argument("built without absl; install libabsl-dev, then build again");
    throw std::invalid_argument("--structure " + name + "; expected absl or slidejoin");
}

void print_about() {
    std::printf("{\"compiler\": \"%s\", \"absl\": %s}\n", __VERSION__, kWithAbsl ? "true" : "false");
}

void print(const Found& found, std::size_t tuples, Structure& structure) {
    std::printf(
        "{\"seconds\": %.9f, \"tuples\": %zu, \"matches\": %llu, \"checksum\": %llu, \"bytes_per_tuple\": "
        "%.3f}\n",
        found.seconds, tuples, static_cast<unsigned long long>(found.matches),
        static_cast<unsigned long long>(31 * found.left_sum + found.right_sum), structure.bytes_per_tuple());
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
    bool with_pairs;
    std::size_t runs;

    void join(Sides before, Sides sides, bool store) const {
        const std::unique_ptr<Structure> structure = make_structure(options, workload);
        std::uint64_t next = std::uint64_t{before == Sides::in_turn ? 4u : 2u} * workload.window;
        structure->join(workload.arrivals(0, next, before), push_size, false);
        if (options.given("--wait")) std::cout << "{\"ready\": true}" << std::endl;
        for (std::size_t run = 0; run < runs; ++run) {
            Arrivals arrivals = workload.arrivals(next, tuples, sides);
            arrivals.store = store;
            next += tuples;
            if (!may_begin(options)) return;
            print(structure->join(arrivals, push_size, with_pairs), tuples, *structure);
        }
    }

    void fill() const {
        if (options.given("--wait")) std::cout << "{\"ready\": true}" << std::endl;
        for (std::size_t run = 0; run < runs; ++run) {
            const std::unique_ptr<Structure> structure = make_structure(options, workload);
            const std::uint64_t first = run * (tuples + kAsked);
            const Arrivals stored = workload.arrivals(first, tuples, Sides::left);
            const Arrivals asked = workload.arrivals(first + tuples, kAsked, Sides::right);
            if (!may_begin(options)) return;
            const double seconds = structure->join(stored, push_size, false).seconds;
            Found found = structure->join(asked, push_size, true);
            found.seconds = seconds;
            print(found, tuples, *structure);
        }
    }

    static constexpr std::size_t kAsked = 4096;
};

void measure(const Options& options) {
    const std::string& mode = options.text("--mode");
    if (mode != "push" && mode != "count")
        throw std::invalid_argument("--mode " + mode + "; expected count or push");
    const Measurement measurement{
        options,
        {options.number<std::uint32_t>("--window", 1), options.number<double>("--matches", 0),
         options.number<std::uint64_t>("--seed", 0)},
        options.number<std::size_t>("--tuples", 1),
        options.number<std::size_t>("--push", 1),
        mode == "push",
        options.number<std::size_t>("--runs", 1)};
    const std::string& shape = options.text("--shape");
    if (shape == "turns") measurement.join(Sides::in_turn, Sides::in_turn, true);
    else if (shape == "probe") measurement.join(Sides::left, Sides::right, true);
    else if (shape == "ask") measurement.join(Sides::left, Sides::right, false);
    else if (shape == "fill") measurement.fill();
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
