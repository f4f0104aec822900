// Has a store packed by the process that opened it, for a process that is attached.
//
//   compaction_asker asks(store);
//   const compaction_report report = asks.compact(how);
//
// Threads: any; one request at a time in all processes, others wait. The thread that waits holds neither a pin nor a
//   writer, so its process follows meanwhile, and keeps no space. It never waits for an opener that has ended.
// Errors: those of the opener's store::compact(); errc::closed, errc::poisoned; errc::invalid_argument if the opener
//   has ended, or `how` has compaction_together; errc::io if the opener has no thread for it. What the progress
//   function throws ends the opener's work, and is thrown when that has ended.
// Cost: a look each few milliseconds until the answer is there, with a system call.
#pragma once

#include <cstdint>

#include "icecore/compaction.hpp"
#include "store/sharing/compaction_request.hpp"

namespace icecore::detail {

class opened_store;

class compaction_asker {
 public:
  /// `store`: of this process.
  explicit compaction_asker(opened_store& store) noexcept : store_(&store) {}

  /// When it returns, this process has followed: its next call reads what is packed.
  [[nodiscard]] compaction_report compact(const compaction_options& how) const;

 private:
  [[nodiscard]] compaction_request& request() const noexcept;
  [[nodiscard]] recovering_lock take_turn() const;
  [[nodiscard]] std::uint64_t ask(const compaction_options& how) const;
  template <class Meanwhile>
  void wait_for(std::uint64_t number, Meanwhile&& meanwhile) const;
  void cut_off(std::uint64_t number) const noexcept;
  [[nodiscard]] bool is_opener_gone() const noexcept;
  [[noreturn]] void raise_gone() const;
  [[noreturn]] void raise_closed() const;
  [[nodiscard]] compaction_report report_of(const compaction_request::reply& answer) const;

  opened_store* store_;
};

}  // namespace icecore::detail
