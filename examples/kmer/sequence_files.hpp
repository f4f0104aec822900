// Reads FASTQ and FASTA files, compressed with gzip or not.
//
//   kmers::fastq_reader reads("reads_1.fq.gz");
//   for (kmers::fastq_read r; reads.next(r);) use(r.bases, r.qualities);
//
// Errors: input_error, which names file and line: the file cannot be read, ends early, or is malformed.
#pragma once

#include <filesystem>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace kmers {

class input_error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// The lines of a file.
class line_reader {
 public:
  explicit line_reader(const std::filesystem::path& path);
  ~line_reader();
  line_reader(const line_reader&) = delete;
  line_reader& operator=(const line_reader&) = delete;

  /// The next line without its end; false after the last one.
  [[nodiscard]] bool next(std::string& line);
  /// Throws input_error with the position that was read last.
  [[noreturn]] void fail(const std::string& what) const;

 private:
  [[nodiscard]] bool fill();

  std::filesystem::path path_;
  void* file_;
  std::vector<char> buffer_;
  std::size_t begin_ = 0;  // the part of the buffer from here on has not been returned yet
  std::size_t end_ = 0;
  std::size_t line_ = 0;
};

struct fastq_read {
  std::string bases;      ///< A, C, G, T, or N if the base is not known
  std::string qualities;  ///< of each base, as a character from '!' (0) upwards
};

/// Reads of four lines each. Lower-case letters become upper case.
class fastq_reader {
 public:
  explicit fastq_reader(const std::filesystem::path& path) : lines_(path) {}
  [[nodiscard]] bool next(fastq_read& r);

 private:
  line_reader lines_;
  std::string line_;
};

struct sequence {
  std::string name;
  std::string bases;  ///< upper case; unknown bases are N
};

[[nodiscard]] std::vector<sequence> read_fasta(const std::filesystem::path& path);

}  // namespace kmers
