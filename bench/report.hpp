// What a run prints: a table for people, JSON for programs.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "measure.hpp"

namespace icecore::bench {

using json = nlohmann::ordered_json;

/// Columns set right-aligned under their heads, the first left-aligned.
class table {
 public:
  explicit table(std::vector<std::string> heads) : rows_{std::move(heads)} {}
  void add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }
  void print() const;

 private:
  std::vector<std::vector<std::string>> rows_;
};

/// A number with so many digits behind the point.
[[nodiscard]] std::string fixed(double number, int digits);

/// The machine: processor, threads, kernel, huge pages; the compiler.
[[nodiscard]] json machine();
/// Type and options of the file system that a folder is on; empty if unknown.
[[nodiscard]] std::string mount_of(const std::filesystem::path& folder);

/// A line about what is being measured, on standard error and only on a terminal; overwritten by the next.
void tell(const std::string& what);

// The modes. Each prints its table and returns its figures.
[[nodiscard]] json measure_points(const settings& chosen);
/// Stores of several files beside ones of one.
[[nodiscard]] json measure_files(const settings& chosen, unsigned files);
[[nodiscard]] json measure_depth(const settings& chosen);
[[nodiscard]] json measure_large(const settings& chosen, std::uint64_t keys);

}  // namespace icecore::bench
