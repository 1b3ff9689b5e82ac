// slidejoin's own engine, called without Python.
#pragma once

#include <array>
#include <charconv>
#include <cmath>
#include <sstream>
#include <stdexcept>
#include <string>

#include "structure.hpp"

namespace peers {

// How several threads share a join.
struct Sharing {
    std::string strategy;
    std::uint32_t workers;
    std::uint32_t task_size;
    bool blocking;
};

class SlidejoinJoin final : public Structure {
  public:
    // `options` are parameters of the index, as "merge_ratio=0.125,insertion_depth=3".
    // With `sorted` an arrival's partners come in the order of their positions.
    SlidejoinJoin(const Workload& workload, const std::string& index, const std::string& options,
                  std::uint32_t group, const std::string& level, bool sorted, const Sharing& sharing)
        : engine_(slidejoin::make_engine(spec(workload, index, options, group, sorted, sharing),
                                         level_of(level))) {}

    std::uint64_t push(const Arrivals& arrivals, std::size_t from, std::size_t to, Pairs* pairs) override {
        const slidejoin::Column keys{arrivals.wide.empty()
                                         ? static_cast<const void*>(arrivals.keys.data() + from)
                                         : arrivals.wide.data() + from,
                                     nullptr};
        return engine_->push(
            {arrivals.sides.data() + from, &keys, nullptr, nullptr, to - from, arrivals.store}, pairs);
    }

    double bytes_per_tuple() override {
        const slidejoin::Stats stats = engine_->stats();
        return static_cast<double>(stats.memory_bytes) /
               static_cast<double>(stats.stored[0] + stats.stored[1]);
    }

  private:
    static slidejoin::JoinSpec spec(const Workload& workload, const std::string& index,
                                    const std::string& options, std::uint32_t group, bool sorted,
                                    const Sharing& sharing) {
        slidejoin::JoinSpec spec;
        if (workload.wide)
            spec.on = {
                {slidejoin::KeyType::int64,
                 {{bound(Workload::widened(workload.lower())), bound(Workload::widened(workload.upper()))}}}};
        else spec.on = {{slidejoin::KeyType::int32, {{bound(workload.lower()), bound(workload.upper())}}}};
        const slidejoin::IndexEntry& entry = find(slidejoin::catalog(), index, "--index " + index);
        spec.index = entry.kind;
        spec.options = options_of(entry, options);
        spec.window.left = spec.window.right = workload.window;
        spec.group = group;
        spec.sorted = sorted;
        spec.strategy = find(kStrategies, sharing.strategy, "--strategy " + sharing.strategy).strategy;
        spec.workers = sharing.workers;
        spec.task_size = sharing.task_size;
        spec.blocking_merge = sharing.blocking;
        return spec;
    }

    struct NamedStrategy {
        const char* name;
        slidejoin::Strategy strategy;
    };
    static constexpr std::array<NamedStrategy, 5> kStrategies{
        {{"auto", slidejoin::Strategy::automatic},
         {"phases", slidejoin::Strategy::phases},
         {"shared-index", slidejoin::Strategy::shared_index},
         {"round-robin", slidejoin::Strategy::round_robin},
         {"subwindows", slidejoin::Strategy::subwindows}}};

    template <class Entries>
    static const typename Entries::value_type& find(const Entries& entries, const std::string& name,
                                                    const std::string& given) {
        std::string known;
        for (const auto& entry : entries) {
            if (entry.name == name) return entry;
            known += std::string(" ") + entry.name;
        }
        throw std::invalid_argument(given + "; expected one of" + known);
    }

    // Values are not checked against their ranges, which slidejoin.index does.
    static slidejoin::IndexOptions options_of(const slidejoin::IndexEntry& index, const std::string& text) {
        slidejoin::IndexOptions options;
        std::istringstream parts(text);
        for (std::string part; std::getline(parts, part, ',');) {
            const std::size_t equals = part.find('=');
            const std::string given = "--options " + part;
            const auto& parameter = find(index.parameters, part.substr(0, equals), given);
            const std::string word = equals == std::string::npos ? "" : part.substr(equals + 1);
            double value = 0;
            const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
            if (error != std::errc() || end != word.data() + word.size() ||
                (parameter.whole && value != std::floor(value)))
                throw std::invalid_argument(given + "; expected NAME=NUMBER");
            parameter.set(options, value);
        }
        return options;
    }

    // The named instruction set, or with "best" the fastest one of this processor.
    static slidejoin::Level level_of(const std::string& wanted) {
        slidejoin::Level best = slidejoin::Level::portable;
        for (const slidejoin::Level level : slidejoin::kLevels) {
            if (wanted == slidejoin::name(level)) return level;
            if (slidejoin::supported(level)) best = level;
        }
        if (wanted == "best") return best;
        throw std::invalid_argument("--level " + wanted + "; expected portable, avx2, avx512 or best");
    }

    static slidejoin::Bound bound(std::int64_t offset) {
        return {slidejoin::BoundKind::sum, offset < 0 ? -1 : 0, static_cast<std::uint64_t>(offset), 0.0};
    }

    std::unique_ptr<slidejoin::Engine> engine_;
};

}  // namespace peers
