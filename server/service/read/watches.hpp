// The watches of one database: feeds of its store, and who is waked when there is more.
//
//   watch_list list;
//   std::unique_ptr<watch> w = list.begin(s.feed(...), request, codec);
//   list.tellable(17);           // versions up to 17 can be told: wakes the watches that wait
//   list.end(why);               // all watches fail with it from now on
//
// Each watch reads its own feed, at the pace of its client: a slow one holds up nobody and keeps nothing in memory but
// one batch.
// Order: a watch that waits first puts its function into the list and then looks at `tellable_` again, under the lock
// under which tellable() changes it. So no wake-up is lost.
// Threads: any number; each watch, one at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>

#include "icecore/feed.hpp"
#include "service/database.hpp"
#include "service/read/gate.hpp"
#include "service/read/value_codec.hpp"

namespace icecore::service {

class watch_list {
 public:
  watch_list();
  ~watch_list();
  watch_list(const watch_list&) = delete;
  watch_list& operator=(const watch_list&) = delete;

  [[nodiscard]] std::unique_ptr<watch> begin(std::shared_ptr<const gate> way, icecore::feed told,
                                             icecore::version after, const watch_request& what,
                                             std::shared_ptr<const value_codec> codec);
  void tellable(icecore::version up_to);
  void end(const failure& why);
  [[nodiscard]] std::uint64_t count() const noexcept;
  [[nodiscard]] icecore::version newest() const noexcept;

 private:
  struct shared;
  class store_watch;
  std::shared_ptr<shared> shared_;
};

}  // namespace icecore::service
