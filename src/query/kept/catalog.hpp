// All kept queries of an open store.
//
//   query_catalog& all = query_catalog::of(core);
//   std::shared_ptr<kept_query> q = all.find("audit");
//
// A runner is named by a word in the query's head: process number << 32 | epoch of the store << 22 | pid, each cut to
// its bits. It counts while that process lives and the store is in that epoch, so a killed process's query can be taken
// over at once.
//
// Threads: any. The state that processes share is changed under shared_state::queries, which survives a killed holder.
// Errors: damage in a query makes that query unusable, and nothing else: it is reported when the query is asked for.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "pool/query/query_space.hpp"
#include "query/kept/readers.hpp"
#include "query/media/definition.hpp"
#include "store/core.hpp"

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

  [[nodiscard]] query_space& space() noexcept { return space_; }
  [[nodiscard]] opened_store& store() const noexcept { return *store_; }

  // ---- Runners ----
  /// Makes this process the runner, or throws errc::query_busy. False: the query is finished, durably, and not run.
  [[nodiscard]] bool begin_run(kept_query& q);
  void end_run(kept_query& q) noexcept;
  [[nodiscard]] static std::uint64_t own_pid() noexcept;
  /// The pid of the living runner; 0 if there is none.
  [[nodiscard]] std::uint64_t runner_pid(const format::query_head& head) const noexcept;
  /// Whether each run of this opening has come to end_run(), and so has made durable what it did to the phase.
  [[nodiscard]] bool runs_have_ended(const kept_query& q) const;
  /// Changes the phase durably.
  void set_phase(link head, query_phase to);
  [[nodiscard]] std::recursive_mutex& mutex() noexcept { return mutex_; }

 private:
  void keep_finished(link at);
  [[nodiscard]] bool is_of_earlier_opening(std::uint64_t runner) const noexcept;
  [[nodiscard]] std::shared_ptr<kept_query> read(link head);
  void settle(kept_query& q);
  [[nodiscard]] bool is_of_lost_version(link head) const noexcept;
  void refresh();
  [[nodiscard]] std::vector<link> all_heads();
  [[nodiscard]] query_readers::alive_function living() const;
  [[nodiscard]] std::uint64_t own_runner_word() const noexcept;

  opened_store* store_;
  query_space space_;
  bool is_beside_writer_;
  std::recursive_mutex mutex_;  // of what this process knows; taken before the lock that processes share
  std::map<link, std::shared_ptr<kept_query>> known_;
  std::map<link, std::string> unreadable_;
  std::shared_ptr<own_readers> readers_ = std::make_shared<own_readers>();
};

}  // namespace icecore::detail
