// Replays a schedule of arrivals through slidejoin's nested-loop join, tuple by tuple: the benchmark of
// "Performance Modeling of Stream Joins" (Gulisano et al.), R.x - 10 <= S.a <= R.x + 10 and R.y - 10 <= S.b
// <= R.y + 10, the first band in the index, the second one as its filter.
//
// The clock is a logical one, in seconds of the schedule: a unit that has nothing to do goes to the time at
// which the next tuple is ready; processing a tuple takes the time that the engine really takes. An output
// tuple is stamped when it is written, during the scan (emission.hpp). With --units n each unit stores every
// n-th tuple, compares all, and has a clock of its own; output tuples are merged in the order of their
// timestamps: one is released when no unit can deliver one that sorts before it (docs of slidejoin.order have
// the rule). A unit works for at most a --quota of each second; then it waits for the next one, as the
// paper's program does. With --real T the clock is the wall's from second T of the schedule on. With
// --counted NS a comparison takes so many nanoseconds, whatever it really takes.
//
// Each line of standard input starts a run from empty windows; a line of JSON has sums for each second:
// by the second in which a tuple is processed
//   comparisons, outputs, service (seconds that units were busy), emitting (seconds of it for output tuples);
// by the second in which an output tuple is released
//   released (their number) and, summed over them, waited (from arrival to ready), queued (until a unit takes
//   the tuple), joined (until the output tuple is written), merged (until it is released); and pushed
//   (joined, if all output tuples were handed over at the end of a push, as the engine does);
// and of the whole run: matches, checksum, and backlog (how long after its arrival the last tuple is done).
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <limits>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>

#include "emission.hpp"
#include "engine.hpp"

namespace peers {
namespace {

constexpr const char* kUsage =
    "model_peer --schedule FILE --seconds N [--rows N | --span SECONDS] [--units N] [--quota SHARE] [--real "
    "T] [--counted NS]\n";
constexpr double kInfinity = std::numeric_limits<double>::infinity();

class Options {
  public:
    Options(int count, char** words) {
        for (int i = 1; i < count; i += 2) {
            if (!values_.count(words[i]) || i + 1 == count)
                throw std::invalid_argument(std::string("unknown option, or no value: ") + words[i] + "\n" +
                                            kUsage);
            values_[words[i]] = words[i + 1];
        }
    }

    const std::string& text(const std::string& name) const { return values_.at(name); }

    double number(const std::string& name) const {
        const std::string& word = text(name);
        double value = 0;
        const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
        if (error != std::errc() || end != word.data() + word.size() || value < 0)
            throw std::invalid_argument(name + " '" + word + "'; expected a number from 0");
        return value;
    }

  private:
    std::map<std::string, std::string> values_{{"--schedule", ""}, {"--seconds", ""}, {"--rows", "0"},
                                               {"--span", "0"},    {"--units", "1"},  {"--quota", "1"},
                                               {"--real", "inf"},  {"--counted", "0"}};
};

std::vector<Tuple> read(const std::string& path) {
    std::ifstream file(path, std::ios::binary | std::ios::ate);
    if (!file) throw std::invalid_argument("--schedule " + path + " cannot be read");
    const auto bytes = static_cast<std::size_t>(file.tellg());
    if (bytes % sizeof(Tuple) != 0) throw std::invalid_argument(path + " is not a whole number of tuples");
    std::vector<Tuple> tuples(bytes / sizeof(Tuple));
    file.seekg(0);
    file.read(reinterpret_cast<char*>(tuples.data()), static_cast<std::streamsize>(bytes));
    return tuples;
}

slidejoin::Level best_level() {
    slidejoin::Level best = slidejoin::Level::portable;
    for (const slidejoin::Level level : slidejoin::kLevels)
        if (slidejoin::supported(level)) best = level;
    return best;
}

slidejoin::JoinSpec spec_of(double rows, double span) {
    using slidejoin::BoundKind;
    slidejoin::JoinSpec spec;
    spec.on = {
        {slidejoin::KeyType::int32,
         {{{BoundKind::sum, -1, static_cast<std::uint64_t>(-10), 0.0}, {BoundKind::sum, 0, 10, 0.0}}}},
        {slidejoin::KeyType::float32, {{{BoundKind::sum, 0, 0, -10.0}, {BoundKind::sum, 0, 0, 10.0}}}}};
    spec.index = slidejoin::IndexKind::nested_loop;
    spec.sorted = false;
    spec.group = 1;
    spec.window.kind = rows > 0 ? slidejoin::WindowKind::rows : slidejoin::WindowKind::time;
    spec.window.left = spec.window.right = static_cast<std::uint64_t>(rows);
    spec.window.duration = static_cast<std::uint64_t>(1e9 * span);
    spec.window.self_purge = true;
    return spec;
}

// What a unit did for one tuple.
struct Step {
    double start;
    double service;
    double first;         // when the first output tuple was written, infinite if there is none
    std::size_t outputs;  // where its stamps end
};

struct Unit {
    std::unique_ptr<slidejoin::Engine> engine;
    std::vector<const Tuple*> stored[2] = {};  // by position
    double clock = 0;
    double slice = 0;  // the second whose quota it uses, and how much it has used
    double used = 0;
    std::vector<Step> steps = {};
    std::vector<std::uint32_t> stamps = {};  // of output tuples, nanoseconds since the start of their step
};

class Replay {
  public:
    explicit Replay(const Options& options)
        : tuples_(read(options.text("--schedule"))),
          seconds_(static_cast<std::size_t>(options.number("--seconds"))),
          spec_(spec_of(options.number("--rows"), options.number("--span"))),
          units_(static_cast<std::size_t>(options.number("--units"))),
          quota_(options.number("--quota")),
          real_(options.text("--real") == "inf" ? kInfinity : options.number("--real")) {
        if (units_.empty() || (real_ < kInfinity && units_.size() > 1))
            throw std::invalid_argument("--units: expected at least one, and one with --real");
        if (spec_.window.left == 0 && spec_.window.duration == 0)
            throw std::invalid_argument("expected --rows or --span");
        Emission::count_time(static_cast<std::int64_t>(options.number("--counted")));
    }

    void run() {
        for (Unit& unit : units_) {
            std::vector<Step> steps = std::move(unit.steps);
            std::vector<std::uint32_t> stamps = std::move(unit.stamps);
            steps.clear();
            stamps.clear();  // and keep the memory
            unit = {slidejoin::make_engine(spec_, best_level())};
            unit.steps = std::move(steps);
            unit.stamps = std::move(stamps);
        }
        for (Sums* sums : {&comparisons_, &outputs_, &service_, &emitting_, &released_, &waited_, &queued_,
                           &joined_, &merged_, &pushed_})
            sums->assign(seconds_, 0);
        checksum_ = matches_ = 0;
        epoch_ = 0;
        for (std::size_t i = 0; i < tuples_.size(); ++i)
            for (std::size_t k = 0; k < units_.size(); ++k)
                process(units_[k], tuples_[i], i % units_.size() == k);
        for (std::size_t k = 0; k < units_.size(); ++k) release(k);
        print();
    }

  private:
    using Sums = std::vector<double>;

    void process(Unit& unit, const Tuple& tuple, bool store) {
        const double start = begin(unit, tuple.ready);
        const std::int64_t time = static_cast<std::int64_t>(1e9 * tuple.arrival);
        const slidejoin::Column keys[] = {{&tuple.x, nullptr}, {&tuple.y, nullptr}};
        Emission::begin(tuple, unit.stored[1 - tuple.side]);
        unit.engine->push({&tuple.side, keys, &time, nullptr, 1, store}, nullptr);
        const double service = 1e-9 * static_cast<double>(Emission::now() - Emission::began());
        // A window of rows counts tuples that are not stored, too.
        if (store || spec_.window.kind == slidejoin::WindowKind::rows)
            unit.stored[tuple.side].push_back(&tuple);
        unit.clock = start + service;
        unit.used += service;
        const std::size_t outputs = Emission::size();
        const double first = outputs ? start + 1e-9 * Emission::stamps()[0] : kInfinity;
        unit.stamps.insert(unit.stamps.end(), Emission::stamps(), Emission::stamps() + outputs);
        unit.steps.push_back({start, service, first, unit.stamps.size()});
        matches_ += outputs;
        for (std::size_t i = 0; i < outputs; ++i) {
            const OutputTuple& output = Emission::outputs()[i];
            checksum_ += static_cast<std::uint64_t>(output.x * 201 + output.a) + output.d;
        }
        add(comparisons_, start, static_cast<double>(Emission::comparisons()));
        add(outputs_, start, static_cast<double>(outputs));
        add(service_, start, service);
        add(emitting_, start, 1e-9 * static_cast<double>(Emission::emitting()));
    }

    // When a unit begins with a tuple.
    double begin(Unit& unit, double ready) {
        if (ready >= real_) {
            const auto wall = [&] { return real_ + 1e-9 * static_cast<double>(Emission::now() - epoch_); };
            if (epoch_ == 0) epoch_ = Emission::now();
            while (wall() < ready) {
            }
            return wall();
        }
        double start = std::max(unit.clock, ready);
        if (start < unit.slice + 1 && unit.used >= quota_) start = unit.slice + 1;
        if (start >= unit.slice + 1) {
            unit.slice = std::floor(start);
            unit.used = 0;
        }
        return start;
    }

    // Merges the output tuples of unit k with those of the others.
    void release(std::size_t k) {
        const Unit& unit = units_[k];
        // until[i]: when output tuples of arrival i may be released as far as the other units are concerned.
        // Those before it must have come to a later arrival, those behind it to this one.
        std::vector<double> until(tuples_.size(), 0);
        for (std::size_t j = 0; j < units_.size(); ++j) {
            double next = kInfinity;  // first output tuple of a later arrival
            for (std::size_t i = tuples_.size(); j != k && i-- > 0;) {
                const double first = units_[j].steps[i].first;
                until[i] = std::max(until[i], j < k || first == kInfinity ? next : first);
                if (first < kInfinity) next = first;
            }
        }
        std::size_t output = 0;
        for (std::size_t i = 0; i < tuples_.size(); ++i) {
            const Step& step = unit.steps[i];
            for (; output < step.outputs; ++output) {
                const double joined = 1e-9 * unit.stamps[output];
                const double written = step.start + joined, at = std::max(written, until[i]);
                if (at == kInfinity) continue;  // the schedule ends before
                add(released_, at, 1);
                add(waited_, at, tuples_[i].ready - tuples_[i].arrival);
                add(queued_, at, step.start - tuples_[i].ready);
                add(joined_, at, joined);
                add(merged_, at, at - written);
                add(pushed_, at, step.service);
            }
        }
    }

    void add(Sums& sums, double time, double value) const {
        const auto second = static_cast<std::size_t>(time);
        if (second < seconds_) sums[second] += value;
    }

    void print() const {
        const std::pair<const char*, const Sums*> all[] = {
            {"comparisons", &comparisons_}, {"outputs", &outputs_},
            {"service", &service_},         {"emitting", &emitting_},
            {"released", &released_},       {"waited", &waited_},
            {"queued", &queued_},           {"joined", &joined_},
            {"merged", &merged_},           {"pushed", &pushed_}};
        std::printf("{");
        for (const auto& [name, sums] : all) {
            std::printf("\"%s\": [", name);
            for (std::size_t i = 0; i < seconds_; ++i) std::printf(i ? ", %.9g" : "%.9g", (*sums)[i]);
            std::printf("], ");
        }
        double backlog = 0;
        for (const Unit& unit : units_)
            if (!tuples_.empty()) backlog = std::max(backlog, unit.clock - tuples_.back().ready);
        std::printf("\"matches\": %llu, \"checksum\": %llu, \"backlog\": %.9g}\n",
                    static_cast<unsigned long long>(matches_), static_cast<unsigned long long>(checksum_),
                    backlog);
        std::fflush(stdout);
    }

    std::vector<Tuple> tuples_;  // in the order in which they are processed
    std::size_t seconds_;
    slidejoin::JoinSpec spec_;
    std::vector<Unit> units_;
    double quota_;
    double real_;
    std::int64_t epoch_ = 0;
    Sums comparisons_, outputs_, service_, emitting_, released_, waited_, queued_, joined_, merged_, pushed_;
    std::uint64_t matches_ = 0;
    std::uint64_t checksum_ = 0;
};

}  // namespace
}  // namespace peers

int main(int count, char** words) {
    try {
        peers::Replay replay{peers::Options(count, words)};
        std::cout << "{\"ready\": true}" << std::endl;
        for (std::string line; std::getline(std::cin, line);) replay.run();
        return 0;
    } catch (const std::exception& error) {
        std::fprintf(stderr, "%s\n", error.what());
        return 1;
    }
}
