// Measures one structure on the workload of workload.hpp.
//
// The windows are filled and then replaced once, untimed; then `--runs` times the next `--tuples` arrivals
// are joined and one line of JSON is printed: {"seconds", "tuples", "matches", "checksum"}. Runs continue
// the stream, so two structures with the same options see the same arrivals and must print the same matches
// and checksums. With --wait a run starts on a line of standard input, which lets a driver alternate between
// programs whose windows are full; {"ready": true} says that they are.
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
    "          [--wait] [--mode count|push] [--push N] [--seed N]\n"
    "          [--index NAME] [--group N] [--level portable|avx2|avx512|best]   (slidejoin)\n";

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
        {"--about", ""},    {"--structure", "slidejoin"}, {"--window", "131072"},
        {"--matches", "2"}, {"--tuples", "1000000"},      {"--runs", "1"},
        {"--wait", ""},     {"--mode", "push"},           {"--push", "8192"},
        {"--seed", "1"},    {"--index", "b-tree"},        {"--group", "1"},
        {"--level", "best"}};
};

std::unique_ptr<Structure> make_structure(const Options& options, const Workload& workload) {
    const std::string& name = options.text("--structure");
    if (name == "slidejoin")
        return std::make_unique<SlidejoinJoin>(workload, options.text("--index"),
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

void measure(const Options& options) {
    const Workload workload{options.number<std::uint32_t>("--window", 1),
                            options.number<double>("--matches", 0),
                            options.number<std::uint64_t>("--seed", 0)};
    const auto tuples = options.number<std::size_t>("--tuples", 1);
    const auto push_size = options.number<std::size_t>("--push", 1);
    const bool with_pairs = options.text("--mode") == "push";
    if (!with_pairs && options.text("--mode") != "count")
        throw std::invalid_argument("--mode " + options.text("--mode") + "; expected count or push");

    const std::unique_ptr<Structure> structure = make_structure(options, workload);
    std::uint64_t next = std::uint64_t{4} * workload.window;
    structure->join(workload.arrivals(0, next), push_size, false);
    if (options.given("--wait")) std::cout << "{\"ready\": true}" << std::endl;

    for (auto runs = options.number<std::size_t>("--runs", 1); runs > 0; --runs) {
        const Arrivals arrivals = workload.arrivals(next, tuples);
        next += tuples;
        std::string line;
        if (options.given("--wait") && !std::getline(std::cin, line)) return;
        const Found found = structure->join(arrivals, push_size, with_pairs);
        std::printf("{\"seconds\": %.9f, \"tuples\": %zu, \"matches\": %llu, \"checksum\": %llu}\n",
                    found.seconds, tuples, static_cast<unsigned long long>(found.matches),
                    static_cast<unsigned long long>(31 * found.left_sum + found.right_sum));
        std::fflush(stdout);
    }
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
