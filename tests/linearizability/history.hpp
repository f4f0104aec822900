// What was asked of one store and what it answered, over all lives of the processes that wrote it.
//
//   history h = load_history("failed.history");
//   for (const life& l : h.lives) for (const auto& client : l.clients) for (const operation& o : client) ...
//   save_history(h, "copy.history");
//
// A life is one process, from its start until it was killed. Its clients are threads; each one's operations stand in
// the order in which it called them. After each life others open the store and note what they find: an inspection.
// Threads: a value; one thread at a time. Cost: 48 bytes an operation.
//
// Invariants of a sound history:
//   1. Every written value is a number of its own, never 0. A batch is one operation, followed by its parts,
//      which have its times and version.
//   2. All times are of one clock. An operation that never returned has return_ns 0: its process was killed.
//   3. An inspection lists every key that has records.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "icecore/options.hpp"

namespace icecore::testing {

enum class call : std::uint8_t {
  none,
  insert,        ///< key, value; returns version
  remove,        ///< key; returns version, 0: it was not there
  batch,         ///< count: its parts, which follow; returns version
  batch_insert,  ///< part of a batch: key, value
  batch_remove,  ///< part of a batch: key
  tag,           ///< value: its name, 0: none; returns version
  latest,        ///< snapshot of the present; returns version
  sync,
  clock,      ///< returns version
  find,       ///< key; returns value, 0: none
  find_at,    ///< key, version; returns value, 0: none
  digest_at,  ///< key: group of keys, version; returns value: digest
  history,    ///< key; returns value: digest, count: records
  compact,    ///< closes any number of versions, without telling
};
inline constexpr unsigned calls = 15;
[[nodiscard]] std::string_view name_of(call what);

struct operation {
  std::int64_t invoke_ns = 0;
  std::int64_t return_ns = 0;  ///< 0: never returned
  std::uint64_t value = 0;
  icecore::version version = 0;
  std::uint32_t key = 0;
  std::uint32_t count = 0;
  call what = call::none;
};

/// One record of a key, as found after a crash. Value 0: a removal.
struct found_record {
  icecore::version version;
  std::uint64_t value;
  friend bool operator==(const found_record&, const found_record&) = default;
};

/// A key's records, oldest first: the first `known` of them are those that earlier inspections found.
struct found_key {
  std::uint32_t key;
  std::uint64_t known;
  std::vector<found_record> more;
};

struct found_tag {
  icecore::version version;
  std::uint64_t name;
};

struct found_digest {
  icecore::version version;
  std::uint32_t group;
  std::uint64_t digest;
};

struct inspection {
  std::int64_t begin_ns;
  std::int64_t end_ns;
  icecore::version clock;
  std::vector<found_key> keys;
  std::vector<found_tag> tags;  ///< oldest first
  std::vector<found_digest> digests;
  std::uint32_t closed_by_openings = 0;  ///< versions that openings since the last one may have closed, at most
};

struct life {
  std::int64_t end_ns;  ///< the process was gone by then
  std::vector<std::vector<operation>> clients;
  std::vector<inspection> inspections;
};

struct history {
  std::string origin;  ///< one line: how it came about
  std::vector<life> lives;
};

/// What a reader computes of a snapshot: the sum of this over all keys that are there, whatever their order.
[[nodiscard]] std::uint64_t digest_of(std::uint32_t key, std::uint64_t value) noexcept;

/// What a reader computes of a key's records: one polynomial, from the newest record or from the oldest.
struct records_digest {
  std::uint64_t sum = 0;
  std::uint64_t power = 1;
  void add_older(const found_record& r) noexcept { sum = sum * base + term(r); }
  void add_newer(const found_record& r) noexcept {
    sum += term(r) * power;
    power *= base;
  }

 private:
  static constexpr std::uint64_t base = 0x9e3779b97f4a7c15U;
  [[nodiscard]] static std::uint64_t term(const found_record& r) noexcept;
};

/// Keys belong to groups, whose digests can be asked for alone; `all_groups` asks for all.
inline constexpr std::uint32_t all_groups = 255;
[[nodiscard]] constexpr std::uint32_t group_of(std::uint32_t key) noexcept { return key >> 24; }

/// splitmix64's finalizer.
[[nodiscard]] constexpr std::uint64_t mix(std::uint64_t x) noexcept {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
  return x ^ (x >> 31);
}

/// A text file, one line an operation. The format is told in history.cpp. Both throw std::runtime_error with the
/// file's name, loading with the line too.
void save_history(const history& h, const std::filesystem::path& path);
[[nodiscard]] history load_history(const std::filesystem::path& path);

}  // namespace icecore::testing
