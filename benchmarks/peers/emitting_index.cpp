// The core's nested-loop index with output tuples that are emitted during a scan: compiled once per
// SLIDEJOIN_LEVEL and linked before the core, whose own is then left out.
#include "emission.hpp"
//
#define SLIDEJOIN_KIND nested_loop
#define SLIDEJOIN_STRUCTURE EmittingLoop
#define SLIDEJOIN_HEADER "emitting_loop.hpp"
#include "structure.cpp"
