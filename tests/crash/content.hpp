// The content of a store as one number, and the options with which stories open theirs.
//
// Each record (key, place in its history, version, value or removal) and each tag contributes a number; a content is
// their sum, whatever the order it is read in, and so a set of operations adds up to one, too.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "icecore/icecore.hpp"
#include "machine.hpp"

namespace icecore::crash {

struct story_options {
  icecore::durability durability = durability::operation;
  icecore::index_kind index = index_kind::btree;
  device on = device::persistent_memory;
  unsigned writers = 1;
  unsigned files = 1;
  bool full_nodes = false;     ///< those of the persistent index are about to split, not only in a third of its stories
  bool full_tags = false;      ///< the newest block of its list of tags likewise, not only in a sixteenth
  bool full_segments = false;  ///< the writer's segment likewise, others have room; not only in a twenty-fourth
  bool changes_mode = false;   ///< each recovery opens the store with a durability of its own
  bool queries = false;        ///< half of the operations are of kept queries
  bool feeds = false;          ///< or of feeds
  bool reads_all = false;      ///< at each opening but those that judge what a crash left
  bool packs = false;          ///< the store is compacted between operations, each of which has a version of its own
  bool expires = false;        ///< then with retention, and keys are forgotten
  bool holds = false;          ///< and versions are held
  bool mixes = false;          ///< writers, kept queries and feeds go on while compactions let versions expire
  bool beside = false;         ///< another opening reads beside it, across compactions
  bool deferred = false;       ///< under operation durability: sync() makes durable, no write does

  /// Whether each write that has returned is there after a power cut.
  [[nodiscard]] bool keeps_each_write() const noexcept {
    return durability == durability::operation && !(deferred && on == device::disk);
  }
  /// Whether a power cut leaves all that was written up to a version of the store's own choice, since the last sync.
  [[nodiscard]] bool keeps_versions() const noexcept {
    return durability == durability::operation && !keeps_each_write();
  }
};

/// Options with which a store of a story is opened: the machine's store of this number.
[[nodiscard]] options opening_options(const story_options& how, unsigned number);

[[nodiscard]] std::uint64_t record_sum(std::string_view key, std::size_t place, const change& c) noexcept;
[[nodiscard]] std::uint64_t tag_sum(const tag_info& t) noexcept;

/// What a version shows.
[[nodiscard]] std::uint64_t state_sum(const snapshot& then);
/// All of a store: records, tags, and which versions have expired.
[[nodiscard]] std::uint64_t content_sum(const store& s);
/// The same for people.
[[nodiscard]] std::string content_text(const store& s);

}  // namespace icecore::crash
