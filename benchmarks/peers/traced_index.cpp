// The core's shared index with points that tell the time: compiled once per SLIDEJOIN_LEVEL and linked before
// the core, whose own is then left out.
#include "trace.hpp"
//
#include "shared_index.cpp"
