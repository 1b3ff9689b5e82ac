// The list of the indexes as a table.
#include "catalog.hpp"

#include <algorithm>
#include <sstream>
#include <stdexcept>
#include <type_traits>

namespace slidejoin {

namespace {

IndexEntry entry(IndexKind kind, std::string name, const char* fields) {
    std::replace(name.begin(), name.end(), '_', '-');
    IndexEntry made{kind, name, {}};
    std::istringstream words(fields);
    for (std::string word; words >> word;) {
        const std::size_t before = made.parameters.size();
#define SLIDEJOIN_ADD(type, field, name, initial, least, most, meaning)                           \
    if (word == #field)                                                                           \
        made.parameters.push_back({name, std::is_integral_v<type>, initial, least, most, meaning, \
                                   [](IndexOptions& o, double v) { o.field = static_cast<type>(v); }});
        SLIDEJOIN_PARAMETERS(SLIDEJOIN_ADD)
#undef SLIDEJOIN_ADD
        if (made.parameters.size() == before) throw std::logic_error("no such parameter: " + word);
    }
    return made;
}

}  // namespace

const std::vector<IndexEntry>& catalog() {
#define SLIDEJOIN_ENTRY(kind, Structure, header, fields) entry(IndexKind::kind, #kind, fields),
    static const std::vector<IndexEntry> entries{SLIDEJOIN_INDEXES(SLIDEJOIN_ENTRY)};
#undef SLIDEJOIN_ENTRY
    return entries;
}

}  // namespace slidejoin
