// What `icecore doctor` looks at: each function looks at one part of the machine or the place of a store, changes
// nothing that stays, and says what is good, what deserves attention, and what stands in the way.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace icecore::cli {

/// green: good as it is. yellow: it works, but slower, or with less durability, than could be. red: something that
/// icecore needs is missing.
enum class light : std::uint8_t { green, yellow, red };

struct doctor_finding {
  light colour = light::green;
  std::string part;    ///< "huge pages"
  std::string found;   ///< what there is
  std::string advice;  ///< what to change, if anything; never empty if the light is not green
};
using doctor_findings = std::vector<doctor_finding>;

// Of the machine (machine.cpp).
/// `memory_files`: whether the stores are on a memory file system.
void look_at_huge_pages(bool memory_files, doctor_findings& found);
void look_at_numa(doctor_findings& found);
void look_at_limits(doctor_findings& found);
void look_at_shared_memory(doctor_findings& found);
void look_at_crash_evidence(doctor_findings& found);
void look_at_mpi(doctor_findings& found);

// Of a folder in which stores are, or shall be (place.cpp).
void look_at_file_system(const std::filesystem::path& folder, doctor_findings& found);
/// Makes a small store in the folder, tries each mode, and removes it.
void look_at_durability(const std::filesystem::path& folder, doctor_findings& found);
/// Whether the folder is on a memory file system.
[[nodiscard]] bool is_memory(const std::filesystem::path& folder);
/// Opens a store for reading.
void look_at_store(const std::filesystem::path& store, doctor_findings& found);

/// The first line of a file of the kernel; empty if it cannot be read.
[[nodiscard]] std::string first_line(const std::filesystem::path& file);

}  // namespace icecore::cli
