// Every structure of the core, for the tests that judge all of them alike: their list is that of
// structures.hpp, their headers are here.
#pragma once

#include "../index/bplus_tree.hpp"
#include "../index/nested_loop.hpp"
#include "../structures.hpp"
