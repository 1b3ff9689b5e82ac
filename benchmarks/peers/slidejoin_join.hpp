// slidejoin's own engine, called without Python.
#pragma once

#include <charconv>
#include <map>
#include <sstream>
#include <stdexcept>
#include <string>
#include <variant>

#include "structure.hpp"

namespace peers {

class SlidejoinJoin final : public Structure {
  public:
    // `options` are parameters of the index, as "merge_ratio=0.125,insertion_depth=3".
    // With `sorted` an arrival's partners come in the order of their positions.
    SlidejoinJoin(const Workload& workload, const std::string& index, const std::string& options,
                  std::uint32_t group, const std::string& level, bool sorted)
        : engine_(slidejoin::make_engine(spec(workload, index, options, group, sorted), level_of(level))) {}

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
                                    const std::string& options, std::uint32_t group, bool sorted) {
        slidejoin::JoinSpec spec;
        if (workload.wide)
            spec.on = {
                {slidejoin::KeyType::int64,
                 {{bound(Workload::widened(workload.lower())), bound(Workload::widened(workload.upper()))}}}};
        else spec.on = {{slidejoin::KeyType::int32, {{bound(workload.lower()), bound(workload.upper())}}}};
        spec.index = index_of(index);
        spec.options = options_of(options);
        spec.window.left = spec.window.right = workload.window;
        spec.group = group;
        spec.sorted = sorted;
        return spec;
    }

    static slidejoin::IndexKind index_of(const std::string& name) {
        using slidejoin::IndexKind;
        static const std::map<std::string, IndexKind> kinds{
            {"nested-loop", IndexKind::nested_loop}, {"b-tree", IndexKind::b_tree},
            {"b-chain", IndexKind::b_chain},         {"ib-chain", IndexKind::ib_chain},
            {"im-tree", IndexKind::im_tree},         {"pim-tree", IndexKind::pim_tree},
            {"rap-table", IndexKind::rap_table},     {"wib-tree", IndexKind::wib_tree},
            {"bi-sort", IndexKind::bi_sort},         {"bucket-tree", IndexKind::bucket_tree},
            {"sorted-run", IndexKind::sorted_run}};
        const auto found = kinds.find(name);
        if (found != kinds.end()) return found->second;
        throw std::invalid_argument("--index " + name + "; expected one of" + listed(kinds));
    }

    // Their ranges are the caller's business: slidejoin.index has them.
    static slidejoin::IndexOptions options_of(const std::string& text) {
        slidejoin::IndexOptions options;
        const std::map<std::string, std::variant<std::uint32_t*, double*>> known{
            {"chain_length", &options.chain_length},
            {"merge_ratio", &options.merge_ratio},
            {"insertion_depth", &options.insertion_depth},
            {"subwindows", &options.subwindows},
            {"partitions", &options.partitions},
            {"slack", &options.slack},
            {"buffer", &options.buffer}};
        std::istringstream parts(text);
        for (std::string part; std::getline(parts, part, ',');) {
            const std::size_t equals = part.find('=');
            const auto option = known.find(part.substr(0, equals));
            if (equals == std::string::npos || option == known.end())
                throw std::invalid_argument("--options " + part + "; expected name=number, with one of" +
                                            listed(known));
            const std::string word = part.substr(equals + 1);
            std::visit([&](auto* value) { read(part, word, *value); }, option->second);
        }
        return options;
    }

    template <class Number>
    static void read(const std::string& part, const std::string& word, Number& value) {
        const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
        if (error != std::errc() || end != word.data() + word.size())
            throw std::invalid_argument("--options " + part + "; expected a number");
    }

    template <class Map>
    static std::string listed(const Map& names) {
        std::string text;
        for (const auto& [name, _] : names) text += " " + name;
        return text;
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
