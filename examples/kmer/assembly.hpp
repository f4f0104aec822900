// From reads to contigs in four phases over a cluster. Each phase reads the version that the phase before it tagged and
// ends with a tag of its own, so every phase can be looked at afterwards, and a run that was stopped, wherever it was,
// goes on behind the last phase that was finished.
//
//   tag              keys then in the cluster
//   partial counts   b + k-mer + rank + batch: what one rank has counted, at the owner of the k-mer
//   counts           k + k-mer: extension_counts, summed by its owner
//   codes            k + k-mer: the two-letter code of each that was seen often enough; the others are removed
//   contigs          k + k-mer: for those on a contig code, form and the contig's key; c + first k-mer: form and bases
//
// So the history of a k-mer's key tells its counts, its code, and the contig it is on.
// Ranks: every phase is collective. The contigs do not depend on the number of ranks: each is found once, from the end
//   that has the smaller k-mer, and written as the smaller of its two strands; a ring from its smallest k-mer.
// Source: PapyrusKV, SC 2017, section 5.2 (Meraculous: k-mers and two-letter codes in a hash-owned store).
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "graph.hpp"
#include "icecore/cluster.hpp"
#include "kmer.hpp"

namespace kmers {

struct parameters {
  int k = 31;
  int quality_min = 20;              ///< of a base beside a k-mer, to be counted
  std::uint32_t depth_min = 4;       ///< of a k-mer, to be kept
  std::uint32_t extensions_min = 2;  ///< of a base beside a k-mer, to be in its code
  std::vector<std::filesystem::path> reads;

  /// One line by which a cluster knows whose it is: all of these, and the size of each file.
  [[nodiscard]] std::string text() const;
};

/// The phases in their order, named as their tags.
inline constexpr std::array<std::string_view, 4> phases = {"partial counts", "counts", "codes", "contigs"};

/// What a contig is.
enum class form : char { chain = '-', ring = 'o' };

/// Opens or makes the cluster in a folder; the owner of a k-mer is the same for all kinds of keys (collective).
/// Throws icecore::error with errc::invalid_argument if it was made with other parameters or from other reads.
[[nodiscard]] icecore::cluster open(MPI_Comm comm, const std::filesystem::path& folder, const parameters& given);

/// Does the work of one phase without its tag (collective): as a run that is stopped leaves it, it is done again by the
/// next one. The phase before it must be finished.
void do_phase(icecore::cluster& c, const parameters& given, std::string_view phase);

/// Runs the phases that are not finished, up to `last` (collective). Returns their names.
std::vector<std::string_view> run(icecore::cluster& c, const parameters& given, std::string_view last = phases.back());

/// The key of a k-mer or its reverse complement, in all versions from "counts" on.
[[nodiscard]] std::string kmer_key(const coder& shape, kmer x);

struct contig {
  std::string key;
  kmers::form form = form::chain;
  std::string bases;
};

/// All contigs in the order of their first k-mers. The phase "contigs" must be finished.
[[nodiscard]] std::vector<contig> contigs_of(const icecore::cluster& c);

/// What the history of a k-mer says, a line for each version, newest first. errc::invalid_argument if the text is none.
[[nodiscard]] std::vector<std::string> history_of(const icecore::cluster& c, const coder& shape, std::string_view text);

}  // namespace kmers
