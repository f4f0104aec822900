#include "store/open/session.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "history/clock.hpp"
#include "pool/root/boot.hpp"

namespace icecore::detail {

namespace {

using host_name = std::array<char, sizeof format::live_page::writer_host>;

/// All zero if the machine does not report its name.
host_name this_host() noexcept {
  host_name host{};
  if (gethostname(host.data(), host.size() - 1) != 0) host = {};
  return host;
}

bool is_of_host(const format::live_page& live, const host_name& host) noexcept {
  return std::memcmp(live.writer_host, host.data(), host.size()) == 0;
}

/// Notes this process for the error that other would-be writers get, and this host for an opening that finds the store
/// left open. Call before the root says that a session has begun: the sync of that root makes this durable. Only
/// sessions that sync need the host; those that flush by lines have operation durability (what_crashed()).
void name_writer(const pool_set& pools) {
  const host_name host = this_host();
  for (const pool* p : pools.files()) {
    auto& live = p->live();
    live.writer_pid = static_cast<std::uint64_t>(getpid());
    // only if it differs: a power cut must not tear a correct name
    if (!is_of_host(live, host)) std::memcpy(live.writer_host, host.data(), host.size());
  }
}

}  // namespace

void begin_epoch(format::root& r, bool crashed) noexcept {
  ++r.epoch;
  if (crashed) r.evidence_from = static_cast<std::uint32_t>(r.epoch);
}

void forget_writer(const pool_set& pools) noexcept {
  for (const pool* p : pools.files()) p->live().writer_pid = 0;
}

crash_kind what_crashed(const pool_set& p, crash_kind said) {
  const format::root root = p.roots().read();
  if (written_this_boot(root)) return crash_kind::process;
  if (said != crash_kind::unknown) return said;
  const host_name host = this_host();
  const bool same_host = host[0] != '\0' && is_of_host(p.live(), host);
  return same_host && written_in_another_boot(root) ? crash_kind::machine : crash_kind::unknown;
}

version clock_after(const pool_set& p, const found_store& found) {
  const format::root root = p.roots().read();
  const version lived = p.live().clock.load(std::memory_order_relaxed);  // relaxed: nothing else runs yet
  // if the newest root is lost, the limit is not known, but the step by which it moves is
  if (p.root_unreliable()) {
    const bool near = lived >= found.newest && lived - found.newest < 1024 * version_clock::step;
    return std::max(root.clock_limit, (near ? lived : found.newest) + 2 * version_clock::step);
  }
  const bool closed = root.state == format::root_state::clean;
  // If damage is accepted, both root pages may be of an earlier time: then treat them as lost.
  const version last = closed ? root.clock : root.clock_limit;
  if (found.newest > last || found.newest_tag >= last)
    return std::min(found.newest + 2 * version_clock::step, version_max);
  // Who observes a closed store shows the version that was open, too (beside/observing.cpp).
  const bool was_shown = closed && p.shared() && p.file().is_observed();
  if (was_shown) return std::min(root.clock + 1, version_max);
  if (closed) return root.clock;
  const bool sane =
      lived >= root.clock && lived >= found.newest && lived > found.newest_tag && lived < root.clock_limit;
  return found.same_boot && sane ? lived : root.clock_limit;
}

version_range lost_in_power_cut(const format::root& last, version clock) noexcept {
  // Durable is what was certified since the session began, and what was closed before: all of that is there. The
  // version that was open when the session began is there as it was then, but it may have received more before it was
  // closed.
  return {std::max(last.durable_version + 1, last.clock), clock};
}

void start_session(pool_set& p, const found_store& found, version certified,
                   const std::function<void(format::root&)>& more) {
  const version clock = p.live().clock.load(std::memory_order_relaxed);  // relaxed: nothing else runs yet
  const std::uint64_t inode = p.file().inode();
  name_writer(p);
  p.start_session([&](format::root& r) {
    r.state = format::root_state::open;
    r.durability = static_cast<std::uint8_t>(p.recovery_mode());
    read_boot_id(r.boot_id);
    r.inode = inode;
    r.clock = clock;
    r.clock_limit = std::min(std::max(r.clock_limit, clock + version_clock::step), version_max);
    r.durable_version = certified;
    r.certificate = format::certificate_kind::proven;
    r.certified_records = found.totals.records;
    r.certified_sum = found.totals.digest;
    if (more) more(r);
  });
}

}  // namespace icecore::detail
