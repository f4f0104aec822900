// The parts of kmer_contigs that need no cluster.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>
#include <unistd.h>
#include <zlib.h>

#include <filesystem>
#include <fstream>

#include "counting.hpp"
#include "extensions.hpp"
#include "kmer.hpp"
#include "reference.hpp"
#include "sequence_files.hpp"

namespace kmers {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// ---- k-mers --------------------------------------------------------------------------------------------------------

rc::Gen<std::string> letters(std::size_t count) {
  return rc::gen::container<std::string>(count, rc::gen::element('A', 'C', 'G', 'T'));
}

class Kmers : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(OfManyLengths, Kmers, ::testing::Values(3, 5, 21, 31, 33, 63));

TEST_P(Kmers, are_what_their_letters_say) {
  const coder shape(GetParam());
  const auto k = static_cast<std::size_t>(GetParam());
  rc::check([&] {
    const std::string a = *letters(k);
    const std::string b = *letters(k);
    const kmer x = shape.parse(a).value();
    const kmer y = shape.parse(b).value();
    RC_ASSERT(shape.text(x) == a);
    RC_ASSERT((x < y) == (a < b));
    RC_ASSERT((shape.key('k', x) < shape.key('k', y)) == (a < b));
    RC_ASSERT(shape.of_key(shape.key('k', x) + "behind") == x);
    RC_ASSERT(letter_of(shape.first(x)) == a.front());
    RC_ASSERT(letter_of(coder::last(x)) == a.back());
    RC_ASSERT(shape.text(shape.shifted(x, 2)) == a.substr(1) + "G");
    RC_ASSERT(shape.text(shape.shifted_back(x, 3)) == "T" + a.substr(0, k - 1));
    RC_ASSERT(shape.text(shape.reverse_complement(x)) == reverse_complement(a));
    RC_ASSERT(shape.canonical(x) == shape.canonical(shape.reverse_complement(x)));
    RC_ASSERT(shape.reverse_complement(x) != x);
  });
}

TEST(Kmer, of_other_letters_or_lengths_is_none) {
  const coder shape(5);
  EXPECT_FALSE(shape.parse("ACGNT"));
  EXPECT_FALSE(shape.parse("acgta"));
  EXPECT_FALSE(shape.parse("ACGT"));
  EXPECT_FALSE(shape.parse("ACGTAC"));
}

// ---- Codes ---------------------------------------------------------------------------------------------------------

TEST(Code, is_the_one_base_that_was_seen_often_enough) {
  extension_counts seen;
  EXPECT_EQ(code_of(seen, 2), "XX");
  seen.left = {0, 2, 1, 0};
  seen.right = {1, 1, 1, 1};
  EXPECT_EQ(code_of(seen, 2), "CX");
  EXPECT_EQ(code_of(seen, 1), "FF");
  EXPECT_TRUE(is_unique("CG"));
  EXPECT_FALSE(is_unique("CX"));
  EXPECT_FALSE(is_unique("FG"));
}

TEST(Counts, come_back_from_their_bytes) {
  extension_counts seen{7, {1, 2, 3, 4}, {5, 6, 7, 8}};
  EXPECT_EQ(extension_counts::of(seen.bytes()), seen);
  seen += seen;
  EXPECT_EQ(seen, (extension_counts{14, {2, 4, 6, 8}, {10, 12, 14, 16}}));
}

// ---- Counting ------------------------------------------------------------------------------------------------------

extension_counts seen(const counter& counts, const coder& shape, std::string_view text) {
  const auto found = counts.table().find(shape.canonical(shape.parse(text).value()));
  return found == counts.table().end() ? extension_counts{} : found->second;
}

TEST(Counter, counts_a_read_and_its_other_strand_alike) {
  const coder shape(3);
  counter one(shape, 20);
  one.add({"CAACC", "IIIII"});
  counter other(shape, 20);
  other.add({"GGTTG", "IIIII"});
  EXPECT_EQ(one.table(), other.table());
  // AAC stands for itself: C before it, C behind it
  EXPECT_EQ(seen(one, shape, "AAC"), (extension_counts{1, {0, 1, 0, 0}, {0, 1, 0, 0}}));
  // CAA is at the front: nothing before it. TTG would be the other strand
  EXPECT_EQ(seen(one, shape, "CAA"), (extension_counts{1, {}, {0, 1, 0, 0}}));
  EXPECT_EQ(one.table().size(), 3);
}

TEST(Counter, leaves_out_kmers_with_an_unknown_base_and_does_not_count_it_beside_them) {
  const coder shape(3);
  counter counts(shape, 20);
  counts.add({"CAACNAACG", "IIIIIIIII"});
  EXPECT_EQ(seen(counts, shape, "AAC"), (extension_counts{2, {0, 1, 0, 0}, {0, 0, 1, 0}}));
  EXPECT_EQ(counts.table().size(), 3);  // CAA, AAC, ACG
}

TEST(Counter, trusts_a_base_beside_a_kmer_from_its_quality_on) {
  const coder shape(3);
  for (const auto& [quality, counted] : {std::pair{'4', 0U}, std::pair{'5', 1U}}) {  // 19 and 20
    counter counts(shape, 20);
    counts.add({"CAACC", std::string(5, quality)});
    EXPECT_EQ(seen(counts, shape, "AAC"), (extension_counts{1, {0, counted, 0, 0}, {0, counted, 0, 0}}));
  }
}

TEST(Counter, finds_nothing_in_reads_shorter_than_a_kmer) {
  counter counts(coder(31), 20);
  counts.add({"", ""});
  counts.add({"ACGT", "IIII"});
  EXPECT_TRUE(counts.table().empty());
}

// ---- Files ---------------------------------------------------------------------------------------------------------

class Files : public ::testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/icecore-kmer-XXXXXX";
    ASSERT_NE(mkdtemp(name), nullptr);
    folder_ = name;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::filesystem::path file(const std::string& content) const {
    std::ofstream(folder_ / "reads.fq") << content;
    return folder_ / "reads.fq";
  }
  std::filesystem::path compressed(const std::string& content) const {
    const auto path = folder_ / "reads.fq.gz";
    const gzFile out = gzopen(path.c_str(), "wb");
    gzwrite(out, content.data(), static_cast<unsigned>(content.size()));
    gzclose(out);
    return path;
  }
  /// All bases of all reads of a file.
  static std::vector<std::string> bases_in(const std::filesystem::path& path) {
    std::vector<std::string> all;
    fastq_reader reads(path);
    for (fastq_read r; reads.next(r);) all.push_back(r.bases);
    return all;
  }
  static std::string complaint_about(const std::filesystem::path& path) {
    try {
      bases_in(path);
    } catch (const input_error& wrong) {
      return wrong.what();
    }
    return "nothing was wrong";
  }

  std::filesystem::path folder_;
};

TEST_F(Files, are_read_plain_and_compressed_with_either_end_of_line) {
  const std::string content = "@r1\nACGTN\n+\nIIIII\n@r2 more\r\nacg\r\n+r2\r\n!~@\r\n";
  EXPECT_THAT(bases_in(file(content)), ElementsAre("ACGTN", "ACG"));
  EXPECT_THAT(bases_in(compressed(content)), ElementsAre("ACGTN", "ACG"));
  EXPECT_THAT(bases_in(file("@r1\nACG\n+\nIII")), ElementsAre("ACG"));      // no end of the last line
  EXPECT_THAT(bases_in(file("@r1\nACG\n+\nIII\n\n")), ElementsAre("ACG"));  // an empty line at the end
  EXPECT_THAT(bases_in(file("@r1\n\n+\n\n")), ElementsAre(""));             // a read of no bases
  EXPECT_THAT(bases_in(file("")), ElementsAre());
}

TEST_F(Files, longer_than_the_buffer_are_read_whole) {
  std::string content;
  for (int i = 0; i < 3; ++i)
    content += "@r\n" + std::string(100'000, 'A') + "\n+\n" + std::string(100'000, 'I') + "\n";
  EXPECT_EQ(bases_in(file(content)).size(), 3);
  EXPECT_EQ(bases_in(compressed(content)).back(), std::string(100'000, 'A'));
}

TEST_F(Files, that_are_wrong_are_reported_by_file_and_line) {
  EXPECT_THAT(complaint_about(folder_ / "none.fq"), AllOf(HasSubstr("none.fq"), HasSubstr("No such file")));
  EXPECT_THAT(complaint_about(file("ACGT\n")), AllOf(HasSubstr("reads.fq, line 1"), HasSubstr("must begin with '@'")));
  EXPECT_THAT(complaint_about(file("@r1\n")), HasSubstr("its bases are missing"));
  EXPECT_THAT(complaint_about(file("@r1\nACGT\n")), HasSubstr("qualities are missing"));
  EXPECT_THAT(complaint_about(file("@r1\nACGT\n+\n")), HasSubstr("qualities are missing"));
  EXPECT_THAT(complaint_about(file("@r1\nACGT\n+\nIII\n")),
              AllOf(HasSubstr("line 4"), HasSubstr("3 qualities for 4 bases")));
  EXPECT_THAT(complaint_about(file("@r1\nACET\n+\nIIII\n")),
              AllOf(HasSubstr("line 2"), HasSubstr("'E' is not a base")));
  EXPECT_THAT(complaint_about(file("@r1\nACGT\nACGT\n+\nIIIIIIII\n")), HasSubstr("more than four lines"));
  EXPECT_THAT(complaint_about(file("@r1\nACGT\n+\nII I\n")), HasSubstr("outside '!' to '~'"));
}

TEST_F(Files, cut_off_within_their_compression_are_reported) {
  std::string content;
  for (unsigned i = 0; i < 1000; ++i) content += "@r" + std::to_string(i * 2654435761U) + "\nACGT\n+\nIIII\n";
  const auto path = compressed(content);
  std::filesystem::resize_file(path, std::filesystem::file_size(path) / 2);
  EXPECT_THAT(complaint_about(path), HasSubstr("cut off"));
}

TEST_F(Files, of_sequences_are_joined_and_other_letters_unknown) {
  const auto all = read_fasta(file(">one first\nACG\nTac\n>two\nRYN\n"));
  ASSERT_EQ(all.size(), 2);
  EXPECT_EQ(all[0].name, "one");
  EXPECT_EQ(all[0].bases, "ACGTAC");
  EXPECT_EQ(all[1].bases, "NNN");
  EXPECT_THROW(static_cast<void>(read_fasta(file("ACGT\n"))), input_error);
  EXPECT_THROW(static_cast<void>(read_fasta(file(">one\nAC-T\n"))), input_error);
  EXPECT_THROW(static_cast<void>(read_fasta(file(""))), input_error);
}

// ---- The reference -------------------------------------------------------------------------------------------------

/// 400 bases with no piece of 13 twice on either strand.
const std::string& genome_text() {
  static const std::string text = [] {
    std::string letters;
    std::uint64_t state = 1;
    for (int i = 0; i < 400; ++i) {
      state = state * 6364136223846793005U + 1442695040888963407U;
      letters += letter_of(static_cast<base>(state >> 62));
    }
    return letters;
  }();
  return text;
}

const reference& genome() {
  static const reference all({{"one", genome_text()}});
  return all;
}

TEST(Reference, finds_its_pieces_on_both_strands) {
  const std::string piece = genome_text().substr(100, 80);
  for (const auto& contig : {piece, reverse_complement(piece)}) {
    const placement where = genome().place(contig);
    EXPECT_EQ(where.how, agreement::equal);
    EXPECT_EQ(where.begin.base, 100);
    EXPECT_EQ(where.begin.reversed, contig != piece);
    EXPECT_EQ(where.text, piece);
  }
  EXPECT_EQ(genome().place(genome_text()).how, agreement::equal);
}

TEST(Reference, tells_single_bases_that_differ) {
  std::string contig = genome_text().substr(50, 61);
  const char there = contig[30];
  contig[30] = there == 'A' ? 'C' : 'A';
  const placement where = genome().place(reverse_complement(contig));
  ASSERT_EQ(where.how, agreement::substitutions);
  ASSERT_EQ(where.differences.size(), 1);
  EXPECT_EQ(where.differences[0].base, 80);
  EXPECT_EQ(where.differences[0].genome, there);
  EXPECT_EQ(where.differences[0].contig, contig[30]);
}

TEST(Reference, tells_gaps_by_their_lengths) {
  const std::string missing = genome_text().substr(50, 30) + genome_text().substr(87, 30);
  const std::string inserted = genome_text().substr(50, 30) + "CATCATCATC" + genome_text().substr(80, 30);
  for (const auto& [contig, gap] : {std::pair{missing, -7}, std::pair{inserted, 10}}) {
    for (const auto& strand : {contig, reverse_complement(contig)}) {
      const placement where = genome().place(strand);
      EXPECT_EQ(where.how, agreement::gap) << strand;
      EXPECT_EQ(where.gap, gap);
      EXPECT_EQ(where.begin.base, 50);
      EXPECT_EQ(where.text, contig);
    }
  }
}

TEST(Reference, tells_the_two_places_of_a_junction) {
  const std::string far = genome_text().substr(20, 30) + genome_text().substr(300, 30);
  const placement where = genome().place(far);
  ASSERT_EQ(where.how, agreement::junction);
  EXPECT_EQ(where.begin.base, 20);
  EXPECT_EQ(where.end.base, 329);
  const placement turned =
      genome().place(genome_text().substr(20, 30) + reverse_complement(genome_text().substr(300, 30)));
  ASSERT_EQ(turned.how, agreement::junction);
  EXPECT_FALSE(turned.begin.reversed);
  EXPECT_TRUE(turned.end.reversed);
  EXPECT_EQ(turned.end.base, 300);
}

TEST(Reference, tells_a_part_and_what_it_does_not_know) {
  const placement part = genome().place(genome_text().substr(340, 60) + "CA");  // beyond the end
  ASSERT_EQ(part.how, agreement::part);
  EXPECT_EQ(part.begin.base, 340);
  EXPECT_EQ(part.part, 60);
  EXPECT_EQ(genome().place(std::string(61, 'A')).how, agreement::unknown);
  EXPECT_EQ(genome().place("ACG").how, agreement::unknown);
}

TEST(Coverage, is_of_equal_contigs_and_leaves_holes) {
  coverage covered(genome());
  covered.add(genome().place(genome_text().substr(10, 90)));
  covered.add(genome().place(genome_text().substr(50, 100)));
  EXPECT_EQ(covered.covered(), 140);
  const auto holes = covered.holes();
  ASSERT_EQ(holes.size(), 2);
  EXPECT_EQ(holes[0].end, 10);
  EXPECT_EQ(holes[1].begin, 150);
  EXPECT_EQ(holes[1].end, 400);
}

TEST(N50, is_the_length_that_half_of_all_bases_reach) {
  EXPECT_EQ(n50({}), 0);
  EXPECT_EQ(n50({5}), 5);
  EXPECT_EQ(n50({2, 3, 4, 5, 6}), 5);
}

}  // namespace
}  // namespace kmers
