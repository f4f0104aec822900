// How transactions reach the store of a database: what its version rule decides.
//
//   std::unique_ptr<write_path> path = make_write_path(rule, parts);
//   path->write(transaction, done);
//   const icecore::snapshot now = path->newest();
//   { const auto held = path->hold();  ... }      // no write takes effect meanwhile
//
// Threads: any number.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string_view>
#include <vector>

#include "icecore/store.hpp"
#include "service/database.hpp"
#include "service/executor.hpp"
#include "service/read/value_codec.hpp"
#include "service/write/durable_answers.hpp"
#include "service/write/leases.hpp"

namespace icecore::service {

/// What a path stands on; all of it outlives the path.
struct write_parts {
  icecore::store* store = nullptr;
  const value_codec* codec = nullptr;
  lease_table* leases = nullptr;
  executor* pool = nullptr;
  /// Whether the database promises that acknowledged operations are durable.
  bool promises_operations = false;
  /// Called when versions up to this one can be told to watches, in any order of versions.
  std::function<void(icecore::version)> tellable;
  std::function<void(icecore::version)> compacted;
  std::function<void(const failure&)> poisoned;
};

class write_path {
 public:
  write_path() = default;
  write_path(const write_path&) = delete;
  write_path& operator=(const write_path&) = delete;
  virtual ~write_path() = default;

  virtual void write(transaction what, completion done) = 0;
  /// As database::put_at_once().
  virtual std::optional<icecore::version> put_at_once(std::string_view /*key*/, std::string_view /*value*/) {
    return std::nullopt;
  }
  /// Rows of a bulk load; returns how many were written once they are durable as promised.
  virtual std::uint64_t load(const row_block& rows, bool keep) = 0;
  virtual icecore::version tag(const icecore::tag_options& label) = 0;

  /// A closed version that holds everything acknowledged before the call.
  [[nodiscard]] virtual icecore::snapshot newest() = 0;
  /// The newest value of one key, without its lease's time being asked.
  [[nodiscard]] virtual std::optional<found> find_newest(std::string_view key) = 0;
  /// Closes the open version if something was written in it; the timer of the rule `every` calls this.
  virtual void close_version() = 0;

  /// While this lives, no write takes effect.
  using held = std::vector<std::unique_lock<std::mutex>>;
  [[nodiscard]] virtual held hold() = 0;
  [[nodiscard]] virtual std::uint64_t waiting() const noexcept = 0;
  /// Answers everything that was written before. No write may come any more.
  virtual void finish() = 0;
};

[[nodiscard]] std::unique_ptr<write_path> make_write_path(version_rule rule, const write_parts& parts);

/// Reads the newest record of a history as a find's answer.
[[nodiscard]] std::optional<found> found_in(icecore::key_history past, const icecore::pin& holds,
                                            const value_codec& codec);

}  // namespace icecore::service
