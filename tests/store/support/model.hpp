// The model of a store: std::map<key, vector<(version, value or removed)>>, a clock and a list of tags. It looks
// everything up in the simplest way.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "icecore/options.hpp"
#include "icecore/retention.hpp"
#include "icecore/store.hpp"

namespace icecore::testing {

class model {
 public:
  struct record {
    icecore::version version;
    std::optional<std::string> value;  // empty: removed
    friend bool operator==(const record&, const record&) = default;
  };
  struct difference {
    std::string key;
    std::optional<std::string> before;
    std::optional<std::string> after;
    friend bool operator==(const difference&, const difference&) = default;
  };
  using items = std::map<std::string, std::string>;

  icecore::version insert(const std::string& key, std::string value);
  std::optional<icecore::version> remove(const std::string& key);
  icecore::version apply(const icecore::batch& operations);
  icecore::version close_version() { return clock++; }
  /// What compact() leaves: of a key's records of one version the last, and no removals of what was not there.
  void pack();
  /// What compact() does besides, by the store's retention: returns how many versions expire. All records stay here.
  std::uint64_t expire();
  [[nodiscard]] bool thinned() const noexcept { return !expired.empty(); }
  [[nodiscard]] bool is_expired(icecore::version v) const { return expired.contains(v); }
  /// Whether a thinned store may show this as the key's history, newest first: it has each value that a version that
  /// can be read shows, and nothing that was not written.
  [[nodiscard]] bool may_show(const std::string& key, const std::vector<record>& found,
                              icecore::version up_to = version_max) const;
  /// Whether a thinned store must still list the key.
  [[nodiscard]] bool must_list(const std::string& key) const;

  [[nodiscard]] std::optional<std::string> find(const std::string& key, icecore::version at = version_max) const;
  /// Present items with from <= key < to.
  [[nodiscard]] items items_at(icecore::version at, const key_bounds& bounds = {}) const;
  [[nodiscard]] std::vector<record> newest_first(const std::string& key, icecore::version up_to = version_max) const;
  [[nodiscard]] std::vector<difference> diff(icecore::version before, icecore::version after,
                                             const key_bounds& bounds = {}) const;

  /// Whether anything was written in the open version.
  [[nodiscard]] bool touched() const noexcept { return newest_write == clock; }

  [[nodiscard]] const tag_info* find_tag(std::string_view name) const;
  [[nodiscard]] const tag_info* find_tag(icecore::version tagged) const;
  [[nodiscard]] const tag_info* find_tag_at_time(std::int64_t time_ns) const;

  std::map<std::string, std::vector<record>> records;  // of each key, oldest first
  std::uint64_t idle_removes = 0;                      // batched removes of absent keys: stored, never shown
  std::vector<tag_info> tags;                          // oldest version first
  std::set<icecore::version> expired;
  icecore::retention kept;
  std::int64_t now_ns = 0;  // of the compaction: tags are older or younger by more than it takes
  icecore::version clock = 1;
  icecore::version newest_write = 0;

 private:
  [[nodiscard]] bool is_shown(const std::vector<record>& history, std::size_t i) const;
};

/// Thrown where the store does not do what the model does.
class broken_promise : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Makes a key or value printable and short, for messages.
[[nodiscard]] std::string show(std::string_view bytes);
[[nodiscard]] std::string show_found(const std::optional<std::string_view>& bytes);

/// Throws broken_promise unless `held`. `what` is a function that says what was expected; it is called only then.
template <class What>
void promise(bool held, const What& what) {
  if (!held) throw broken_promise(what());
}

/// Reads are compared with this many threads too, not only with one; a fuzzer has no time to start any.
inline unsigned comparing_threads = 3;

/// Reads all of the store in all ways and compares it with the model: closed versions (all, or about `versions_max` of
/// them), the present, histories, tags, statistics and verify().
void compare_everything(const icecore::store& store, const model& expected, std::size_t versions_max = 12);

/// Compares only the clock, keys, histories and tags, which takes little time for what a store holds.
void compare_histories(const icecore::store& store, const model& expected);

/// Reads one version by finds, scans in both directions, extraction and counts.
void compare_version(const icecore::snapshot& snapshot, const model& expected, icecore::version at);

}  // namespace icecore::testing
