// Every structure of the core, for the tests that judge all of them alike: their list is that of
// structures.hpp, their headers are here.
#pragma once

#include "../index/bi_sort.hpp"
#include "../index/bplus_tree.hpp"
#include "../index/chain.hpp"
#include "../index/im_tree.hpp"
#include "../index/nested_loop.hpp"
#include "../index/pim_tree.hpp"
#include "../index/rap_table.hpp"
#include "../index/wib_tree.hpp"
#include "../structures.hpp"
