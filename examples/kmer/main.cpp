// kmer_contigs: assembles the reads of a genome into contigs, with an icecore cluster for its k-mers.
//
//   mpirun -np 4 kmer_contigs --store FOLDER [--reference FILE] [--output FILE] READS...
//
// Its output and files do not depend on the number of ranks. docs/kmer.md explains how it works.
#include <mpi.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <optional>
#include <ranges>
#include <sstream>

#include "assembly.hpp"
#include "report.hpp"

namespace {

using namespace kmers;

struct settings {
  parameters given;
  std::filesystem::path store = "kmers.store";
  std::filesystem::path reference;
  std::filesystem::path output;
  std::string stop_after{phases.back()};
  std::string history;
  bool fresh = false;
};

void add_options(CLI::App& app, settings& chosen) {
  const CLI::Validator odd([](const std::string& text) { return (text.back() - '0') % 2 == 1 ? "" : "must be odd"; },
                           "");
  app.add_option("reads", chosen.given.reads, "FASTQ files, compressed with gzip or not")
      ->required()
      ->check(CLI::ExistingFile);
  app.add_option("--store", chosen.store,
                 "Folder of the cluster; a run with the same folder continues where the last one stopped")
      ->capture_default_str();
  app.add_flag("--fresh", chosen.fresh, "Remove that folder first");
  app.add_option("-k", chosen.given.k, "Bases of a k-mer")->capture_default_str()->check(CLI::Range(3, k_max) & odd);
  app.add_option("--quality", chosen.given.quality_min,
                 "Count a base beside a k-mer only if its quality is at least this")
      ->capture_default_str()
      ->check(CLI::Range(0, 93));
  app.add_option("--depth", chosen.given.depth_min, "Keep a k-mer only if it was seen at least this often")
      ->capture_default_str()
      ->check(CLI::Range(1, 1'000'000));
  app.add_option("--extensions", chosen.given.extensions_min,
                 "Extend a k-mer by a base only if the base was seen beside it at least this often")
      ->capture_default_str()
      ->check(CLI::Range(1, 1'000'000));
  app.add_option("--reference", chosen.reference, "FASTA file of the genome to compare with")->check(CLI::ExistingFile);
  app.add_option("--output", chosen.output, "Write the contigs to this FASTA file");
  app.add_option("--stop-after", chosen.stop_after, "Stop when this phase is finished")
      ->capture_default_str()
      ->check(CLI::IsMember(std::vector<std::string>(phases.begin(), phases.end())));
  app.add_option("--history", chosen.history, "Show what each phase stored for this k-mer");
  app.footer(
      "Example:\n  mpirun -np 4 kmer_contigs --store /dev/shm/lambda --reference lambda_virus.fa.gz --output contigs.fa"
      " reads_1.fq.gz reads_2.fq.gz");
}

/// What rank 0 prints about a cluster whose phases are finished.
void tell(const icecore::cluster& c, const settings& chosen) {
  // the number of partial counts depends on the ranks; no other output does
  for (const std::string_view phase : phases | std::views::drop(1)) print_phase(c, phase);
  if (!chosen.history.empty()) {
    for (const auto& line : history_of(c, coder(chosen.given.k), chosen.history)) std::printf("%s\n", line.c_str());
  }
  if (!c.find_tag(phases.back())) return;
  const auto contigs = contigs_of(c);
  print_contigs(contigs);
  if (!chosen.output.empty()) write_fasta(contigs, chosen.output);
  if (!chosen.reference.empty())
    print_comparison(c, coder(chosen.given.k), contigs, reference(read_fasta(chosen.reference)));
}

void assemble(const settings& chosen) {
  icecore::cluster c = open(MPI_COMM_WORLD, chosen.store, chosen.given);
  run(c, chosen.given, chosen.stop_after);
  if (c.rank() == 0) tell(c, chosen);
  c.close();
}

int reported(int rank, const std::exception& failure) {
  std::fprintf(stderr, "kmer_contigs: rank %d: %s\n", rank, failure.what());
  return 1;
}

/// Whether all ranks succeeded so far.
bool all_well(bool mine) {
  int well = mine ? 1 : 0;
  MPI_Allreduce(MPI_IN_PLACE, &well, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
  return well == 1;
}

/// Work that a rank does before the others need it. Empty if it succeeded; else the exit code of the program.
std::optional<int> prepared(CLI::App& app, const settings& chosen, int rank, int argc, char** argv) {
  try {
    app.parse(argc, argv);
    if (chosen.fresh && rank == 0) std::filesystem::remove_all(chosen.store);
    return std::nullopt;
  } catch (const CLI::ParseError& wrong) {
    // rank 0 prints the help or the error
    std::ostringstream nowhere;
    return rank == 0 ? app.exit(wrong) : app.exit(wrong, nowhere, nowhere);
  } catch (const std::exception& failure) {
    return reported(rank, failure);
  }
}

}  // namespace

int main(int argc, char** argv) {
  int threads = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &threads);
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  CLI::App app{"Assembles the reads of a genome into contigs: k-mers in a cluster, chains of the de Bruijn graph."};
  settings chosen;
  add_options(app, chosen);
  const std::optional<int> ended = prepared(app, chosen, rank, argc, argv);
  int result = ended.value_or(1);
  if (all_well(!ended)) {
    try {
      assemble(chosen);
      result = 0;
    } catch (const std::exception& failure) {
      result = reported(rank, failure);
    }
  }
  MPI_Finalize();
  return result;
}
