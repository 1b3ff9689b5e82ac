// Prints the highest level of this processor: CMake builds it with SLIDEJOIN_LEVELS=native.
#include <cstdio>

#include "processor.hpp"

int main() {
    int level = 2;
    while (!slidejoin::processor_has(level)) --level;
    std::printf("%d", level);
}
