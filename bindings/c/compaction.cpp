// Packing a store.
#include "icecore/compaction.hpp"

#include "opening.hpp"
#include "upkeep.hpp"

namespace {

using namespace icecore::c;

/// What the functions have in common. `function` is named in errors.
int compact(const char* function, const char* path, const icecore_options* options,
            const icecore::compaction_options& how, icecore_compaction_report* report) {
  return guarded([&] {
    require(path, function, "path");
    if (report != nullptr) {
      require_result(report, function);
      write_structure(report, icecore_compaction_report{});
    }
    const icecore::compaction_report done = icecore::compact(path, options_of(options, function), how);
    if (report != nullptr) write_structure(report, report_of(done));
  });
}

/// The same of an open store.
int compact(const char* function, icecore_store* store, const icecore::compaction_options& how,
            icecore_compaction_report* report) {
  return guarded([&] {
    require(store, function, "store");
    if (report != nullptr) {
      require_result(report, function);
      write_structure(report, icecore_compaction_report{});
    }
    const icecore::compaction_report done = store->store.compact(how);
    if (report != nullptr) write_structure(report, report_of(done));
  });
}

/// `level`: 0, or that of zstd.
icecore::compaction_options compressed(icecore::compaction_options how, int level) {
  if (level == 0) return how;
  how.compression = icecore::compression::zstd;
  how.compression_level = level;
  return how;
}

}  // namespace

extern "C" {

int icecore_compact(const char* path, const icecore_options* options, int whole, unsigned threads,
                    icecore_progress_function on_progress, void* progress_context, icecore_compaction_report* report) {
  return compact("icecore_compact", path, options,
                 {.whole = whole != 0, .threads = threads, .on_progress = progress_of(on_progress, progress_context)},
                 report);
}

int icecore_compact_compressed(const char* path, const icecore_options* options, int whole, unsigned threads, int level,
                               icecore_progress_function on_progress, void* progress_context,
                               icecore_compaction_report* report) {
  return compact("icecore_compact_compressed", path, options,
                 {.whole = whole != 0,
                  .threads = threads,
                  .compression = icecore::compression::zstd,
                  .compression_level = level,
                  .on_progress = progress_of(on_progress, progress_context)},
                 report);
}

int icecore_compact_open(icecore_store* store, int whole, unsigned threads, int level, uint64_t bytes_per_second,
                         icecore_progress_function on_progress, void* progress_context,
                         icecore_compaction_report* report) {
  return compact("icecore_compact_open", store,
                 compressed({.whole = whole != 0,
                             .threads = threads,
                             .bytes_per_second = bytes_per_second,
                             .on_progress = progress_of(on_progress, progress_context)},
                            level),
                 report);
}

int icecore_expire(const char* path, const icecore_options* options, int whole, int dry_run, unsigned threads,
                   int level, icecore_progress_function on_progress, void* progress_context,
                   icecore_compaction_report* report) {
  return compact("icecore_expire", path, options,
                 compressed({.whole = whole != 0,
                             .dry_run = dry_run != 0,
                             .only_if_expiring = true,
                             .threads = threads,
                             .on_progress = progress_of(on_progress, progress_context)},
                            level),
                 report);
}

int icecore_expire_open(icecore_store* store, int whole, int dry_run, unsigned threads, int level,
                        uint64_t bytes_per_second, icecore_progress_function on_progress, void* progress_context,
                        icecore_compaction_report* report) {
  return compact("icecore_expire_open", store,
                 compressed({.whole = whole != 0,
                             .dry_run = dry_run != 0,
                             .only_if_expiring = true,
                             .threads = threads,
                             .bytes_per_second = bytes_per_second,
                             .on_progress = progress_of(on_progress, progress_context)},
                            level),
                 report);
}

int icecore_pause_compaction(icecore_store* store) {
  return guarded([&] {
    require(store, "icecore_pause_compaction", "store");
    store->store.pause_compaction();
  });
}

int icecore_resume_compaction(icecore_store* store) {
  return guarded([&] {
    require(store, "icecore_resume_compaction", "store");
    store->store.resume_compaction();
  });
}

int icecore_compact_dry_run(const char* path, const icecore_options* options, int whole, unsigned threads,
                            icecore_compaction_report* report) {
  return guarded([&] {
    require(path, "icecore_compact_dry_run", "path");
    require_result(report, "icecore_compact_dry_run");
    write_structure(report, icecore_compaction_report{});
    const icecore::compaction_report told =
        icecore::compact(path, options_of(options, "icecore_compact_dry_run"),
                         {.whole = whole != 0, .dry_run = true, .threads = threads, .on_progress = {}});
    write_structure(report, report_of(told));
  });
}

}  // extern "C"
