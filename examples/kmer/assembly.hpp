// From reads to contigs in four phases over a cluster. Each phase reads the version that the phase before it tagged,
// and ends with a tag of its own. So every phase can be examined afterwards, and a run that was stopped at any point
// continues after the last finished phase.
//
//   tag              keys in that version
//   partial counts   b + k-mer + rank + batch: the counts of one rank, at the owner of the k-mer
//   counts           k + k-mer: extension_counts, added up by the owner
//   codes            k + k-mer: the two-letter code of each k-mer seen often enough; the others are removed
//   contigs          k + k-mer: if on a contig, code, form and the contig's key; c + first k-mer: form and bases
//
// So the history of a k-mer's key shows its counts, its code, and the contig it is on.
// Ranks: every phase is collective. The contigs do not depend on the number of ranks. Each is found once, from the end
//   with the smaller k-mer, and written as the smaller of its two strands; a ring is written from its smallest k-mer.
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
  int quality_min = 20;              ///< minimum quality of a base beside a k-mer to be counted
  std::uint32_t depth_min = 4;       ///< minimum depth of a k-mer to be kept
  std::uint32_t extensions_min = 2;  ///< minimum count of a base beside a k-mer to be in its code
  std::vector<std::filesystem::path> reads;

  /// One line by which a cluster recognises its run: all of these parameters, and the size of each file.
  [[nodiscard]] std::string text() const;
};

/// The phases in order, named like their tags.
inline constexpr std::array<std::string_view, 4> phases = {"partial counts", "counts", "codes", "contigs"};

/// The form of a contig.
enum class form : char { chain = '-', ring = 'o' };

/// Opens or makes the cluster in a folder; the owner of a k-mer is the same for all kinds of keys (collective). Throws
/// icecore::error with errc::invalid_argument if the cluster was made with other parameters or from other reads.
[[nodiscard]] icecore::cluster open(MPI_Comm comm, const std::filesystem::path& folder, const parameters& given);

/// Does the work of one phase without its tag (collective). A stopped run leaves the cluster in this state, and the
/// next run repeats the phase. The phase before it must be finished.
void do_phase(icecore::cluster& c, const parameters& given, std::string_view phase);

/// Runs the unfinished phases up to `last` (collective). Returns their names.
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

/// Describes the history of a k-mer, one line per version, newest first. errc::invalid_argument if the text is not a
/// k-mer.
[[nodiscard]] std::vector<std::string> history_of(const icecore::cluster& c, const coder& shape, std::string_view text);

}  // namespace kmers
