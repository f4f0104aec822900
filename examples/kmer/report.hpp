// What the program prints and writes.
#pragma once

#include <filesystem>
#include <string_view>
#include <vector>

#include "assembly.hpp"
#include "icecore/cluster.hpp"
#include "reference.hpp"

namespace kmers {

/// A line about what is in the cluster at the end of a phase; nothing if it is not finished.
void print_phase(const icecore::cluster& c, std::string_view phase);

/// Counts and lengths.
void print_contigs(const std::vector<contig>& contigs);

/// Errors: std::runtime_error if the file cannot be written.
void write_fasta(const std::vector<contig>& contigs, const std::filesystem::path& path);

/// How many contigs are in the genome, how much of it they are, and the reason for each one that is not and each
/// place that none covers.
void print_comparison(const icecore::cluster& c, const coder& shape, const std::vector<contig>& contigs,
                      const reference& genome);

}  // namespace kmers
