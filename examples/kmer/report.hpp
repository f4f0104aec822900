// The output of the program.
#pragma once

#include <filesystem>
#include <string_view>
#include <vector>

#include "assembly.hpp"
#include "icecore/cluster.hpp"
#include "reference.hpp"

namespace kmers {

/// A line about the cluster's content at the end of a phase; empty if the phase is not finished.
void print_phase(const icecore::cluster& c, std::string_view phase);

/// Prints counts and lengths.
void print_contigs(const std::vector<contig>& contigs);

/// Errors: std::runtime_error if the file cannot be written.
void write_fasta(const std::vector<contig>& contigs, const std::filesystem::path& path);

/// Prints how many contigs are in the genome, how much of it they cover, and the reason for each contig that is not in
/// it and each place that no contig covers.
void print_comparison(const icecore::cluster& c, const coder& shape, const std::vector<contig>& contigs,
                      const reference& genome);

}  // namespace kmers
