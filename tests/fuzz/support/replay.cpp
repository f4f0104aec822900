// Runs a fuzz target on kept inputs, in any build: replay [--mutate N] PATH..., each a file or a folder of files.
// Prints each file's name first, so that the last one printed is the one that failed. With --mutate it also runs N
// inputs that are made of each by changes which are the same each time.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string_view>
#include <vector>

#include "support/fuzz_target.hpp"

namespace {

namespace fs = std::filesystem;

std::vector<fs::path> files_of(int count, char** paths) {
  std::vector<fs::path> files;
  for (const fs::path& path : std::vector<fs::path>(paths, paths + count)) {
    if (!fs::is_directory(path)) {
      files.push_back(path);
      continue;
    }
    for (const auto& entry : fs::recursive_directory_iterator(path)) {
      if (entry.is_regular_file()) files.push_back(entry.path());
    }
  }
  std::ranges::sort(files);
  return files;
}

void run(const std::vector<char>& bytes) {
  (void)LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size());
}

/// A byte changed, left out or put in, a piece repeated, the end cut off: some of these.
std::vector<char> changed(std::vector<char> bytes, std::mt19937& random) {
  for (auto changes = 1 + random() % 4; changes > 0; --changes) {
    const std::size_t at = bytes.empty() ? 0 : random() % bytes.size();
    const auto here = bytes.begin() + static_cast<std::ptrdiff_t>(at);
    const auto kind = bytes.empty() ? 1 : random() % 6;
    if (kind == 0) bytes.erase(here);
    if (kind == 1) bytes.insert(here, static_cast<char>(random()));
    if (kind == 2) *here = static_cast<char>(random());
    if (kind == 3) *here = static_cast<char>(*here ^ static_cast<char>(1U << random() % 8));
    if (kind == 4) bytes.resize(at);
    if (kind == 5 && bytes.size() < 65'536) {
      const std::vector<char> piece(here, here + static_cast<std::ptrdiff_t>(1 + random() % (bytes.size() - at)));
      bytes.insert(bytes.begin() + static_cast<std::ptrdiff_t>(random() % bytes.size()), piece.begin(), piece.end());
    }
  }
  return bytes;
}

}  // namespace

int main(int count, char** arguments) {
  int first = 1;
  unsigned long mutations = 0;
  if (count > 2 && std::string_view(arguments[1]) == "--mutate") {
    mutations = std::strtoul(arguments[2], nullptr, 10);
    first = 3;
  }
  const auto files = files_of(count - first, arguments + first);
  std::mt19937 random(1);
  icecore::testing::looks_closely = true;
  for (const fs::path& file : files) {
    std::printf("%s\n", file.c_str());
    std::fflush(stdout);
    std::ifstream in(file, std::ios::binary);
    const std::vector<char> bytes{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
    if (!in) {
      std::fprintf(stderr, "%s: cannot be read\n", file.c_str());
      return 1;
    }
    run(bytes);
    for (unsigned long i = 0; i < mutations; ++i) run(changed(bytes, random));
  }
  std::printf("%zu inputs\n", files.size());
  return files.empty() ? 1 : 0;
}
