// slidejoin's own engine, called without Python.
#pragma once

#include <stdexcept>
#include <string>

#include "structure.hpp"

namespace peers {

class SlidejoinJoin final : public Structure {
  public:
    SlidejoinJoin(const Workload& workload, const std::string& index, std::uint32_t group,
                  const std::string& level)
        : engine_(slidejoin::make_engine(spec(workload, index, group), level_of(level))) {}

    std::uint64_t push(const Arrivals& arrivals, std::size_t from, std::size_t to, Pairs* pairs) override {
        const slidejoin::Column keys{arrivals.keys.data() + from, nullptr};
        return engine_->push({arrivals.sides.data() + from, &keys, nullptr, nullptr, to - from}, pairs);
    }

  private:
    static slidejoin::JoinSpec spec(const Workload& workload, const std::string& index, std::uint32_t group) {
        slidejoin::JoinSpec spec;
        spec.on = {{slidejoin::KeyType::int32, {{bound(workload.lower()), bound(workload.upper())}}}};
        spec.index = index_of(index);
        spec.window.left = spec.window.right = workload.window;
        spec.group = group;
        return spec;
    }

    static slidejoin::IndexKind index_of(const std::string& name) {
        if (name == "bi-sort") return slidejoin::IndexKind::bi_sort;
        if (name == "b-tree") return slidejoin::IndexKind::b_tree;
        if (name == "nested-loop") return slidejoin::IndexKind::nested_loop;
        throw std::invalid_argument("--index " + name + "; expected b-tree or nested-loop");
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
