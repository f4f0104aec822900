#include "kinds.hpp"

#include <algorithm>
#include <iterator>

#include "kinds_of_this_build.hpp"

namespace icecore::bench {
namespace {

std::vector<store_kind> made_kinds() {
  std::vector<store_kind> kinds;
  for (const auto of_one_file : kinds_of_this_build) std::ranges::move(of_one_file(), std::back_inserter(kinds));
  return kinds;
}

}  // namespace

const std::vector<store_kind>& all_kinds() {
  static const std::vector<store_kind> kinds = made_kinds();
  return kinds;
}

const store_kind* kind_of_name(std::string_view name) {
  const auto found = std::ranges::find(all_kinds(), name, &store_kind::name);
  return found == all_kinds().end() ? nullptr : &*found;
}

}  // namespace icecore::bench
