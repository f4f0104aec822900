// The rule `write`: each transaction that writes is a version of its own.
//
// The applier, a task on a strand, takes the transactions that wait, in their order. For each it executes the
// transaction, applies its batch and closes the version. One sync then makes the group durable, while the applier
// executes the next group. Then the visible version moves, the answers go out and watches are told.
//
// Invariants:
//   V1  All versions up to `visible_` are durable (if the database promises that), so a read at it shows nothing that
//       could vanish. It is stored before the answers of its group are given: a read that begins after an answer sees
//       the answered write.
//   V2  What the applier reads is the newest state: `base_`, a durable version, and above it `undurable_`, all that was
//       applied after `base_`. So it never waits for a device. What a transaction read is durable before it is
//       answered, because its answer waits for a sync that begins later.
//   V3  Only the holder of `mutex_` applies, tags, or changes `base_` and `undurable_`.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <exception>
#include <mutex>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "service/write/execution.hpp"
#include "service/write/write_path.hpp"

namespace icecore::service {

class applied_writes final : public write_path {
 public:
  explicit applied_writes(const write_parts& parts);
  ~applied_writes() override;

  void write(transaction what, completion done) override;
  std::uint64_t load(const row_block& rows, bool keep) override;
  icecore::version tag(const icecore::tag_options& label) override;
  [[nodiscard]] icecore::snapshot newest() override;
  [[nodiscard]] std::optional<found> find_newest(std::string_view key) override;
  void close_version() override {}  // each write has closed its own
  [[nodiscard]] held hold() override;
  [[nodiscard]] std::uint64_t waiting() const noexcept override;
  void finish() override;

 private:
  struct asked {
    transaction what;
    completion done;
  };
  /// Transactions and bytes of one group.
  static constexpr std::size_t group_most = 1024;
  static constexpr std::size_t group_bytes_most = std::size_t{16} << 20;

  void apply_group();
  [[nodiscard]] result<outcome> apply(const transaction& what);
  [[nodiscard]] outcome put(const operation& only);
  void close_written();
  struct loaded {
    std::uint64_t rows = 0;
    icecore::version at = 0;  ///< which has to be durable before this is told; 0: nothing was tried
    std::exception_ptr failed{};
  };
  [[nodiscard]] loaded load_without_leases(const row_block& rows, bool keep);
  [[nodiscard]] std::uint64_t load_as_transaction(const row_block& rows, bool keep);
  void wait_until_durable(icecore::version at);
  [[nodiscard]] icecore::version newest_applied() const;
  void changed(std::string key, std::optional<std::string> value, icecore::version at);
  void forget_durable();
  void show(icecore::version durable);
  template <typename Use>
  [[nodiscard]] auto with_present(Use use);

  write_parts parts_;

  std::mutex queue_mutex_;
  std::deque<asked> queue_;
  bool scheduled_ = false;
  std::atomic<std::uint64_t> queued_{0};  // relaxed: only shown

  std::mutex mutex_;  // V3
  icecore::version base_;
  undurable_values undurable_;
  std::deque<std::pair<std::string, icecore::version>> undurable_keys_;  // oldest first

  // Release: who reads it may read everything of the version (V1).
  std::atomic<icecore::version> visible_;

  strand applier_;
  durable_answers answers_;
};

}  // namespace icecore::service
