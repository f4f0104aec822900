// YCSB's core workloads as streams of operations, prepared before the clock starts.
//
// Source: B. F. Cooper et al., "Benchmarking Cloud Serving Systems with YCSB", SoCC 2010, table 2 and section 4.2.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "choosers.hpp"

namespace icecore::bench::ycsb {

enum class operation_kind : std::uint8_t { read, update, insert, scan, read_modify_write };
inline constexpr std::size_t operation_kind_count = 5;

[[nodiscard]] const char* name_of(operation_kind kind) noexcept;

enum class distribution : std::uint8_t {
  uniform,
  zipfian,  ///< some records are popular, and they are scattered
  latest,   ///< the records inserted last are popular
};

[[nodiscard]] const char* name_of(distribution chosen) noexcept;

struct workload {
  std::string name;
  std::array<unsigned, operation_kind_count> percent;  ///< of each kind of operation
  distribution chosen;                                 ///< chooses the records, except those to insert
};

/// A to F, and `updates`, which YCSB does not have: only updates.
[[nodiscard]] const std::vector<workload>& all_workloads();

/// The workload with that name, which must exist.
[[nodiscard]] const workload& workload_of_name(std::string_view name);

struct operation {
  std::uint32_t record;  ///< its number; under distribution::latest, the number of records inserted after it
  operation_kind kind;
  std::uint8_t scan_length;
};

/// The options of one thread's stream.
struct stream_options {
  std::uint64_t records = 0;     ///< number of loaded records
  std::uint64_t operations = 0;  ///< number of operations of this thread
  unsigned threads = 1;          ///< number that insert at the same time, which makes the records more
  double theta = theta_default;
  std::optional<distribution> chosen{};  ///< instead of the workload's own
  std::uint64_t seed = 0;
};

struct stream {
  std::vector<operation> operations;
  bool from_newest;  ///< operation::record counts back from the newest record
};

/// The operations of one thread, the same for the same options. It assumes that all threads insert at the same pace.
[[nodiscard]] stream operations_of(const workload& work, const stream_options& how);

/// Assigns the numbers of records to insert, and reports the number below which all are inserted: those may be read.
/// After YCSB's AcknowledgedCounterGenerator.
class insert_counter {
 public:
  explicit insert_counter(std::uint64_t records) : next_(records), acknowledged_(records), done_(window) {}

  /// Waits while the oldest unfinished insert is a window behind.
  [[nodiscard]] std::uint64_t next() noexcept;

  /// Reports that the record is inserted.
  void acknowledge(std::uint64_t record) noexcept;

  [[nodiscard]] std::uint64_t acknowledged() const noexcept {
    return acknowledged_.load(std::memory_order_acquire);  // a thread that reads the record sees its insert
  }

 private:
  static constexpr std::size_t window = std::size_t{1} << 20;

  alignas(64) std::atomic<std::uint64_t> next_;
  alignas(64) std::atomic<std::uint64_t> acknowledged_;
  alignas(64) std::atomic_flag advancing_;
  std::vector<std::atomic<bool>> done_;  // the records from acknowledged_ on, each at its number modulo the window
};

}  // namespace icecore::bench::ycsb
