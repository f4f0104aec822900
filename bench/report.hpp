// The output of a run: a readable table, and JSON for programs.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "measure.hpp"

namespace icecore::bench {

using json = nlohmann::ordered_json;

/// Columns right-aligned under their headings, the first one left-aligned.
class table {
 public:
  explicit table(std::vector<std::string> heads) : rows_{std::move(heads)} {}
  void add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }
  void print() const;

 private:
  std::vector<std::vector<std::string>> rows_;
};

/// A number with this many digits after the decimal point.
[[nodiscard]] std::string fixed(double number, int digits);

/// The machine: processor, threads, kernel, huge pages; the compiler.
[[nodiscard]] json machine();
/// Type and options of a folder's file system; empty if not known.
[[nodiscard]] std::string mount_of(const std::filesystem::path& folder);

/// A progress line on standard error, only on a terminal; the next one overwrites it.
void tell(const std::string& what);

// The modes. Each prints its table and returns its figures.
[[nodiscard]] json measure_points(const settings& chosen);
/// Compares stores of several files with stores of one file.
[[nodiscard]] json measure_files(const settings& chosen, unsigned files);
[[nodiscard]] json measure_depth(const settings& chosen);
[[nodiscard]] json measure_large(const settings& chosen, std::uint64_t keys);

}  // namespace icecore::bench
