// One recorded run of the store: what its writers did, the trace of it, and what must be there after a crash at any
// moment of it.
//
//   story_options how{.durability = ..., .index = ..., .writers = 2};
//   story s = record_story(how, seed);
//   expectation e(s);
//   for (const event& x : s.events) { e.apply(x); ... e.allowed(crash::power_cut) ... }
//
// Contents are compared as sums (content.hpp).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "check.hpp"
#include "content.hpp"
#include "feed_model.hpp"
#include "icecore/icecore.hpp"
#include "kept_model.hpp"
#include "machine.hpp"
#include "trace.hpp"
#include "written_model.hpp"

namespace icecore::crash {

enum class crash_kind : std::uint8_t {
  power_cut,  ///< the machine died, and with it all that was not on the medium
  kill,       ///< the process died; memory and page cache live on
};

inline constexpr std::size_t no_query = ~std::size_t{0};
inline constexpr std::size_t no_feed = no_query;

/// What one operation adds to the store's content.
struct done_operation {
  std::string what;  ///< for people
  std::uint64_t sum = 0;
  std::uint64_t required = 0;  ///< operations (bits, by number) that must be there once this one has returned: read
  version belongs_to = 0;      ///< the version it wrote in, or closed
  bool durable_point = false;  ///< once it has returned, all up to `belongs_to` survives a power cut
  bool leaves_open = false;    ///< `belongs_to`, which is all durable, too: more may come into it
  bool closes = false;         ///< `belongs_to` is closed now,
  std::uint64_t state = 0;     ///< and shows this (state_sum())
  std::uint64_t content = 0;   ///< of the whole store behind it: in stories with retention, which count
  std::vector<std::uint64_t> between{};          ///< by that; others that a crash amid it may leave, in their order
  std::vector<std::uint64_t> between_changes{};  ///< likewise, each of them durable
  std::uint64_t retention = 0;                   ///< likewise (retention_sum())
  std::optional<asked_to_forget> forgets{};
  std::vector<std::string> gone_amid{};  ///< keys of which no byte is in a file when it is called, nor while it goes on
  std::vector<std::string> gone{};       ///< nor once it has returned
  std::vector<closed_version> packed{};  ///< what closed versions are since it, if it is a compaction
  bool sets_retention = false;           ///< in stories that mix: or holds a version, or releases it
  std::optional<std::vector<version_range>> expired{};  ///< likewise, of a compaction: behind it
  std::size_t query = no_query;                         ///< which of the story's it is about
  done_to_query of_query;
  std::size_t feed = no_feed;  ///< likewise
  done_to_feed of_feed;
};

/// What a crash leaves.
struct left_by_crash {
  std::vector<std::uint64_t> allowed;  ///< contents that it may have
  std::vector<closed_version> closed;  ///< versions that were closed before it
  std::vector<kept_query> queries;
  std::vector<story_feed> feeds;
  std::vector<asked_to_forget> requests{};
  std::vector<std::uint64_t> retentions{};
  std::vector<std::string> gone{};
  std::shared_ptr<const story_writes> writes{};  ///< of stories that mix, as in judged_by
  std::vector<version_range> expired_min{};
  std::vector<version_range> expired_max{};
};

struct story {
  story_options how;
  std::uint64_t seed = 0;
  kept_files before;             ///< the files before it
  std::uint64_t before_sum = 0;  ///< its content
  std::uint64_t before_retention = 0;
  version before_clock = 0;
  std::uint64_t boot = 0;
  std::vector<done_operation> operations;  ///< at most 64
  unsigned opening = 0;                    ///< the operation that opened the store
  left_by_crash before_power_cut;          ///< until it has returned, if there was a crash before the story
  left_by_crash before_kill;               ///< likewise
  std::vector<closed_version> closed;      ///< and once it has returned: those that may be lost are
  std::vector<kept_query> queries;         ///< those from before it, and those that it starts
  std::vector<story_feed> feeds;           ///< likewise
  std::vector<asked_to_forget> requests;   ///< to forget, from before it
  std::vector<std::string> gone;           ///< keys of which no file had a byte before it
  unsigned depth = 0;                      ///< crashes before this story
  std::shared_ptr<story_writes> writes;    ///< of stories that mix
  std::vector<version_range> before_expired;
  trace events;
};

[[nodiscard]] story record_story(const story_options& how, std::uint64_t seed);

/// The story of opening what a crash left in the middle of another one, and a few operations on it. `boot`: the machine
/// lives on (the same number) or died (another one). Until the store is opened it is as the crash left it: after a
/// power cut, and after a kill.
[[nodiscard]] story record_recovery(const story& of, const left_files& left, std::uint64_t boot,
                                    left_by_crash after_power_cut, left_by_crash after_kill, std::uint64_t seed);

/// What must hold after a crash, as a trace goes by.
class expectation {
 public:
  explicit expectation(const story& of) : of_(of) {}

  void apply(const event& e);

  /// The sums that a recovered store may have.
  [[nodiscard]] std::vector<std::uint64_t> allowed(crash_kind how) const;
  /// The versions that were closed, but for those of which a write is in flight that may not have happened.
  [[nodiscard]] std::vector<closed_version> closed(crash_kind how) const;
  /// The kept queries that may be there.
  [[nodiscard]] std::vector<kept_query> queries() const;
  /// The feeds that may be there.
  [[nodiscard]] std::vector<story_feed> feeds() const;
  /// The least clock it must have: no version is used twice.
  [[nodiscard]] version clock_min() const noexcept { return clock_min_; }
  /// The requests to forget that have returned.
  [[nodiscard]] std::vector<asked_to_forget> requests() const;
  /// The sums of the retentions that it may have.
  [[nodiscard]] std::vector<std::uint64_t> retentions() const;
  /// The keys of which no byte may be in a file.
  [[nodiscard]] std::vector<std::string> gone() const;
  /// Of stories that mix: what `allowed` means, and which versions have expired at least and at most.
  [[nodiscard]] std::shared_ptr<const story_writes> writes() const;
  [[nodiscard]] std::vector<version_range> expired_min() const;
  [[nodiscard]] std::vector<version_range> expired_max() const;
  /// Operations in flight, for people.
  [[nodiscard]] std::string in_flight() const;

 private:
  /// Whether the opening of what a crash left has not returned.
  [[nodiscard]] bool is_opening() const noexcept { return of_.depth > 0 && (returned_ >> of_.opening & 1) == 0; }
  /// What a durable point covers: versions up to its own, of operations that had begun by then.
  /// allowed() of a story that counts by contents of the whole store: one writer's, whose operations follow each other.
  [[nodiscard]] std::vector<std::uint64_t> allowed_contents(crash_kind how) const;
  /// Of a story that mixes: sets of operations.
  [[nodiscard]] std::vector<std::uint64_t> allowed_sets() const;
  [[nodiscard]] std::optional<std::size_t> operation_in_flight() const;
  [[nodiscard]] std::uint64_t covered_sum(version up_to, std::uint64_t begun) const;

  const story& of_;
  std::uint64_t begun_ = 0;          // operations, bits
  std::uint64_t returned_ = 0;       // likewise
  std::uint64_t required_ = 0;       // likewise: returned, or read by one that returned
  std::uint64_t durable_begun_ = 0;  // begun when the newest durable point returned
  std::optional<std::size_t> durable_;
  std::optional<std::size_t> last_;  // that has returned
  version clock_min_ = 0;
};

}  // namespace icecore::crash
