// Opening by a record scan: makes a working store from the records in the pool. One parallel pass over the records, one
// over the histories, a sort, and a bottom-up build of the index.
//
// Order, and what a crash inside recovery leaves:
//   1. record scan, certificate, chains: nothing is written; damage throws here, or a reader accepts it (salvage.hpp).
//   2. heads and the stamps of batched records are set: every recovery recomputes both.
//   3. what does not count is zeroed and synced: the old root still describes what is left, and what was dropped cannot
//      come back. Then a root is written that certifies everything there and lists what was lost, then the fill ends,
//      synced.
//   4. the root of the new session is written: from now on the fill ends vouch for everything there.
#pragma once

#include <vector>

#include "icecore/options.hpp"
#include "store/open/opening.hpp"
#include "store/open/record_scan.hpp"

namespace icecore::detail {

class recovery {
 public:
  recovery(store_parts& parts, const options& opening);
  virtual ~recovery() = default;
  recovery(const recovery&) = delete;
  recovery& operator=(const recovery&) = delete;
  /// Opens the store. Takes the parts.
  [[nodiscard]] std::unique_ptr<opened_store> run();

 protected:
  [[nodiscard]] pool_set& pools() const noexcept { return *parts_.pool; }

 private:
  /// Call before heads are changed.
  virtual void begin_changes(const record_scan& found) const;
  /// Call when nothing can be refused any more.
  virtual void finish_copy() const {}

  void accept_damaged(record_scan& found);
  void set_heads(const record_scan& found) const;
  void drop_uncounted(const record_scan& found) const;
  [[nodiscard]] std::vector<link> entries_in_key_order(const record_scan& found) const;
  void take_over(const record_scan& found);
  void begin_session(const record_scan& found) const;
  // A persistent index, which replaces the previous one if there is one.
  void recover_queries(const record_scan& found) const;
  void free_index(const record_scan& found) const;
  [[nodiscard]] durable_parts build_durable_index(const record_scan& found, const std::vector<link>& sorted);
  void make_heads_durable(const record_scan& found) const;
  void list_tags(const record_scan& found, const durable_parts& made) const;

  store_parts& parts_;
  const options& opening_;
  std::unique_ptr<rebuilt_histories> histories_;
};

/// Opens a store that is being made as a copy (options::copy_of). It has no root until all of it is checked, and that
/// root leads to no index.
class recovery_of_copy final : public recovery {
 public:
  using recovery::recovery;

 private:
  void begin_changes(const record_scan& /*found*/) const override {}
  void finish_copy() const override { pools().finish_copy(); }
};

}  // namespace icecore::detail
