// Instant recovery does not read the store: what opening and the first find touch of its file does not grow with it,
// also after a kill.
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "icecore/icecore.hpp"
#include "store/core.hpp"
#include "support/process.hpp"
#include "support/scratch.hpp"

namespace icecore::testing {
namespace {

/// Bytes of the mappings of a folder's files that this process has touched, including the surrounding ones that the
/// kernel maps at the same time.
[[nodiscard]] std::uint64_t touched_in(const std::filesystem::path& folder) {
  std::ifstream mappings("/proc/self/smaps");
  std::uint64_t kib = 0;
  bool in_the_folder = false;
  for (std::string line; std::getline(mappings, line);) {
    std::istringstream words(line);
    std::string first;
    words >> first;
    if (!first.ends_with(":")) in_the_folder = line.find(folder.native() + "/") != std::string::npos;
    std::uint64_t resident = 0;
    if (in_the_folder && first == "Rss:" && words >> resident) kib += resident;
  }
  return kib * 1024;
}

struct of_a_size {
  std::uint64_t touched;
  std::uint64_t files;
};

class OpeningAtOnce : public ::testing::TestWithParam<setting> {
 protected:
  [[nodiscard]] static std::string key_of(std::uint64_t i) { return std::to_string(i * 0x9e3779b97f4a7c15U); }

  /// What the first process touches that opens a store of this many keys whose writers were killed.
  [[nodiscard]] static of_a_size open_after_kill(std::uint64_t keys) {
    const scratch folder(GetParam().where);
    const std::filesystem::path path = folder / "large.ice";
    options opening = GetParam().options_at(path);
    opening.huge_pages = false;
    child writer([&] {
      store s(path, opening);
      for (std::uint64_t i = 0; i < keys; ++i) s.insert(key_of(i), std::string(50, 'v'));
      if (GetParam().durability == durability::tag) s.tag();
      s.core().the_pool().persist().sync();
      ::kill(getpid(), SIGKILL);
      return 0;
    });
    EXPECT_EQ(writer.wait(), -SIGKILL);
    const shared<std::atomic<std::uint64_t>> seen;
    child reader([&] {
      const store s(path, opening);
      if (s.find(key_of(keys / 2)) != std::string(50, 'v')) return 1;
      *seen = touched_in(folder.path());  // before stats(), which visits each segment
      const statistics all = s.stats();
      if (!all.recovered_instantly || !all.recovered_from_crash) return 2;
      if (all.keys != keys) return 3;
      return s.latest().size() == keys ? 0 : 4;
    });
    EXPECT_EQ(reader.wait(), 0);
    std::uint64_t size = 0;
    for (const auto& file : std::filesystem::directory_iterator(folder.path())) size += file.file_size();
    return {*seen, size};
  }
};

TEST_P(OpeningAtOnce, touches_no_more_of_a_store_16_times_as_large) {
  const of_a_size small = open_after_kill(10'000);
  const of_a_size large = open_after_kill(160'000);
  ASSERT_GT(large.files, small.files * 8);
  ASSERT_GT(small.touched, 0U);
  EXPECT_LT(large.touched, small.touched * 2);
  EXPECT_LT(large.touched, large.files / 4);
}

[[nodiscard]] std::vector<setting> lasting_settings() {
  return {{place::tmpfs, durability::none, index_kind::persistent},
          {place::tmpfs, durability::tag, index_kind::persistent},
          {place::tmpfs, durability::operation, index_kind::persistent},
          {place::tmpfs, durability::operation, index_kind::persistent, 2}};
}

INSTANTIATE_TEST_SUITE_P(EveryDurability, OpeningAtOnce, ::testing::ValuesIn(lasting_settings()),
                         [](const auto& tried) { return tried.param.name(); });

}  // namespace
}  // namespace icecore::testing
