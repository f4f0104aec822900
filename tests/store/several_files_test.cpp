// A store of several files: everything that a store does, over all of them; and each file that is missing, foreign or
// damaged is named.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <random>
#include <string>

#include "base/checksum.hpp"
#include "icecore/icecore.hpp"
#include "pool/file/numa.hpp"
#include "pool/format.hpp"
#include "pool/pool_set.hpp"
#include "store/core.hpp"
#include "support/expect.hpp"
#include "support/file.hpp"
#include "support/inside.hpp"
#include "support/model.hpp"
#include "support/process.hpp"
#include "support/scratch.hpp"
#include "support/seed.hpp"
#include "support/several_files.hpp"

namespace icecore::testing {
namespace {

namespace fs = std::filesystem;

/// Bytes of the records in each file.
std::vector<std::uint64_t> filled_in(const store& s) {
  std::vector<std::uint64_t> bytes;
  for (const file_statistics& f : s.stats().files) bytes.push_back(f.used_bytes - format::first_segment_offset);
  return bytes;
}

struct several {
  setting how;
  unsigned count;
};

class SeveralFiles : public ::testing::TestWithParam<several> {
 protected:
  [[nodiscard]] store make() const { return store(files_.path(), files_.making()); }
  [[nodiscard]] store open() const { return store(files_.path(), files_.plain()); }

  /// For a store opened after a crash: with the persistent index the version left open takes no more writes, so the
  /// clock may be one greater.
  void expect_clock_of_recovered(const store& s) {
    if (GetParam().how.index != index_kind::persistent) return;
    EXPECT_GE(s.clock(), model_.clock);
    EXPECT_LE(s.clock(), model_.clock + 1);
    model_.clock = s.clock();
  }

  files files_{GetParam().how, GetParam().count};
  scribe scribe_{GetParam().count, test_seed()};
  model model_;
};

TEST_P(SeveralFiles, hold_what_a_store_holds_in_every_session) {
  for (int session = 0; session < 4; ++session) {
    store s = session == 0 ? make() : open();
    scribe_.write(s, model_, 300);
    compare_everything(s, model_);
    s.close();
    const store again(files_.path(), files::reading());
    EXPECT_EQ(again.stats().files.size(), files_.count());
    for (const std::uint64_t bytes : filled_in(again)) EXPECT_GT(bytes, 0U) << "each writer has its file";
    EXPECT_TRUE(again.verify().ok());
    compare_everything(again, model_);
    EXPECT_TRUE(verify_file(files_.path()).ok());
  }
}

TEST_P(SeveralFiles, grow_each_for_itself) {
  store s = make();
  const std::string value(200'000, 'v');
  std::vector<std::uint64_t> before;
  for (const auto& f : s.stats().files) before.push_back(f.file_bytes);
  for (unsigned n = 0; n < files_.count(); ++n) {
    scribe_.threads().run(n, [&] {
      for (int i = 0; i < 30; ++i) {
        const std::string key = "large " + std::to_string(n) + " " + std::to_string(i);
        s.insert(key, value);
        model_.insert(key, value);
      }
    });
    const auto now = s.stats().files;
    for (unsigned other = 0; other < files_.count(); ++other) {
      if (other <= n) {
        EXPECT_GT(now[other].file_bytes, before[other]);
      } else {
        EXPECT_EQ(now[other].file_bytes, before[other]) << "nobody wrote to file " << other;
      }
    }
  }
  s.close();
  compare_everything(open(), model_);
}

TEST_P(SeveralFiles, are_what_they_were_when_a_killed_process_leaves_them) {
  const auto sessions = [](const files& of, scribe& by, model& m, bool killed) {
    store s(of.path(), of.making());
    by.write(s, m, 200);
    s.close();
    s = store(of.path(), of.plain());
    by.write(s, m, 200);
    if (killed) ::kill(::getpid(), SIGKILL);
  };
  child killed([&] {
    sessions(files_, scribe_, model_, true);
    return 1;
  });
  EXPECT_EQ(killed.wait(), -SIGKILL);
  sessions(files(GetParam().how, GetParam().count), scribe_, model_, false);
  for (int opening = 0; opening < 2; ++opening) {
    const store recovered = open();
    EXPECT_EQ(recovered.stats().recovered_from_crash, opening == 0);
    expect_clock_of_recovered(recovered);
    compare_histories(recovered, model_);
  }
}

TEST_P(SeveralFiles, a_checkpoint_has_as_many_and_is_a_store_of_its_own) {
  store s = make();
  scribe_.write(s, model_, 300);
  const checkpoint now = s.checkpoint();
  model then = model_;
  then.clock = now.version() + 1;
  const fs::path to = files_.folder() / "checkpoint.ice";
  now.write(to);
  for (unsigned n = 1; n < files_.count(); ++n) EXPECT_TRUE(fs::exists(to.native() + "." + std::to_string(n)));
  expect_error(errc::store_exists, "exists already; a checkpoint needs a new path", [&] { now.write(to); });
  {
    options reading = files::reading();
    reading.check_values = true;
    compare_everything(store(to, reading), then);
  }
  // its files belong to no other store, not even to the one it was taken from
  s.close();
  const std::string own = read_file(files_.path(1));
  write_file(files_.path(1), read_file(to.native() + ".1"));
  expect_error(errc::missing_file, "further-1.ice", [&] { const store mixed = open(); });
  write_file(files_.path(1), own);
  scribe_.write(s = open(), model_, 10);
  s.close();
  options copying = files_.plain();
  copying.copy_of = to;
  const fs::path copied = files_.folder() / "copied.ice";
  {
    store copy(copied, copying);
    compare_everything(copy, then);
    scribe_.write(copy, then, 50);
  }
  compare_everything(store(copied, files_.plain()), then);
  EXPECT_TRUE(verify_file(to).ok()) << "what is copied stays as it is";
}

TEST_P(SeveralFiles, a_checkpoint_that_was_cut_off_is_made_again) {
  store s = make();
  scribe_.write(s, model_, 50);
  const checkpoint now = s.checkpoint();
  const fs::path to = files_.folder() / "checkpoint.ice";
  now.write(to);
  fs::remove(to);  // the secondary files get their names first
  EXPECT_NO_THROW(now.write(to));
  EXPECT_TRUE(verify_file(to).ok());
  fs::remove(to);
  write_file(to.native() + ".1", "of somebody else");
  expect_error(errc::store_exists, "checkpoint.ice.1", [&] { now.write(to); });
  EXPECT_EQ(read_file(to.native() + ".1"), "of somebody else");
  EXPECT_FALSE(fs::exists(to));
}

TEST_P(SeveralFiles, are_repaired_to_one_or_to_several) {
  {
    store s = make();
    scribe_.write(s, model_, 300);
    s.close();
  }
  const auto contents = files_.contents();
  const repair_report report = repair({.from = files_.path(), .to = files_.folder() / "single.ice"});
  EXPECT_TRUE(report.complete());
  const store single(files_.folder() / "single.ice", files::reading());
  EXPECT_EQ(single.stats().files.size(), 1U);
  compare_histories(single, model_);
  repair_options to_two{.from = files_.path(), .to = files_.folder() / "two.ice"};
  to_two.placements.push_back({files_.folder() / "two-b.ice", -1});
  EXPECT_TRUE(repair(to_two).complete());
  const store two(files_.folder() / "two.ice", files::reading());
  EXPECT_EQ(two.stats().files.size(), 2U);
  compare_histories(two, model_);
  EXPECT_EQ(files_.contents(), contents) << "what is repaired stays as it is";
}

// ---- A file that is not what it should be ----

TEST_P(SeveralFiles, one_that_is_missing_is_named_and_found_where_it_was_moved_to) {
  {
    store s = make();
    scribe_.write(s, model_, 100);
    s.close();
  }
  const unsigned last = files_.count() - 1;
  const fs::path moved = files_.folder() / "moved.ice";
  fs::rename(files_.path(last), moved);
  const auto left = read_file(files_.path());
  expect_error(errc::missing_file, "further-" + std::to_string(last) + ".ice: file " + std::to_string(last + 1),
               [&] { const store s = open(); });
  expect_error(errc::missing_file, "is missing; if it was moved",
               [&] { const store s(files_.path(), files::reading()); });
  EXPECT_EQ(read_file(files_.path()), left);
  options found = files::reading();
  found.placements = {{moved, -1}};
  compare_histories(store(files_.path(), found), model_);
  expect_error(errc::missing_file, "is missing; if it was moved", [&] { const store s = open(); });
  options writing = files_.plain();
  writing.placements = {{moved, -1}};
  store(files_.path(), writing).close();
  compare_histories(open(), model_);
  writing.placements = {{files_.folder() / "nothing.ice", -1}};
  expect_error(errc::missing_file, "nothing.ice: is not one of", [&] { const store s(files_.path(), writing); });
  EXPECT_FALSE(fs::exists(files_.folder() / "nothing.ice"));
}

TEST_P(SeveralFiles, are_found_beside_the_first_when_the_folder_is_moved) {
  {
    store s = make();
    scribe_.write(s, model_, 100);
    s.close();
  }
  const scratch elsewhere(GetParam().how.where);
  for (unsigned n = 0; n < files_.count(); ++n) {
    fs::rename(files_.path(n), files::path_in(elsewhere.path(), n));
  }
  compare_histories(store(files::path_in(elsewhere.path(), 0), files_.plain()), model_);
}

TEST_P(SeveralFiles, one_of_another_store_is_named) {
  make().close();
  const files other(GetParam().how, GetParam().count);
  store(other.path(), other.making()).close();
  fs::copy_file(other.path(1), files_.path(1), fs::copy_options::overwrite_existing);
  expect_error(errc::missing_file, "further-1.ice: does not belong to the store", [&] { const store s = open(); });
  write_file(files_.path(1), std::string(100'000, 'x'));
  expect_error(errc::missing_file, "further-1.ice: file 2", [&] { const store s = open(); });
  fs::remove(files_.path(1));
  fs::create_directory(files_.path(1));
  expect_error(errc::missing_file, "further-1.ice: file 2", [&] { const store s = open(); });
}

TEST_P(SeveralFiles, one_without_anything_in_it_is_named_and_nothing_is_made_of_it) {
  make().close();
  const std::size_t size = read_file(files_.path(1)).size();
  for (const std::size_t zeros : {std::size_t{0}, std::size_t{65'536}, size, std::size_t{3} << 20}) {
    write_file(files_.path(1), std::string(zeros, '\0'));
    expect_error(errc::missing_file, "further-1.ice: file 2", [&] { const store s = open(); });
    EXPECT_TRUE(read_file(files_.path(1)) == std::string(zeros, '\0'));
  }
}

TEST_P(SeveralFiles, an_older_copy_of_one_is_named_whichever_it_is) {
  make().close();
  const auto older = files_.contents();
  {
    store s = open();
    scribe_.write(s, model_, 50);
    s.close();
  }
  const auto newer = files_.contents();
  for (unsigned n = 0; n < files_.count(); ++n) {
    write_file(files_.path(n), older[n]);
    expect_error(errc::missing_file, n == 0 ? "the first file is an older copy" : "this file is an older copy",
                 [&] { const store s = open(); });
    expect_error(errc::missing_file, "older copy", [&] { const store s(files_.path(), files::reading()); });
    write_file(files_.path(n), newer[n]);
  }
  compare_histories(open(), model_);
}

TEST_P(SeveralFiles, one_is_no_store_by_itself_and_says_where_its_first_is) {
  make().close();
  expect_error(errc::not_a_store, "is file 2 of " + std::to_string(files_.count()) + " of a store",
               [&] { const store s(files_.path(1), files_.plain()); });
  expect_error(errc::not_a_store, files_.path().native(), [&] { const store s(files_.path(1), files::reading()); });
  expect_error(errc::store_exists, "exists already", [&] {
    const files other(GetParam().how, 1);
    options o = other.plain();
    o.placements = {{files_.path(1), -1}};
    const store s(other.path(), o);
  });
  EXPECT_NO_THROW(static_cast<void>(open()));
}

TEST_P(SeveralFiles, one_that_is_too_short_is_named) {
  {
    store s = make();
    scribe_.write(s, model_, 100);
    s.close();
  }
  const std::string complete = read_file(files_.path(1));
  fs::resize_file(files_.path(1), complete.size() - 4096);
  expect_error(errc::truncated, "further-1.ice: is ", [&] { const store s = open(); });
  const verify_report report = verify_file(files_.path());
  EXPECT_FALSE(report.ok());
  EXPECT_TRUE(std::ranges::all_of(report.damages, [&](const damage& d) { return d.file == files_.path(1).native(); }));
}

TEST_P(SeveralFiles, without_one_repair_keeps_what_the_others_hold) {
  {
    store s = make();
    for (unsigned n = 0; n < files_.count(); ++n) {
      scribe_.threads().run(n, [&] {
        for (int i = 0; i < 20; ++i) s.insert("of " + std::to_string(n) + " " + std::to_string(i), "kept");
      });
    }
    scribe_.threads().run(0, [&] { s.insert("of 1 0", "newer"); });
    scribe_.threads().run(1, [&] { s.insert("of 0 0", "lost"); });
    s.close();
  }
  fs::remove(files_.path(1));
  const verify_report found = verify_file(files_.path());
  ASSERT_FALSE(found.ok());
  EXPECT_EQ(found.damages.back().file, files_.path(1).native());
  const repair_report report = repair({.from = files_.path(), .to = files_.folder() / "repaired.ice"});
  EXPECT_FALSE(report.complete());
  EXPECT_TRUE(std::ranges::any_of(
      report.losses, [](const damage& d) { return d.what.find("is missing; if it was moved") != std::string::npos; }));
  const store repaired(files_.folder() / "repaired.ice", files::reading());
  EXPECT_EQ(repaired.find("of 0 1"), "kept");
  EXPECT_EQ(repaired.find("of 0 0"), std::nullopt) << "its newest value is lost, and no older one stands for it";
  EXPECT_EQ(repaired.find("of 1 1"), std::nullopt);
  EXPECT_EQ(repaired.find("of 2 1").has_value(), files_.count() > 2);
}

TEST_P(SeveralFiles, bytes_of_one_are_no_bytes_of_another) {
  {
    store s = make();
    for (unsigned n = 0; n < files_.count(); ++n) {
      scribe_.threads().run(n, [&] { s.insert("key " + std::to_string(n), "value"); });
    }
    s.close();
  }
  // the same position in two files: segment headers, records and stamps all have one size here
  std::string one = read_file(files_.path(1));
  const std::string first = read_file(files_.path());
  std::copy(first.begin() + format::first_segment_offset, first.begin() + format::first_segment_offset + 4096,
            one.begin() + format::first_segment_offset);
  write_file(files_.path(1), one);
  expect_error(errc::damaged, "further-1.ice: damaged at byte", [&] { const store s = open(); });
}

TEST_P(SeveralFiles, a_flipped_bit_is_found_and_named_with_its_file) {
  {
    store s = make();
    scribe_.write(s, model_, 120);
    s.close();
  }
  for (unsigned n = 0; n < files_.count(); ++n) {
    const std::string sound = read_file(files_.path(n));
    std::mt19937_64 random(test_seed() + n);
    for (int i = 0; i < 150; ++i) {
      std::size_t at = random() % sound.size();
      for (int tries = 0; tries < 1000 && sound[at] == 0; ++tries) at = random() % sound.size();
      if (sound[at] == 0 || (at >= format::live_page_offset && at < format::first_segment_offset)) continue;
      std::string bad = sound;
      bad[at] = static_cast<char>(bad[at] ^ (1 << random() % 8));
      write_file(files_.path(n), bad);
      const verify_report report = verify_file(files_.path());
      // a head is a guess, which opening computes anew
      if (report.ok()) {
        options reading = files::reading();
        reading.check_values = true;
        compare_histories(store(files_.path(), reading), model_);
        continue;
      }
      EXPECT_TRUE(
          std::ranges::any_of(report.damages, [&](const damage& d) { return d.file == files_.path(n).native(); }))
          << "byte " << at << " of file " << n << ": " << report.damages.front().what << " in "
          << report.damages.front().file;
      try {
        options reading = files::reading();
        reading.check_values = true;
        compare_histories(store(files_.path(), reading), model_);  // a root has two pages
      } catch (const error& e) {
        EXPECT_NE(e.message().find(files_.path(n).native()), std::string::npos) << e.message();
      }
    }
    write_file(files_.path(n), sound);
  }
}

TEST_P(SeveralFiles, a_damaged_value_is_named_with_its_key_whichever_file_holds_that) {
  const std::array large{std::string(5000, 'A'), std::string(5000, 'B')};
  {
    store s = make();
    // many records: the damage in one file is found while the other is still being read
    for (unsigned n = 0; n < 2; ++n) {
      scribe_.threads().run(n, [&] {
        s.insert("key " + std::to_string(n), "first");
        for (int i = 0; i < 2000; ++i) s.insert("beside " + std::to_string(n) + " " + std::to_string(i), "value");
      });
    }
    for (unsigned n = 0; n < 2; ++n)
      scribe_.threads().run(1 - n, [&] { s.insert("key " + std::to_string(n), large[n]); });
    s.close();
  }
  auto contents = files_.contents();
  std::array<unsigned, 2> of_value{};
  for (unsigned file = 0; file < files_.count(); ++file) {
    for (unsigned n = 0; n < 2; ++n) {
      const std::size_t value = contents[file].find(large[n]);
      if (value == std::string::npos) continue;
      of_value[n] = file;
      contents[file][value + 1000] = 'x';
    }
    write_file(files_.path(file), contents[file]);
  }
  ASSERT_NE(of_value[0], of_value[1]) << "each value lies in the file of the other's key";
  const verify_report report = verify_file(files_.path());
  ASSERT_EQ(report.damages.size(), 2U);
  for (const damage& d : report.damages) {
    EXPECT_EQ(d.file, files_.path(d.key == "key 0" ? of_value[0] : of_value[1]).native());
  }
  EXPECT_THAT(report.damages, ::testing::UnorderedElementsAre(::testing::Field(&damage::key, "key 0"),
                                                              ::testing::Field(&damage::key, "key 1")));
}

// ---- Locks, copies, forks ----

TEST_P(SeveralFiles, each_is_locked_and_the_error_names_the_holder) {
  store s = make();
  expect_error(errc::locked, "first.ice: open for writing by process " + std::to_string(getpid()),
               [&] { const store other = open(); });
  expect_error(errc::locked, "further-1.ice: open for writing by process " + std::to_string(getpid()), [&] {
    options o = files_.plain();
    const store other(files_.path(1), o);
  });
  s.close();
  EXPECT_NO_THROW(static_cast<void>(open()));
}

TEST_P(SeveralFiles, a_copy_made_under_a_live_writer_is_reported_and_accepted_when_asked) {
  const scratch elsewhere(GetParam().how.where);
  {
    store s = make();
    scribe_.write(s, model_, 100);
    for (unsigned n = 0; n < files_.count(); ++n) {
      fs::copy_file(files_.path(n), files::path_in(elsewhere.path(), n));
    }
    s.close();
  }
  const fs::path copy = files::path_in(elsewhere.path(), 0);
  expect_error(errc::copied, copy.native(), [&] { const store s(copy, files_.plain()); });
  options accepting = files_.plain();
  accepting.accept_copy = true;
  {
    const store accepted(copy, accepting);
    expect_clock_of_recovered(accepted);
    compare_histories(accepted, model_);
  }
  // one file alone: it was open when copied, the first is closed now
  const fs::path left_open = files_.folder() / "left open";
  store s = open();
  fs::copy_file(files_.path(1), left_open);
  s.close();
  fs::copy_file(left_open, files_.path(1), fs::copy_options::overwrite_existing);
  expect_error(errc::missing_file, "further-1.ice: file 2", [&] { const store mixed = open(); });
}

// ---- Several processes ----

void wait_for(const shared<std::atomic<int>>& step, int wanted) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (step->load() < wanted) {
    promise(std::chrono::steady_clock::now() < end, [] { return std::string("the other does not come so far"); });
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

TEST_P(SeveralFiles, are_written_by_all_processes_that_share_them) {
  const scratch memory(place::tmpfs);
  options sharing = files_.making();
  sharing.shared_as = memory / "common";
  options beside;
  beside.access = access::attached;
  beside.shared_as = sharing.shared_as;
  shared<std::atomic<int>> step;
  const std::string large(100'000, 'l');
  child other([&] {
    wait_for(step, 1);
    store s(files_.path(), beside);
    for (unsigned n = 0; n < files_.count(); ++n) {
      scribe_.threads().run(n, [&] {
        for (int i = 0; i < 40; ++i) s.insert("other " + std::to_string(n) + " " + std::to_string(i), large);
      });
    }
    step->store(2);
    wait_for(step, 3);
    for (unsigned n = 0; n < files_.count(); ++n) {
      if (s.find("first " + std::to_string(n) + " 39") != large) return 1;
    }
    return 0;
  });
  store s(files_.path(), sharing);
  step->store(1);
  wait_for(step, 2);
  const auto before = filled_in(s);
  for (unsigned n = 0; n < files_.count(); ++n) {
    EXPECT_GT(before[n], 40 * large.size()) << "the other process grew each";
    scribe_.threads().run(n, [&] {
      for (int i = 0; i < 40; ++i) s.insert("first " + std::to_string(n) + " " + std::to_string(i), large);
    });
    EXPECT_EQ(s.find("other " + std::to_string(n) + " 39"), large);
  }
  step->store(3);
  EXPECT_EQ(other.wait(), 0);
  EXPECT_TRUE(s.verify().ok());
  s.close();
  EXPECT_TRUE(verify_file(files_.path()).ok());
  EXPECT_EQ(open().stats().records, 80U * files_.count());
}

// ---- Where writers write ----

TEST_P(SeveralFiles, two_writers_assigned_to_two_files_write_each_to_its_own) {
  store s = make();
  const std::string value(1000, 'v');
  for (unsigned n = 0; n < files_.count(); ++n) {
    scribe_.threads().run(n, [&] {
      for (int i = 0; i < 500; ++i) s.insert("writer " + std::to_string(n) + " " + std::to_string(i), value);
    });
  }
  for (unsigned n = 0; n < files_.count(); ++n) {
    for (int i = 0; i < 500; ++i) {
      const link l = shown_record(s, "writer " + std::to_string(n) + " " + std::to_string(i));
      ASSERT_EQ(link_pool(l), n) << "record " << i;
    }
  }
}

TEST_P(SeveralFiles, a_node_has_the_writers_that_run_on_it) {
  options o = files_.making();
  o.placements.back().node = 0;  // every machine has this node
  store s(files_.path(), o);
  for (unsigned n = 0; n < files_.count(); ++n) {
    scribe_.threads().run(n, [&] { s.insert("of " + std::to_string(n), "v"); });
  }
  if (current_node() != 0) GTEST_SKIP() << "this thread runs on another node";
  for (unsigned n = 0; n < files_.count(); ++n) {
    EXPECT_EQ(link_pool(shown_record(s, "of " + std::to_string(n))), files_.count() - 1);
  }
  s.close();
  EXPECT_EQ(open().stats().files.back().node, 0) << "it is remembered";
}

INSTANTIATE_TEST_SUITE_P(
    Files, SeveralFiles,
    ::testing::Values(
        several{{.where = place::tmpfs, .durability = durability::none}, 2},
        several{{.where = place::tmpfs, .durability = durability::operation}, 3},
        several{{.where = place::disk, .durability = durability::tag}, 2},
        several{{.where = place::disk, .durability = durability::operation}, 3},
        several{{.where = place::tmpfs, .durability = durability::operation, .index = index_kind::persistent}, 3}),
    [](const auto& one) { return one.param.how.name() + "_" + std::to_string(one.param.count) + "_files"; });

}  // namespace
}  // namespace icecore::testing
