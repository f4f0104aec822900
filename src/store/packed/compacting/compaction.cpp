// Packs a store that nobody else has open. The numbers are those of docs/design/0028-freezing-and-compaction.md.
//
//   1. The open version is closed if anything was written in it. The store's retention, its tags and what kept queries,
//      feeds and holds need decide which versions expire (retention/expiry.hpp).
//   2. Threads merge ranges of keys of the young generation, and of the strata that are packed once more, into extents,
//      each in a segment of its own. Nothing leads there.
//   3. Extents, the tags (as records of the next era) and the manifest are made durable.
//   4. 5. Both roots lead to the manifest. From then on the segments of the eras before it are free space, and what the
//      store holds is the manifest's extents and the tags.
//   7. 8. Nobody else is there but readers beside the writer, which give_back() looks for. What no manifest names is
//      given back, and the files end where the last segment does.
//
// A crash before 4 leaves the store as it was, with segments that no manifest names; between 4 and 5 one of the two, by
// the root that counts; and behind 5 what is packed. The next opening for writing gives back what is left.
#include "icecore/compaction.hpp"

#include <array>
#include <utility>
#include <vector>

#include "base/raise.hpp"
#include "pool/query/query_format.hpp"
#include "pool/query/query_space.hpp"
#include "store/engine.hpp"
#include "store/packed/compacting/packing.hpp"

namespace icecore {

namespace detail {
namespace {

class packing_alone final : packing {
 public:
  packing_alone(store_core& core, const compaction_options& how, changes_before before)
      : packing(core, how, before), slow_(how.bytes_per_second) {}

  [[nodiscard]] change_done run() {
    forgotten_.require_intact(*pools_);
    report_.bytes_before = bytes_on_device(*pools_);
    report_.up_to = how_->only_if_expiring ? core_->version_to_close() : core_->close_version();
    // a compaction closes the open version only if something was written in it
    if (core_->nobody_writes() && core_->shared().newest_recovered < report_.up_to) --report_.up_to;
    // What a killed process has stored of a release may be in the caches alone: nothing expires by it before it is
    // durable.
    query_space queries(*pools_, core_->shared().queries);
    if (!how_->dry_run && queries.ever_used()) queries.finish();
    decide();
    choose_strata();
    const manifest& now = core_->packing();
    report_.strata = core_->packed() == nullptr ? 0 : core_->packed()->all().size();
    if (!is_anything_to_do()) {
      core_->close();
      report_.bytes_after = bytes_on_device(*pools_);
      return done();
    }
    if (how_->dry_run) {
      count({0, version_max}, nullptr);
      return done();
    }
    if (how_->only_if_expiring) report_.up_to = core_->close_version();
    // A persistent index is made anew afterwards. Without one, the opening after a crash looks at all segments, and
    // gives back those that this compaction leaves.
    pools_->roots().update_both([](format::root& r) { r.anchor = null_link; });
    if (core_->heads() == heads_kind::durable || core_->heads() == heads_kind::layered_durable) {
      // While a store has that index, no free segment is given out; its lists of segments do not count any more.
      for_each_segment(*pools_, [&](const segment& s, const format::segment_header& h) {
        if (h.magic == format::free_segment_magic) pools_->add_free(s.offset, s.size);
      });
    }
    manifest next;
    try {
      const merged made = merge_all({0, version_max}, &slow_);
      next = next_manifest({made.young}, made.range, greatest_era() + 1);
      pools_->set_era(next.era);
      static_cast<void>(write_tags());
      begin_versions_of_feeds_again();
      store_manifest(*pools_, now, next);  // 3: its first sync covers all that was written
    } catch (...) {
      pools_->set_era(now.era);
      give_up(now);
      throw;
    }
    // An error here poisons the store: then closing it writes no root.
    pools_->roots().update_both([&](format::root& r) { note_packed(r, next); });  // 4, 5
    try {
      give_back_unused(next);
    } catch (...) {
      poison();
      throw;
    }
    core_->close_replaced(left_);
    report_.packed = true;
    report_.versions_expired = newly_expired_;
    report_.bytes_after = bytes_on_device(*pools_);
    return done();
  }

 private:
  /// Steps 7 and 8.
  void give_back_unused(const manifest& next) {
    // With the free segments of before, so that neighbours become one. None of those is given out any more.
    for (pool* p : pools_->files()) static_cast<void>(p->take_free());
    std::vector<segment> unused = outdated_segments(*pools_, next);
    for_each_segment(*pools_, [&](const segment& s, const format::segment_header& h) {
      if (h.magic == format::free_segment_magic) unused.push_back(s);
    });
    const bool has_none = unused.empty();
    report_.erased = has_none || !give_back(*pools_, std::move(unused)).empty();
    if (report_.erased && !forgotten_.segments().empty()) {
      report_.erased = !forgetting(forgotten_).finish(core_->opened()).empty();
    }
    if (report_.erased) cut_end(next);
  }

  /// Files end behind the last segment that is in use.
  void cut_end(const manifest& of) const {
    std::array<std::uint64_t, format::files_max> ends{};
    ends.fill(format::first_segment_offset);
    for_each_segment(*pools_, [&](const segment& s, const format::segment_header& h) {
      const bool in_use = h.magic == format::query_segment_magic || h.magic == format::forget_segment_magic ||
                          of.names(s.offset) || (h.magic == format::segment_magic && h.era == of.era);
      if (in_use) ends[link_pool(s.offset)] = std::max(ends[link_pool(s.offset)], link_offset(s.end()));
    });
    for (pool* p : pools_->files()) p->set_used_end(ends[p->number()]);
  }

  /// After an error nothing leads to what was written.
  void give_up(const manifest& now) const noexcept {
    try {
      std::vector<segment> made;
      for_each_segment(*pools_, [&](const segment& s, const format::segment_header& h) {
        const bool is_new = (h.magic == format::segment_magic && h.era != now.era) ||
                            h.magic == format::packed_segment_magic || h.magic == format::manifest_segment_magic;
        if (is_new && !now.names(s.offset)) made.push_back(s);
      });
      for (const segment& s : give_back(*pools_, std::move(made))) pools_->add_free(s.offset, s.size);
    } catch (...) {  // the next opening for writing gives it back
    }
  }

  pace slow_;
};

}  // namespace
}  // namespace detail

namespace detail {

void check(const compaction_options& how) {
  if (how.compression_level < compression_level_min || how.compression_level > compression_level_max) {
    raise(errc::invalid_argument, "compact: compression_level is {}; it must be from {} to {}", how.compression_level,
          compression_level_min, compression_level_max);
  }
  if (how.compression > compression::zstd) {
    raise(errc::invalid_argument, "compact: compression is {}; it must be 0 (none) or 1 (zstd)",
          static_cast<unsigned>(how.compression));
  }
}

}  // namespace detail

compaction_report compact(const std::filesystem::path& path, const options& opening, const compaction_options& how) {
  if (how.together != nullptr) {
    raise(errc::invalid_argument, "{}: several stores are packed together while they are open, by store::compact()",
          path.native());
  }
  if (!opening.shared_as.empty()) {
    raise(errc::invalid_argument, "{}: a store is packed by one process alone; do not share it meanwhile",
          path.native());
  }
  detail::check(how);
  options writing = opening;
  writing.access = how.dry_run ? access::read_only : access::read_write;
  writing.creation = creation::open_existing;
  writing.grow_in_background = false;
  return detail::make_changes([&](detail::changes_before before) {
    // Who only counts may do so beside the process that writes.
    const auto opened = how.dry_run ? detail::open_store(path, writing) : detail::open_store_briefly(path, writing);
    return detail::packing_alone(opened->current(), how, before).run();
  });
}

}  // namespace icecore
