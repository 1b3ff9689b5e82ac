// Runs one piece of work in several threads, waits for them, and rethrows the first error. Some 10-50 us a
// thread.
#pragma once

#include <algorithm>
#include <cstddef>
#include <exception>
#include <functional>
#include <system_error>
#include <thread>
#include <vector>

namespace slidejoin {

// Part number `part` of `parts` of the numbers below `size`; all parts are about equally long.
struct Slice {
    Slice(std::size_t size, std::size_t part, std::size_t parts)
        : from(size / parts * part + std::min(part, size % parts)),
          to(size / parts * (part + 1) + std::min(part + 1, size % parts)) {}

    std::size_t from;
    std::size_t to;
};

// Calls work(0) to work(workers - 1), each in its own thread, the first one in the caller's.
inline void run_workers(std::size_t workers, const std::function<void(std::size_t)>& work) {
    std::vector<std::exception_ptr> errors(workers);
    const auto guarded = [&](std::size_t worker) {
        try {
            work(worker);
        } catch (...) {
            errors[worker] = std::current_exception();
        }
    };
    std::vector<std::thread> threads;
    threads.reserve(workers);
    std::size_t started = 1;
    try {
        for (; started < workers; ++started) threads.emplace_back(guarded, started);
    } catch (const std::system_error&) {
        // The system has no more threads: the caller does the rest.
    }
    guarded(0);
    for (std::size_t worker = started; worker < workers; ++worker) guarded(worker);
    for (std::thread& thread : threads) thread.join();
    for (const std::exception_ptr& error : errors)
        if (error) std::rethrow_exception(error);
}

}  // namespace slidejoin
