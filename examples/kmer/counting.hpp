// Counts the k-mers of reads and the bases beside them, in memory.
//
//   kmers::counter counts(coder, 20);
//   while (file.next(r)) counts.add(r);
//   for (const auto& [x, seen] : counts.table()) ...
//
// Threads: one. Cost: O(1) per base. Memory: about 80 bytes per distinct k-mer, until clear().
#pragma once

#include <unordered_map>

#include "extensions.hpp"
#include "kmer.hpp"
#include "sequence_files.hpp"

namespace kmers {

class counter {
 public:
  /// A base beside a k-mer is counted if its quality is at least `quality_min`.
  counter(const coder& shape, int quality_min) : coder_(shape), quality_min_(quality_min) {}

  /// Counts all k-mers of a read that contain no unknown base, each under its canonical form.
  void add(const fastq_read& r);

  [[nodiscard]] const std::unordered_map<kmer, extension_counts, kmer_hash>& table() const noexcept { return table_; }
  void clear() { table_.clear(); }

 private:
  void add_at(const fastq_read& r, std::size_t begin, kmer forward, kmer backward);

  coder coder_;
  int quality_min_;
  std::unordered_map<kmer, extension_counts, kmer_hash> table_;
};

}  // namespace kmers
