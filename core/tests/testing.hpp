// A minimal test framework: a test is a function that registers itself, and CHECK throws with its location.
#pragma once

#include <functional>
#include <random>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

namespace testing {

struct Test {
    const char* name;
    void (*body)();
};

inline std::vector<Test>& tests() {
    static std::vector<Test> all;
    return all;
}

struct Registration {
    Registration(const char* name, void (*body)()) { tests().push_back({name, body}); }
};

[[noreturn]] inline void fail(const char* file, int line, const std::string& what) {
    std::ostringstream text;
    text << file << ":" << line << ": " << what;
    throw std::runtime_error(text.str());
}

using Random = std::mt19937_64;

inline std::uint64_t below(Random& random, std::uint64_t limit) { return random() % limit; }

}  // namespace testing

#define TEST(name)                                                       \
    static void name();                                                  \
    static const testing::Registration registration_##name(#name, name); \
    static void name()

#define CHECK(condition) \
    if (!(condition)) testing::fail(__FILE__, __LINE__, #condition)

#define CHECK_EQUAL(actual, expected)                                              \
    do {                                                                           \
        const auto actual_ = (actual);                                             \
        const auto expected_ = (expected);                                         \
        if (!(actual_ == expected_)) {                                             \
            std::ostringstream text_;                                              \
            text_ << #actual << " is " << +actual_ << ", expected " << +expected_; \
            testing::fail(__FILE__, __LINE__, text_.str());                        \
        }                                                                          \
    } while (false)
