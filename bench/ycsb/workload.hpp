// YCSB's core workloads as streams of operations, laid out before the clock starts.
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
  zipfian,  ///< some records are popular, wherever they are
  latest,   ///< the last ones inserted are popular
};

[[nodiscard]] const char* name_of(distribution chosen) noexcept;

struct workload {
  std::string name;
  std::array<unsigned, operation_kind_count> percent;  ///< of each kind of operation
  distribution chosen;                                 ///< of the records, but of those that are inserted
};

/// A to F, and `updates`, which YCSB has not: updates alone.
[[nodiscard]] const std::vector<workload>& all_workloads();

/// The workload of that name, which there is.
[[nodiscard]] const workload& workload_of_name(std::string_view name);

struct operation {
  std::uint32_t record;  ///< its number; under distribution::latest, how many were inserted after it
  operation_kind kind;
  std::uint8_t scan_length;
};

/// How a stream of one thread is made.
struct stream_options {
  std::uint64_t records = 0;     ///< that were loaded
  std::uint64_t operations = 0;  ///< of this thread
  unsigned threads = 1;          ///< that insert at the same time, so that records become more
  double theta = theta_default;
  std::optional<distribution> chosen{};  ///< instead of the workload's own
  std::uint64_t seed = 0;
};

struct stream {
  std::vector<operation> operations;
  bool from_newest;  ///< operation::record counts back from the newest record
};

/// The operations of one thread, the same for the same options. Records that other threads are to insert are counted as
/// if all went on at one pace.
[[nodiscard]] stream operations_of(const workload& work, const stream_options& how);

/// Hands out the numbers of records to insert, and tells below which number all are inserted: those may be read. After
/// YCSB's AcknowledgedCounterGenerator.
class insert_counter {
 public:
  explicit insert_counter(std::uint64_t records) : next_(records), acknowledged_(records), done_(window) {}

  /// Waits while the oldest insert that is not done is a window behind.
  [[nodiscard]] std::uint64_t next() noexcept;

  /// The record is inserted.
  void acknowledge(std::uint64_t record) noexcept;

  [[nodiscard]] std::uint64_t acknowledged() const noexcept {
    return acknowledged_.load(std::memory_order_acquire);  // who reads the record sees its insert
  }

 private:
  static constexpr std::size_t window = std::size_t{1} << 20;

  alignas(64) std::atomic<std::uint64_t> next_;
  alignas(64) std::atomic<std::uint64_t> acknowledged_;
  alignas(64) std::atomic_flag advancing_;
  std::vector<std::atomic<bool>> done_;  // records from acknowledged_ on, each at its number modulo the window
};

}  // namespace icecore::bench::ycsb
