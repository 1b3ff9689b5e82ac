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
        : engine_(slidejoin::make_engine({slidejoin::KeyType::int32,
                                          index_of(index),
                                          {slidejoin::WindowKind::rows, workload.window, workload.window, 0},
                                          bound(workload.lower()),
                                          bound(workload.upper()),
                                          false,
                                          group},
                                         level_of(level))) {}

    std::uint64_t push(const Arrivals& arrivals, std::size_t from, std::size_t to, Pairs* pairs) override {
        return engine_->push(
            {arrivals.sides.data() + from, arrivals.keys.data() + from, nullptr, to - from, false}, pairs);
    }

  private:
    static slidejoin::IndexKind index_of(const std::string& name) {
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
        return {offset < 0 ? -1 : 0, static_cast<std::uint64_t>(offset), 0.0};
    }

    std::unique_ptr<slidejoin::Engine> engine_;
};

}  // namespace peers
