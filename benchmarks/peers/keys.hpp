// How the keys of the streams are distributed. A key is a function of the seed and the arrival's number
// alone, so every structure gets the same ones.
//   uniform     over all 32 bits; benchmarks.workload generates the same
//   gauss       one bell in the middle
//   gamma1      Gamma with shape 1 and scale 5; gamma3: shape 3, scale 3
//   driftR      a bell whose mean moves by R standard deviations while a window is replaced, there and back
//   increasing  with the arrival's number, out of order by at most 64 arrivals; decreasing: the mirror image
//   sawtooth    rising through most of the range twice a window, with noise
//   abrupt      a bell that jumps whenever the windows were replaced twice
#pragma once

#include <cmath>
#include <cstdint>
#include <functional>
#include <map>
#include <stdexcept>
#include <string>

namespace peers {

// The random numbers of one arrival: splitmix64, fed with its own output for more than one.
class Random {
  public:
    Random(std::uint64_t seed, std::uint64_t number) : state_(seed + number * kGolden) {}

    std::uint64_t bits() { return state_ = mixed(state_ + kGolden); }

    // In (0, 1), so that it has a logarithm.
    double real() { return (static_cast<double>(bits() >> 32) + 0.5) * 0x1p-32; }

    double gauss() {  // Box and Muller; never further out than 6.8
        const double radius = std::sqrt(-2 * std::log(real()));
        return radius * std::cos(2 * kPi * real());
    }

  private:
    static constexpr std::uint64_t kGolden = 0x9E3779B97F4A7C15;
    static constexpr double kPi = 3.14159265358979323846;

    static std::uint64_t mixed(std::uint64_t z) {
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
        z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
        return z ^ (z >> 31);
    }

    std::uint64_t state_;
};

class Keys {
  public:
    Keys(const std::string& name, std::uint32_t window, std::uint64_t seed)
        : draw_(draw_of(name)), uniform_(name == "uniform"), window_(window), seed_(seed) {}

    bool uniform() const { return uniform_; }

    std::int32_t operator()(std::uint64_t number) const {
        Random random(seed_, number);
        if (uniform_) return static_cast<std::int32_t>(random.bits() >> 32);
        const double windows = static_cast<double>(number) / (2.0 * window_);
        const double key = std::floor(draw_(random, number, windows));
        if (key < kLeast || key > kGreatest)
            throw std::invalid_argument("--keys: they have left 32 bits at arrival " +
                                        std::to_string(number) + "; ask for fewer tuples");
        return static_cast<std::int32_t>(key);
    }

  private:
    // A key, by the arrival's random numbers, its number, and how often the windows were replaced before it.
    using Draw = std::function<double(Random&, std::uint64_t, double)>;

    static constexpr double kLeast = -0x1p31;
    static constexpr double kGreatest = 0x1p31 - 1;

    // The scales leave room for the furthest that a bell or a tail can reach.
    static Draw draw_of(const std::string& name) {
        static const std::map<std::string, Draw> draws{
            {"uniform", nullptr},
            {"gauss", [](Random& random, auto, auto) { return 0x1p28 * random.gauss(); }},
            {"gamma1",
             [](Random& random, auto, auto) { return kLeast - 0x1p25 * 5 * std::log(random.real()); }},
            {"gamma3",
             [](Random& random, auto, auto) {
                 const double product = random.real() * random.real() * random.real();
                 return kLeast - 0x1p24 * 3 * std::log(product);
             }},
            {"increasing", [](Random& random, auto number, auto) { return rising(random, number); }},
            {"decreasing", [](Random& random, auto number, auto) { return -1 - rising(random, number); }},
            {"sawtooth",
             [](Random& random, auto, double windows) {
                 const double phase = 2 * windows - std::floor(2 * windows);
                 return 0x1p32 * (0.9 * (phase - 0.5) + (random.real() - 0.5) / 64);
             }},
            {"abrupt", [](Random& random, auto, double windows) {
                 const bool low = std::fmod(windows, 4) < 2;
                 return (low ? -0x1p30 : 0x1p30) + 0x1p27 * random.gauss();
             }}};
        const auto found = draws.find(name);
        if (found != draws.end()) return found->second;
        if (const double rate = rate_of(name); rate >= 0)
            return [rate](Random& random, auto, double windows) {
                return 0x1p25 * (random.gauss() + there_and_back(rate * windows, 48));
            };
        std::string known;
        for (const auto& [each, _] : draws) known += " " + each;
        throw std::invalid_argument("--keys " + name + "; expected drift and a number, or one of" + known);
    }

    static double rising(Random& random, std::uint64_t number) {
        return kLeast + 32 * (static_cast<double>(number) + 64 * random.real());
    }

    // Goes from 0 with slope 1, turned back at either limit.
    static double there_and_back(double way, double limit) {
        const double at = std::fmod(way + limit, 4 * limit);
        return at < 2 * limit ? at - limit : 3 * limit - at;
    }

    // The number behind "drift", or a negative one.
    static double rate_of(const std::string& name) {
        const std::string prefix = "drift";
        if (name.rfind(prefix, 0) != 0) return -1;
        try {
            std::size_t read = 0;
            const double rate = std::stod(name.substr(prefix.size()), &read);
            return prefix.size() + read == name.size() ? rate : -1;
        } catch (const std::exception&) {
            return -1;
        }
    }

    Draw draw_;
    bool uniform_;
    std::uint32_t window_;
    std::uint64_t seed_;
};

}  // namespace peers
