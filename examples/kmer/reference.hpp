// Compares contigs with the genome they should come from, and finds the reason if they are not equal to it.
//
//   const kmers::reference genome(kmers::read_fasta("lambda_virus.fa.gz"));
//   const kmers::placement where = genome.place(contig);
//   if (where.how == kmers::agreement::equal) ...
//
// Cost: O(bases of the genome) to construct; a placement O(bases of the contig) for each place of its seeds.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "sequence_files.hpp"

namespace kmers {

enum class agreement {
  equal,          ///< a piece of the genome or of its other strand
  substitutions,  ///< equal except for single bases, one in fifty and two at most
  gap,            ///< both ends are, one after the other; between them, bases were inserted or are missing
  junction,       ///< both ends are, but far apart or on different strands
  part,           ///< one end is, the rest is not
  unknown,        ///< neither end is
};

/// A base of a genome, counted from 0, on one of its strands.
struct place {
  std::size_t sequence = 0;
  std::size_t base = 0;
  bool reversed = false;
};

/// One base of a contig that differs from the genome.
struct difference {
  std::size_t base = 0;  ///< position in the genome's sequence
  char genome = 'N';
  char contig = 'N';
};

/// Where a contig is. Only the members that belong to `how` are set.
struct placement {
  agreement how = agreement::unknown;
  std::string text;                     ///< the contig, read in the direction of the strand on which it was placed
  place begin;                          ///< of the text; for a junction, of its first base
  std::vector<difference> differences;  ///< substitutions
  std::ptrdiff_t gap = 0;               ///< number of bases more, or fewer, than the genome has
  place end;                            ///< junction: of its last base
  std::size_t part = 0;                 ///< part: number of bases that are in the genome
};

class reference {
 public:
  explicit reference(std::vector<sequence> sequences);

  [[nodiscard]] placement place(std::string_view contig) const;

  [[nodiscard]] const std::vector<sequence>& sequences() const noexcept { return sequences_; }
  [[nodiscard]] std::size_t bases() const noexcept;

 private:
  struct seed {
    std::uint32_t sequence;
    std::uint32_t base;
  };
  /// A piece of the contig that is in the genome.
  struct flank {
    kmers::place begin;
    std::size_t bases = 0;
  };

  void place_without_gaps(std::string_view text, bool reversed, std::optional<placement>& best) const;
  [[nodiscard]] flank longest_prefix(std::string_view text) const;
  [[nodiscard]] flank longest_suffix(std::string_view text) const;
  [[nodiscard]] placement place_by_ends(std::string_view contig) const;

  std::vector<sequence> sequences_;
  std::unordered_multimap<std::string_view, seed> seeds_;  // all pieces of seed_bases bases
};

/// How much of a genome the contigs cover.
class coverage {
 public:
  explicit coverage(const reference& genome);
  /// Precondition: the placement is equal.
  void add(const placement& where);

  struct hole {
    std::size_t sequence = 0;
    std::size_t begin = 0;
    std::size_t end = 0;
  };
  [[nodiscard]] std::vector<hole> holes() const;
  [[nodiscard]] std::size_t covered() const;

 private:
  std::vector<std::vector<bool>> covered_;
};

/// The length for which contigs of at least that length hold half of all bases.
[[nodiscard]] std::size_t n50(std::vector<std::size_t> lengths);

}  // namespace kmers
