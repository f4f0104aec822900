// Checkpoints: a store of one instant, written while writes go on; complete, or not there.
#include "icecore/checkpoint.hpp"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <random>
#include <thread>

#include "icecore/icecore.hpp"
#include "support/expect.hpp"
#include "support/file.hpp"
#include "support/fingerprint.hpp"
#include "support/model.hpp"
#include "support/process.hpp"
#include "support/scratch.hpp"
#include "support/seed.hpp"

namespace icecore::testing {
namespace {

class Checkpoint : public ::testing::TestWithParam<setting> {
 protected:
  [[nodiscard]] store open() const { return store(path_, GetParam().options()); }
  [[nodiscard]] static store open_copy(const std::filesystem::path& at) {
    options reading;
    reading.access = access::read_only;
    reading.check_values = true;
    return store(at, reading);
  }

  /// Random operations on both.
  void write(store& s, model& m, int operations) {
    const auto some = [this](unsigned n) { return static_cast<unsigned>(random_() % n); };
    for (int i = 0; i < operations; ++i) {
      const std::string key = "key " + std::to_string(some(50));
      switch (some(10)) {
        case 0:
          s.tag();
          m.close_version();
          break;
        case 1: {
          const std::string name = "tag " + std::to_string(m.tags.size());
          const version v = s.tag({.name = name, .note = "note", .time_ns = 7});
          m.close_version();
          m.tags.push_back({v, 7, name, "note"});
          break;
        }
        case 2:
          s.remove(key);
          m.remove(key);
          break;
        case 3: {
          batch together;
          together.insert(key, "of a batch");
          together.remove("key " + std::to_string(some(50)));
          s.apply(together);
          m.apply(together);
          break;
        }
        default: {
          const std::string value(some(20) == 0 ? 5000 + some(100'000) : some(40), static_cast<char>('a' + some(26)));
          s.insert(key, value);
          m.insert(key, value);
        }
      }
    }
  }
  /// The model of what a checkpoint taken now contains.
  static model now(model& m) {
    if (m.touched()) m.close_version();
    return m;
  }

  /// Where durability is deferred, whoever reads what no sync covers closes the open version.
  static void compare(store& s, model& m) {
    if (GetParam().deferred) {
      s.sync();
      if (m.touched()) m.close_version();
    }
    compare_everything(s, m);
  }

  scratch folder_{GetParam().where};
  std::filesystem::path path_ = folder_ / "one.ice";
  std::mt19937 random_{static_cast<std::mt19937::result_type>(test_seed())};
};

TEST_P(Checkpoint, is_a_store_with_every_version_and_tag_of_its_instant) {
  model m;
  store s = open();
  for (int round = 0; round < 6; ++round) {
    write(s, m, 40 * round);  // the first is of an empty store
    const icecore::checkpoint cut = s.checkpoint();
    const model then = now(m);
    EXPECT_EQ(cut.version(), then.clock - 1);
    write(s, m, 60);  // nothing of this is in it
    const auto to = folder_ / ("copy " + std::to_string(round));
    cut.write(to);
    EXPECT_EQ(std::filesystem::file_size(to), cut.bytes());
    EXPECT_TRUE(verify_file(to).ok());
    const store copy = open_copy(to);
    compare_everything(copy, then);
  }
  compare(s, m);
}

TEST_P(Checkpoint, goes_on_as_a_store_of_its_own) {
  model m;
  store s = open();
  write(s, m, 100);
  s.checkpoint().write(folder_ / "copy.ice");
  model other = now(m);
  store copy(folder_ / "copy.ice", GetParam().options());
  write(copy, other, 100);
  write(s, m, 100);
  copy.close();
  store again(folder_ / "copy.ice", GetParam().options());
  compare(again, other);
  compare(s, m);
}

TEST_P(Checkpoint, is_copied_at_opening) {
  model m;
  store s = open();
  options copying = GetParam().options();
  copying.copy_of = folder_ / "checkpoint.ice";
  for (int round = 0; round < 4; ++round) {
    write(s, m, 100 * round);  // the first is of an empty store
    s.checkpoint().write(copying.copy_of);
    model then = now(m);
    const auto to = folder_ / ("copy " + std::to_string(round));
    {
      store copy(to, copying);
      compare(copy, then);
      EXPECT_TRUE(copy.verify().ok());
      write(copy, then, 100);
      copy.close();
    }
    store again(to, GetParam().options());
    compare(again, then);
    again.close();
    EXPECT_TRUE(verify_file(to).ok());
    std::filesystem::remove(copying.copy_of);
  }
}

TEST_P(Checkpoint, of_a_checkpoint_and_of_a_store_opened_for_reading_is_the_same) {
  model m;
  {
    store s = open();
    write(s, m, 200);
    s.checkpoint().write(folder_ / "first.ice");
  }
  const model then = now(m);
  open_copy(folder_ / "first.ice").checkpoint().write(folder_ / "second.ice");
  compare_everything(open_copy(folder_ / "second.ice"), then);
}

TEST_P(Checkpoint, shows_one_instant_while_threads_write) {
  store s = open();
  constexpr int rounds = 20;
  constexpr int writes_a_round = 400;  // each round reads everything there
  std::atomic<int> allowed{writes_a_round};
  std::atomic<bool> stop{false};
  std::vector<std::thread> writers;
  for (int t = 0; t < 3; ++t) {
    writers.emplace_back([&, t] {  // in each thread the greater key is never newer than the smaller one
      const std::string name = std::to_string(t);
      for (int i = 0; !stop; ++i) {
        s.insert(name + "a", std::to_string(i));
        s.insert(name + "b" + std::to_string(i % 100), std::string(100, 'b'));
        s.insert(name + "c", std::to_string(i));
        while (i >= allowed && !stop) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
    });
  }
  for (int round = 0; round < rounds; ++round, allowed += writes_a_round) {
    const icecore::checkpoint cut = s.checkpoint();
    const auto to = folder_ / "copy.ice";
    cut.write(to);
    {
      const store copy = open_copy(to);
      ASSERT_EQ(copy.clock(), cut.version() + 1);
      for (int t = 0; t < 3; ++t) {
        const std::string name = std::to_string(t);
        const int first = std::stoi(std::string(copy.find(name + "a").value_or("-1")));
        const int last = std::stoi(std::string(copy.find(name + "c").value_or("-1")));
        EXPECT_TRUE(first == last || first == last + 1) << first << " and " << last;
      }
      EXPECT_EQ(fingerprint(copy.latest()), fingerprint(s.at(cut.version())));
    }
    std::filesystem::remove(to);
  }
  stop = true;
  for (std::thread& each : writers) each.join();
}

TEST_P(Checkpoint, of_a_store_that_died_has_all_that_counts) {
  child writer([&]() -> int {
    model m;
    store dying = open();
    write(dying, m, 200);
    std::abort();
  });
  EXPECT_EQ(writer.wait(), -SIGABRT);
  store s = open();
  s.checkpoint().write(folder_ / "copy.ice");
  const store copy = open_copy(folder_ / "copy.ice");
  EXPECT_EQ(copy.keys(), s.keys());
  EXPECT_EQ(fingerprint(copy.latest()), fingerprint(s.latest()));
  EXPECT_EQ(copy.tags().size(), s.tags().size());
}

INSTANTIATE_TEST_SUITE_P(Modes, Checkpoint, ::testing::ValuesIn(all_settings()),
                         [](const auto& of) { return of.param.name(); });

TEST(CheckpointFile, never_takes_the_place_of_another) {
  const scratch folder;
  store s(folder / "one.ice");
  s.insert("key", "value");
  std::ofstream(folder / "there") << "something";
  expect_error(errc::store_exists, "there", [&] { s.checkpoint().write(folder / "there"); });
  expect_error(errc::store_exists, "one.ice", [&] { s.checkpoint().write(folder / "one.ice"); });
  expect_error(errc::io, "nowhere", [&] { s.checkpoint().write(folder / "nowhere" / "copy.ice"); });
  EXPECT_EQ(s.find("key"), "value");
}

TEST(CheckpointFile, may_be_on_another_file_system) {
  if (!root_of(place::disk)) GTEST_SKIP() << "this machine has memory file systems only";
  const scratch memory(place::tmpfs);
  const scratch disk(place::disk);
  for (const auto& [from, to] : {std::pair(&memory, &disk), std::pair(&disk, &memory)}) {
    store s(*from / "one.ice");
    s.insert("large", std::string(std::size_t{3} << 20, 'l'));  // more than a buffer
    for (int i = 0; i < 1000; ++i) s.insert(std::to_string(i), std::to_string(i));
    s.tag("then");
    const icecore::checkpoint cut = s.checkpoint();
    s.remove("large");
    cut.write(*to / "copy.ice");
    EXPECT_TRUE(verify_file(*to / "copy.ice").ok());
    const store copy(*to / "copy.ice");
    EXPECT_EQ(fingerprint(copy.latest()), fingerprint(s.at("then")));
  }
}

TEST(CheckpointFile, that_is_cut_or_changed_is_refused) {
  const scratch folder;
  const auto complete = folder / "copy.ice";
  {
    store s(folder / "one.ice");
    for (int i = 0; i < 2000; ++i) s.insert(std::to_string(i), std::string(200, 'v'));
    s.insert("large", std::string(50'000, 'l'));
    s.checkpoint().write(complete);
  }
  const std::string bytes = read_file(complete);
  options reading;
  reading.access = access::read_only;
  reading.check_values = true;
  const auto opens = [&](const std::string& content) {
    write_file(complete, content);
    try {
      static_cast<void>(store(complete, reading));
      return true;
    } catch (const error&) {
      return false;
    }
  };
  ASSERT_TRUE(opens(bytes));
  for (std::size_t size = 0; size < bytes.size(); size += 65'536) EXPECT_FALSE(opens(bytes.substr(0, size))) << size;
  for (std::size_t at = 65'536 + 700; at + 70'000 < bytes.size(); at += 9973) {
    if (bytes[at] == '\0') continue;
    std::string changed = bytes;
    changed[at] ^= 1;
    EXPECT_FALSE(opens(changed)) << "byte " << at;
  }
  std::string changed = bytes;
  changed[bytes.find("llll") + 100] ^= 1;
  EXPECT_FALSE(opens(changed)) << "a large value, which only check_values looks at";
  reading.check_values = false;
  EXPECT_TRUE(opens(changed));
}

class CopyAtOpening : public ::testing::Test {
 protected:
  CopyAtOpening() {
    store s(folder_ / "one.ice");
    for (int i = 0; i < 2000; ++i) s.insert(std::to_string(i), std::string(200, 'v'));
    batch together;
    for (int i = 0; i < 1000; ++i) together.insert("batched " + std::to_string(i), std::string(100, 'b'));
    s.apply(together);
    for (int i = 0; i < 10; ++i) s.insert("large", std::string(50'000, 'l'));
    s.checkpoint().write(from_);
    copying_.copy_of = from_;
  }
  void expect_refused(errc code, const std::string& part) const {
    expect_error(code, part, [&] { static_cast<void>(store(to_, copying_)); });
    EXPECT_FALSE(std::filesystem::exists(to_)) << "nothing is left";
  }

  const scratch folder_;
  const std::filesystem::path from_ = folder_ / "checkpoint.ice";
  const std::filesystem::path to_ = folder_ / "copy.ice";
  options copying_;
};

TEST_F(CopyAtOpening, refuses_what_is_cut_or_changed_and_names_it) {
  const std::string bytes = read_file(from_);
  for (std::size_t size = 0; size < bytes.size(); size += 65'536) {
    write_file(from_, bytes.substr(0, size));
    EXPECT_THROW(static_cast<void>(store(to_, copying_)), error) << size;
    EXPECT_FALSE(std::filesystem::exists(to_)) << size;
  }
  const auto refused_with = [&](std::size_t at, const std::string& part) {
    std::string changed = bytes;
    changed[at] ^= 1;
    write_file(from_, changed);
    expect_refused(errc::damaged, part);
  };
  for (std::size_t at = 65'536 + 700; at + 70'000 < bytes.size(); at += 9973) {
    if (bytes[at] != '\0') refused_with(at, from_.native());
  }
  refused_with(65'536 + 64 + 40, from_.native() + ": damaged at byte 65600");
  refused_with(bytes.find("llll") + 40'000, "the value fails its checksum");
  write_file(from_, bytes);
  EXPECT_EQ(store(to_, copying_).find("large"), std::string(50'000, 'l'));
}

TEST_F(CopyAtOpening, has_nothing_of_what_lies_behind_the_records) {
  const std::string bytes = read_file(from_);
  const std::size_t end = bytes.rfind("llll") + 4;
  ASSERT_LT(end + 200, bytes.size());
  std::string changed = bytes;
  changed.replace(end + 64, 100, std::string(100, '?'));
  write_file(from_, changed);
  {
    store copy(to_, copying_);
    for (int i = 0; i < 2000; ++i) copy.insert("more " + std::to_string(i), std::string(100, 'm'));
  }
  EXPECT_TRUE(verify_file(to_).ok());
  EXPECT_EQ(read_file(to_).find("????"), std::string::npos);
}

TEST_F(CopyAtOpening, is_of_a_closed_store_to_where_nothing_is) {
  write_file(to_, "something");
  expect_error(errc::store_exists, "copy.ice", [&] { static_cast<void>(store(to_, copying_)); });
  EXPECT_EQ(read_file(to_), "something");
  std::filesystem::remove(to_);
  {
    const store writing(from_);
    expect_refused(errc::locked, from_.native());
  }
  child writer([&]() -> int {
    store dying(from_);
    dying.insert("not", "closed");
    std::abort();
  });
  EXPECT_EQ(writer.wait(), -SIGABRT);
  expect_refused(errc::copied, from_.native());
  copying_.copy_of = folder_ / "nowhere";
  expect_refused(errc::no_such_store, "nowhere");
  copying_.access = access::read_only;
  expect_refused(errc::invalid_argument, "copy");
}

TEST_F(CopyAtOpening, of_which_a_kill_left_a_part_no_store_opens) {
  {
    store s(folder_ / "one.ice");
    s.insert("so large that progress is reported", std::string(std::size_t{70} << 20, 'l'));
    std::filesystem::remove(from_);
    s.checkpoint().write(from_);
  }
  for (const std::string_view step : {"copying", "reading records"}) {
    child copier([&]() -> int {
      options opening = copying_;
      opening.recovery_threads = 1;
      opening.on_progress = [&](const progress& now) {
        if (now.what == step) _exit(7);
      };
      const store copy(to_, opening);
      return 0;
    });
    EXPECT_EQ(copier.wait(), 7) << step;
    ASSERT_TRUE(std::filesystem::exists(to_)) << step;
    expect_error(errc::not_a_store, to_.native(), [&] { static_cast<void>(store(to_)); });
    EXPECT_FALSE(verify_file(from_).damages.size() > 0) << step;
    std::filesystem::remove(to_);
  }
}

TEST(CheckpointFile, is_not_there_before_it_is_whole) {
  const scratch folder;
  store s(folder / "one.ice");
  s.insert("large", std::string(std::size_t{80} << 20, 'l'));
  int reported = 0;
  const auto to = folder / "copy.ice";
  s.checkpoint().write(to, [&](const progress& p) {
    ++reported;
    EXPECT_LE(p.done, p.total);
    EXPECT_FALSE(std::filesystem::exists(to));
  });
  EXPECT_GE(reported, 3);
  EXPECT_TRUE(std::filesystem::exists(to));
  const auto stopped = folder / "stopped.ice";
  EXPECT_THROW(s.checkpoint().write(stopped, [](const progress&) { throw std::runtime_error("stop"); }),
               std::runtime_error);
  EXPECT_FALSE(std::filesystem::exists(stopped));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 2) << "nothing is left over";
  s.checkpoint().write(
      stopped, [&](const progress&) { expect_error(errc::locked, "stopped", [&] { s.checkpoint().write(stopped); }); });
  EXPECT_TRUE(verify_file(stopped).ok());
}

TEST(CheckpointFile, is_made_by_each_process_that_shares_the_store) {
  const scratch folder;
  options first;
  first.shared_as = folder / "common";
  store s(folder / "one.ice", first);
  options beside;
  beside.access = access::attached;
  beside.shared_as = first.shared_as;
  {
    store attached(folder / "one.ice", beside);
    attached.insert("from the other", "1");
    attached.checkpoint().write(folder / "its copy.ice");
  }
  EXPECT_EQ(store(folder / "its copy.ice").find("from the other"), "1");
  s.checkpoint().write(folder / "copy.ice");
  EXPECT_EQ(store(folder / "copy.ice").find("from the other"), "1");
  s.close();
  expect_error(errc::closed, "closed", [&] { static_cast<void>(s.checkpoint()); });
}

}  // namespace
}  // namespace icecore::testing
