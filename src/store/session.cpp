#include "store/session.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "history/clock.hpp"

namespace icecore::detail {

void name_writer(const pool_set& pools) {
  for (const pool* p : pools.files()) {
    auto& live = p->live();
    live.writer_pid = static_cast<std::uint64_t>(getpid());
    std::memset(live.writer_host, 0, sizeof live.writer_host);
    static_cast<void>(gethostname(live.writer_host, sizeof live.writer_host - 1));
  }
}

version clock_after(const pool_set& p, const found_store& found) {
  const format::root root = p.roots().read();
  if (root.state == format::root_state::clean) return root.clock;
  const version lived = p.live().clock.load(std::memory_order_relaxed);  // relaxed: nobody else is there yet
  // where the newest root is lost the limit is not known, but how far it is moved
  if (p.root_in_doubt()) {
    const bool near = lived >= found.newest && lived - found.newest < 1024 * version_clock::step;
    return std::max(root.clock_limit, (near ? lived : found.newest) + 2 * version_clock::step);
  }
  const bool sane =
      lived >= root.clock && lived >= found.newest && lived > found.newest_tag && lived < root.clock_limit;
  return found.same_boot && sane ? lived : root.clock_limit;
}

version_range lost_in_power_cut(const format::root& last, version clock) noexcept {
  // Durable is what has been certified since the session began, or was closed before: all there was then is. The
  // version that was open then is there as it was, but more may have come into it before it was closed.
  return {std::max(last.durable_version + 1, last.clock), clock};
}

void start_session(pool_set& p, const found_store& found, version certified,
                   const std::function<void(format::root&)>& more) {
  const version clock = p.live().clock.load(std::memory_order_relaxed);  // relaxed: nobody else is there yet
  const std::uint64_t inode = p.file().inode();
  p.start_session([&](format::root& r) {
    r.state = format::root_state::open;
    r.durability = static_cast<std::uint8_t>(p.durability().mode);
    read_boot_id(r.boot_id);
    r.inode = inode;
    r.clock = clock;
    r.clock_limit = std::min(std::max(r.clock_limit, clock + version_clock::step), version_max);
    r.durable_version = certified;
    r.certified_records = found.totals.records;
    r.certified_sum = found.totals.digest;
    if (more) more(r);
  });
}

}  // namespace icecore::detail
