// What a history is recorded of: a database, through whatever door.
//
//   database_target t(*db);                      // in this process
//   const outcome o = t.write(transaction);      // waits for the answer
//
// Threads: any number may call a target; a target_watch belongs to one.
// Errors: icecore::error. A write that throws unavailable, outcome_unknown, deadline_exceeded or poisoned may have
// taken
//   effect; with any other error it has not.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "service/database.hpp"

namespace icecore::judge {

struct watch_part {
  service::row_block changes;
  icecore::version told = 0;
};

class target_watch {
 public:
  target_watch() = default;
  target_watch(const target_watch&) = delete;
  target_watch& operator=(const target_watch&) = delete;
  virtual ~target_watch() = default;
  /// Never waits.
  virtual watch_part next() = 0;
};

struct scanned {
  icecore::version version = 0;
  std::vector<service::row> rows{};
};

class target {
 public:
  target() = default;
  target(const target&) = delete;
  target& operator=(const target&) = delete;
  virtual ~target() = default;
  virtual service::outcome write(service::transaction what) = 0;
  virtual std::optional<service::row> find(const std::string& key) = 0;
  virtual scanned scan(const icecore::key_bounds& bounds) = 0;
  virtual std::unique_ptr<target_watch> watch(icecore::version after, const icecore::key_bounds& bounds) = 0;
  virtual void tag() = 0;
};

class database_target : public target {
 public:
  explicit database_target(service::database& db) : db_(db) {}
  service::outcome write(service::transaction what) override;
  std::optional<service::row> find(const std::string& key) override;
  scanned scan(const icecore::key_bounds& bounds) override;
  std::unique_ptr<target_watch> watch(icecore::version after, const icecore::key_bounds& bounds) override;
  void tag() override;

 private:
  service::database& db_;
};

}  // namespace icecore::judge
