#include "counting.hpp"

namespace kmers {
namespace {

constexpr char quality_zero = '!';  // Phred+33

}  // namespace

void counter::add(const fastq_read& r) {
  const auto k = static_cast<std::size_t>(coder_.k());
  kmer forward = 0;
  kmer backward = 0;
  std::size_t known = 0;  // known bases in a row
  for (std::size_t i = 0; i < r.bases.size(); ++i) {
    const auto b = base_of(r.bases[i]);
    if (!b) {
      known = 0;
      continue;
    }
    forward = coder_.shifted(forward, *b);
    backward = coder_.shifted_back(backward, complement(*b));
    if (++known >= k) add_at(r, i + 1 - k, forward, backward);
  }
}

void counter::add_at(const fastq_read& r, std::size_t begin, kmer forward, kmer backward) {
  const auto trusted = [&](std::size_t place) -> std::optional<base> {
    if (place >= r.bases.size() || r.qualities[place] - quality_zero < quality_min_) return std::nullopt;
    return base_of(r.bases[place]);
  };
  // no base comes before a read's first one: the position wraps round to a number beyond the last base
  std::optional<base> left = trusted(begin - 1);
  std::optional<base> right = trusted(begin + static_cast<std::size_t>(coder_.k()));
  if (backward < forward) {
    std::swap(left, right);
    if (left) left = complement(*left);
    if (right) right = complement(*right);
  }
  extension_counts& counts = table_[std::min(forward, backward)];
  ++counts.depth;
  if (left) ++counts.left[*left];
  if (right) ++counts.right[*right];
}

}  // namespace kmers
