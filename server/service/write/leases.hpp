// The leases of one database: which keys end when.
//
//   lease_table l(store);                                 // reads what the store keeps of them
//   lease_changes c(l);  c.grant(7, 10s);  c.attach("lock", 7);  c.stage(batch);  store.apply(batch);  c.commit();
//   if (l.is_over("lock")) ...                       // for writes: its time is over, though it is not removed yet
//   if (l.is_hidden("lock")) ...                     // for reads: over, or what ended it is not shown yet
//
// What a lease is lies in the store (hidden_keys.hpp) and changes in the same batch as the keys it concerns: the time
// that was granted, and the lease of each key. How much of the time is left is kept in memory alone, by a clock that
// never jumps: when a database is opened, all leases begin anew.
// Threads: any number. Changes of one lease or key are made by one thread at a time; the write path sees to that.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "icecore/store.hpp"
#include "service/database.hpp"

namespace icecore::service {

class lease_table {
 public:
  explicit lease_table(const icecore::store& from);

  /// Whether there is any: the test that reads and writes make first.
  [[nodiscard]] bool any() const noexcept { return busy_.load(std::memory_order_acquire) != 0; }
  [[nodiscard]] std::uint64_t count() const noexcept { return count_.load(std::memory_order_acquire); }

  /// 0 if the key has none.
  [[nodiscard]] lease_number of(std::string_view key) const;
  /// Whether the time of the key's lease is over.
  [[nodiscard]] bool is_over(std::string_view key) const;
  /// Whether reads of the present do not show the key: its lease's time is over, or was over when a write ended it that
  /// reads do not show yet. Asked before the read chooses its version.
  [[nodiscard]] bool is_hidden(std::string_view key) const;
  /// All keys of which is_hidden() is true.
  [[nodiscard]] std::set<std::string, std::less<>> hidden() const;
  /// Reads show this version and all before from now on.
  void shown(icecore::version up_to);
  /// Whether there is one whose time is not over.
  [[nodiscard]] bool contains(lease_number number) const;
  /// Whether there is one, also if its time is over.
  [[nodiscard]] bool is_known(lease_number number) const;
  [[nodiscard]] std::vector<std::string> keys(lease_number number) const;
  /// errc::no_such_lease, also of one whose time is over.
  [[nodiscard]] lease_info about(lease_number number, bool keys) const;
  lease_info keep_alive(lease_number number);
  [[nodiscard]] std::vector<lease_number> list() const;
  /// Those whose time is over.
  [[nodiscard]] std::vector<lease_number> over() const;
  /// A number that no lease has.
  [[nodiscard]] lease_number free_number() const;

 private:
  friend class lease_changes;
  using clock = std::chrono::steady_clock;
  struct lease {
    std::chrono::milliseconds granted{};
    clock::time_point until{};
    std::set<std::string, std::less<>> keys;
  };
  struct text_hash {
    using is_transparent = void;
    [[nodiscard]] std::size_t operator()(std::string_view text) const noexcept {
      return std::hash<std::string_view>{}(text);
    }
  };
  [[nodiscard]] const lease& known(lease_number number) const;
  // Precondition of both: mutex_ is held.
  void count_all() noexcept;
  [[nodiscard]] bool is_over_locked(std::string_view key) const;

  mutable std::mutex mutex_;
  std::map<lease_number, lease> leases_;
  std::unordered_map<std::string, lease_number, text_hash, std::equal_to<>> of_keys_;
  // Keys whose lease was over when a write ended it, and the version of that write, until reads show it: else a key
  // that was gone would be back for a moment.
  std::unordered_map<std::string, icecore::version, text_hash, std::equal_to<>> ending_;
  // Release after a change of the maps: who sees 0 needs no lock, since a lease begins to matter for a read only after
  // the write that attached the key was answered.
  std::atomic<std::uint64_t> count_{0};  // of leases_
  std::atomic<std::uint64_t> busy_{0};   // of leases_ and ending_
};

/// What one transaction changes of them.
class lease_changes {
 public:
  explicit lease_changes(lease_table& of) : of_(&of) {}

  /// errc::no_such_lease if neither the leases nor these changes know it.
  void require(lease_number lease) const;
  void grant(lease_number lease, std::chrono::milliseconds time);
  /// The key now belongs to this lease, or to none (0).
  void attach(std::string_view key, lease_number lease);
  /// The lease that the key has with these changes; 0: none.
  [[nodiscard]] lease_number of(std::string_view key) const;
  void revoke(lease_number lease);
  [[nodiscard]] bool empty() const noexcept { return granted_.empty() && attached_.empty() && revoked_.empty(); }

  /// Adds to the batch what has to change in the store.
  void stage(icecore::batch& into) const;
  /// Once the batch is applied. `at`: its version, if reads do not show it yet; else 0.
  void commit(icecore::version at);

 private:
  lease_table* of_;
  std::vector<std::pair<lease_number, std::chrono::milliseconds>> granted_;
  std::map<std::string, lease_number, std::less<>> attached_;
  std::vector<lease_number> revoked_;
};

}  // namespace icecore::service
