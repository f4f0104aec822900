// Packing the stores of all ranks, behind readers and writers.
//
// Each rank packs its own store. A compaction closes the open version at its beginning and at its end; here all ranks
// do so at one instant, while no rank writes (C2), and between the two instants no compaction closes a version. Rank 0
// has the tags and the retention, so its store decides which versions expire; what a query or feed of any rank holds
// stays, and what has expired on any rank before expires on all.
//
// The ranks of a node share their stores, and write into them directly. Such a write passes the gate of the rank that
// makes it, so that none is under way at the two instants, in whichever process. Between them, and behind the second,
// ranks look in each call at what the owner of a store has replaced (store/sharing/).
//
// A rank that has nothing to pack, or fails, takes part in the steps that are left (A1). If ranks fail when others have
// put what they packed in place, these versions expire on all, and the next compaction packs the rest.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "cluster/cluster_core.hpp"

namespace icecore::mpi {
namespace {

/// What a rank tells of its compaction, as bytes.
struct part_report {
  std::uint64_t keys, records, strata, up_to, bytes_before, bytes_after, bytes_written, versions_expired,
      records_dropped;
  std::int64_t writers_stopped_us;
  std::uint8_t packed, erased;
};

part_report part_of(const compaction_report& done) {
  return {.keys = done.keys,
          .records = done.records,
          .strata = done.strata,
          .up_to = done.up_to,
          .bytes_before = done.bytes_before,
          .bytes_after = done.bytes_after,
          .bytes_written = done.bytes_written,
          .versions_expired = done.versions_expired,
          .records_dropped = done.records_dropped,
          .writers_stopped_us = done.writers_stopped.count(),
          .packed = done.packed ? std::uint8_t{1} : std::uint8_t{0},
          .erased = done.erased ? std::uint8_t{1} : std::uint8_t{0}};
}

compaction_report sum_of(std::span<const part_report> parts) {
  compaction_report sum;
  sum.up_to = parts.front().up_to;
  for (const part_report& each : parts) {
    sum.packed = sum.packed || each.packed != 0;
    sum.keys += each.keys;
    sum.records += each.records;
    sum.strata += each.strata;
    sum.up_to = std::min(sum.up_to, each.up_to);
    sum.bytes_before += each.bytes_before;
    sum.bytes_after += each.bytes_after;
    sum.bytes_written += each.bytes_written;
    sum.versions_expired = std::max(sum.versions_expired, each.versions_expired);
    sum.records_dropped += each.records_dropped;
    sum.writers_stopped = std::max(sum.writers_stopped, std::chrono::microseconds(each.writers_stopped_us));
    sum.erased = sum.erased && each.erased != 0;
  }
  return sum;
}

/// Equal if all ranks ask for the same. Threads and the pace may differ.
std::int64_t digest_of(const compaction_options& how) {
  return static_cast<std::int64_t>(how.whole) | static_cast<std::int64_t>(how.dry_run) << 1 |
         static_cast<std::int64_t>(how.compression) << 2 | static_cast<std::int64_t>(how.compression_level) << 8 |
         static_cast<std::int64_t>(how.only_if_expiring) << 16;
}

void check(const compaction_options& how) {
  if (how.together != nullptr) {
    throw error(errc::invalid_argument, "compact: a cluster packs its stores together itself: leave `together` null");
  }
  if (how.compression_level < compression_level_min || how.compression_level > compression_level_max) {
    throw error(errc::invalid_argument,
                fmt::format("compact: compression_level is {}; it must be from {} to {}", how.compression_level,
                            compression_level_min, compression_level_max));
  }
}

}  // namespace

/// One compaction of all ranks, as this rank sees it.
class cluster_compaction {
 public:
  cluster_compaction(cluster_core& core, const compaction_options& how) : core_(core), how_(how) {
    how_.together = &together_;
  }

  [[nodiscard]] compaction_report run() {
    compaction_report done;
    const std::exception_ptr failure = attempt([&] { done = core_.store_->compact(how_); });
    if (thrown_by_all_) std::rethrow_exception(failure);
    if (place_ == place::begin) at_one_instant([] {}, failure);
    if (place_ == place::decision) static_cast<void>(choose({}, {}, failure));
    if (place_ == place::end) at_one_instant([] {}, failure);
    done.writers_stopped = std::max(done.writers_stopped, stopped_);
    // a failure behind the last instant: the store is packed, but its space, for example, is not given back
    core_.agree_.on(step::compact_done, failure);
    return done;
  }

 private:
  /// Which of the three places where all ranks meet is next.
  enum class place : std::uint8_t { begin, decision, end, none };

  /// `failed`: before, on this rank. Then no rank does the work.
  void at_one_instant(const std::function<void()>& work, const std::exception_ptr& failed) {
    const bool begins = place_ == place::begin;
    place_ = begins ? place::decision : place::none;
    thrown_by_all_ = true;
    const auto begin = std::chrono::steady_clock::now();
    {
      const write_gate::hold held = core_.hold_writes();
      core_.agree_.on(begins ? step::compact_begin_held : step::compact_end_held,
                      failed ? failed : attempt([&] { core_.fence_all(); }));
      const auto failure = attempt(work);
      const step clock = begins ? step::compact_begin_clock : step::compact_end_clock;
      const step aligned = begins ? step::compact_begin_aligned : step::compact_end_aligned;
      try {
        core_.agree_.on(begins ? step::compact_begun : step::compact_ended, failure);
      } catch (...) {
        core_.align_after_failure(clock, aligned);
        throw;
      }
      core_.align_clocks(clock, aligned);
    }
    thrown_by_all_ = false;
    if (begins) return;
    stopped_ = std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::steady_clock::now() - begin);
    // Each rank waits a while for the others to give up what it has replaced. If this rank cannot, its next call of
    // that store says why.
    for (partition* const each : core_.partitions_) static_cast<void>(attempt([&] { each->follow(); }));
  }

  /// `expired`: what the store of this rank, which has the retention if it is rank 0, would have expired then.
  [[nodiscard]] std::vector<version_range> choose(std::vector<version_range> expired, std::vector<version_range> held,
                                                  const std::exception_ptr& failure) {
    place_ = place::end;
    thrown_by_all_ = true;
    std::vector<version_range> before;
    core_.agree_.on(step::compact_chosen,
                    failure ? failure : attempt([&] { before = core_.store_->expired_versions(); }));
    before = union_of_ranks(core_.agree_, step::compact_expired, before);
    if (core_.rank_ != 0) expired.clear();
    expired = union_of_ranks(core_.agree_, step::compact_expired, expired);
    held = union_of_ranks(core_.agree_, step::compact_expired, held);
    core_.agree_.on(step::compact_agreed, attempt([&] {
                      expired = without(expired, held);
                      expired.insert(expired.end(), before.begin(), before.end());
                      expired = in_order(std::move(expired));
                      // before a store has given them up: on no rank may one be read that others refuse
                      if (!how_.dry_run) core_.expired_.set(expired);
                    }));
    thrown_by_all_ = false;
    return expired;
  }

  cluster_core& core_;
  compaction_options how_;
  place place_ = place::begin;
  bool thrown_by_all_ = false;
  std::chrono::microseconds stopped_{0};
  const compaction_together together_{
      .at_one_instant = [this](const std::function<void()>& work) { at_one_instant(work, nullptr); },
      .choose_expired =
          [this](std::vector<version_range> expired, std::vector<version_range> held) {
            return choose(std::move(expired), std::move(held), nullptr);
          }};
};

compaction_report cluster_core::compact(const compaction_options& how) {
  begin_collective();
  return agree_.all([&] {
    const agreed same = agree_.on(step::compact_asked, attempt([&] { check(how); }), digest_of(how));
    if (same.least != same.greatest) {
      agree_.refuse(errc::invalid_argument,
                    "the ranks call compact with different options; whole, dry_run, only_if_expiring, compression and "
                    "compression_level must be the same on all");
    }
    compaction_report done;
    try {
      done = cluster_compaction(*this, how).run();
    } catch (...) {
      if (!running_.broken()) {  // some stores may have given up what others have not
        agree_on_expired_versions();
        agree_.thrown_by_all();
      }
      throw;
    }
    agree_on_expired_versions();
    std::vector<part_report> parts(static_cast<std::size_t>(ranks_));
    const part_report mine = part_of(done);
    agree_.gather(&mine, sizeof mine, parts.data());
    return sum_of(parts);
  });
}

/// What has expired on a rank is expired for the cluster.
void cluster_core::agree_on_expired_versions() {
  std::vector<version_range> mine;
  agree_.on(step::expired_here, attempt([&] { mine = store_->expired_versions(); }));
  mine = union_of_ranks(agree_, step::expired_told, mine);
  agree_.on(step::expired_known, attempt([&] { expired_.set(std::move(mine)); }));
}

}  // namespace icecore::mpi
