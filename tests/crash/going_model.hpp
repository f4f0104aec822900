// What retention lets expire and forget() erases, by the test's own reckoning: from histories, not from strata.
//
//   const before_compaction before(s);            // its histories, its retention, its requests to forget
//   const compaction_report report = s.compact();
//   before.judge(s, report, how.whole, known);    // throws std::logic_error; `known` are as they are now
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "icecore/icecore.hpp"

namespace icecore::crash {

/// A version that was closed before the crash.
struct closed_version {
  version at;
  std::uint64_t sum;     ///< of what it showed then (state_sum()), without what is forgotten since
  bool may_be_lost;      ///< nothing had made it durable; errc::version_lost is then as right as what it showed
  bool expired = false;  ///< errc::version_expired is what is right
  struct alternative {
    std::uint64_t sum;
    bool expired;
  };
  std::optional<alternative> or_else{};  ///< as right, since a compaction is in flight
};

/// A call of forget() that has returned.
struct asked_to_forget {
  std::vector<std::string> keys;
  std::vector<std::string> prefixes;
  version up_to = 0;

  [[nodiscard]] bool names(std::string_view key) const noexcept;
};

/// Keys that stories forget, and how all of them begin: nothing else in a file does.
inline constexpr std::string_view secret_prefix = "secret-";
[[nodiscard]] std::vector<std::string> secrets();

/// What a store keeps: its retention, and which versions it holds by which names.
[[nodiscard]] std::uint64_t retention_sum(const store& s);
/// What is wrong with what it holds: each version that is held can be read. Empty if all is right.
[[nodiscard]] std::string judge_holds(const store& s);

/// What is wrong with requests: each is there, or nothing is left that it names. Empty if all is right.
[[nodiscard]] std::string judge_requests(const store& s, const std::vector<asked_to_forget>& requests);

/// A store before a compaction.
class before_compaction {
 public:
  explicit before_compaction(const store& s);

  void judge(const store& after, const compaction_report& report, bool whole, std::vector<closed_version>& known) const;
  /// The contents that forget() goes through before its tag is there: the removals in the order of their keys.
  [[nodiscard]] std::vector<std::uint64_t> contents_of_forgetting(const store& after) const;
  /// The contents that a compaction by ranges of keys may leave between its first change and its last. Versions expire
  /// with the first one. Keys of the ranges that are done are as `after`; of the others the newer strata are merged
  /// with what was written since, and the older ones are as they were.
  [[nodiscard]] std::vector<std::uint64_t> contents_between_changes(const store& after) const;

 private:
  struct written {
    version at;
    std::optional<std::string> value;
    friend bool operator==(const written&, const written&) = default;
  };
  using histories = std::map<std::string, std::vector<written>, std::less<>>;

  [[nodiscard]] static histories histories_of(const store& s);
  /// Of a history: all up to a version, and behind it what shows in a version that has not expired, or now.
  [[nodiscard]] static std::uint64_t thinned_sum(const std::string& key, const std::vector<written>& records,
                                                 version up_to, const std::vector<version_range>& expired);
  /// Without what is forgotten.
  [[nodiscard]] std::uint64_t state_at(version at) const;
  [[nodiscard]] std::vector<version> kept_versions(const store& after, version up_to) const;
  void judge_expired(const store& after, const std::vector<version>& kept, version up_to) const;
  void judge_records(const store& after, const std::vector<version>& kept, bool whole) const;

  histories all_;
  std::map<std::string, version, std::less<>> forgotten_;  // of its keys: up to which version they go
  bool forgets_ = false;                                   // any key
  retention policy_;
  std::vector<version> tagged_;
  std::vector<version> held_;
  std::vector<version_range> expired_;
  std::uint64_t content_;
  version packed_up_to_;
  std::optional<std::string> awaits_from_;  // a merge by ranges is unfinished: its least key that was not merged yet
};

}  // namespace icecore::crash
