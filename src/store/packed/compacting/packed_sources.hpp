// What a compaction reads: the records of the young generation, and those of a stratum, in the order of (key ascending,
// version descending).
//
//   generation_records<Engine> young(engine, links, from, low, high, values);   // links: its entries in key order
//   stratum_records old(core, core.packed()->all()[i], from);
//
// Threads: one object, one thread. Others may write meanwhile in versions behind `high`.
#pragma once

#include <memory>
#include <string_view>
#include <utility>

#include "base/raise.hpp"
#include "store/packed/compacting/plan/staying_values.hpp"
#include "store/read/scan.hpp"
#include "stratum/extent_builder.hpp"
#include "stratum/merge/record_source.hpp"

namespace icecore::detail {

/// Those in the closed versions (low, high]. Of records of one key and one version the newest: it is the one that the
/// version shows. And no removals of what was not there, as batches record them.
template <class Engine>
class generation_records final : public stratum::record_source {
 public:
  /// `values`: which ones stay where they are.
  generation_records(const Engine& engine, const index::ordered_links& links, std::string_view from, version low,
                     version high, staying_values& values)
      : engine_(&engine), links_(&links), low_(low), high_(high), values_(&values), blocks_({bounds_from(from)}) {
    next_key();
  }

  [[nodiscard]] bool at_end() const noexcept override { return record_ == null_link; }
  [[nodiscard]] std::string_view key() const noexcept override { return key_; }
  [[nodiscard]] const stratum::packed_record& record() const noexcept override { return packed_; }
  void next() override {
    record_ = first_before(record_, packed_.stamped);
    record_ != null_link ? read() : next_key();
  }

 private:
  static scan_bounds bounds_from(std::string_view from) {
    scan_bounds bounds;
    bounds.from = from;
    return bounds;
  }
  /// An entry without a value, or a record of a batch that never took effect.
  [[nodiscard]] bool shows_nothing(link l) const {
    engine_->young().verify_checksum(l);
    return engine_->young().stamp_of(l) == 0 || engine_->young().shows_nothing(l);
  }
  /// Whether there was no value before this removal; other records of its version do not count.
  [[nodiscard]] bool changes_nothing(link removal, version of) const {
    const auto& all = engine_->histories();
    const pin holds = engine_->take_pin();
    link before = all.older(removal);
    while (before != null_link && (all.stamp_of(before) == of || all.stamp_of(before) == 0)) before = all.older(before);
    return before == null_link || all.is_removal(before);
  }
  /// The next record from `l` on that is older than version `than`, of a version behind `low`, and changes something.
  [[nodiscard]] link first_before(link l, version than) const {
    for (; l != null_link; l = engine_->young().older(l)) {
      if (shows_nothing(l)) continue;
      const version v = engine_->young().stamp_of(l);
      if (v <= low_) return null_link;
      if (v >= than) continue;
      if (!engine_->young().is_removal(l) || !changes_nothing(l, v)) break;
      than = v;
    }
    return l;
  }
  void next_key() {
    for (;;) {
      if (at_ == entries_.size()) {
        entries_ = blocks_.next(*engine_, *links_);
        at_ = 0;
        if (entries_.empty()) {
          record_ = null_link;
          return;
        }
      }
      const link entry = entries_.read(at_++);
      record_ = first_before(engine_->young().newest(entry), high_ + 1);
      if (record_ == null_link) continue;
      key_ = engine_->key_of(entry);
      return read();
    }
  }
  void read() {
    const bool is_removal = engine_->young().is_removal(record_);
    if (const auto where = is_removal ? std::nullopt : values_->stays(record_, engine_->young().at(record_))) {
      reference_ = *where;
      packed_ = {engine_->young().stamp_of(record_),
                 format::packed_kind::elsewhere,
                 {reinterpret_cast<const char*>(&reference_), sizeof reference_}};
      return;
    }
    packed_ = {engine_->young().stamp_of(record_),
               is_removal ? format::packed_kind::removal : format::packed_kind::value,
               is_removal ? std::string_view() : engine_->value_of(record_)};
    require_packable(packed_.value.size());
  }

  const Engine* engine_;
  const index::ordered_links* links_;
  version low_;
  version high_;
  staying_values* values_;
  format::value_reference reference_{};  // of the current record's value
  block_walk blocks_;
  walked_entries entries_;  // of the block
  std::size_t at_ = 0;
  link record_ = null_link;
  std::string_view key_;
  stratum::packed_record packed_;
};

/// What was inflated of an extent may be given back when the next one begins.
class stratum_records final : public stratum::record_source {
 public:
  stratum_records(const store_core& core, const stratum::strata::range& extents, std::string_view from)
      : core_(&core), of_(core.packed()), extent_(extents.begin), end_(extents.end), holds_(core.take_pin()) {
    if (const std::uint32_t first = of_->extent_for(extents, sought_key(from), version_max); first != extents.end)
      extent_ = first;
    in_ = std::make_unique<stratum::extent_records>(of_->extent_at(extent_), from);
    pass_ends();
  }

  [[nodiscard]] bool at_end() const noexcept override { return in_->at_end(); }
  [[nodiscard]] std::string_view key() const noexcept override { return in_->key(); }
  [[nodiscard]] const stratum::packed_record& record() const noexcept override { return in_->record(); }
  void next() override {
    in_->next();
    pass_ends();
  }

 private:
  void pass_ends() {
    while (in_->at_end() && extent_ + 1 < end_) {
      holds_ = core_->take_pin();
      in_ = std::make_unique<stratum::extent_records>(of_->extent_at(++extent_));
    }
  }

  const store_core* core_;
  const stratum::strata* of_;
  std::uint32_t extent_;
  std::uint32_t end_;
  pin holds_;
  std::unique_ptr<stratum::extent_records> in_;
};

}  // namespace icecore::detail
