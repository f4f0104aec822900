#include "report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <numeric>
#include <stdexcept>
#include <tuple>

#include "extensions.hpp"

namespace kmers {
namespace {

[[nodiscard]] double percent(std::size_t part, std::size_t whole) {
  return whole == 0 ? 0 : 100.0 * static_cast<double>(part) / static_cast<double>(whole);
}

/// How often the rarest k-mer of a text was seen; 0 if one was not seen.
[[nodiscard]] std::uint32_t depth_min_of(const icecore::cluster_snapshot& counts, const coder& shape,
                                         std::string_view text) {
  std::vector<std::string> keys;
  for (std::size_t i = 0; i + static_cast<std::size_t>(shape.k()) <= text.size(); ++i) {
    const auto x = shape.parse(text.substr(i, static_cast<std::size_t>(shape.k())));
    if (x) keys.push_back(kmer_key(shape, *x));
  }
  const std::vector<std::string_view> views(keys.begin(), keys.end());
  std::uint32_t least = keys.empty() ? 0 : ~std::uint32_t{0};
  for (const auto& value : counts.find_many(views)) {
    least = std::min(least, value ? extension_counts::of(*value).depth : 0);
  }
  return least;
}

/// A position counted from 1, for output.
[[nodiscard]] std::string text_of(const reference& genome, const place& p) {
  const auto& all = genome.sequences();
  return fmt::format("{}{}", all.size() > 1 ? all[p.sequence].name + ":" : "", p.base + 1);
}

/// Describes how a contig differs from the genome.
[[nodiscard]] std::string reason_of(const reference& genome, const placement& where) {
  const std::string begin = text_of(genome, where.begin);
  const auto strand = [](const place& p) { return p.reversed ? " on the other strand" : ""; };
  switch (where.how) {
    case agreement::equal:
      return "at " + begin;
    case agreement::substitutions: {
      std::string reason = fmt::format("at {}, with", begin);
      for (const auto& [base, there, here] : where.differences) reason += fmt::format(" {}{}{}", there, base + 1, here);
      return reason;
    }
    case agreement::gap:
      return fmt::format("at {}, {} {} {}", begin, std::abs(where.gap), std::abs(where.gap) == 1 ? "base" : "bases",
                         where.gap < 0 ? "missing" : "inserted");
    case agreement::junction:
      return fmt::format("from {}{} to {}{}", begin, strand(where.begin), text_of(genome, where.end),
                         strand(where.end));
    case agreement::part:
      return fmt::format("at {}, {} bases equal", begin, where.part);
    case agreement::unknown:
      break;
  }
  return where.text;
}

void print_holes(const icecore::cluster_snapshot& counts, const coder& shape, const reference& genome,
                 const coverage& equal) {
  for (const auto& [s, begin, end] : equal.holes()) {
    const std::string_view text = genome.sequences()[s].bases;
    const auto margin = static_cast<std::size_t>(shape.k()) - 1;  // covers all k-mers that contain a base of the hole
    const std::size_t from = begin > margin ? begin - margin : 0;
    const std::uint32_t depth = depth_min_of(counts, shape, text.substr(from, end + margin - from));
    fmt::print("  {} to {}: {}\n", text_of(genome, {s, begin, false}), end,
               depth == 0 ? "no read has all of the genome's k-mers there"
                          : fmt::format("the genome's k-mers there were seen {} times or more", depth));
  }
}

}  // namespace

void print_phase(const icecore::cluster& c, std::string_view phase) {
  const auto tag = c.find_tag(phase);
  if (tag)
    fmt::print("version {}, {:15} {:10} keys\n", tag->version, fmt::format("{}:", phase), c.at(tag->version).size());
}

void print_contigs(const std::vector<contig>& contigs) {
  std::vector<std::size_t> lengths;
  for (const contig& one : contigs) lengths.push_back(one.bases.size());
  fmt::print("contigs: {}, of which rings {}; bases: {}; longest: {}; N50: {}\n", contigs.size(),
             std::ranges::count(contigs, form::ring, &contig::form),
             std::accumulate(lengths.begin(), lengths.end(), std::size_t{0}),
             lengths.empty() ? 0 : std::ranges::max(lengths), n50(lengths));
}

void write_fasta(const std::vector<contig>& contigs, const std::filesystem::path& path) {
  constexpr std::size_t line_bases = 80;
  std::ofstream out(path);
  std::size_t number = 0;
  for (const contig& one : contigs) {
    out << ">contig_" << ++number << " length=" << one.bases.size() << (one.form == form::ring ? " ring" : "") << '\n';
    for (std::size_t i = 0; i < one.bases.size(); i += line_bases) out << one.bases.substr(i, line_bases) << '\n';
  }
  if (!out.flush()) throw std::runtime_error("cannot write " + path.string());
}

void print_comparison(const icecore::cluster& c, const coder& shape, const std::vector<contig>& contigs,
                      const reference& genome) {
  std::map<agreement, std::vector<placement>> placed;
  coverage equal(genome);
  for (const contig& one : contigs) {
    placement where = genome.place(one.bases);
    if (where.how == agreement::equal) equal.add(where);
    placed[where.how].push_back(std::move(where));
  }
  fmt::print("equal to the genome:       {:4} contigs, which are {} of its {} bases ({:.2f} %)\n",
             placed[agreement::equal].size(), equal.covered(), genome.bases(),
             percent(equal.covered(), genome.bases()));
  const auto counts = c.at(phases[1]);
  constexpr std::array others = {
      std::pair{agreement::substitutions, "but for single bases:"}, std::pair{agreement::gap, "but for a gap:"},
      std::pair{agreement::junction, "two parts of the genome:"}, std::pair{agreement::part, "in part of the genome:"},
      std::pair{agreement::unknown, "not found in the genome:"}};
  for (const auto& [how, title] : others) {
    auto& some = placed[how];
    fmt::print("{:26} {:4} contigs\n", title, some.size());
    const auto by_place = [](const placement& p) { return std::tuple(p.begin.sequence, p.begin.base, p.text); };
    std::ranges::sort(some, {}, by_place);
    for (const placement& where : some) {
      fmt::print("  {}; {} bases, seen {} times or more\n", reason_of(genome, where), where.text.size(),
                 depth_min_of(counts, shape, where.text));
    }
  }
  if (equal.covered() < genome.bases()) fmt::print("bases of the genome that no equal contig has:\n");
  print_holes(counts, shape, genome, equal);
}

}  // namespace kmers
