#include "assembly.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "batches.hpp"
#include "counting.hpp"
#include "extensions.hpp"

namespace kmers {
namespace {

constexpr char partial_kind = 'b';
constexpr char kmer_kind = 'k';
constexpr char contig_kind = 'c';
constexpr std::string_view parameters_key = "parameters";

/// When a rank holds this many k-mers, it writes their counts to the cluster and frees its memory.
constexpr std::size_t counted_kmers_max = 1'000'000;

[[nodiscard]] icecore::version version_of(const icecore::cluster& c, std::string_view phase) {
  const auto tag = c.find_tag(phase);
  if (!tag) {
    throw icecore::error(icecore::errc::unknown_tag,
                         fmt::format("the phase \"{}\" is not finished in {}: run it first", phase, c.path().string()));
  }
  return tag->version;
}

/// A number in a key, the highest byte first.
[[nodiscard]] std::string big_endian(std::uint32_t number) {
  return {static_cast<char>(number >> 24), static_cast<char>(number >> 16), static_cast<char>(number >> 8),
          static_cast<char>(number)};
}

// ---- Phase 1: each rank counts its reads ---------------------------------------------------------------------------

/// Every rank writes its counts under keys of its own, so no two ranks change the same value.
void write_partial_counts(icecore::cluster& c, const parameters& given) {
  const coder shape(given.k);
  counter counts(shape, given.quality_min);
  batch_writer writer(c);
  std::uint32_t batch = 0;
  const auto write = [&] {
    const std::string behind = big_endian(static_cast<std::uint32_t>(c.rank())) + big_endian(batch++);
    for (const auto& [x, seen] : counts.table()) {
      writer.insert(shape.key(partial_kind, x) + behind, std::string(seen.bytes()));
    }
    counts.clear();
  };
  // a compressed file can only be read from its beginning: every rank reads all of it and takes its share of the reads
  std::uint64_t number = 0;
  for (const auto& path : given.reads) {
    fastq_reader file(path);
    for (fastq_read r; file.next(r); ++number) {
      if (number % static_cast<unsigned>(c.size()) != static_cast<unsigned>(c.rank())) continue;
      counts.add(r);
      if (counts.table().size() >= counted_kmers_max) write();
    }
  }
  write();
  writer.flush();
}

// ---- Phase 2: each owner adds up the counts ------------------------------------------------------------------------

/// The partial counts of a k-mer are neighbours in key order, so one pass over the rank's own store adds them up.
void sum_counts(icecore::cluster& c, const parameters& given) {
  const coder shape(given.k);
  batch_writer writer(c);
  std::string prefix;  // of the current k-mer
  extension_counts sum;
  const auto write = [&] {
    if (!prefix.empty()) writer.insert(shape.key(kmer_kind, shape.of_key(prefix)), std::string(sum.bytes()));
    sum = {};
  };
  const auto parts = c.local().at(version_of(c, phases[0]));
  for (const auto& [key, value] : parts.prefix(std::string_view(&partial_kind, 1))) {
    if (!key.starts_with(prefix) || prefix.empty()) {
      write();
      prefix = key.substr(0, 1 + shape.bytes());
    }
    sum += extension_counts::of(value);
    c.remove(key);
  }
  write();
  writer.flush();
}

// ---- Phase 3: codes ------------------------------------------------------------------------------------------------

void write_codes(icecore::cluster& c, const parameters& given) {
  batch_writer writer(c);
  const auto counts = c.local().at(version_of(c, phases[1]));
  for (const auto& [key, value] : counts.prefix(std::string_view(&kmer_kind, 1))) {
    const auto seen = extension_counts::of(value);
    if (seen.depth < given.depth_min) {
      c.remove(key);
    } else {
      writer.insert(std::string(key), code_of(seen, given.extensions_min));
    }
  }
  writer.flush();
}

// ---- Phase 4: contigs ----------------------------------------------------------------------------------------------

/// Writes contigs, and for each of their k-mers the contig that it is on.
class contig_writer {
 public:
  contig_writer(icecore::cluster& c, const graph& nodes) : writer_(c), nodes_(nodes) {}

  void write(const std::string& bases, form what) {
    const coder& shape = nodes_.shape();
    const auto k = static_cast<std::size_t>(shape.k());
    const std::string key = shape.key(contig_kind, *shape.parse(std::string_view(bases).substr(0, k)));
    for (std::size_t i = 0; i + k <= bases.size(); ++i) {
      const kmer x = *shape.parse(std::string_view(bases).substr(i, k));
      writer_.insert(kmer_key(shape, x), static_cast<char>(what) + key);
    }
    writer_.insert(key, static_cast<char>(what) + bases);
  }
  void flush() { writer_.flush(); }

 private:
  batch_writer writer_;
  const graph& nodes_;
};

/// The nodes of this rank's own k-mers, read in the direction of their canonical forms.
template <class Each>
void for_own_nodes(const icecore::cluster& c, icecore::version codes, const coder& shape, const Each& each) {
  const auto own = c.local().at(codes);
  for (const auto& [key, value] : own.prefix(std::string_view(&kmer_kind, 1))) {
    if (is_unique(value)) each(graph::node_of(shape.of_key(key), value));
  }
}

/// The ends of chains whose last k-mer belongs to this rank, each as the node from which a walk starts.
[[nodiscard]] std::deque<node> own_ends(const icecore::cluster& c, icecore::version codes, const graph& nodes) {
  std::deque<node> ends;
  std::vector<node> both_ways;  // each node, also flipped
  const auto look = [&] {
    const auto next = nodes.behind(both_ways);
    for (std::size_t i = 0; i < both_ways.size(); i += 2) {
      if (!next[i + 1]) {
        ends.push_back(both_ways[i]);
      } else if (!next[i]) {
        ends.push_back(both_ways[i + 1]);
      }
    }
    both_ways.clear();
  };
  for_own_nodes(c, codes, nodes.shape(), [&](const node& n) {
    both_ways.push_back(n);
    both_ways.push_back(nodes.flipped(n));
    if (both_ways.size() >= batch_items) look();
  });
  look();
  return ends;
}

/// The nodes of this rank that are in no chain: they are on rings.
[[nodiscard]] std::deque<node> own_nodes_on_rings(const icecore::cluster& c, icecore::version codes,
                                                  const coder& shape) {
  std::deque<node> left_over;
  for_own_nodes(c, codes, shape, [&](const node& n) {
    const auto now = c.find(shape.key(kmer_kind, n.x));
    if (now->front() != static_cast<char>(form::chain)) left_over.push_back(n);
  });
  return left_over;
}

void write_contigs(icecore::cluster& c, const parameters& given) {
  const coder shape(given.k);
  const icecore::version codes = version_of(c, phases[2]);
  const graph nodes(shape, c.at(codes), kmer_kind);
  contig_writer writer(c, nodes);

  // A walk starts from both ends of a chain, perhaps on two ranks. The walk that began at the smaller k-mer writes the
  // chain.
  nodes.walk(
      own_ends(c, codes, nodes), [](const node&, const node&) { return false; },
      [&](const path& found) {
        if (shape.canonical(found.end.x) < shape.canonical(found.begin.x)) return;
        writer.write(std::min(found.bases, reverse_complement(found.bases)), form::chain);
      });
  writer.flush();
  c.barrier();  // now the k-mers of all ranks' chains are marked

  nodes.walk(
      own_nodes_on_rings(c, codes, shape),
      [&](const node& start, const node& next) { return shape.canonical(next.x) < start.x; },
      [&](const path& found) { writer.write(found.bases, form::ring); });
  writer.flush();
}

}  // namespace

// ---- The phases ----------------------------------------------------------------------------------------------------

std::string parameters::text() const {
  std::string all =
      fmt::format("k {}, quality {}, depth {}, extensions {}, reads", k, quality_min, depth_min, extensions_min);
  for (const auto& path : reads) {
    std::error_code unreadable;
    const auto bytes = std::filesystem::file_size(path, unreadable);
    all += fmt::format(" {} ({} bytes)", path.filename().string(), unreadable ? 0 : bytes);
  }
  return all;
}

icecore::cluster open(MPI_Comm comm, const std::filesystem::path& folder, const parameters& given) {
  const coder shape(given.k);
  icecore::cluster_options options;
  options.ownership = icecore::ownership::by_function(
      std::to_string(given.k) + "-mers", [shape](std::string_view key, int ranks) -> int {
        if (key.size() < 1 + shape.bytes() || key == parameters_key) return 0;
        return static_cast<int>(kmer_hash{}(shape.of_key(key)) % static_cast<unsigned>(ranks));
      });
  icecore::cluster c(comm, folder, options);
  const auto before = c.find(parameters_key);
  if (before && *before != given.text()) {
    throw icecore::error(
        icecore::errc::invalid_argument,
        fmt::format("{} was made with other parameters ({}), not with these ({}): give another folder, or --fresh",
                    folder.string(), *before, given.text()));
  }
  if (!before && c.rank() == 0) c.insert(parameters_key, given.text());
  return c;
}

void do_phase(icecore::cluster& c, const parameters& given, std::string_view phase) {
  constexpr std::array work = {write_partial_counts, sum_counts, write_codes, write_contigs};
  work.at(static_cast<std::size_t>(std::ranges::find(phases, phase) - phases.begin()))(c, given);
}

std::vector<std::string_view> run(icecore::cluster& c, const parameters& given, std::string_view last) {
  std::vector<std::string_view> done;
  for (const std::string_view phase : phases) {
    if (!c.find_tag(phase)) {
      do_phase(c, given, phase);
      c.tag(phase);
      done.push_back(phase);
    }
    if (phase == last) break;
  }
  return done;
}

std::string kmer_key(const coder& shape, kmer x) { return shape.key(kmer_kind, shape.canonical(x)); }

std::vector<contig> contigs_of(const icecore::cluster& c) {
  std::vector<contig> all;
  for (const auto& [key, value] : c.at(version_of(c, phases[3])).prefix(std::string_view(&contig_kind, 1))) {
    all.push_back({std::string(key), static_cast<form>(value.front()), std::string(value.substr(1))});
  }
  return all;
}

namespace {

[[nodiscard]] std::string meaning_of(const coder& shape, const std::optional<std::string>& value) {
  if (!value) return "removed, seen too rarely";
  if (value->size() == 2) return "code " + *value;
  if (value->size() != sizeof(extension_counts)) {
    return "on the contig that begins with " + shape.text(shape.of_key(std::string_view(*value).substr(1)));
  }
  const auto seen = extension_counts::of(*value);
  const auto& [a, c, g, t] = seen.left;
  const auto& [ra, rc, rg, rt] = seen.right;
  return fmt::format("seen {} times; left A {} C {} G {} T {}, right A {} C {} G {} T {}", seen.depth, a, c, g, t, ra,
                     rc, rg, rt);
}

}  // namespace

std::vector<std::string> history_of(const icecore::cluster& c, const coder& shape, std::string_view text) {
  const auto x = shape.parse(text);
  if (!x) {
    throw icecore::error(icecore::errc::invalid_argument,
                         fmt::format("\"{}\" is not a k-mer: give {} letters of A, C, G and T", text, shape.k()));
  }
  std::vector<std::string> lines;
  for (const auto& [version, value] : c.history(kmer_key(shape, *x))) {
    lines.push_back(fmt::format("version {}: {}", version, meaning_of(shape, value)));
  }
  return lines;
}

}  // namespace kmers
