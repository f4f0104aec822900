// How versions of several independent servers become versions of one database.
//
// Each server counts its versions by itself, so one number is not one instant of all. But a tag that all servers have
// is meant as one: it gets one number. Between two such tags the versions of each server keep their order, and end at
// the later tag. So all records of a key keep their order, and each tag shows what it showed. Where all servers have
// the same numbers at all such tags, and so where there is one server, every version keeps its number.
//
//   numbering n({{tags of server 0}, {tags of server 1}});
//   n.of(1, 17);               // the new number of version 17 of server 1
//
// Threads: any number may read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "icecore/version_ranges.hpp"

namespace icecore::service {

struct placed_tag {
  std::string name;
  std::string note;
  std::int64_t time_ns = 0;
  icecore::version version = 0;
};

class numbering {
 public:
  /// Each server's tags in the order of their versions.
  explicit numbering(const std::vector<std::vector<placed_tag>>& tags);

  [[nodiscard]] icecore::version of(std::size_t server, icecore::version old) const;
  [[nodiscard]] icecore::version_ranges of(std::size_t server, const icecore::version_ranges& old) const;
  /// The tags that stay, with their new versions.
  [[nodiscard]] const std::vector<placed_tag>& tags() const noexcept { return tags_; }
  [[nodiscard]] bool keeps(std::string_view tag) const;
  /// Names of the tags that do not stay: not all servers have them, or have them in another order.
  [[nodiscard]] const std::vector<std::string>& left_out() const noexcept { return left_out_; }
  /// Whether each version keeps its number.
  [[nodiscard]] bool changes_nothing() const noexcept { return same_; }

 private:
  std::vector<placed_tag> tags_;
  std::set<std::string, std::less<>> kept_;  // names of tags_
  std::vector<std::string> left_out_;
  std::vector<std::vector<icecore::version>> old_;  // by server: its versions of tags_
  bool same_ = true;
};

}  // namespace icecore::service
