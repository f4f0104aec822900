// The keys of a store that this process has open.
#pragma once

#include <atomic>
#include <functional>
#include <list>
#include <mutex>

#include "cluster/partitions/partition.hpp"
#include "cluster/update_table.hpp"
#include "icecore/cluster.hpp"
#include "icecore/feed.hpp"

namespace icecore::mpi {

class store_partition : public partition {
 public:
  /// `signalled(signum)` is called for signals that this rank sends to itself.
  store_partition(store& held, const std::atomic<protection>& allowed, std::function<void(int)> signalled)
      : store_(held), allowed_(allowed), signalled_(std::move(signalled)) {}

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
  void signal(int signum) override { signalled_(signum); }
  version stage(const write_view& one, version /*open*/) override { return write(one); }
  void follow() override;
  void detach() override { end_feeds(); }

  /// errc::invalid_argument if the number has a function already.
  /// A write that no update overwrites without having seen it.
  version insert_in_turn(const write_view& one) {
    const auto alone = updates_.running();
    return write(one);
  }
  void define_update(int number, update_function change) { updates_.define(number, std::move(change)); }
  [[nodiscard]] std::optional<tag_info> tag_from(version least) const { return store_.find_tag_from(least); }
  [[nodiscard]] snapshot at(version closed) const { return store_.at(readable(closed)); }

  // ---- For answering other ranks without a copy ---------------------------------------------------------------------

  [[nodiscard]] std::optional<value> view(std::string_view key, read_at at) const;
  /// The views are valid as long as the returned pin lives.
  [[nodiscard]] pin views(std::span<const std::string_view> keys, read_at at,
                          std::span<std::optional<std::string_view>> out) const;
  [[nodiscard]] key_history records(std::string_view key) const { return store_.history(key); }
  /// As feed(); not more changes than take so many bytes, but one at least.
  [[nodiscard]] feed_part read_feed(const feed_part_request& wanted, std::size_t bytes_max);
  /// Applies one write and adds its result to `total`.
  void write_into(const write_view& one, written& total);

  /// Before the store is closed.
  void end_feeds() {
    const std::scoped_lock lock(feeds_mutex_);
    feeds_.clear();
  }

 private:
  /// A feed of this store that a feed of the cluster reads, where it stands. Kept for speed alone: with the token it
  /// can be opened anew.
  struct open_feed {
    std::string token;
    bool unsynced;
    bool is_between_versions;  // all that it had found is told
    icecore::feed feed;
  };
  static constexpr std::size_t open_feeds_max = 64;

  [[nodiscard]] icecore::feed feed_at(const feed_part_request& wanted);
  void keep(open_feed&& one);

  [[nodiscard]] version readable(version at) const;
  void check_update(std::string_view key, bool inserts) const;

  store& store_;
  const std::atomic<protection>& allowed_;
  std::function<void(int)> signalled_;
  update_table updates_;
  std::mutex feeds_mutex_;
  std::list<open_feed> feeds_;  // used last: at the front
};

}  // namespace icecore::mpi
