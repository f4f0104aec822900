// All kept queries of an open store.
//
//   query_catalog& all = query_catalog::of(core);
//   std::shared_ptr<kept_query> q = all.find("audit");
//
// Who runs a query is named by a word in its head: store/sharing/query_users.hpp.
//
// Threads: any. The state that processes share is changed under shared_state::queries, which survives a killed holder.
//   Another process, or a compaction (store/packed/retention/forgetting.hpp), may drop any query at any time, and its
//   place is used again; so who changes a query looks under that lock whether it still is there.
// Errors: damage in a query makes that query unusable, and nothing else: it is reported when the query is asked for.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "pool/query/query_space.hpp"
#include "query/kept/readers.hpp"
#include "query/media/definition.hpp"
#include "store/core.hpp"
#include "store/sharing/query_users.hpp"

namespace icecore::detail {

class kept_query;

using format::query_phase;

class query_catalog final : public store_companion {
 public:
  explicit query_catalog(const store_core& core);
  ~query_catalog() override;

  [[nodiscard]] static query_catalog& of(const store_core& core);

  /// A new query. `where` may be empty: whoever runs it gives the functions of its filter. errc::query_exists.
  [[nodiscard]] std::shared_ptr<kept_query> add(const query_definition& what, std::optional<filter> where);
  /// errc::no_such_query, with the nearest name if there is one.
  [[nodiscard]] std::shared_ptr<kept_query> find(std::string_view name);
  /// All that can be read, oldest first.
  [[nodiscard]] std::vector<std::shared_ptr<kept_query>> all();
  /// Frees the space of queries that were dropped, unless a range of a living process reads rows of any query: then the
  /// next call does.
  void free_dropped() noexcept;
  /// Counts a range over rows; it ends by readers()->end().
  void begin_reading();
  [[nodiscard]] const std::shared_ptr<own_readers>& readers() const noexcept { return readers_; }
  /// errc::read_only in a store opened for reading.
  void require_changeable() const;

  /// While it lives, the list of queries is followed to its end: nobody changes it, unless this process reads beside
  /// the writer.
  [[nodiscard]] std::optional<recovering_lock> unchanged_list() {
    return store_->reads_only() ? std::nullopt : std::optional<recovering_lock>(std::in_place, space_.hold());
  }

  [[nodiscard]] query_space& space() noexcept { return space_; }
  [[nodiscard]] opened_store& store() const noexcept { return *store_; }

  // ---- Runners ----
  /// Makes this process the runner, or throws errc::query_busy. False: the query is finished, durably, and not run.
  [[nodiscard]] bool begin_run(kept_query& q);
  void end_run(kept_query& q) noexcept;
  /// The pid of the living runner; 0 if there is none.
  [[nodiscard]] std::uint64_t runner_pid(const format::query_head& head) const noexcept;
  /// Whether each run of this opening has come to end_run(), and so has made durable what it did to the phase.
  [[nodiscard]] bool runs_have_ended(const kept_query& q) const;
  /// Whether a thread of this process has begun a run that has not ended.
  [[nodiscard]] bool is_run_here(const kept_query& q) const noexcept;
  /// Changes the phase durably. Under the lock.
  void set_phase(link head, query_phase to);
  /// Drops what was added under this id, unless somebody else did so.
  void take_back(link head, std::array<std::uint64_t, 2> id);
  [[nodiscard]] std::recursive_mutex& mutex() noexcept { return mutex_; }

 private:
  void keep_finished(link at);
  [[nodiscard]] bool is_of_earlier_opening(std::uint64_t runner) const noexcept;
  [[nodiscard]] std::shared_ptr<kept_query> read(link head);
  void settle(kept_query& q);
  [[nodiscard]] bool is_of_lost_version(link head) const noexcept;
  void refresh();
  [[nodiscard]] std::vector<link> all_heads();

  opened_store* store_;
  query_users users_;
  query_space space_;
  bool is_beside_writer_;
  std::recursive_mutex mutex_;  // of what this process knows; taken before the lock that processes share
  std::map<link, std::shared_ptr<kept_query>> known_;
  std::map<link, std::string> unreadable_;
  std::shared_ptr<own_readers> readers_ = std::make_shared<own_readers>();
};

}  // namespace icecore::detail
