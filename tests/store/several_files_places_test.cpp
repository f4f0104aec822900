// Where the files of a store are: named by placements and by roots, moved, swapped, lost, on other media or machines.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <string>

#include "icecore/icecore.hpp"
#include "icecore/unfinished.hpp"
#include "pool/file/numa.hpp"
#include "pool/format.hpp"
#include "support/expect.hpp"
#include "support/file.hpp"
#include "support/model.hpp"
#include "support/roots.hpp"
#include "support/scratch.hpp"
#include "support/seed.hpp"
#include "support/several_files.hpp"

namespace icecore::testing {
namespace {

namespace fs = std::filesystem;

constexpr unsigned count = 3;

class Places : public ::testing::Test {
 protected:
  /// A closed store of three files.
  void make() {
    store s(files_.path(), files_.making());
    scribe_.write(s, model_, 150);
    s.close();
  }
  [[nodiscard]] options reading(std::vector<placement> where = {}) const {
    options o = files::reading();
    o.placements = std::move(where);
    return o;
  }
  [[nodiscard]] options accepting(std::vector<placement> where = {}) const {
    options o = reading(std::move(where));
    o.accept_damage = o.accept_copy = true;
    return o;
  }
  void expect_missing(const std::string& part, const options& opening) {
    expect_error(errc::missing_file, part, [&] { const store s(files_.path(), opening); });
  }
  template <class Change>
  void change_roots(unsigned number, const Change& change) {
    write_file(files_.path(number), with_roots_changed(read_file(files_.path(number)), change));
  }
  void damage_roots(unsigned number) {
    std::string bytes = read_file(files_.path(number));
    for (const std::uint64_t page : {format::root_a_offset, format::root_b_offset}) bytes[page + 100] ^= 1;
    write_file(files_.path(number), bytes);
  }
  [[nodiscard]] std::vector<placement> further() const {
    std::vector<placement> all;
    for (unsigned n = 1; n < count; ++n) all.push_back({files_.path(n), -1});
    return all;
  }
  /// All keys' newest values, which a reader without a clock finds too.
  void expect_found(const store& s) const {
    for (const auto& [key, history] : model_.records) EXPECT_EQ(s.latest().find(key), model_.find(key)) << key;
  }

  files files_{{.where = place::tmpfs, .durability = durability::none}, count};
  scribe scribe_{count, test_seed()};
  model model_;
};

TEST_F(Places, a_later_opening_may_give_each_file_another_node) {
  make();
  {
    options o = files_.plain();
    o.placements = {{files_.path(), 0}, {files_.path(2), 0}};
    store s(files_.path(), o);
    const auto nodes = s.stats().files;
    EXPECT_EQ(nodes[0].node, 0);
    EXPECT_EQ(nodes[1].node, -1);
    EXPECT_EQ(nodes[2].node, 0);
    s.close();
  }
  {
    options o = files_.plain();
    o.placements = {{files_.path(2), -1}};  // where it is already; its node stays the same
    store s(files_.path(), o);
    EXPECT_EQ(s.stats().files[2].node, 0);
    s.close();
  }
  const store again(files_.path(), files::reading());
  EXPECT_EQ(again.stats().files[0].node, 0);
  compare_histories(again, model_);
}

TEST_F(Places, a_store_from_a_machine_of_more_nodes_is_written_all_over) {
  make();
  change_roots(0, [](format::root& r) {
    for (unsigned n = 0; n < count; ++n) r.files.node_plus_1[n] = 4000;
  });
  store s(files_.path(), files_.plain());
  scribe_.write(s, model_, 150);
  for (unsigned n = 0; n < count; ++n) {
    scribe_.threads().run(n, [&] {
      for (int i = 0; i < 20; ++i) {
        const std::string key = "on another machine " + std::to_string(n) + " " + std::to_string(i);
        s.insert(key, std::string(20'000, 'v'));
        model_.insert(key, std::string(20'000, 'v'));
      }
    });
  }
  for (const file_statistics& f : s.stats().files) {
    EXPECT_EQ(f.node, 3999);
    EXPECT_GT(f.used_bytes, format::first_segment_offset + 400'000U) << "each writer has its file";
  }
  s.close();
  compare_histories(store(files_.path(), files::reading()), model_);
}

TEST_F(Places, what_a_placement_leads_to_must_be_a_file_of_the_store) {
  make();
  const auto placed = [&](const fs::path& path) { return reading({{path, -1}}); };
  const files other({.where = place::tmpfs, .durability = durability::none}, 2);
  store(other.path(), other.making()).close();
  expect_missing("is not one of the 3 files", placed(other.path(1)));
  fs::copy_file(files_.path(), files_.folder() / "copy of the first");
  expect_missing("is not one of the 3 files", placed(files_.folder() / "copy of the first"));
  write_file(files_.folder() / "a fourth", with_roots_changed(read_file(files_.path(1)), [](format::root& r) {
               r.pool_number = 3;
               r.pool_count = 4;
             }));
  expect_missing("is not one of the 3 files", placed(files_.folder() / "a fourth"));
  expect_missing("is not one of the 3 files", placed(files_.folder() / "nothing"));
  // an opening that accepts damage shows what there is
  compare_histories(store(files_.path(), accepting({{files_.folder() / "nothing", -1}})), model_);
}

TEST_F(Places, files_that_were_swapped_are_named) {
  make();
  fs::rename(files_.path(1), files_.folder() / "aside");
  fs::rename(files_.path(2), files_.path(1));
  fs::rename(files_.folder() / "aside", files_.path(2));
  expect_missing("further-1.ice: is file 3 of the store", reading());
  expect_missing("have two been swapped?", files_.plain());
  // each error says which file it is
  compare_histories(store(files_.path(), reading(further())), model_);
}

TEST_F(Places, a_file_that_does_not_know_where_the_first_is_says_at_least_that_it_is_a_part) {
  make();
  change_roots(1, [](format::root& r) {
    r.files.path_size[0] = 0;
    std::memset(r.files.paths, 0, sizeof r.files.paths);
  });
  try {
    const store s(files_.path(1), files::reading());
    ADD_FAILURE() << "a part is no store";
  } catch (const error& e) {
    EXPECT_EQ(e.code(), errc::not_a_store);
    EXPECT_NE(e.message().find("is file 2 of 3 of a store; open the store by its first file"), std::string::npos);
    EXPECT_EQ(e.message().find("which was"), std::string::npos) << e.message();
  }
}

TEST_F(Places, files_on_media_of_other_kinds_make_no_store) {
  if (!root_of(place::disk)) GTEST_SKIP() << "no disk here";
  const scratch disk(place::disk);
  const scratch memory(place::tmpfs);
  options o;
  o.durability = durability::none;
  o.placements = {{disk / "secondary.ice", -1}};
  expect_error(errc::invalid_argument, "lies on a block device, but the store's first file",
               [&] { const store s(memory / "first.ice", o); });
  o.placements = {{memory / "secondary.ice", -1}};
  expect_error(errc::invalid_argument, "lies on a memory file system", [&] { const store s(disk / "first.ice", o); });
  for (const scratch* folder : {&disk, &memory}) EXPECT_TRUE(fs::is_empty(folder->path())) << "nothing is left";
}

// ---- Roots that are lost ----

TEST_F(Places, without_the_first_root_the_others_are_found_where_placements_say) {
  make();
  damage_roots(0);
  expect_error(errc::damaged, "both root pages are damaged", [&] { const store s(files_.path(), reading()); });
  std::vector<placement> all = further();
  all.push_back({files_.path(), -1});
  const store found(files_.path(), accepting(all));
  EXPECT_EQ(found.stats().files.size(), count);
  expect_found(found);

  const repair_report repaired =
      repair({.from = files_.path(), .to = files_.folder() / "repaired.ice", .moved = further()});
  EXPECT_FALSE(repaired.complete()) << "the root is lost";
  expect_found(store(files_.folder() / "repaired.ice", files::reading()));
}

TEST_F(Places, without_the_first_root_one_that_is_not_named_is_reported) {
  make();
  damage_roots(0);
  const repair_report repaired =
      repair({.from = files_.path(), .to = files_.folder() / "repaired.ice", .moved = {{files_.path(2), -1}}});
  EXPECT_TRUE(std::ranges::any_of(repaired.losses, [](const damage& d) {
    return d.what.find("the path of file 2 of the store is not known") != std::string::npos;
  }));
}

TEST_F(Places, without_the_first_root_what_is_of_another_store_is_refused) {
  make();
  damage_roots(0);
  const auto refused = [&](const fs::path& path) {
    expect_missing(path.filename().native() + ": is not a file of the store", accepting({{path, -1}}));
  };
  refused(files_.folder() / "nothing");
  const files other({.where = place::tmpfs, .durability = durability::none}, 2);
  store(other.path(), other.making()).close();
  refused(other.path(1));
  const std::string sound = read_file(files_.path(1));
  const auto refused_root = [&](const auto& change) {
    write_file(files_.folder() / "changed", with_roots_changed(sound, change));
    refused(files_.folder() / "changed");
  };
  refused_root([](format::root& r) { r.pool_number = 0; });
  refused_root([](format::root& r) { r.pool_number = r.pool_count; });
  refused_root([](format::root& r) { r.pool_count = format::files_max + 1; });
}

TEST_F(Places, a_secondary_file_whose_root_is_lost_is_read_all_the_same_where_damage_is_accepted) {
  make();
  damage_roots(1);
  expect_error(errc::damaged, "further-1.ice: both root pages are damaged",
               [&] { const store s(files_.path(), reading()); });
  compare_histories(store(files_.path(), accepting()), model_);
  const verify_report report = verify_file(files_.path());
  EXPECT_TRUE(std::ranges::any_of(
      report.damages, [&](const damage& d) { return d.structure == "root" && d.file == files_.path(1).native(); }));
}

TEST_F(Places, without_the_root_of_a_file_what_is_of_another_store_in_its_place_is_refused) {
  make();
  damage_roots(0);
  const files other({.where = place::tmpfs, .durability = durability::none}, count);
  store(other.path(), other.making()).close();
  change_roots(1, [](format::root& r) { r.pool_number = 2; });
  // two files both claim to be file 3: the second is taken, and file 2 is missing
  const store found(files_.path(), accepting(further()));
  EXPECT_EQ(found.stats().files.size(), 2U);
}

// ---- Creating, copying, replacing ----

TEST_F(Places, what_a_creation_that_was_cut_off_left_is_taken_over_and_nothing_else) {
  make();
  const std::string secondary_file = read_file(files_.path(1));
  std::string first = with_roots_changed(read_file(files_.path()), [](format::root& r) {
    r.files = {};
    r.clock = 1;
    r.used_end = format::first_segment_offset;
    r.certified_records = r.certified_sum = r.durable_version = 0;
  });
  std::fill(first.begin() + format::first_segment_offset, first.end(), '\0');
  write_file(files_.path(), first);
  for (unsigned n = 1; n < count; ++n) fs::remove(files_.path(n));
  // a file of the same store that has been in a session, and one that is a first file
  write_file(files_.path(1), secondary_file);
  expect_error(errc::store_exists, "further-1.ice: exists already; each file of a new store needs a new path",
               [&] { const store s(files_.path(), files_.making()); });
  EXPECT_EQ(read_file(files_.path(1)), secondary_file);
  write_file(files_.path(1), first);
  expect_error(errc::store_exists, "further-1.ice: exists already; each file of a new store needs a new path",
               [&] { const store s(files_.path(), files_.making()); });
}

TEST_F(Places, a_copy_has_its_files_where_placements_say_one_for_each) {
  make();
  options copying = files_.plain();
  copying.copy_of = files_.path();
  copying.placements = {{files_.folder() / "b", -1}, {files_.folder() / "c", -1}};
  {
    const store s(files_.folder() / "a", copying);
    compare_histories(s, model_);
    EXPECT_EQ(s.stats().files.back().path, files_.folder() / "c");
  }
  compare_histories(store(files_.folder() / "a", files::reading()), model_);
  copying.placements.pop_back();
  copying.placements.front().path = files_.folder() / "e";
  expect_error(errc::invalid_argument, "has 3 files, but its copy would have 2",
               [&] { const store s(files_.folder() / "d", copying); });
  for (const char* name : {"d", "e"}) EXPECT_FALSE(fs::exists(files_.folder() / name)) << name;
}

TEST_F(Places, a_store_that_replaces_another_removes_all_files_of_that) {
  make();
  {
    unfinished_store making(files_.path(), ".new");
    store(making.path(), files_.plain()).close();
    making.finish(replacing::allowed);
  }
  for (unsigned n = 1; n < count; ++n) EXPECT_FALSE(fs::exists(files_.path(n))) << "file " << n;
  EXPECT_TRUE(store(files_.path(), files::reading()).keys().empty());
}

TEST_F(Places, a_store_that_replaces_another_leaves_files_that_are_not_of_that) {
  make();
  // one file's path holds a file of another store, another one's holds nothing
  const files other({.where = place::tmpfs, .durability = durability::none}, 2);
  store(other.path(), other.making()).close();
  fs::copy_file(other.path(1), files_.path(1), fs::copy_options::overwrite_existing);
  fs::remove(files_.path(2));
  {
    unfinished_store making(files_.path(), ".new");
    store(making.path(), files_.plain()).close();
    making.finish(replacing::allowed);
  }
  EXPECT_TRUE(fs::exists(files_.path(1)));
}

TEST_F(Places, a_store_that_is_not_finished_is_removed_with_all_its_files) {
  {
    unfinished_store making(files_.path(), ".new");
    options o = files_.plain();
    o.placements = {{files_.path(1), -1}};
    store(making.path(), o).close();
    EXPECT_TRUE(fs::exists(making.path()));
    EXPECT_TRUE(fs::exists(files_.path(1)));
  }
  EXPECT_TRUE(fs::is_empty(files_.folder()));
}

TEST_F(Places, what_replaces_what_reports_no_others_removes_that_alone) {
  make();
  const auto contents = files_.contents();
  const auto replaced = [&](const std::string& by) {
    write_file(files_.path(), by);
    for (unsigned n = 1; n < count; ++n) write_file(files_.path(n), contents[n]);
    unfinished_store making(files_.path(), ".new");
    store(making.path(), files_.plain()).close();
    making.finish(replacing::allowed);
    for (unsigned n = 1; n < count; ++n) EXPECT_TRUE(fs::exists(files_.path(n))) << "file " << n;
  };
  replaced("no store");
  replaced(with_roots_changed(contents[0], [](format::root& r) { r.pool_number = 1; }));
  replaced(with_roots_changed(contents[0], [](format::root& r) { r.pool_count = format::files_max + 1; }));
  replaced(with_roots_changed(contents[0], [](format::root& r) { r.files.path_size[1] = 0; }));
  replaced(with_roots_changed(contents[0], [](format::root& r) {  // a creation that was cut off
    r.files = {};
    r.clock = 1;
    r.used_end = format::first_segment_offset;
  }));
}

}  // namespace
}  // namespace icecore::testing
