#include "stratum/merge/merge.hpp"

#include <memory>
#include <string>
#include <vector>

#include "base/raise.hpp"

namespace icecore::stratum {

using format::packed_kind;

namespace {

/// Writes records to one extent after the other.
class extent_sequence {
 public:
  extent_sequence(extent_target& target, std::uint64_t block_bytes, merge_totals& totals) noexcept
      : target_(&target), block_bytes_(block_bytes), totals_(&totals) {}

  void add(std::string_view key, const packed_record& record) {
    ++totals_->kept;
    const std::uint64_t bytes = key.size() + record.value.size();
    const bool is_complete = added_ >= usual_ && key != last_key_;
    if (usual_ != UINT64_MAX) last_key_ = key;
    if (!is_complete && builder_ != nullptr && builder_->add(key, record)) {
      added_ += bytes;
      return;
    }
    finish();
    // its key may be in the block, as a separator and as the extent's first key; the rest is of block and fence
    constexpr std::uint64_t around = std::uint64_t{64} << 10;
    const extent_target::room room = target_->begin(4 * key.size() + record.value.size() + around);
    builder_ = std::make_unique<extent_builder>(room.bytes, room.seed, block_bytes_, room.in_page);
    usual_ = room.usual;
    added_ = bytes;
    if (!builder_->add(key, record)) {
      raise(errc::no_space, "a record of {} bytes does not fit into an extent of {} bytes",
            key.size() + record.value.size(), room.bytes.size());
    }
  }
  void finish() {
    if (builder_ == nullptr) return;
    const std::uint64_t size = builder_->finish();
    builder_.reset();
    target_->complete(size);
    ++totals_->extents;
    totals_->bytes += size;
  }

 private:
  extent_target* target_;
  std::uint64_t block_bytes_;
  merge_totals* totals_;
  std::unique_ptr<extent_builder> builder_;
  std::uint64_t usual_ = UINT64_MAX;  // of that extent
  std::uint64_t added_ = 0;           // bytes
  std::string last_key_;              // if the extent is to end before another one
};

/// The source whose record comes first; null if all are at their ends or behind the range.
record_source* first_of(std::span<record_source* const> sources, const merge_range& range) {
  record_source* first = nullptr;
  for (record_source* const s : sources) {
    if (s->at_end() || (range.to && s->key() >= *range.to)) continue;
    if (first == nullptr) {
      first = s;
      continue;
    }
    const int order = s->key().compare(first->key());
    if (order < 0 || (order == 0 && s->record().stamped > first->record().stamped)) first = s;
  }
  return first;
}

}  // namespace

merge_totals merge(std::span<record_source* const> sources, const merge_rule& rule, const merge_range& range,
                   extent_target& target, std::uint64_t block_bytes) {
  constexpr std::uint64_t told_every = 1 << 10;
  merge_totals totals;
  extent_sequence out(target, block_bytes, totals);
  record_filter filter(rule.kept);
  const bool removals_may_go = rule.is_oldest && !rule.kept.are_all();  // M2
  std::vector<packed_record> removals;  // of the key, for which no older record has stayed yet
  std::string key;
  version forgotten = 0;  // up to this version
  bool has_key = false;
  std::uint64_t kept_before = 0;  // before the key's first record
  const auto count_key = [&] { totals.keys += totals.kept != kept_before ? 1 : 0; };
  while (record_source* const s = first_of(sources, range)) {
    if (s->key() < range.from) {
      s->next();
      continue;
    }
    if (!has_key || s->key() != key) {
      count_key();
      kept_before = totals.kept;
      key = s->key();
      has_key = true;
      forgotten = rule.forgotten_up_to ? rule.forgotten_up_to(key) : 0;
      filter.begin_key();
      removals.clear();
    }
    ++totals.read;
    if (totals.read % told_every == 0 && rule.on_progress) rule.on_progress(told_every);
    packed_record record = s->record();
    if (record.is_elsewhere()) {
      if (const auto packed = rule.values->read(record.reference())) {
        record = {record.stamped, packed_kind::value, *packed};
      }
    }
    if (record.stamped > forgotten && filter.stays(record.stamped)) {
      if ((removals_may_go || forgotten != 0) && record.is_removal()) {
        removals.push_back(record);
      } else {
        for (const packed_record& r : removals) out.add(key, r);
        removals.clear();
        out.add(key, record);
        if (record.is_elsewhere()) rule.values->keep(record.reference());
      }
    }
    s->next();
  }
  count_key();
  out.finish();
  if (rule.on_progress && totals.read % told_every != 0) rule.on_progress(totals.read % told_every);
  return totals;
}

}  // namespace icecore::stratum
