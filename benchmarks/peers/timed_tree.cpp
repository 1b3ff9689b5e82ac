// The core's bucket-tree with steps that tell the time: compiled once per SLIDEJOIN_LEVEL and linked before
// the core, whose own is then left out.
#include "steps.hpp"
//
#define SLIDEJOIN_KIND bucket_tree
#define SLIDEJOIN_STRUCTURE BucketTree
#define SLIDEJOIN_HEADER "index/bucket_tree.hpp"
#include "structure.cpp"
