#include "store/core.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <fstream>
#include <string>
#include <utility>

#include "base/raise.hpp"
#include "base/threads.hpp"
#include "store/killed_writers.hpp"
#include "store/scan.hpp"

namespace icecore::detail {
namespace {

void check_sizes(std::string_view key, std::string_view value) {
  if (key.size() > key_size_max) {
    raise(errc::key_too_long, "a key of {} bytes: keys have at most {}", key.size(), key_size_max);
  }
  if (value.size() > value_size_max) {
    raise(errc::value_too_large, "a value of {} bytes: values have at most {}", value.size(), value_size_max);
  }
}

std::uint64_t huge_page_bytes_of_process() {
  std::ifstream in("/proc/self/smaps_rollup");
  std::uint64_t kibibytes = 0;
  for (std::string name; in >> name;) {
    std::uint64_t n = 0;
    if (name == "AnonHugePages:" || name == "ShmemPmdMapped:" || name == "FilePmdMapped:") {
      if (in >> n) kibibytes += n;
    }
    in.ignore(1 << 16, '\n');
  }
  return kibibytes * 1024;
}

}  // namespace

store_core::store_core(const std::filesystem::path& path, const options& opening)
    : fork_generation_(fork_generation()), attached_(opening.access == access::attached) {
  if (attached_) {
    attach(path, opening);
  } else {
    open(path, opening);
  }
}

store_core::~store_core() {
  if (is_closed_ || fork_generation_ != fork_generation()) return;
  try {
    close();
  } catch (...) {  // whoever wants to know calls close()
  }
}

void store_core::raise_unusable() const {
  if (fork_generation_ != fork_generation()) {
    raise(errc::forked, "{}: used in a forked child of the process that opened it; open it again in the child",
          pool_->file().path().native());
  }
  if (pool_->persist().poisoned()) pool_->persist().raise_poisoned();
  raise(errc::closed, "{}: the process that shared the store has closed it", pool_->file().path().native());
}

void store_core::raise_read_only() const {
  raise(errc::read_only, "{}: was opened for reading only", pool_->file().path().native());
}

void store_core::raise_not_closed(version v) const {
  raise(errc::version_not_closed, "version {} is not closed yet: the open version is {}; tag() closes it", v,
        clock_->now());
}

void store_core::raise_lost(version v) const {
  const auto behind = std::ranges::find_if(lost_.ranges(), [v](const version_range& each) { return v < each.end; });
  raise(errc::version_lost,
        "{}: version {} is lost: of the versions from {} to {} a power cut took what was not durable yet; the versions "
        "before and after them are there",
        pool_->file().path().native(), v, behind->first, behind->end - 1);
}

// ---- Single writes ----

version store_core::put(std::string_view key, std::string_view value) {
  check_sizes(key, value);
  check_writable();
  const std::uint64_t hash = index::lookup_cache::hash_of(key);
  lookups_->prefetch(hash);
  const writer_lease w(*writers_);
  // Again: a write that met a failed sync may have left an unfinished record in this writer's segment, behind which
  // nothing must come. It poisoned the store before it gave the writer back.
  check_usable();
  const entered there =
      enter(*w, {record_layout::of_entry(key.size(), value.size(), false), null_link, key, value, hash});
  if (there.fresh) {
    const version v = finish(*w, *there.fresh);
    // behind the fence, which would wait for the word's line
    lookups_->put(hash, there.entry);
    return v;
  }
  histories_->prefetch_newest(there.entry);
  const record_layout layout = record_layout::of_insert(value.size(), false);
  const fresh_record fresh{w->allocate(layout), layout};
  histories_->at(fresh.at).fill(layout, null_link, {}, value);
  static_cast<void>(link_single(*w, there.entry, fresh, false));
  return finish(*w, fresh);
}

std::optional<version> store_core::remove(std::string_view key) {
  check_sizes(key, {});
  check_writable();
  const writer_lease w(*writers_);
  check_usable();  // see put()
  const link entry = entry_of(key);
  // Before a record is made in vain; whether another thread removes the key meanwhile, link_on_top() tells.
  if (entry == null_link || histories_->is_removed(entry)) return std::nullopt;
  const record_layout layout = record_layout::of_remove(false);
  const fresh_record fresh{w->allocate(layout), layout};
  histories_->at(fresh.at).fill(layout, null_link, {}, {});
  if (!link_single(*w, entry, fresh, true)) return std::nullopt;
  return finish(*w, fresh);
}

/// Links a filled record of no batch on top of its entry's history. Where that fails, or nothing is to be linked, the
/// record is taken back: nothing that counts may come to lie behind one that does not.
bool store_core::link_single(const writer& w, link entry, const fresh_record& fresh, bool unless_removed) const {
  bool linked = false;
  try {
    linked = histories_->link_on_top(entry, fresh.at, w.seed_of(fresh.at), unless_removed);
  } catch (...) {  // damage: thrown before the head is changed
    w.rewind(fresh.at, fresh.layout);
    throw;
  }
  if (!linked) w.rewind(fresh.at, fresh.layout);
  return linked;
}

/// Fills a new entry when the index asks for it; takes it back unless it is kept.
class store_core::entry_filler final : public index::entry_maker {
 public:
  entry_filler(const writer& w, const histories& past, const new_entry& what, bool stores_never_wait)
      : writer_(w), past_(past), what_(what), stores_never_wait_(stores_never_wait) {}
  ~entry_filler() {
    // another thread was faster, or the index had no memory: no one has seen the entry
    if (made_ != null_link && !kept_) writer_.rewind(made_, what_.layout);
  }
  entry_filler(const entry_filler&) = delete;
  entry_filler& operator=(const entry_filler&) = delete;

  [[nodiscard]] link make() override {
    made_ = writer_.allocate(what_.layout);
    const record r = past_.at(made_);
    r.fill(what_.layout, what_.batch, what_.key, what_.value);
    r.seal(writer_.seed_of(made_));
    return made_;
  }
  /// Stamped and flushed here, the record is on its way to the medium while the index makes room for it.
  void publishing() noexcept override {
    // On a block device the kernel may be writing the page back: a store to it would fault and wait, and readers with
    // it. The records of a batch take the batch's stamp, which does not exist yet.
    // The persistent index may only point to durable, stamped entries, so do both now although readers wait.
    if (!past_.heads_last() && (!stores_never_wait_ || what_.batch != null_link)) return;
    past_.stamp_unseen(made_);
    stamped_ = true;
    constexpr std::uint64_t bytes_max = 4 * format::cache_line_size;  // readers wait: longer ones are flushed later
    if (what_.layout.size() > bytes_max && !past_.heads_last()) return;
    past_.flush_fresh(made_, what_.layout.size());
    flushed_ = true;
  }
  [[nodiscard]] bool stamped() const noexcept { return stamped_; }
  [[nodiscard]] bool flushed() const noexcept { return flushed_; }
  /// Whether the key's entry is the one made here; it is kept then.
  [[nodiscard]] bool keep_if(link entry) noexcept { return kept_ = made_ != null_link && made_ == entry; }

 private:
  const writer& writer_;
  const histories& past_;
  const new_entry& what_;
  bool stores_never_wait_;
  link made_ = null_link;
  bool kept_ = false;
  bool stamped_ = false;
  bool flushed_ = false;
};

store_core::entered store_core::enter(const writer& w, const new_entry& what) const {
  if (const link known = known_entry_of(what.key, what.hash); known != null_link) return {known, std::nullopt};
  entry_filler filler(w, *histories_, what, stores_never_wait_);
  const link entry = index_->insert(what.key, filler);
  if (!filler.keep_if(entry)) {
    lookups_->put(what.hash, entry);
    return {entry, std::nullopt};
  }
  if (!filler.stamped()) histories::fence_after_index_publish();
  return {entry, fresh_record{entry, what.layout, filler.flushed()}};
}

/// The entry, if it is new. It is durable, with the pair that leads to it, after the next sync.
link store_core::enter_key(const writer& w, std::string_view key) const {
  const entered there =
      enter(w, {record_layout::of_key(key.size()), null_link, key, {}, index::lookup_cache::hash_of(key)});
  if (there.fresh) {
    const record r = histories_->at(there.entry);
    w.count(there.fresh->layout, false, there.entry, r.header().crc, histories_->stamp_of(there.entry));
    return there.entry;
  }
  return null_link;
}

version store_core::finish(const writer& w, const fresh_record& fresh) {
  if ((fresh.layout.flags & format::flag_large_value) != 0) checked_->mark(fresh.at);
  // All that is read of the record, and all else, before the flush: reading a line that is on its way to the medium
  // waits until it is there, and behind the fence the processor runs ahead into the next operation only as far as its
  // window reaches.
  const version v = histories_->stamp_of_own(fresh.at);
  const record r = histories_->at(fresh.at);
  const bool batched = r.batched();  // then it was flushed with its batch
  histories_->sample(fresh.at);
  w.count(fresh.layout, r.is_removal(), fresh.at, r.header().crc, v);
  const histories::written done = histories_->written_of(fresh.at);
  histories_->note_settled(w.unsettled());
  if (batched) {
    histories_->persist_before_return(fresh.at);
  } else {
    if (!fresh.flushed) histories_->flush_fresh(fresh.at, fresh.layout.size());
    histories_->await_flushed(done);
  }
  if (histories_->settles_late()) {
    w.set_unsettled(done);
  } else {
    histories_->note_second(done, v);
  }
  return v;
}

// ---- Reading ----

link store_core::visible_latest(std::string_view key) const {
  const link entry = entry_of(key);
  if (entry == null_link) return null_link;
  // A removal that the entry alone tells of was the newest when the head was read, and has happened.
  const link start = histories_->start_of(entry, version_max);
  if (start == null_link) return null_link;
  const link l = histories_->find_latest_from(start);
  return l == null_link ? null_link : returned(l);
}

void store_core::find_many(std::span<const std::string_view> keys, const version* at, std::size_t at_stride,
                           std::span<std::optional<std::string_view>> out) const {
  constexpr std::size_t group = 64;
  const auto version_of = [&](std::size_t i) { return at[i * at_stride]; };
  std::array<link, group> links;
  for (std::size_t first = 0; first < keys.size(); first += group) {
    const std::size_t count = std::min(group, keys.size() - first);
    // three passes, each over all of the group, so that their cache misses overlap: entries, where to begin, answers
    index_->find_many(keys.subspan(first, count), std::span(links).first(count));
    for (std::size_t i = 0; i < count; ++i) {
      if (links[i] == null_link) continue;
      const link entry = std::exchange(links[i], histories_->start_of(links[i], version_of(first + i)));
      if (links[i] != entry && links[i] != null_link) __builtin_prefetch(histories_->at(links[i]).address());
    }
    for (std::size_t i = 0; i < count; ++i) {
      const link l = links[i] == null_link ? null_link : visible_from(links[i], version_of(first + i));
      if (l == null_link) {
        out[first + i].reset();
      } else {
        out[first + i] = value_of(l);
      }
    }
  }
}

std::vector<std::string_view> store_core::keys(const key_bounds& bounds) const {
  check_usable();
  std::vector<std::string_view> found;
  for_each_block(*this, scan_bounds(bounds), [&](std::span<const link> entries) {
    for (const link entry : entries) found.push_back(key_of(entry));
    return true;
  });
  return found;
}

// ---- About itself ----

std::vector<partial_segments::place> store_core::places() const {
  std::vector<partial_segments::place> all;
  if (media_ == nullptr) {
    writers_->for_each_place([&](const partial_segments::place& p) { all.push_back(p); });
    return all;
  }
  std::vector<std::uint64_t> open;
  writers_->for_each_writer([&](unsigned, const partial_segments::place& p, const record_totals&, version) {
    all.push_back(p);
    open.push_back(p.in.offset);
  });
  std::ranges::sort(open);
  // a header may still say where the segment was left before its writer took it
  media_->segments().for_each_left([&](const partial_segments::place& p) {
    if (!std::ranges::binary_search(open, p.in.offset)) all.push_back(p);
  });
  return all;
}

statistics store_core::stats() const {
  check_usable();
  check_first();
  record_totals totals = shared_->recovered;
  std::uint64_t free_in_segments = 0;
  {
    const writer_set::gate stopped(*writers_);
    totals.add(writers_->totals());
    for (const auto& p : places()) free_in_segments += p.room();
  }
  const format::root root = pool_->roots().read();
  statistics s{};
  s.keys = totals.keys;
  s.records = totals.inserts + totals.removes;
  s.removes = totals.removes;
  s.tags = tags().size();
  s.clock = clock_->now();
  s.key_bytes = totals.key_bytes;
  s.value_bytes = totals.value_bytes;
  for (std::uint16_t n = 0; n < pool_->count(); ++n) {
    const pool* p = pool_->find(n);
    if (p == nullptr) continue;
    s.files.push_back({p->file().path().native(), pool_->node_of(n), p->file().size(), p->used_end()});
    s.used_bytes += s.files.back().used_bytes - format::first_segment_offset;
    s.file_bytes += s.files.back().file_bytes;
  }
  s.used_bytes -= free_in_segments;
  s.index_bytes = index_->memory_bytes() + lookups_->bytes();
  s.huge_page_bytes = huge_page_bytes_of_process();
  s.recovery_seconds = recovery_seconds_;
  s.recovered_from_crash = recovered_from_crash_;
  s.path = pool_->file().path().native();
  s.pool_id = pool_->id();
  s.format_major = root.version_major;
  s.format_minor = root.version_minor;
  s.index = index_kind_;
  s.opened_at_once = opened_at_once_;
  s.durability = pool_->durability();
  return s;
}

}  // namespace icecore::detail
