// Opening what a crash left, and judging it.
//
//   std::string wrong = judge(how, left, {.allowed = sums, .clock_min = v}, /*deeply=*/true);    // empty: right
//
// Shallow: the store opens, and its content is one of those allowed. Deep: besides, every closed version shows
// what it did, or is lost and says so, every version is read and agrees with the histories, verify finds nothing, ten
// more operations work, and after closing and opening all is still there. In stories with retention the store is packed
// at last: no byte of what was forgotten is in a file then.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "content.hpp"
#include "feed_model.hpp"
#include "going_model.hpp"
#include "kept_model.hpp"
#include "written_model.hpp"

namespace icecore::crash {

struct judged_by {
  std::vector<std::uint64_t> allowed;  ///< sums of contents
  std::vector<closed_version> closed;
  version clock_min = 0;
  std::vector<kept_query> queries{};        ///< those that may be there
  std::vector<story_feed> feeds{};          ///< likewise
  std::vector<asked_to_forget> requests{};  ///< those that are there, or are carried out
  std::vector<std::uint64_t> retentions{};  ///< sums of those that it may have
  std::vector<std::string> gone{};          ///< keys of which no file has a byte
  /// Of stories that mix: `allowed` are sets of these operations (bits).
  std::shared_ptr<const story_writes> writes{};
  std::vector<version_range> expired_min{};  ///< then these have expired,
  std::vector<version_range> expired_max{};  ///< and no more than these
  std::uint64_t seed = 0;                    ///< of what is drawn
  /// The store is opened on another host, which may ask what the crash was: what it was.
  std::optional<icecore::crash_kind> elsewhere{};
};

/// Opens these files as the machine's store `checked`. What is wrong; empty if nothing is.
[[nodiscard]] std::string judge(const story_options& how, const left_files& left, judged_by by, bool deeply);

}  // namespace icecore::crash
