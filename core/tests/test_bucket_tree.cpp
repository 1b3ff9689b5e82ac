// The bucket-tree: against a plain list, and what its adversaries make of it.
#include "../target.hpp"
#include "testing.hpp"

SLIDEJOIN_TARGET_BEGIN

#include "../index/bucket_tree.hpp"
#include "index_cases.hpp"

using namespace slidejoin::SLIDEJOIN_TARGET;

TEST(bucket_tree) { check_all(slidejoin::IndexKind::bucket_tree); }
SLIDEJOIN_TARGET_END
