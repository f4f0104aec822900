// Which files a store consists of: as placements request and as roots record.
#include "pool/root/placements.hpp"

#include <gtest/gtest.h>
#include <linux/mempolicy.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <optional>
#include <utility>

#include "pool/file/numa.hpp"
#include "scratch_folder.hpp"

namespace icecore::testing {
namespace {

namespace fs = std::filesystem;

options placed(std::vector<placement> where) {
  options opening;
  opening.placements = std::move(where);
  return opening;
}

TEST(Placements, of_a_new_store_are_numbered_and_one_at_its_own_path_gives_the_first_a_node) {
  const auto files = files_of("/a/store", placed({{"/a/b", -1}, {"/a/../a/store", 3}, {"/c", 1}}));
  ASSERT_EQ(files.size(), 3U);
  EXPECT_EQ(files[0].path, "/a/store");
  EXPECT_EQ(files[0].node, 3);
  EXPECT_EQ(files[1].path, "/a/b");
  EXPECT_EQ(files[1].node, -1);
  EXPECT_EQ(files[2].path, "/c");
  EXPECT_EQ(files[2].node, 1);
}

TEST(Placements, that_cannot_be_are_refused) {
  const auto refused = [](const std::string& part, std::vector<placement> where) {
    expect_failure(errc::invalid_argument, part, [&] { static_cast<void>(files_of("/a/store", placed(where))); });
  };
  refused("has no path", {{"/b", -1}, {"", -1}});
  refused("name the same file", {{"/b", -1}, {"/c", -1}, {"/d/../b", 1}});
  std::vector<placement> many;
  for (std::size_t i = 1; i < format::files_max; ++i) many.push_back({"/further-" + std::to_string(i), -1});
  EXPECT_EQ(files_of("/a/store", placed(many)).size(), format::files_max);
  many.push_back({"/one too many", -1});
  refused("more than 16 files", many);
}

TEST(Placements, are_compared_by_where_links_lead_as_far_as_they_can_be_followed) {
  const scratch_folder folder;
  fs::create_directory(folder / "real");
  fs::create_directory_symlink(folder / "real", folder / "link");
  fs::create_symlink(folder / "loop", folder / "loop");
  EXPECT_TRUE(same_place(folder / "real" / "store", folder / "link" / "store"));
  EXPECT_FALSE(same_place(folder / "real" / "store", folder / "link" / "other"));
  EXPECT_TRUE(same_place(folder / "loop" / "store", folder / "loop" / "." / "store"));
  EXPECT_FALSE(same_place(folder / "loop" / "store", folder / "loop" / "other"));
}

TEST(Placements, are_named_in_the_root_by_the_way_from_the_first_files_folder_if_they_lie_beneath_it) {
  format::root r{};
  r.pool_count = 4;
  r.files.session = 7;
  r.files.session_before = 6;
  const std::vector<placement> files = {{"/a/first", -1}, {"/a/second", 0}, {"/a/b/third", 5}, {"/c/fourth", -1}};
  name_files(r, files);
  EXPECT_EQ(std::string(r.files.paths), "secondb/third/c/fourth");
  EXPECT_EQ(r.files.session, 7U);
  EXPECT_EQ(r.files.session_before, 6U);
  EXPECT_TRUE(has_sound_paths(r));
  const auto same = named_files(r, "/a/first");
  const auto moved = named_files(r, "/elsewhere/first");
  for (std::size_t i = 0; i < files.size(); ++i) {
    EXPECT_EQ(same[i].path, files[i].path);
    EXPECT_EQ(same[i].node, files[i].node);
    EXPECT_EQ(moved[i].node, files[i].node);
  }
  EXPECT_EQ(moved[1].path, "/elsewhere/second");
  EXPECT_EQ(moved[2].path, "/elsewhere/b/third");
  EXPECT_EQ(moved[3].path, "/c/fourth");
}

TEST(Placements, whose_paths_the_root_has_no_room_for_are_refused_and_change_nothing) {
  format::root r{};
  r.pool_count = 3;
  name_files(r, {{"/a/first", -1}, {"/a/second", -1}, {"/a/third", -1}});
  const format::root before = r;
  const std::string half(sizeof r.files.paths / 2, 'p');
  expect_failure(errc::invalid_argument, "the paths of the store's files take more than", [&] {
    name_files(r, {{"/a/first", -1}, {"/" + half, -1}, {"/" + half, -1}});
  });
  EXPECT_EQ(std::memcmp(&r, &before, sizeof r), 0);
}

TEST(Placements, a_secondary_file_reports_the_first_unless_its_path_is_too_long) {
  format::root r{};
  name_first(r, "/a/first");
  EXPECT_EQ(std::string_view(r.files.paths, r.files.path_size[0]), "/a/first");
  name_first(r, "/" + std::string(sizeof r.files.paths, 'p'));
  EXPECT_EQ(r.files.path_size[0], 0U);
  EXPECT_EQ(r.files.paths[0], '\0') << "nothing of the path before is left";
}

/// The root of a store of three files whose creation was interrupted.
format::root cut_off() {
  format::root r{};
  r.pool_count = 3;
  r.clock = 1;
  r.state = format::root_state::clean;
  r.used_end = format::first_segment_offset;
  return r;
}

TEST(Placements, a_creation_was_cut_off_only_where_nothing_says_that_there_was_ever_a_store) {
  EXPECT_TRUE(is_unfinished(cut_off()));
  const auto is_finished = [](const auto& change) {
    format::root r = cut_off();
    change(r);
    return !is_unfinished(r);
  };
  EXPECT_TRUE(is_finished([](auto& r) { r.pool_count = 1; }));
  EXPECT_TRUE(is_finished([](auto& r) { r.pool_number = 1; }));
  EXPECT_TRUE(is_finished([](auto& r) { r.files.path_size[1] = 1; }));
  EXPECT_TRUE(is_finished([](auto& r) { r.files.session = 1; }));
  EXPECT_TRUE(is_finished([](auto& r) { r.clock = 2; }));
  EXPECT_TRUE(is_finished([](auto& r) { r.state = format::root_state::open; }));
  EXPECT_TRUE(is_finished([](auto& r) { r.used_end += format::granule_size; }));
}

TEST(Placements, a_root_whose_names_cannot_be_is_not_believed) {
  const auto is_sound = [](const auto& change) {
    format::root r = cut_off();
    r.clock = 5;
    name_files(r, {{"/a/first", -1}, {"/a/second", -1}, {"/a/third", -1}});
    change(r);
    return has_sound_paths(r);
  };
  EXPECT_TRUE(is_sound([](auto&) {}));
  EXPECT_FALSE(is_sound([](auto& r) { r.files.path_size[1] = 0; })) << "a gap";
  EXPECT_FALSE(is_sound([](auto& r) { r.files.path_size[2] = 0; })) << "one is not named";
  EXPECT_FALSE(is_sound([](auto& r) { r.pool_count = 2; })) << "more are named than there are";
  EXPECT_FALSE(is_sound([](auto& r) { r.pool_number = 1; })) << "only the first names others";
  EXPECT_FALSE(is_sound([](auto& r) { r.files.path_size[2] = sizeof r.files.paths; })) << "longer than the root";
  EXPECT_FALSE(is_sound([](auto& r) { r.files.path_size[0] = sizeof r.files.paths; })) << "longer than the root";
  EXPECT_FALSE(is_sound([](auto& r) { r.files.paths[2] = '\0'; })) << "a path ends before its size";
}

TEST(Placements, a_writer_has_a_file_of_its_node_else_one_of_none_else_any) {
  const auto chosen = [](const std::vector<int>& nodes, int running_on) {
    std::vector<std::uint16_t> of_writers;
    for (unsigned writer = 0; writer < 4; ++writer) of_writers.push_back(file_for(nodes, running_on, writer));
    return of_writers;
  };
  using files = std::vector<std::uint16_t>;
  EXPECT_EQ(chosen({0, 1}, 0), files({0, 0, 0, 0}));
  EXPECT_EQ(chosen({0, 1}, 1), files({1, 1, 1, 1}));
  EXPECT_EQ(chosen({0, 1}, 2), files({0, 1, 0, 1})) << "a node without files";
  EXPECT_EQ(chosen({0, 1, -1}, 2), files({2, 2, 2, 2}));
  EXPECT_EQ(chosen({-1, -1, -1}, 1), files({0, 1, 2, 0}));
  EXPECT_EQ(chosen({1, 0, 1, -1}, 1), files({0, 2, 0, 2})) << "two files of one node";
  EXPECT_EQ(chosen({1, 0, 1, -1}, 0), files({1, 1, 1, 1}));
  EXPECT_EQ(chosen({-1, 0, -1}, 3), files({0, 2, 0, 2}));
}

TEST(Numa, a_node_that_cannot_be_or_is_not_there_is_refused_and_any_is_not) {
  EXPECT_NO_THROW(require_node(-1, "/a"));
  EXPECT_NO_THROW(require_node(0, "/a"));
  expect_failure(errc::invalid_argument, "/a: NUMA node -2 is out of range", [] { require_node(-2, "/a"); });
  expect_failure(errc::invalid_argument, "/a: NUMA node 4096 is out of range", [] { require_node(4096, "/a"); });
#ifdef ICECORE_HAS_NUMA
  // no machine has that many
  expect_failure(errc::invalid_argument, "/a: this machine has no NUMA node 4095", [] { require_node(4095, "/a"); });
#endif
  EXPECT_GE(current_node(), 0);
}

TEST(Numa, to_prefer_a_node_changes_nothing_of_the_file) {
  const fs::path path = fs::path("/dev/shm") / ("icecore-numa-" + std::to_string(getpid()));
  {
    const pool_file file(path, access::read_write, creation::open_or_create);
    file.grow(format::granule_size, false);
    for (const int node : {-1, 0, 4095}) {
      for (const std::uint64_t to : {std::uint64_t{0}, std::uint64_t{5000}, 2 * format::granule_size}) {
        EXPECT_NO_THROW(prefer_node(file, 4097, to, node));
      }
    }
    EXPECT_EQ(file.size(), format::granule_size);
  }
  fs::remove(path);
}

#ifdef ICECORE_HAS_NUMA
// Asks the kernel for the policy of pages that no process has touched yet, through a mapping other than the one that
// set the policy.
TEST(Numa, pages_of_a_file_in_memory_are_to_come_from_the_node_that_is_preferred) {
  const fs::path path = fs::path("/dev/shm") / ("icecore-numa-" + std::to_string(getpid()));
  {
    const pool_file file(path, access::read_write, creation::open_or_create);
    file.grow(2 * format::granule_size, false);
    const std::size_t size = 2 * format::granule_size;
    void* const mapped = mmap(nullptr, size, PROT_NONE, MAP_SHARED, file.descriptor(), 0);
    ASSERT_NE(mapped, MAP_FAILED);
    const auto policy_at = [&](std::size_t offset) -> std::optional<std::pair<int, unsigned long>> {
      int policy = -1;
      std::array<unsigned long, 64> nodes{};
      const auto failed = syscall(SYS_get_mempolicy, &policy, nodes.data(), 64 * nodes.size(),
                                  static_cast<std::byte*>(mapped) + offset, MPOL_F_ADDR);
      if (failed != 0) return std::nullopt;
      return std::pair(policy, nodes[0]);
    };
    const auto before = policy_at(format::granule_size);
    if (before) {
      EXPECT_NE(before->first, MPOL_PREFERRED) << "so the test shows nothing";
      prefer_node(file, format::granule_size, size, 0);
      EXPECT_EQ(policy_at(format::granule_size), std::pair(int{MPOL_PREFERRED}, 1UL));
      EXPECT_EQ(policy_at(size - format::page_size), std::pair(int{MPOL_PREFERRED}, 1UL));
      EXPECT_EQ(policy_at(0), before) << "what lies before is as it was";
    }
    munmap(mapped, size);
    fs::remove(path);
    if (!before) GTEST_SKIP() << "this kernel knows no policies of memory";
  }
}
#endif

}  // namespace
}  // namespace icecore::testing
