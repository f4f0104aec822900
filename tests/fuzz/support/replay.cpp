// Runs a fuzz target on kept inputs, in any build: replay PATH..., each a file or a folder of files. Prints each file's
// name first, so that the last one printed is the one that failed.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
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

}  // namespace

int main(int count, char** arguments) {
  const auto files = files_of(count - 1, arguments + 1);
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
    (void)LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size());
  }
  std::printf("%zu inputs\n", files.size());
  return files.empty() ? 1 : 0;
}
