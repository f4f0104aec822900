#include "reference.hpp"

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <numeric>
#include <set>
#include <utility>

#include "kmer.hpp"

namespace kmers {
namespace {

/// A contig of one k-mer with one difference in its middle still contains a piece of the genome of this length.
constexpr std::size_t seed_bases = 13;
/// If the ends of a contig are further apart, or more bases between them are in neither, the difference is not a gap.
constexpr std::ptrdiff_t gap_bases_max = 50;

[[nodiscard]] std::size_t differences_max(std::string_view contig) { return 2 + contig.size() / 50; }

}  // namespace

reference::reference(std::vector<sequence> sequences) : sequences_(std::move(sequences)) {
  for (std::uint32_t s = 0; s < sequences_.size(); ++s) {
    const std::string_view text = sequences_[s].bases;
    for (std::uint32_t i = 0; i + seed_bases <= text.size(); ++i) {
      seeds_.emplace(text.substr(i, seed_bases), seed{s, i});
    }
  }
}

std::size_t reference::bases() const noexcept {
  return std::accumulate(sequences_.begin(), sequences_.end(), std::size_t{0},
                         [](std::size_t sum, const sequence& s) { return sum + s.bases.size(); });
}

placement reference::place(std::string_view contig) const {
  std::optional<placement> best;
  place_without_gaps(contig, false, best);
  place_without_gaps(kmers::reverse_complement(contig), true, best);
  return best ? *best : place_by_ends(contig);
}

void reference::place_without_gaps(std::string_view text, bool reversed, std::optional<placement>& best) const {
  std::set<std::pair<std::size_t, std::size_t>> tried;
  for (std::size_t i = 0; i + seed_bases <= text.size(); ++i) {
    const auto [from, to] = seeds_.equal_range(text.substr(i, seed_bases));
    for (auto found = from; found != to; ++found) {
      const auto& [s, at] = found->second;
      const std::string_view bases = sequences_[s].bases;
      if (at < i || at - i + text.size() > bases.size() || !tried.emplace(s, at - i).second) continue;
      placement candidate;
      candidate.how = agreement::equal;
      candidate.text = text;
      candidate.begin = {s, at - i, reversed};
      const std::size_t worst = best ? best->differences.size() : differences_max(text) + 1;
      for (std::size_t j = 0; j < text.size() && candidate.differences.size() < worst; ++j) {
        const char there = bases[at - i + j];
        if (there != text[j]) candidate.differences.push_back({at - i + j, there, text[j]});
      }
      if (candidate.differences.size() >= worst) continue;
      if (!candidate.differences.empty()) candidate.how = agreement::substitutions;
      best = std::move(candidate);
    }
  }
}

reference::flank reference::longest_prefix(std::string_view text) const {
  flank longest;
  const auto [from, to] = seeds_.equal_range(text.substr(0, seed_bases));
  for (auto found = from; found != to; ++found) {
    const auto& [s, at] = found->second;
    const std::string_view there = std::string_view(sequences_[s].bases).substr(at, text.size());
    const auto end = std::mismatch(there.begin(), there.end(), text.begin()).first;
    const auto equal = static_cast<std::size_t>(end - there.begin());
    if (equal > longest.bases) longest = {{s, at, false}, equal};
  }
  return longest;
}

reference::flank reference::longest_suffix(std::string_view text) const {
  flank longest;
  const auto [from, to] = seeds_.equal_range(text.substr(text.size() - seed_bases));
  for (auto found = from; found != to; ++found) {
    const auto& [s, at] = found->second;
    const std::string_view there = std::string_view(sequences_[s].bases).substr(0, at + seed_bases);
    const auto begin = std::mismatch(there.rbegin(), there.rend(), text.rbegin(), text.rend()).first;
    const auto equal = static_cast<std::size_t>(begin - there.rbegin());
    if (equal > longest.bases) longest = {{s, there.size() - equal, false}, equal};
  }
  return longest;
}

placement reference::place_by_ends(std::string_view contig) const {
  placement result;
  result.text = contig;
  if (contig.size() < seed_bases) return result;
  // each end on the strand where more of it is found; what is read on the other strand ends where it began
  const auto turned = [](flank f) {
    f.begin.reversed = true;
    return f;
  };
  const auto longer = [](const flank& a, const flank& b) { return a.bases >= b.bases ? a : b; };
  const std::string other = kmers::reverse_complement(contig);
  const flank front = longer(longest_prefix(contig), turned(longest_suffix(other)));
  const flank back = longer(longest_suffix(contig), turned(longest_prefix(other)));
  if (front.bases + back.bases == 0) return result;
  const bool reversed = front.begin.reversed;
  const bool both = front.bases > 0 && back.bases > 0 && front.bases + back.bases + gap_bases_max >= contig.size();
  if (!both) {
    const flank& end = longer(front, back);
    result.how = agreement::part;
    result.begin = end.begin;
    result.part = end.bases;
    return result;
  }
  const flank& left = reversed ? back : front;
  const flank& right = reversed ? front : back;
  const auto span = static_cast<std::ptrdiff_t>(right.begin.base + right.bases - left.begin.base);
  const std::ptrdiff_t gap = static_cast<std::ptrdiff_t>(contig.size()) - span;
  if (reversed == back.begin.reversed && left.begin.sequence == right.begin.sequence && span > 0 &&
      std::abs(gap) <= gap_bases_max) {
    result.how = agreement::gap;
    result.begin = left.begin;
    result.gap = gap;
    if (reversed) result.text = other;
    return result;
  }
  result.how = agreement::junction;
  result.begin = front.begin;
  if (reversed) result.begin.base += front.bases - 1;
  result.end = back.begin;
  if (!back.begin.reversed) result.end.base += back.bases - 1;
  return result;
}

coverage::coverage(const reference& genome) {
  for (const sequence& s : genome.sequences()) covered_.emplace_back(s.bases.size(), false);
}

void coverage::add(const placement& where) {
  auto& of_sequence = covered_[where.begin.sequence];
  const auto begin = of_sequence.begin() + static_cast<std::ptrdiff_t>(where.begin.base);
  std::fill(begin, begin + static_cast<std::ptrdiff_t>(where.text.size()), true);
}

std::vector<coverage::hole> coverage::holes() const {
  std::vector<hole> all;
  for (std::size_t s = 0; s < covered_.size(); ++s) {
    const auto& of_sequence = covered_[s];
    for (auto from = of_sequence.begin(); (from = std::find(from, of_sequence.end(), false)) != of_sequence.end();) {
      const auto to = std::find(from, of_sequence.end(), true);
      all.push_back({s, static_cast<std::size_t>(from - of_sequence.begin()),
                     static_cast<std::size_t>(to - of_sequence.begin())});
      from = to;
    }
  }
  return all;
}

std::size_t coverage::covered() const {
  std::size_t count = 0;
  for (const auto& of_sequence : covered_) count += static_cast<std::size_t>(std::ranges::count(of_sequence, true));
  return count;
}

std::size_t n50(std::vector<std::size_t> lengths) {
  std::ranges::sort(lengths, std::greater{});
  const std::size_t all = std::accumulate(lengths.begin(), lengths.end(), std::size_t{0});
  std::size_t sum = 0;
  for (const std::size_t length : lengths) {
    sum += length;
    if (2 * sum >= all) return length;
  }
  return 0;
}

}  // namespace kmers
