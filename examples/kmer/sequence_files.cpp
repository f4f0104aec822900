#include "sequence_files.hpp"

#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace kmers {
namespace {

constexpr std::size_t buffer_bytes = 64 * 1024;

[[nodiscard]] constexpr char upper_case(char letter) noexcept {
  return letter >= 'a' && letter <= 'z' ? static_cast<char>(letter - 'a' + 'A') : letter;
}

}  // namespace

line_reader::line_reader(const std::filesystem::path& path)
    : path_(path), file_(gzopen(path.c_str(), "rb")), buffer_(buffer_bytes) {
  if (file_ == nullptr) throw input_error("cannot open " + path.string() + ": " + std::strerror(errno));
}

line_reader::~line_reader() { gzclose(static_cast<gzFile>(file_)); }

void line_reader::fail(const std::string& what) const {
  throw input_error(path_.string() + ", line " + std::to_string(line_) + ": " + what);
}

bool line_reader::fill() {
  const auto file = static_cast<gzFile>(file_);
  const int got = gzread(file, buffer_.data(), static_cast<unsigned>(buffer_.size()));
  int code = Z_OK;
  const char* const reason = gzerror(file, &code);
  if (code == Z_BUF_ERROR) fail("the compressed file is cut off: its end is missing");
  if (got < 0) fail(code == Z_ERRNO ? std::string("cannot be read: ") + std::strerror(errno) : reason);
  begin_ = 0;
  end_ = static_cast<std::size_t>(got);
  return got > 0;
}

bool line_reader::next(std::string& line) {
  line.clear();
  ++line_;
  while (begin_ < end_ || fill()) {
    const char* const from = buffer_.data() + begin_;
    const char* const to = buffer_.data() + end_;
    const char* const stop = std::find(from, to, '\n');
    line.append(from, stop);
    begin_ = static_cast<std::size_t>(stop - buffer_.data()) + 1;
    if (stop == to) continue;
    if (line.ends_with('\r')) line.pop_back();
    return true;
  }
  return !line.empty();  // the last line may have no line end
}

bool fastq_reader::next(fastq_read& r) {
  do {
    if (!lines_.next(line_)) return false;
  } while (line_.empty());  // many files end with an empty line
  if (!line_.starts_with('@')) lines_.fail("the first line of a read must begin with '@', but this line does not");
  if (!lines_.next(r.bases)) lines_.fail("the file ends within a read: its bases are missing");
  for (char& letter : r.bases) {
    letter = upper_case(letter);
    if (std::string_view("ACGTN").find(letter) == std::string_view::npos) {
      lines_.fail(std::string("'") + letter + "' is not a base: bases are A, C, G, T, and N for an unknown one");
    }
  }
  if (!lines_.next(line_)) lines_.fail("the file ends within a read: the line with '+' and the qualities are missing");
  if (!line_.starts_with('+'))
    lines_.fail("this line must begin with '+': reads of more than four lines are not supported");
  if (!lines_.next(r.qualities) && !r.bases.empty())
    lines_.fail("the file ends within a read: its qualities are missing");
  if (r.qualities.size() != r.bases.size()) {
    lines_.fail(std::to_string(r.qualities.size()) + " qualities for " + std::to_string(r.bases.size()) + " bases");
  }
  const auto strange = std::ranges::find_if(r.qualities, [](char quality) { return quality < '!' || quality > '~'; });
  if (strange != r.qualities.end()) lines_.fail("a quality is outside '!' to '~'");
  return true;
}

std::vector<sequence> read_fasta(const std::filesystem::path& path) {
  line_reader lines(path);
  std::vector<sequence> all;
  for (std::string line; lines.next(line);) {
    if (line.starts_with('>')) {
      all.push_back({line.substr(1, line.find(' ') - 1), {}});
      continue;
    }
    if (all.empty()) lines.fail("the first line of a FASTA file must begin with '>', but this line does not");
    for (const char given : line) {
      const char letter = upper_case(given);
      if (letter < 'A' || letter > 'Z') lines.fail(std::string("'") + given + "' is not a letter of a sequence");
      all.back().bases += std::string_view("ACGT").find(letter) == std::string_view::npos ? 'N' : letter;
    }
  }
  if (all.empty()) lines.fail("this file contains no sequence");
  return all;
}

}  // namespace kmers
