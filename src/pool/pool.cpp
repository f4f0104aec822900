#include "pool/pool.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <cstring>
#include <tuple>

#include "base/bytes.hpp"
#include "base/memory/address_space.hpp"
#include "base/memory/sanitizer.hpp"
#include "base/raise.hpp"
#include "pool/file/numa.hpp"
#include "pool/root/boot.hpp"

namespace icecore {
namespace {

constexpr std::uint64_t mebibyte = std::uint64_t{1} << 20;
/// A file without segments. A store that ever held a record is longer. So a file of zeros of this size is an
/// interrupted creation, while a longer one was in use.
constexpr std::uint64_t initial_file_size = format::first_segment_offset;
constexpr std::uint64_t capacity_min = 1024 * mebibyte;
constexpr std::uint64_t capacity_least = 64 * mebibyte;  // where addresses are limited
constexpr std::uint64_t capacity_max = std::uint64_t{addresses_are_scarce ? 8 : 16 * 1024} << 30;
/// For a pool that processes share: each process reserves addresses for the pools of many others.
constexpr std::uint64_t capacity_max_shared = std::uint64_t{1024} << 30;
/// A crash may skip this many versions: the clock may run this far before the root must be written again.
constexpr std::uint64_t first_clock_limit = std::uint64_t{1} << 20;

/// What all first roots have in common.
format::root first_root() noexcept {
  format::root r{};
  r.magic = format::magic;
  r.byte_order = format::byte_order_mark;
  r.version_major = format::version_major;
  r.version_minor = format::minor_of_new_stores;
  r.pool_count = 1;
  r.granule_size = format::granule_size;
  r.file_size = initial_file_size;
  r.clock = 1;
  r.clock_limit = first_clock_limit;
  r.state = format::root_state::clean;
  r.used_end = format::first_segment_offset;
  return r;
}

/// Whether the page may be what power cuts left of a first root: each word is zero or one that such a root has. A page
/// with other data must not pass.
bool maybe_torn_first_root(const std::byte* page) noexcept {
  format::root expected = first_root();
  expected.sequence = 1;
  const auto is_number = [&](std::size_t at, std::uint64_t word) {
    if (at != offsetof(format::root, pool_number)) return false;
    const auto number = word & 0xffff;
    const auto count = word >> 16 & 0xffff;
    return word >> 32 == expected.granule_size && number < count && count <= format::files_max;
  };
  const auto is_free = [](std::size_t at) {
    return (at >= offsetof(format::root, pool_id) && at < offsetof(format::root, pool_number)) ||
           (at >= offsetof(format::root, state) && at < offsetof(format::root, used_end)) ||
           (at >= offsetof(format::root, hash_seed) && at < offsetof(format::root, evidence_from)) ||
           at + sizeof(std::uint64_t) == sizeof(format::root);
  };
  for (std::size_t at = 0; at < sizeof expected; at += sizeof(std::uint64_t)) {
    std::uint64_t word;
    std::memcpy(&word, page + at, sizeof word);
    if (word == 0 || is_free(at) || is_number(at, word)) continue;
    if (std::memcmp(&word, reinterpret_cast<const std::byte*>(&expected) + at, sizeof word) != 0) return false;
  }
  return true;
}

}  // namespace

std::uint32_t header_crc(const format::segment_header& h, std::uint32_t pool_seed, link at) noexcept {
  const std::uint32_t crc = crc32c(crc32c(pool_seed, at), &h, offsetof(format::segment_header, crc));
  return h.era == 0 ? crc : crc32c(crc, std::uint64_t{h.era});
}

namespace {

/// How to open the file. Called before the file is touched.
access checked_access(const std::filesystem::path& path, const options& opening) {
  if (opening.access == access::read_write && opening.accept_damage) {
    raise(errc::invalid_argument,
          "{}: damage can be accepted only for reading; repair makes a store that can be written", path.native());
  }
  if (!opening.copy_of.empty() &&
      (opening.access != access::read_write || opening.creation == creation::open_existing)) {
    raise(errc::invalid_argument, "{}: a copy is a new store: open it with read_write access and creation allowed",
          path.native());
  }
  if (opening.change_index && opening.access != access::read_write) {
    raise(errc::invalid_argument, "{}: changing the index requires read_write access", path.native());
  }
  return opening.access;
}

}  // namespace

pool::pool(const std::filesystem::path& path, const options& opening, const file_role& as)
    : file_(path, checked_access(path, opening), opening.copy_of.empty() ? as.wanted(opening) : creation::create_new),
      number_(as.number()),
      node_(as.node()),
      copy_(opening.copy_of.empty() ? nullptr : std::make_unique<pool_copy>(opening.copy_of, file_)),
      source_(copy_ ? &copy_->from() : &file_),
      shared_(opening.access == access::read_write),
      huge_pages_(opening.huge_pages) {
  const std::uint64_t size = file_.size();
  mapping_ = std::make_shared<mapping>(file_.descriptor(), path.native(), capacity_for(opening, size),
                                       shared_ ? mapping::kind::shared : mapping::kind::own);
  if (size == 0) {
    create(opening, as);
    return;
  }
  const std::uint64_t whole_pages = size / format::page_size * format::page_size;
  constexpr std::uint64_t fixed_pages = 3 * format::page_size;  // the roots and the live page
  if (whole_pages < fixed_pages) {
    raise(errc::not_a_store, "{}: {} bytes are too few for an icecore store; give another path or remove the file",
          origin(), size);
  }
  // Map these first: they say how much of the file to map.
  map(fixed_pages);
  base_ = mapping_->base();
  const std::byte* const roots = copy_ ? copy_->root_pages() : base_;
  auto newest = newest_root(roots);
  if (newest) {
    check_format(*newest);
    as.check(*newest, origin(), opening);
  } else if (opening.accept_damage) {
    newest = stand_in_root(whole_pages, as);
  } else {
    // A crash before the first root was written leaves zeros: a valid empty object. The first root goes to page B,
    // where the power cut may have torn it. Nothing else is written before that root is intact.
    if (size <= initial_file_size) map(whole_pages);
    const bool never_made = !copy_ && size <= initial_file_size && all_zero(base_, format::page_size) &&
                            maybe_torn_first_root(base_ + format::root_b_offset) &&
                            all_zero(base_ + 2 * format::page_size, whole_pages - 2 * format::page_size);
    if (never_made) {
      create(opening, as);
      return;
    }
    raise_no_root(roots);
  }
  check_size(*newest, roots, size, opening, as);
  check_behind_end(*newest, whole_pages, opening);
  recorded_size_ = newest->file_size;
  map(std::min(newest->file_size, whole_pages));  // smaller only if damage is accepted
  if (!copy_) check_unused(*newest, opening);
  codec_ = word_codec(pool_seed_of(*newest));
  choose_durability(opening, *newest, as);
  persist_->expect_file_size(newest->file_size, persist_file_);
  roots_ = std::make_unique<root_pages>(base_, *newest, *persist_);
  if (!shared_) return;
  roots_->make_durable();
  // An interrupted growth leaves a longer file, in memory with holes; touching a hole may find no memory. Nothing lies
  // there, because the root records a growth before the space is used. Shrink only now that the root is durable: if a
  // close was killed, the root before it may name a longer file.
  file_.shrink(newest->file_size);
}

pool::pool(const std::filesystem::path& path, const options& opening, pool_space& with, const file_role& as)
    : file_(path, access::attached, creation::open_existing),
      number_(as.number()),
      node_(as.node()),
      source_(&file_),
      shared_(true),
      huge_pages_(opening.huge_pages) {
  if (file_.identity() != with.file) {
    raise(errc::invalid_argument,
          "{}: is not the file that is shared as {}, but another one or a copy; name the file that the sharing process "
          "has open",
          path.native(), opening.shared_as.native());
  }
  mapping_ = std::make_shared<mapping>(file_.descriptor(), path.native(), with.capacity, mapping::kind::shared);
  if (mapping_->capacity() < with.capacity) {
    raise(errc::no_space,
          "{}: the process that shares the store has {} bytes of address space for it, but this process could reserve "
          "only {}",
          path.native(), with.capacity, mapping_->capacity());
  }
  mapping_->extend(format::first_segment_offset);
  space_ = &with;
  base_ = mapping_->base();
  format::root r;
  {
    const std::scoped_lock lock(with.roots);  // only reads: the next writer repairs what a killed process left
    const auto newest = newest_root(base_);
    if (!newest) raise_no_root(base_);
    r = *newest;
  }
  check_format(r);
  as.check(r, origin(), opening);
  check_size(r, base_, file_.size(), opening, as);
  codec_ = word_codec(pool_seed_of(r));
  choose_durability(opening, r, as);
  persist_->expect_file_size(r.file_size, persist_file_);
  roots_ = std::make_unique<root_pages>(base_, r, *persist_);
  roots_->share(with.roots);
}

pool::pool(const std::filesystem::path& path, const options& opening, beside_writer how, const file_role& as)
    : file_(path, how), number_(as.number()), node_(as.node()), source_(&file_), shared_(false), huge_pages_(false) {
  const std::uint64_t whole_pages = file_.size() / format::page_size * format::page_size;
  if (whole_pages < format::first_segment_offset) {
    raise(errc::not_a_store, "{}: {} bytes are too few for an icecore store", origin(), file_.size());
  }
  mapping_ = std::make_shared<mapping>(file_.descriptor(), path.native(), capacity_for(opening, whole_pages),
                                       mapping::kind::observed);
  map(whole_pages);
  base_ = mapping_->base();
  auto newest = newest_root(base_);
  // The writer may be writing one page while the other is read, and then the other while the one is. When it closes the
  // store, it writes a root and then cuts the file: a root that was read before names more than is there. The size is
  // asked behind the root, and once: a file that is cut after that has changed since this reader looked.
  std::uint64_t size = file_.size();
  for (int again = 0; (!newest || size < newest->file_size) && again < 100; ++again) {
    newest = newest_root(base_);
    size = file_.size();
  }
  if (!newest) raise_no_root(base_);
  check_format(*newest);
  as.check(*newest, origin(), opening);
  check_size(*newest, base_, size, opening, as);
  map(std::max(whole_pages, size / format::page_size * format::page_size));  // what the root leads to may lie there
  recorded_size_ = newest->file_size;
  codec_ = word_codec(pool_seed_of(*newest));
  choose_durability(opening, *newest, as);
  roots_ = std::make_unique<root_pages>(base_, *newest, *persist_);
}

std::uint64_t pool::capacity_for(const options& opening, std::uint64_t size) const {
  const std::uint64_t most = opening.shared_as.empty() ? capacity_max : std::min(capacity_max, capacity_max_shared);
  const std::uint64_t wanted = std::clamp(std::max(file_.device_capacity(), size) + growth_step_max, capacity_min,
                                          std::max(most, size + growth_step_max));
  return std::min(wanted, std::max({address_space_share(), capacity_least, 2 * size}));
}

void pool::share(pool_space& with) {
  file_.admit_attached();
  with.file = file_.identity();
  with.capacity = capacity();
  // relaxed: no other process is there yet
  with.used_end.store(used_end(), std::memory_order_relaxed);
  with.size.store(size(), std::memory_order_relaxed);
  space_ = &with;
  roots_->share(with.roots);
}

void pool::map(std::uint64_t size) {
  mapping_->extend(size);
  space_->size.store(size, std::memory_order_release);  // release: see size()
}

std::pair<std::uint64_t, std::uint64_t> pool::next_data(std::uint64_t from, std::uint64_t end) const noexcept {
  if (from >= end) return {end, end};
  if (!file_.on_memory_filesystem()) return {from, end};
  const auto data = file_.next_data(from);
  if (!data || *data >= end) return {end, end};
  return {*data, std::min(end, file_.next_hole(*data).value_or(end))};
}

bool pool::is_zero(std::uint64_t from, std::uint64_t end) const noexcept {
  for (auto [at, until] = next_data(from, end); at < end; std::tie(at, until) = next_data(until, end)) {
    if (!all_zero(base_ + at, until - at)) return false;
  }
  return true;
}

/// P4: recovery does not read behind the segments of a closed store. Where they end before the file does (in a store
/// just made), the rest must be zero.
/// What lies behind the size that the root names was left by a close or a growth that a kill cut off: it is not read.
bool pool::is_zero_behind_its_end(const format::root& r) const {
  const std::uint64_t end = std::min(size(), r.file_size);
  if (r.state != format::root_state::clean || r.used_end >= end) return true;
  if (mapping_->how() != mapping::kind::observed) return is_zero(r.used_end, end);
  // A writer may come and cut these pages off: then nothing is read, and the root is no longer this one.
  std::array<std::byte, format::page_size> page;
  for (std::uint64_t at = r.used_end; at < end; at += page.size()) {
    if (!file_.read(page.data(), page.size(), at)) return true;
    if (!all_zero(page.data(), page.size())) return false;
  }
  return true;
}

void pool::check_unused(const format::root& r, const options& opening) const {
  if (opening.accept_damage || is_zero_behind_its_end(r)) return;
  raise(errc::damaged, "{}: the store was closed with {} bytes in use, but not all bytes behind them are zero",
        origin(), r.used_end);
}

void pool::copy_pages(unsigned threads, const std::function<void(std::uint64_t)>& copied) {
  const format::root root = roots_->read();
  copy_->copy_pages(root.file_size, threads, copied);
  check_unused(root, {});
}

void pool::finish_copy(const std::function<void(format::root&)>& change) {
  copy_->finish();
  roots_->publish(change);
  source_ = &file_;
  copy_.reset();
}

std::vector<damage> pool::damages() const {
  std::vector<damage> all;
  for (const std::uint64_t offset : {format::root_a_offset, format::root_b_offset}) {
    const std::byte* page = base_ + offset;
    if (all_zero(page, format::page_size)) continue;
    if (const auto defect = root_defect(*reinterpret_cast<const format::root*>(page))) {
      all.push_back({offset, "root", *defect, std::nullopt, std::nullopt});
    }
  }
  if (file_.size() < recorded_size_) {
    all.push_back({file_.size(), "file",
                   fmt::format("is {} bytes long but was {}: its end is missing", file_.size(), recorded_size_),
                   std::nullopt, std::nullopt});
  }
  if (const format::root r = roots_->read(); !is_zero_behind_its_end(r)) {
    all.push_back({r.used_end, "file", "not all bytes behind the used part of the closed store are zero", std::nullopt,
                   std::nullopt});
  }
  if (root_unreliable()) all.push_back({0, "root", root_loss_, std::nullopt, std::nullopt});
  for (damage& d : all) d.offset = make_link(number_, d.offset);
  return all;
}

/// The root to use where both pages are damaged and damage is accepted.
format::root pool::stand_in_root(std::uint64_t size, const file_role& as) {
  const auto known = as.stand_in_for(file_, size);
  if (!known) raise_no_root(base_);
  root_loss_ = known->lost;
  return known->root;
}

void pool::create(const options& opening, const file_role& as) {
  if (!shared_) raise(errc::not_a_store, "{}: is empty; open it for writing first", file_.path().native());
  if (opening.creation == creation::open_existing) {
    raise(errc::no_such_store, "{}: is empty, and creating a store was not asked for", file_.path().native());
  }
  try {
    write_first_root(opening, as);
  } catch (...) {
    file_.remove_created_file();
    throw;
  }
}

void pool::write_first_root(const options& opening, const file_role& as) {
  prefer_node(file_, 0, initial_file_size, node_);
  file_.grow(initial_file_size, false);
  map(initial_file_size);
  base_ = mapping_->base();
  format::root r = first_root();
  as.name_store(r, file_, opening);
  r.index = static_cast<std::uint8_t>(opening.index);
  r.inode = file_.inode();
  r.created_ns =
      std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::system_clock::now().time_since_epoch()).count();
  codec_ = word_codec(pool_seed_of(r));
  choose_durability(opening, r, as);
  r.durability = static_cast<std::uint8_t>(recovery_mode());
  read_boot_id(r.boot_id);
  persist_->expect_file_size(initial_file_size, persist_file_);
  roots_ = std::make_unique<root_pages>(base_, r, *persist_);
  file_.sync_with_directory();
  roots_->update([](format::root&) {});
}

void pool::choose_durability(const options& opening, const format::root& r, const file_role& as) {
  const auto persist_by = [&](const std::function<std::shared_ptr<persistence>()>& make) {
    const auto [by, file] = as.persisted_by(file_, make);
    persist_ = by;
    persist_file_ = file;
    durability_.flush_method = persist_->method();
  };
  durability_.filesystem = file_.filesystem_name();
  if (!shared_) {
    // a private mapping does not show the medium; the mode is that of the last writer
    durability_.medium = file_.on_memory_filesystem() ? medium::memory
                         : file_.is_dax()             ? medium::persistent_memory
                                                      : medium::block_device;
    durability_.mode = static_cast<icecore::durability>(r.durability);
    durability_.emulated = durability_.medium == medium::memory && durability_.mode != durability::none;
    persist_by([] { return std::make_shared<persistence>(); });
    return;
  }
  const pmem2_granularity granularity = mapping_->granularity();
  durability_.medium = file_.on_memory_filesystem()            ? medium::memory
                       : granularity == PMEM2_GRANULARITY_PAGE ? medium::block_device
                                                               : medium::persistent_memory;
  as.choose_durability(durability_, file_, opening);
  persist_by([&] {
    return std::make_shared<persistence>(file_.descriptor(), file_.path().native(), durability_.medium,
                                         durability_.mode, mapping_->flush_function(), mapping_->drain_function(),
                                         granularity == PMEM2_GRANULARITY_BYTE);
  });
  writes_values_ = can_write_values();
}

// Where a header may be half written, a crash leaves (the end: of the used part):
//   from the end of the file (take_end): a claim at most, and a part of the header behind the end. Zeros follow.
//   from a hole (take_hole): a part of a header over the one of the free segment, or of that of what is left. Zeros
//     follow.
// Opening a store that a crash left looks at all headers, and gives all of this out again. An instant recovery does not
// look. So in a store that it may open (keep_used_end()), the end moves once the header is whole and durable: before
// the end each segment is a segment. What lies at the end belongs to the claim, if there is one:
// logged_segments::recover() gives it the header and moves the end. Else nobody has it: clear_behind_end().
// Of processes that share the store one may be killed here while others go on: settle_given_out().
// A file system may have said that there are blocks, and yet have none when a page is stored to (ext4, whose last
// blocks are kept for what it has promised elsewhere). So the pages are asked for before the claim, by a call that can
// fail.
segment pool::allocate(std::uint64_t bytes, std::uint32_t magic, const std::function<void(const segment&)>& claim) {
  const std::uint64_t size = format::round_up(bytes + sizeof(format::segment_header), format::granule_size);
  persist_->verify_file_sizes();
  segment s{};
  {
    const recovering_lock lock(space_->lock, [this] { settle_given_out(); });
    const auto report = [&](std::uint64_t at) {
      if (claim) claim({make_link(number_, at), size, 0});
    };
    const auto hole = free_.lower_bound(size);
    s = hole != free_.end() ? take_hole(hole, size, magic, report) : take_end(size, magic, report);
  }
  return s;
}

segment pool::format_segment(link offset, std::uint64_t size, std::uint32_t magic) {
  auto& h = header_of(offset);
  // a generation greater than the old one makes old records that are left on media fail their checksums
  const segment s{offset, size, h.generation + 1};
  format::segment_header made{};
  made.magic = magic;
  made.granules = static_cast<std::uint32_t>(size / format::granule_size);
  made.generation = s.generation;
  const bool has_era = magic == format::segment_magic || magic == format::index_segment_magic;
  made.era = has_era ? era() : 0;
  made.crc = header_crc(made, codec_.pool_seed(), offset);
  // relaxed: who looks at the same time (seen_header()) finds out by the checksum that it has not seen all
  __atomic_store_n(&header_word(h.magic), std::bit_cast<std::uint64_t>(kind_and_size{made.magic, made.granules}),
                   __ATOMIC_RELAXED);
  h.fill = 0;
  h.fill_end = 0;
  h.next_free = null_link;
  __atomic_store_n(&h.era, made.era, __ATOMIC_RELAXED);
  // Generation and checksum are one word: a header that was valid, of a segment that is used again, stays so.
  // release: a crash image that has this word has those before it
  __atomic_store_n(&header_word(h.generation),
                   std::bit_cast<std::uint64_t>(checked_generation{made.generation, made.crc}), __ATOMIC_RELEASE);
  // P3; on page media the header becomes durable with the records, in the same sync
  persist_->flush(&h, sizeof h);
  persist_->fence();
  return s;
}

// What is left of a free segment gets a header, so that the next opening finds it by one look. A crash before that one
// is durable leaves what is left without a header, and zero: a hole. One that keeps it and loses the header before it
// leaves the free segment as it was, with the other header amid its zeros: recovery clears free segments after a crash.
segment pool::take_hole(std::multimap<std::uint64_t, std::uint64_t>::iterator hole, std::uint64_t size,
                        std::uint32_t magic, const std::function<void(std::uint64_t)>& claim) {
  const auto [hole_size, offset] = *hole;
  const link at = make_link(number_, offset);
  // Blocks may have been given back, and in memory no hole is read. All that can fail comes before the claim.
  file_.require_blocks(offset, size);
  const bool has_header = valid_header(at, format::free_segment_magic);
  if (has_header && hole_size > size) require_blocks(offset + size, offset + size + format::page_size);
  populate(offset, populated_of(size));
  space_->giving_out.begin(offset, size, hole_size);
  claim(offset);
  auto node = free_.extract(hole);  // reused for what is left of it: needs no memory once the claim stands
  const segment taken = format_segment(at, size, magic);
  if (hole_size > size) {
    if (has_header) static_cast<void>(format_segment(at + size, hole_size - size, format::free_segment_magic));
    node.key() = hole_size - size;
    node.mapped() = offset + size;
    free_.insert(std::move(node));
  }
  space_->giving_out.end();
  return taken;
}

void pool::clear_content(const segment& s) noexcept {
  const std::uint64_t end = link_offset(s.end());
  std::uint64_t from = link_offset(s.first_record());
  const std::uint64_t first_page = format::round_up(from, format::page_size);
  const auto zero = [this](std::uint64_t begin, std::uint64_t behind) {
    std::memset(base_ + begin, 0, behind - begin);
    persist_->flush(base_ + begin, behind - begin);
  };
  zero(from, first_page);
  if (file_.give_back(first_page, end - first_page)) return;
  // A store to what is a hole already needs a block, which a full device has not: then it ends the process.
  for (std::optional<std::uint64_t> at = file_.next_data(first_page); at && *at < end; at = file_.next_data(from)) {
    from = std::min(end, file_.next_hole(*at).value_or(end));
    zero(*at, from);
  }
}

void pool::clear_header(link offset) noexcept {
  auto& header = header_of(offset);
  // relaxed: who looks meanwhile (seen_header()) sees the header of before, or none
  __atomic_store_n(&header_word(header.generation), 0, __ATOMIC_RELAXED);
  __atomic_store_n(&header_word(header.magic), 0, __ATOMIC_RELAXED);
  __atomic_store_n(&header.era, 0, __ATOMIC_RELAXED);
  std::memset(&header.fill, 0, offsetof(format::segment_header, era) - offsetof(format::segment_header, fill));
  persist_->flush(&header, sizeof header);
}

void pool::forget_used_end() noexcept {
  const std::scoped_lock lock(space_->lock);
  logged_end_ = nullptr;
}

void pool::add_free(link offset, std::uint64_t size) {
  const std::scoped_lock lock(space_->lock);
  free_.emplace(size, link_offset(offset));
}

std::uint64_t pool::free_bytes() const {
  const std::scoped_lock lock(space_->lock);
  std::uint64_t sum = 0;
  for (const auto& [size, offset] : free_) sum += size;
  return sum;
}

std::uint64_t pool::largest_free_bytes() const {
  const std::scoped_lock lock(space_->lock);
  return free_.empty() ? 0 : free_.rbegin()->first;
}

std::vector<segment> pool::take_free() {
  const std::scoped_lock lock(space_->lock);
  std::vector<segment> all;
  for (const auto& [size, offset] : free_) all.push_back({make_link(number_, offset), size, 0});
  free_.clear();
  return all;
}

std::string pool::id() const {
  std::string text;
  for (const std::uint8_t byte : roots_->read().pool_id) text += fmt::format("{:02x}", byte);
  return text;
}

std::uint64_t pool::used_end() const {
  return space_->used_end.load(std::memory_order_relaxed);  // relaxed: a number; nothing is read through it
}

bool pool::valid_header(link offset, std::uint32_t magic) const noexcept {
  if (link_offset(offset) % format::granule_size != 0) return false;  // a forged link may lead anywhere
  const auto& h = header_of(offset);
  return h.magic == magic && h.granules != 0 && h.granules <= (size() - link_offset(offset)) / format::granule_size &&
         h.crc == header_crc(h, codec_.pool_seed(), offset);
}

segment pool::segment_at(link offset) const noexcept {
  const auto& h = header_of(offset);
  return {offset, h.granules * format::granule_size, h.generation};
}

std::optional<link> pool::fill_of(const segment& s) const noexcept {
  // relaxed: a reader beside a writer orders it by a fence
  const std::uint64_t word = __atomic_load_n(&header_of(s.offset).fill, __ATOMIC_RELAXED);
  if (word == 0) return s.first_record();
  const std::uint64_t fill = word & format::stamp_version_mask;
  const bool good = codec_.valid(word, s.offset + offsetof(format::segment_header, fill)) &&
                    (word & format::stamp_persisted) == 0 && fill % 8 == 0 && fill >= sizeof(format::segment_header) &&
                    fill <= s.size;
  if (!good) return std::nullopt;
  return s.offset + fill;
}

void pool::set_fill(const segment& s, link end) const noexcept {
  auto& h = header_of(s.offset);
  const std::uint64_t word = fill_word(s, end);
  if (h.fill == word) return;
  h.fill = word;
  persist_->flush(&h, sizeof h);
}

}  // namespace icecore
