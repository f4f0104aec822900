// Counts and sums over records.
#pragma once

#include <cassert>
#include <cstdint>

#include "history/record.hpp"

namespace icecore {

/// Sums over records. Certificates are made of them.
struct record_totals {
  std::uint64_t records = 0;  ///< of any kind
  std::uint64_t digest = 0;   ///< sum of their record_digest()s
  std::uint64_t inserts = 0;
  std::uint64_t removes = 0;
  std::uint64_t keys = 0;
  std::uint64_t key_bytes = 0;
  std::uint64_t value_bytes = 0;
  std::uint64_t record_bytes = 0;  ///< with headers, without the padding between records

  void add(const record_totals& other) noexcept {
    records += other.records;
    digest += other.digest;
    inserts += other.inserts;
    removes += other.removes;
    keys += other.keys;
    key_bytes += other.key_bytes;
    value_bytes += other.value_bytes;
    record_bytes += other.record_bytes;
  }
  /// `other` must have been added before.
  void subtract(const record_totals& other) noexcept {
    assert(records >= other.records && record_bytes >= other.record_bytes);
    records -= other.records;
    digest -= other.digest;
    inserts -= other.inserts;
    removes -= other.removes;
    keys -= other.keys;
    key_bytes -= other.key_bytes;
    value_bytes -= other.value_bytes;
    record_bytes -= other.record_bytes;
  }
  /// Adds one record of this layout.
  [[gnu::always_inline]] void add(record_layout layout, bool removal, std::uint64_t record_digest) noexcept {
    ++records;
    digest += record_digest;
    record_bytes += layout.size();
    if (layout.kind == format::record_kind::batch || layout.kind == format::record_kind::tag) return;
    if (layout.kind == format::record_kind::entry) {
      ++keys;
      key_bytes += layout.key_size;
    }
    if (layout.is_key_alone()) return;
    if (removal) {
      ++removes;
    } else {
      ++inserts;
      value_bytes += layout.value_size;
    }
  }
};

/// Counts for statistics(): no certificate is made of them.
struct write_counts {
  std::uint64_t key_bytes = 0;         ///< of all writes, also of keys that were there
  std::uint64_t superseded_bytes = 0;  ///< of the young generation: superseded_bytes()

  void add(const write_counts& other) noexcept {
    key_bytes += other.key_bytes;
    superseded_bytes += other.superseded_bytes;
  }
};

}  // namespace icecore
