// What a closed store holds, record by record in the order of versions: for moving it elsewhere, as a cluster that is
// restored on other ranks does.
//
//   const icecore::record_log log("/scratch/rank-0.ice");
//   for (std::size_t i = 0; i < log.size(); ++i) if (log.at(i).what == icecore::logged::kind::small) ...
//
// Opening reads and checks all records as opening the store does, but builds no index, and leaves large values alone:
// whoever reads one checks it. Errors: those of opening a store for reading; errc::copied if it was not closed.
// Threads: all functions. Cost: O(records) with 24 bytes of memory each, 32 while they are read; at() is O(1).
// Invariants:
//   L1 Versions never fall from one to the next, and of one key each record comes before those that are newer.
//   L2 A tag is the first of the version after its own: what it covers comes before it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "icecore/options.hpp"
#include "icecore/version_ranges.hpp"

namespace [[gnu::visibility("default")]] icecore {

/// A record, or a tag. Views are valid as long as the log.
struct logged {
  enum class kind : std::uint8_t { tag, removal, small, large };

  version at;  ///< of a tag: the version after its own (L2)
  kind what;
  std::int64_t time_ns = 0;        ///< of a tag
  std::string_view key{};          ///< of a tag: its name
  std::string_view value{};        ///< of a small value; of a tag: its note
  std::uint64_t value_offset = 0;  ///< of a large value: where in the file it lies,
  std::uint32_t value_size = 0;    ///< how many bytes it has,
  std::uint32_t value_crc = 0;     ///< and their CRC32C

  /// The order of L2 among logs: of one version tags come first.
  [[nodiscard]] std::pair<version, bool> order() const noexcept { return {at, what != kind::tag}; }
};

class record_log {
 public:
  /// Of the options threads and progress count.
  explicit record_log(const std::filesystem::path& path, const options& opening = {});
  ~record_log();
  record_log(record_log&&) noexcept;
  record_log& operator=(record_log&&) noexcept;

  [[nodiscard]] std::size_t size() const noexcept;
  /// Precondition: position < size().
  [[nodiscard]] logged at(std::size_t position) const;
  /// A hint that at(position) is soon to come; does nothing behind the end.
  void prefetch(std::size_t position) const noexcept;
  /// The store's open version.
  [[nodiscard]] version clock() const noexcept;
  /// As store::lost_versions().
  [[nodiscard]] const version_ranges& lost_versions() const noexcept;
  /// statistics::pool_id of the store.
  [[nodiscard]] const std::string& pool_id() const noexcept;

 private:
  struct content;
  std::unique_ptr<const content> content_;
};

}  // namespace icecore
