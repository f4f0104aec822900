#include "support/reseal.hpp"

#include <algorithm>
#include <cstring>

#include "base/checksum.hpp"
#include "history/record.hpp"
#include "pool/checked_word.hpp"
#include "pool/pool.hpp"
#include "pool/root/boot.hpp"

namespace icecore::testing {
namespace {

constexpr std::uint64_t stamp_offset = offsetof(format::record_header, stamp);

format::root* root_at(std::span<std::byte> file, std::uint64_t offset) {
  if (offset + sizeof(format::root) > file.size()) return nullptr;
  auto* root = reinterpret_cast<format::root*>(file.data() + offset);
  return root->magic == format::magic ? root : nullptr;
}

/// The one that will count once both are valid.
format::root* newest_of(std::span<std::byte> file) {
  format::root* a = root_at(file, format::root_a_offset);
  format::root* b = root_at(file, format::root_b_offset);
  if (a == nullptr || b == nullptr) return a != nullptr ? a : b;
  return a->sequence > b->sequence ? a : b;
}

/// Seals all records of a pool and sums them up.
class pool_sealer {
 public:
  pool_sealer(std::span<std::byte> file, format::root& root)
      : file_(file), root_(root), codec_(crc32c(0x1cec02e5U, root.pool_id, sizeof root.pool_id)) {}

  void run() {
    const bool clean = root_.state == format::root_state::clean;
    const std::uint64_t end = std::min<std::uint64_t>(file_.size(), clean ? root_.used_end : root_.file_size);
    // Batches first: the version of a batched record is that of its batch, which may lie behind it.
    for (const bool summing : {false, true}) {
      for (std::uint64_t at = format::first_segment_offset; at + format::granule_size <= end;) {
        at += seal_segment(at, end, summing);
      }
    }
    root_.certified_records = records_;
    root_.certified_sum = digests_;
  }

 private:
  [[nodiscard]] std::byte* at(std::uint64_t offset) const noexcept { return file_.data() + offset; }

  /// Bytes to go on behind.
  std::uint64_t seal_segment(std::uint64_t offset, std::uint64_t end, bool summing) {
    auto& h = *reinterpret_cast<format::segment_header*>(at(offset));
    if (h.magic != format::segment_magic || h.granules == 0 || h.granules > (end - offset) / format::granule_size) {
      return format::granule_size;
    }
    h.crc = crc32c(crc32c(codec_.pool_seed(), offset), &h, offsetof(format::segment_header, crc));
    if (h.fill != 0) {
      h.fill = codec_.encode(h.fill & format::stamp_version_mask, offset + offsetof(format::segment_header, fill));
    }
    const segment in{offset, h.granules * format::granule_size, h.generation};
    const std::uint64_t fill = h.fill == 0 ? in.first_record() : offset + (h.fill & format::stamp_version_mask);
    for (std::uint64_t position = in.first_record(); position < in.end();) {
      const auto next = seal_record(in, position, fill, summing);
      if (!next) break;
      position = *next;
    }
    return in.size;
  }

  /// The end of the record behind `position`; empty if there is none.
  std::optional<std::uint64_t> seal_record(const segment& in, std::uint64_t position, std::uint64_t fill,
                                           bool summing) {
    std::uint64_t start = position;
    while (start < in.end() && start - position <= format::record_padding_max && *at(start) == std::byte{0}) start += 8;
    if (start + sizeof(format::tag_header) > in.end()) return std::nullopt;
    const record r(at(start));
    const record_layout layout = r.layout();
    if (!layout.plausible() || layout.size() > in.end() - start) return std::nullopt;
    if (summing) {
      sum_up(r, start, fill);
      return start + layout.size();
    }
    auto& stamp = r.header().stamp;
    if (const std::uint64_t word = stamp.load() & ~format::stamp_persisted; word != 0) {
      stamp = codec_.encode(word & format::stamp_version_mask, start + stamp_offset);
    }
    if (r.has_large_value()) {
      const std::uint32_t value_crc = crc32c(0, r.value().data(), r.value().size());
      std::memcpy(at(start + layout.value_crc_offset()), &value_crc, sizeof value_crc);
    }
    r.seal(codec_.record_seed(in.generation, start));
    return start + layout.size();
  }

  void sum_up(record r, std::uint64_t start, std::uint64_t fill) {
    std::uint64_t version = r.header().stamp.load() & format::stamp_version_mask;
    if (r.batched()) {
      const std::uint64_t batch = link_offset(r.batch());
      const bool inside = batch % 8 == 0 && batch + sizeof(format::batch_header) <= file_.size();
      version = inside ? record(at(batch)).header().stamp.load() & format::stamp_version_mask : 0;
    }
    const bool certified = root_.state == format::root_state::clean || start < fill || version <= root_.durable_version;
    if (version == 0 || !certified) return;
    ++records_;
    digests_ += record_digest(start, r.header().crc, version);
  }

  std::span<std::byte> file_;
  format::root& root_;
  word_codec codec_;
  std::uint64_t records_ = 0;
  std::uint64_t digests_ = 0;
};

}  // namespace

void reseal_roots(std::span<std::byte> file, const root_changes& change) {
  for (const std::uint64_t offset : {format::root_a_offset, format::root_b_offset}) {
    format::root* root = root_at(file, offset);
    if (root == nullptr) continue;
    if (change.this_boot) read_boot_id(root->boot_id);
    if (change.inode) root->inode = *change.inode;
    root->crc = crc32c(0, root, offsetof(format::root, crc));
  }
}

void reseal(std::span<std::byte> file, const root_changes& change) {
  if (format::root* newest = newest_of(file)) pool_sealer(file, *newest).run();
  reseal_roots(file, change);
}

}  // namespace icecore::testing
