// The content of a closed store, record by record in the order of versions. A cluster that is restored on other ranks
// uses it to move the records.
//
//   const icecore::record_log log("/scratch/rank-0.ice");
//   for (std::size_t i = 0; i < log.size(); ++i) if (log.at(i).what == icecore::logged::kind::small) ...
//
// The constructor reads and checks all records as opening the store does. But it builds no index, and it does not check
// large values: the caller checks those it reads. Errors: those of opening a store for reading; errc::copied if the
// store was not closed; errc::unsupported_format if it has several files, or keys that are to be forgotten.
// Threads: any thread may call any function. Cost: O(records), with 24 bytes of memory each, 32 while they are read,
// and 64 for a packed one; what is packed with compression is inflated and stays in memory. at() is O(1).
// Invariants:
//   L1 Versions never decrease from one record to the next, and each record of a key comes before the newer ones.
//   L2 A tag comes first among the records of the version after its own, so everything it covers comes before it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "icecore/options.hpp"
#include "icecore/retention.hpp"
#include "icecore/version_ranges.hpp"

namespace [[gnu::visibility("default")]] icecore {

/// A record or a tag. Its views are valid as long as the log.
struct logged {
  enum class kind : std::uint8_t { tag, removal, small, large };

  version at;  ///< for a tag: the version after its own (L2)
  kind what;
  std::int64_t time_ns = 0;        ///< tags only
  std::string_view key{};          ///< for a tag: its name
  std::string_view value{};        ///< for a small value: its bytes; for a tag: its note
  std::uint64_t value_offset = 0;  ///< large values only: offset in the file
  std::uint32_t value_size = 0;    ///< large values only: size in bytes
  std::uint32_t value_crc = 0;     ///< large values only: CRC32C of the bytes

  /// A sort key for merging several logs by L2: within a version, tags come first.
  [[nodiscard]] std::pair<version, bool> order() const noexcept { return {at, what != kind::tag}; }
};

class record_log {
 public:
  /// Uses only the threads and the progress function of the options.
  explicit record_log(const std::filesystem::path& path, const options& opening = {});
  ~record_log();
  record_log(record_log&&) noexcept;
  record_log& operator=(record_log&&) noexcept;

  [[nodiscard]] std::size_t size() const noexcept;
  /// Precondition: position < size().
  [[nodiscard]] logged at(std::size_t position) const;
  /// A hint that at(position) will be called soon; does nothing past the end.
  void prefetch(std::size_t position) const noexcept;
  /// The store's open version.
  [[nodiscard]] version clock() const noexcept;
  /// As store::lost_versions().
  [[nodiscard]] const version_ranges& lost_versions() const noexcept;
  /// As store::expired_versions() and store::retention(). What only expired versions showed is not in the log if a
  /// compaction has dropped it.
  [[nodiscard]] const std::vector<version_range>& expired_versions() const noexcept;
  [[nodiscard]] const icecore::retention& retention() const noexcept;
  /// Whether the store keeps queries. They are not in the log.
  [[nodiscard]] bool has_queries() const noexcept;
  /// statistics::pool_id of the store.
  [[nodiscard]] const std::string& pool_id() const noexcept;

 private:
  struct content;
  std::unique_ptr<const content> content_;
};

}  // namespace icecore
