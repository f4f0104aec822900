// In the process that opened a store and shares it: packs the store for processes that are attached and ask for it
// (compaction_request.hpp).
//
//   compaction_answerer answers(store);      // until it is destroyed
//
// A task of the ticker looks each 50 ms whether somebody asks. Only then a thread is made, which packs the store as a
// call of this process would, and ends when nobody asks any more.
//
// Threads: construction, end() and destruction run alone; destruction returns when nothing of this is under way: it
//   cuts off what is, and that asker gets errc::closed. In a forked child nothing is answered.
// Errors: none; if no thread can be made, askers are told so.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string_view>
#include <thread>

#include "base/background/ticker.hpp"
#include "icecore/compaction.hpp"
#include "icecore/error.hpp"
#include "store/sharing/compaction_request.hpp"

namespace icecore::detail {

class opened_store;

class compaction_answerer {
 public:
  explicit compaction_answerer(opened_store& store);
  ~compaction_answerer();
  compaction_answerer(const compaction_answerer&) = delete;
  compaction_answerer& operator=(const compaction_answerer&) = delete;

  /// Cuts off what is under way, soon, without waiting for it. No request is begun any more.
  void end() noexcept;

 private:
  [[nodiscard]] bool is_of_parent() const noexcept;
  [[nodiscard]] bool is_asked() const noexcept;
  void look() noexcept;
  void answer_all() noexcept;
  void answer_one() noexcept;
  [[nodiscard]] compaction_report pack(std::uint64_t number);
  void end_request(std::uint64_t number) noexcept;
  void note_error(int code, std::string_view message) noexcept;

  opened_store* store_;
  compaction_request* request_;
  std::uint64_t fork_generation_;
  std::atomic<bool> ends_{false};
  std::atomic<bool> is_answering_{false};
  std::thread thread_;                 // the ticker's: it makes and joins it
  std::optional<ticking_task> looks_;  // last: it uses the others
};

}  // namespace icecore::detail
