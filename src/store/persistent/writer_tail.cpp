#include "store/persistent/writer_tail.hpp"

#include <algorithm>
#include <cstring>

#include "base/bytes.hpp"
#include "base/raise.hpp"

namespace icecore::detail {

bool writer_tail::intact_record(const segment& s, link at) const noexcept {
  if (s.end() - at < sizeof(format::record_header)) return false;
  const record r(pool_->at(at));
  const record_layout layout = r.layout();
  return layout.plausible() && layout.place(at) == at && layout.size() <= s.end() - at &&
         r.intact(pool_->codec().record_seed(s.generation, at));
}

/// The version of an intact record; 0 if it never took effect. A batch's records lie in one segment.
version writer_tail::version_of(const segment& s, link at) const noexcept {
  const word_codec& codec = pool_->codec();
  const record r(pool_->at(at));
  std::uint64_t decides = at;
  if (r.batched()) {
    decides = r.batch();
    if (decides < s.first_record() || decides >= s.end() || !intact_record(s, decides)) return 0;
  }
  // relaxed: a number
  const std::uint64_t word =
      record(pool_->at(decides)).header().stamp.load(std::memory_order_relaxed) & ~format::stamp_persisted;
  return word != 0 && codec.valid(word, decides + format::stamp_offset) ? word & format::stamp_version_mask : 0;
}

writer_tail::content writer_tail::read(const segment& s, link from) const {
  content t;
  t.position = from;
  link batch = null_link;
  std::uint32_t missing = 0;  // of the records of `batch`
  bool key_before = false;
  for (;;) {
    std::uint64_t at = t.position;
    while (at < s.end() && at - t.position <= format::record_padding_max && word_at(pool_->at(at)) == 0) at += 8;
    if (at >= s.end() || at - t.position > format::record_padding_max || !intact_record(s, at)) break;
    const version v = version_of(s, at);
    const record r(pool_->at(at));
    if (r.layout().place(t.position) != at) break;  // one is missing before it
    // A large value is flushed with its record, but may have reached the media only in part. Only the last one's can be
    // so.
    if (v == 0 || !r.value_intact()) break;
    const record_layout layout = r.layout();
    const link l = at;
    const link of_batch = r.kind() == format::record_kind::batch ? l : r.batched() ? r.batch() : null_link;
    // Keys that a batch enters lie before it. There is no fence behind each of them, so together they are one
    // operation.
    const bool in_row = layout.is_key_alone() ? key_before : of_batch != null_link && of_batch == batch;
    if (!in_row) t.last.clear();
    key_before = layout.is_key_alone();
    if (r.kind() == format::record_kind::batch) missing = r.header().depth;
    if (r.batched() && of_batch == batch && missing > 0) --missing;
    batch = of_batch;
    t.last.push_back(l);
    t.totals.add(layout, r.is_removal(), record_digest(at, r.header().crc, v));
    t.newest = std::max(t.newest, v);
    if (layout.kind == format::record_kind::tag) t.newest_tag = std::max(t.newest_tag, v);
    t.position = at + layout.size();
  }
  if (missing == 0) return t;
  // The batch was stamped when all of its records were there.
  raise(errc::damaged,
        "{}: damaged at byte {} (record): records of a batch are missing here; icecore verify reports the damage, "
        "icecore repair makes a new store of what is intact",
        pool_->origin(t.position), link_offset(t.position));
}

std::optional<link> writer_tail::first_intact(const segment& s, link from) const noexcept {
  for (std::uint64_t at = from; at + sizeof(format::record_header) <= s.end(); at += 8) {
    at += leading_zeros(pool_->at(at), s.end() - at) / 8 * 8;
    if (s.end() - at >= sizeof(format::record_header) && intact_record(s, at)) return at;
  }
  return std::nullopt;
}

void writer_tail::clear_behind(const segment& s, link position) const {
  std::byte* const behind = pool_->at(position);
  if (all_zero(behind, s.end() - position)) return;
  for (auto at = first_intact(s, position); at; at = first_intact(s, *at + 8)) {
    if (version_of(s, *at) == 0 || !record(pool_->at(*at)).value_intact()) continue;
    raise(errc::damaged,
          "{}: damaged at byte {} (record): a record is missing before the one at byte {}; icecore verify reports the "
          "damage, icecore repair makes a new store of what is intact",
          pool_->origin(position), link_offset(position), link_offset(*at));
  }
  std::memset(behind, 0, s.end() - position);
}

}  // namespace icecore::detail
