// Contigs from reads over ranks, against a program of few lines that keeps all in one process.
#include <fstream>
#include <map>
#include <random>
#include <set>

#include "assembly.hpp"
#include "extensions.hpp"
#include "sequence_files.hpp"
#include "support/ranks.hpp"

namespace kmers {
namespace {

using icecore::testing::error_of;
using icecore::testing::rank;

std::vector<fastq_read> all_trusted(const std::vector<std::string>& reads) {
  std::vector<fastq_read> all;
  for (const auto& bases : reads) all.push_back({bases, std::string(bases.size(), 'I')});
  return all;
}

/// Reads of a test, of which all ranks have the same, and what comes out of them.
class Assembly : public icecore::testing::ClusterTest {
 protected:
  [[nodiscard]] std::filesystem::path file(const std::vector<fastq_read>& reads) const {
    const auto path = this->path().parent_path() / "reads.fq";
    if (rank() == 0) {
      std::ofstream out(path);
      for (const auto& [bases, qualities] : reads) out << "@r\n" << bases << "\n+\n" << qualities << "\n";
    }
    MPI_Barrier(MPI_COMM_WORLD);
    return path;
  }
  [[nodiscard]] std::filesystem::path file(const std::vector<std::string>& reads) const {
    return file(all_trusted(reads));
  }
  [[nodiscard]] static parameters every_kmer(int k, const std::filesystem::path& reads) {
    return {k, 20, 1, 1, {reads}};
  }
  /// The contigs' bases, rings with an o in front.
  [[nodiscard]] static std::set<std::string> texts_of(const icecore::cluster& c) {
    std::set<std::string> texts;
    for (const contig& one : contigs_of(c)) texts.insert((one.form == form::ring ? "o" : "") + one.bases);
    return texts;
  }
  [[nodiscard]] std::set<std::string> assembled(int k, const std::vector<std::string>& reads) const {
    return assembled(k, all_trusted(reads));
  }
  [[nodiscard]] std::set<std::string> assembled(int k, const std::vector<fastq_read>& reads) const {
    const parameters given = every_kmer(k, file(reads));
    icecore::cluster c = open(MPI_COMM_WORLD, path(), given);
    run(c, given);
    auto texts = texts_of(c);
    c.close();
    return texts;
  }
};

std::string random_bases(std::mt19937& numbers, std::size_t count) {
  std::string text;
  for (std::size_t i = 0; i < count; ++i) text += letter_of(static_cast<base>(numbers() % 4));
  return text;
}

// ---- The same, simply ----------------------------------------------------------------------------------------------

/// Contigs of reads whose bases are trusted if their quality is 'I': maps of texts, one walk after the other.
class simple_assembly {
 public:
  simple_assembly(std::size_t k, const std::vector<fastq_read>& reads) {
    std::map<std::string, std::pair<std::set<char>, std::set<char>>> beside;
    for (const auto& [one, qualities] : reads) {
      const std::string turned(qualities.rbegin(), qualities.rend());
      // both strands: each k-mer as it is read
      for (const auto& [r, trust] : {std::pair{one, qualities}, std::pair{reverse_complement(one), turned}}) {
        for (std::size_t i = 0; i + k <= r.size(); ++i) {
          auto& [left, right] = beside[r.substr(i, k)];
          if (i > 0 && trust[i - 1] == 'I') left.insert(r[i - 1]);
          if (i + k < r.size() && trust[i + k] == 'I') right.insert(r[i + k]);
        }
      }
    }
    for (const auto& [x, sides] : beside) {
      if (sides.first.size() == 1 && sides.second.size() == 1)
        codes_[x] = {*sides.first.begin(), *sides.second.begin()};
    }
  }

  [[nodiscard]] std::set<std::string> contigs() const {
    std::set<std::string> all;
    std::set<std::string> seen;
    for (const auto& [x, code] : codes_) {
      if (behind(reverse_complement(x)).empty()) all.insert(chain_from(x, seen));
    }
    for (const auto& [x, code] : codes_) {  // in order: the first of a ring is its smallest
      if (!seen.contains(x)) all.insert("o" + chain_from(x, seen));
    }
    return all;
  }

 private:
  /// The k-mer behind, empty where the chain ends.
  [[nodiscard]] std::string behind(const std::string& x) const {
    const std::string next = x.substr(1) + codes_.at(x).second;
    const auto found = codes_.find(next);
    if (found == codes_.end() || found->second.first != x.front() || next == reverse_complement(x)) return {};
    return next;
  }
  [[nodiscard]] std::string chain_from(const std::string& begin, std::set<std::string>& seen) const {
    std::string bases = begin;
    bool ring = false;
    for (std::string x = begin; !x.empty();) {
      seen.insert(x);
      seen.insert(reverse_complement(x));
      x = behind(x);
      ring = x == begin;
      if (ring) break;
      if (!x.empty()) bases += x.back();
    }
    return ring ? bases : std::min(bases, reverse_complement(bases));
  }

  std::map<std::string, std::pair<char, char>> codes_;
};

// ---- Contigs -------------------------------------------------------------------------------------------------------

TEST_F(Assembly, of_a_genome_without_repeats_is_one_contig_but_for_its_two_ends) {
  std::mt19937 numbers(1);
  const std::string genome = random_bases(numbers, 3000);
  std::vector<std::string> reads;
  for (std::size_t i = 0; i + 100 <= genome.size(); i += 20) {
    reads.push_back(genome.substr(i, 100));
    if (i % 40 == 0) reads.back() = reverse_complement(reads.back());
  }
  // the first and the last k-mer have nothing on one side
  const std::string inner = genome.substr(1, genome.size() - 2);
  EXPECT_EQ(assembled(31, reads), std::set{std::min(inner, reverse_complement(inner))});
}

TEST_F(Assembly, of_a_ring_begins_with_its_smallest_kmer_and_goes_once_around) {
  std::mt19937 numbers(2);
  const std::string ring = random_bases(numbers, 500);
  const auto contigs = assembled(21, std::vector<std::string>{ring + ring.substr(0, 22)});
  ASSERT_EQ(contigs.size(), 1);
  const std::string bases = contigs.begin()->substr(1);
  EXPECT_EQ(contigs.begin()->front(), 'o');
  EXPECT_EQ(bases.size(), ring.size() + 20);
  EXPECT_TRUE((ring + ring + ring).find(bases) != std::string::npos ||
              (ring + ring + ring).find(reverse_complement(bases)) != std::string::npos);
}

TEST_F(Assembly, of_one_base_over_and_over_is_a_ring_of_one_kmer) {
  EXPECT_EQ(assembled(5, std::vector<std::string>{"TTTTTTTTTT"}), std::set<std::string>{"oAAAAA"});
}

TEST_F(Assembly, of_a_hairpin_has_its_kmers_once) {
  std::mt19937 numbers(3);
  const std::string stem = random_bases(numbers, 200);
  const auto contigs = assembled(21, std::vector<std::string>{stem + reverse_complement(stem)});
  const std::string all_but_the_end = stem.substr(1) + reverse_complement(stem).substr(0, 20);
  ASSERT_EQ(contigs.size(), 1);
  EXPECT_EQ(contigs.begin()->size(), 199 + 10);  // half of the k-mers about the turn are the others' other strands
  EXPECT_TRUE(all_but_the_end.find(*contigs.begin()) != std::string::npos ||
              all_but_the_end.find(reverse_complement(*contigs.begin())) != std::string::npos);
}

TEST_F(Assembly, of_no_reads_is_nothing) { EXPECT_TRUE(assembled(31, std::vector<std::string>()).empty()); }

TEST_F(Assembly, is_what_a_simple_program_finds) {
  std::mt19937 numbers(4);
  for (const int k : {3, 5, 7, 9}) {
    for (int round = 0; round < 8; ++round) {
      std::vector<std::string> texts;
      for (int r = 0; r < 6; ++r) texts.push_back(random_bases(numbers, 2 + numbers() % 60));
      const std::string around = random_bases(numbers, 12);
      texts.push_back(around + around.substr(0, 2 + static_cast<std::size_t>(k)));
      std::vector<fastq_read> reads = all_trusted(texts);
      if (round % 2 == 1) {  // then a k-mer's neighbour may not lead back
        for (auto& [bases, qualities] : reads) {
          for (char& quality : qualities) quality = numbers() % 4 == 0 ? '!' : 'I';
        }
      }
      EXPECT_EQ(assembled(k, reads), simple_assembly(static_cast<std::size_t>(k), reads).contigs()) << "k " << k;
      MPI_Barrier(MPI_COMM_WORLD);
      if (rank() == 0) std::filesystem::remove_all(path());
      MPI_Barrier(MPI_COMM_WORLD);
    }
  }
}

TEST_F(Assembly, leaves_out_what_was_seen_too_rarely) {
  std::mt19937 numbers(5);
  const std::string genome = random_bases(numbers, 300);
  std::string wrong = genome;
  wrong[150] = genome[150] == 'A' ? 'C' : 'A';
  parameters given = every_kmer(21, file(std::vector<std::string>{genome, genome, genome, wrong}));
  given.depth_min = 2;
  given.extensions_min = 2;
  icecore::cluster c = open(MPI_COMM_WORLD, path(), given);
  run(c, given);
  const std::string inner = genome.substr(1, genome.size() - 2);
  EXPECT_EQ(texts_of(c), std::set{std::min(inner, reverse_complement(inner))});
  c.close();
}

// ---- Phases --------------------------------------------------------------------------------------------------------

TEST_F(Assembly, keeps_every_phase_to_be_looked_at) {
  const std::string genome = "GACTTACATGCCGATAGC";
  const parameters given = every_kmer(5, file(std::vector<std::string>{genome}));
  icecore::cluster c = open(MPI_COMM_WORLD, path(), given);
  EXPECT_EQ(run(c, given).size(), phases.size());
  const coder shape(5);
  const std::string key = kmer_key(shape, *shape.parse("TTACA"));
  EXPECT_EQ(extension_counts::of(*c.at("counts").find(key)).depth, 1);
  EXPECT_EQ(c.at("codes").find(key), "AG");  // of TGTAA, the smaller strand: C is before TTACA and T behind it
  const auto history = history_of(c, shape, "TTACA");
  ASSERT_EQ(history.size(), 3);
  EXPECT_EQ(history, history_of(c, shape, "TGTAA"));  // the other strand
  EXPECT_EQ(error_of([&] { static_cast<void>(history_of(c, shape, "TTNCA")); }).code, icecore::errc::invalid_argument);
  c.close();
}

TEST_F(Assembly, goes_on_behind_the_last_finished_phase_whatever_the_next_one_left) {
  std::mt19937 numbers(6);
  const std::string ring = random_bases(numbers, 400);
  const std::vector<std::string> reads = {random_bases(numbers, 400), ring + ring.substr(0, 22),
                                          random_bases(numbers, 90)};
  const parameters given = every_kmer(21, file(reads));
  const coder shape(21);
  const std::set<std::string> expected = simple_assembly(21, all_trusted(reads)).contigs();
  for (const std::string_view finished : phases) {
    {
      icecore::cluster c = open(MPI_COMM_WORLD, path(), given);
      run(c, given, finished);
      // the next phase, all but its tag
      if (finished != phases.back()) {
        do_phase(c, given, *(std::ranges::find(phases, finished) + 1));
        c.barrier();
        // stopped between the marks at a contig's k-mers and the contig
        for (const std::string& text : rank() == 0 ? expected : std::set<std::string>()) {
          c.remove(shape.key('c', *shape.parse(text.substr(text.front() == 'o' ? 1 : 0, 21))));
        }
      }
      c.close();
    }
    icecore::cluster c = open(MPI_COMM_WORLD, path(), given);
    const auto done = run(c, given);
    EXPECT_EQ(std::vector(std::ranges::find(phases, finished) + 1, phases.end()), done);
    EXPECT_EQ(texts_of(c), expected) << finished;
    c.close();
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank() == 0) std::filesystem::remove_all(path());
    MPI_Barrier(MPI_COMM_WORLD);
  }
}

TEST_F(Assembly, is_not_mixed_with_that_of_other_parameters) {
  parameters given = every_kmer(21, file(std::vector<std::string>{"ACGT"}));
  {
    icecore::cluster c = open(MPI_COMM_WORLD, path(), given);
    run(c, given);
    c.close();
  }
  parameters other = given;
  other.depth_min = 3;
  const auto refused = error_of([&] { static_cast<void>(open(MPI_COMM_WORLD, path(), other)); });
  EXPECT_EQ(refused.code, icecore::errc::invalid_argument);
  EXPECT_NE(refused.message.find("other parameters"), std::string::npos) << refused.message;
  other = given;
  other.k = 23;
  EXPECT_EQ(error_of([&] { static_cast<void>(open(MPI_COMM_WORLD, path(), other)); }).code,
            icecore::errc::other_cluster);
}

}  // namespace
}  // namespace kmers
