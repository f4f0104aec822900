// The keys of another rank, reached by messages, and this rank's staged writes to it.
//
// Invariants:
//   R1 At most one batch of staged writes to an owner is under way, so batches are written in the order of staging.
//   R2 This rank finds its staged write until the owner has written it.
//   R3 A write that is not staged is sent only when everything staged before it is written.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>

#include "cluster/messages/remote_call.hpp"
#include "cluster/partitions/partition.hpp"
#include "cluster/partitions/staging.hpp"
#include "cluster/read/fetched_stream.hpp"

namespace icecore::mpi {

class remote_partition final : public partition {
 public:
  remote_partition(progress& running, int owner, std::size_t staging_bytes)
      : running_(running), owner_(owner), staging_bytes_(std::min(staging_bytes, staging_bytes_max)) {}

  std::optional<std::string> find(std::string_view key, read_at at) override;
  held_value hold(std::string_view key) override;
  bool contains(std::string_view key, read_at at) override;
  answer<found_values> find_many(std::vector<std::string_view> keys, read_at at) override;
  std::vector<versioned_value> history(std::string_view key) override;
  std::unique_ptr<item_stream> scan(const scan_request& wanted) override;
  answer<std::uint64_t> count(version at) override;
  answer<std::uint64_t> count(version at, const filter& condition) override;
  cluster_page page(version at, const filter& condition, const page_limits& limits, std::string_view token) override;
  answer<feed_part> feed(const feed_part_request& wanted) override;
  std::vector<tag_info> tags(std::optional<std::string_view> name) override;

  version write(const write_view& one) override;
  answer<written> write_many(std::span<const write_view> many) override;
  version apply(const batch& operations) override;
  std::optional<version> apply_if(const batch& operations) override;
  std::string update(std::string_view key, int number, std::string_view input) override;
  answer<version> sync() override;
  void signal(int signum) override;

  version stage(const write_view& one, version open) override;
  std::uint64_t begin_fence() override;
  bool fenced(std::uint64_t mark) override;
  written take_refused() override;
  bool background() override;
  void finish_ahead() noexcept override { ahead_.finish(); }

 private:
  /// Keeps a batch small enough for one message.
  static constexpr std::size_t staging_bytes_max = std::size_t{1} << 30;

  struct batch_under_way {
    std::unique_ptr<remote_call> call;
    staged_index index;
    std::uint64_t end;  // number of writes staged up to and including its last
  };

  [[nodiscard]] std::shared_ptr<remote_call> call(std::string request);
  /// Waits until everything that this rank has staged so far is written (R3).
  void end_calls();
  /// Calls `use` with the newest staged write of the key, if there is one.
  template <typename Use>
  bool with_staged(std::string_view key, Use&& use);

  // The caller holds mutex_.
  void collect();
  void send_staged();

  progress& running_;
  const int owner_;
  const std::size_t staging_bytes_;

  // acquire and release of these let readers and fences see without the lock that nothing is staged
  std::atomic<std::uint64_t> staged_count_{0};   // ever
  std::atomic<std::uint64_t> written_count_{0};  // of these, those that the owner has written or refused
  std::mutex mutex_;
  staged_writes staged_;
  std::chrono::steady_clock::time_point staged_since_{};
  std::optional<batch_under_way> under_way_;
  written refused_;

  requests_ahead ahead_;
};

/// Reads what `pack_written` packed.
[[nodiscard]] written unpack_written(unpacker& in);
void pack_written(packer& out, const written& result);

}  // namespace icecore::mpi
