// Tags in the C interface: for stores and for clusters.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "support.hpp"

namespace icecore::c {

/// The tag that icecore_find_tag*() return: the structure that C sees, followed by the texts it points to.
struct owned_tag : icecore_tag {
  explicit owned_tag(icecore::tag_info from) : icecore_tag{}, info(std::move(from)) {
    version = info.version;
    time_ns = info.time_ns;
    name = bytes(std::string_view(info.name));
    note = bytes(std::string_view(info.note));
  }
  owned_tag(const owned_tag&) = delete;
  owned_tag& operator=(const owned_tag&) = delete;

  icecore::tag_info info;
};

/// Gives the caller a tag that icecore_tag_free() frees; *tag is unchanged if nothing was found.
[[gnu::visibility("default")]] void hand_out(std::optional<tag_info> found, icecore_tag** tag);

/// The list of tags that icecore_tags_close() frees.
[[nodiscard, gnu::visibility("default")]] icecore_tags* list_of(std::vector<tag_info> found);

/// Converts the structure; its texts stay views of the caller's. errc::invalid_argument names `function`.
[[nodiscard, gnu::visibility("default")]] tag_options label_of(const icecore_tag_options* options,
                                                               const char* function);

}  // namespace icecore::c

struct icecore_tags {
  std::vector<std::unique_ptr<icecore::c::owned_tag>> all;
  std::size_t next = 0;
};
