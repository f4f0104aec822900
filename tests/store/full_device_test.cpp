// A full device: a clear error at growth, nothing acknowledged lost, everything readable, and the store goes on when
// there is more room.
#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>

#include "icecore/icecore.hpp"
#include "pool/query/query_space.hpp"
#include "store/core.hpp"
#include "support/expect.hpp"
#include "support/file.hpp"
#include "support/process.hpp"
#include "support/scratch.hpp"

namespace icecore::testing {
namespace {

/// Mounts a memory file system of `size` (as mount's option) that only this process sees and that ends with it. Empty
/// if that is not permitted; then errno says why.
std::optional<std::filesystem::path> small_device(const scratch& folder, const char* size) {
  static const bool separate = [] {
    if (unshare(CLONE_NEWNS) == 0) return true;
    const std::string uid = std::to_string(getuid());
    if (unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) return false;
    std::ofstream("/proc/self/uid_map") << "0 " << uid << " 1";
    return true;
  }();
  if (!separate) return std::nullopt;
  mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr);
  const auto path = folder / "device";
  std::filesystem::create_directory(path);
  const std::string size_option = std::string("size=").append(size);
  if (mount("tmpfs", path.c_str(), "tmpfs", 0, size_option.c_str()) != 0) return std::nullopt;
  return path;
}

class FullDevice : public ::testing::TestWithParam<setting> {
 protected:
  void SetUp() override {
    device_ = small_device(folder_, "8m");
    if (!device_) GTEST_SKIP() << "mounting a small tmpfs is not permitted here: " << std::strerror(errno);
  }
  void TearDown() override {
    if (device_) umount2(device_->c_str(), MNT_DETACH);
  }

  static std::string value_of(std::uint64_t n, std::size_t size) {
    std::string value = std::to_string(n);
    value.resize(size, static_cast<char>('a' + n % 26));
    return value;
  }
  /// How to open a copy of a closed store of `count` values, which lies elsewhere.
  [[nodiscard]] options copying_of(std::uint64_t count, std::size_t value_size) const {
    options copying = GetParam().options();
    copying.copy_of = folder_ / "original.ice";
    store s(copying.copy_of, GetParam().options());
    for (std::uint64_t n = 0; n < count; ++n) s.insert(std::to_string(n), value_of(n, value_size));
    return copying;
  }
  /// Inserts until there is no room. Returns how many inserts were acknowledged.
  static std::uint64_t fill(store& s, std::size_t value_size, std::uint64_t first = 0) {
    map<std::uint64_t, std::string> entries(s);
    for (std::uint64_t n = first;; ++n) {
      try {
        entries.insert(n, value_of(n, value_size));
        if (n % 100 == 0) s.tag();
      } catch (const error& failure) {
        EXPECT_EQ(failure.code().value(), static_cast<int>(errc::no_space)) << failure.what();
        EXPECT_NE(failure.message().find("full.ice"), std::string::npos) << failure.message();
        return n;
      }
    }
  }
  /// Leaves no page free.
  void fill_device() const {
    std::ofstream ballast(*device_ / "ballast", std::ios::binary);
    const std::string page(4096, 'b');
    while (ballast.write(page.data(), 4096) && ballast.flush()) {
    }
  }
  static std::uint64_t shown_of(const snapshot& of, std::string_view prefix) {
    std::uint64_t shown = 0;
    for (auto at = of.range(key_bounds::of_prefix(prefix)); const auto& each : at) shown += each.key.empty() ? 0 : 1;
    return shown;
  }
  static void expect_filled(const store& s, std::uint64_t count, std::size_t value_size) {
    std::uint64_t n = 0;
    for (const auto& [key, value] : typed_snapshot<std::uint64_t, std::string>(s.latest()).range()) {
      ASSERT_EQ(key, n);
      ASSERT_EQ(value, value_of(n, value_size));
      ++n;
    }
    EXPECT_EQ(n, count);
    EXPECT_TRUE(s.verify().ok());
  }

  scratch folder_;
  std::optional<std::filesystem::path> device_;
};

TEST_P(FullDevice, says_so_and_loses_nothing_and_goes_on_after_there_is_room) {
  const auto path = *device_ / "full.ice";
  const auto ballast = *device_ / "ballast";
  write_file(ballast, std::string(3 << 20, 'b'));
  std::uint64_t count = 0;
  {
    store s(path, GetParam().options());
    count = fill(s, 1000);
    EXPECT_GT(count, 1000U);
    for (int again = 0; again < 20; ++again) {  // it stays an error, and nothing happens
      expect_error(errc::no_space, "full.ice", [&] { s.insert("another", std::string(100'000, 'x')); });
    }
    EXPECT_EQ(s.find("another"), std::nullopt);
    expect_filled(s, count, 1000);
    std::filesystem::remove(ballast);
    const std::uint64_t more = fill(s, 1000, count);
    EXPECT_GT(more, count) << "it did not go on although there was room";
    count = more;
  }
  {
    options reading;
    reading.access = access::read_only;
    const store s(path, reading);
    expect_filled(s, count, 1000);
  }
  const store s(path, GetParam().options());
  expect_filled(s, count, 1000);
}

TEST_P(FullDevice, smaller_values_still_fit_after_a_large_one_did_not) {
  store s(*device_ / "full.ice", GetParam().options());
  s.insert("small", "1");
  expect_error(errc::no_space, "full.ice", [&] { s.insert("large", std::string(20 << 20, 'x')); });
  EXPECT_EQ(s.find("large"), std::nullopt);
  for (int i = 0; i < 1000; ++i) s.insert("small-" + std::to_string(i), "value");
  EXPECT_EQ(s.latest().size(), 1001U);
  s.close();
  EXPECT_EQ(store(*device_ / "full.ice", GetParam().options()).latest().size(), 1001U);
}

TEST_P(FullDevice, a_batch_that_does_not_fit_has_not_happened) {
  store s(*device_ / "full.ice", GetParam().options());
  s.insert("key-0", "before");
  batch large;
  for (int i = 0; i < 2000; ++i) large.insert("key-" + std::to_string(i), std::string(8000, 'x'));
  expect_error(errc::no_space, "full.ice", [&] { s.apply(large); });
  EXPECT_EQ(s.find("key-0"), "before");
  EXPECT_EQ(s.latest().size(), 1U);
  batch small;
  small.insert("key-0", "after");
  small.insert("key-1", "after");
  s.apply(small);
  EXPECT_EQ(s.latest().size(), 2U);
}

TEST_P(FullDevice, threads_that_fill_it_lose_nothing_acknowledged) {
  const auto path = *device_ / "full.ice";
  std::array<std::uint64_t, 4> acknowledged{};
  {
    store s(path, GetParam().options());
    in_threads(4, [&](unsigned thread) {
      map<std::pair<unsigned, std::uint64_t>, std::uint64_t> entries(s);
      try {
        for (std::uint64_t n = 0;; ++n) {
          entries.insert({thread, n}, n);
          acknowledged[thread] = n + 1;
        }
      } catch (const error& failure) {
        EXPECT_EQ(failure.code().value(), static_cast<int>(errc::no_space)) << failure.what();
      }
    });
  }
  store s(path, GetParam().options());
  map<std::pair<unsigned, std::uint64_t>, std::uint64_t> entries(s);
  for (unsigned thread = 0; thread < 4; ++thread) {
    for (std::uint64_t n = 0; n < acknowledged[thread]; ++n) ASSERT_EQ(entries.find({thread, n}), n);
  }
  EXPECT_EQ(s.stats().keys, acknowledged[0] + acknowledged[1] + acknowledged[2] + acknowledged[3]);
}

TEST_P(FullDevice, a_store_that_cannot_even_begin_leaves_nothing_behind) {
  const auto ballast = *device_ / "ballast";
  write_file(ballast, std::string(8 << 20, 'b'));
  const auto path = *device_ / "full.ice";
  expect_error(errc::no_space, "full.ice", [&] { const store s(path, GetParam().options()); });
  std::filesystem::remove(ballast);
  store s(path, GetParam().options());
  s.insert("a", "1");
}

TEST_P(FullDevice, a_full_store_can_be_tagged_or_says_why_not_and_closes) {
  const auto path = *device_ / "full.ice";
  std::uint64_t tagged = 0;
  {
    store s(path, GetParam().options());
    fill(s, 100);
    try {
      for (;; ++tagged) s.tag("tag-" + std::to_string(tagged), std::string(1000, 'n'));
    } catch (const error& failure) {
      EXPECT_EQ(failure.code().value(), static_cast<int>(errc::no_space)) << failure.what();
    }
    EXPECT_EQ(s.tags().size(), tagged);
    s.tag();  // without a record it needs no room
    s.close();
  }
  const store s(path, GetParam().options());
  EXPECT_EQ(s.tags().size(), tagged);
}

TEST_P(FullDevice, has_no_room_for_a_copy_and_is_left_as_it_was) {
  const options copying = copying_of(1000, 20'000);
  expect_error(errc::no_space, "copy.ice", [&] { static_cast<void>(store(*device_ / "copy.ice", copying)); });
  EXPECT_TRUE(std::filesystem::is_empty(*device_));
}

TEST_P(FullDevice, lacks_a_few_pages_for_a_copy_and_is_left_as_it_was) {
  const options copying = copying_of(100, 2'000);
  const std::uint64_t pages = std::filesystem::file_size(copying.copy_of) / 4096;
  for (std::uint64_t missing = 1; missing <= 4; ++missing) {
    const std::uint64_t free = std::filesystem::space(*device_).free / 4096;
    std::ofstream(*device_ / "filler") << std::string((free - pages + missing) * 4096, 'f');
    expect_error(errc::no_space, "copy.ice", [&] { static_cast<void>(store(*device_ / "copy.ice", copying)); });
    EXPECT_FALSE(std::filesystem::exists(*device_ / "copy.ice")) << missing;
    std::filesystem::remove(*device_ / "filler");
  }
}

/// A store elsewhere with ends of segments that nothing was written to, and with a segment that was given back in front
/// of others: none of that is copied into a checkpoint.
TEST_P(FullDevice, that_is_full_beside_a_checkpoint_still_reads_it_and_writes_to_it) {
  const auto path = *device_ / "full.ice";
  {
    store s(folder_ / "original.ice", GetParam().options());
    for (unsigned round = 0; round < 3; ++round) {
      in_threads(3, [&](unsigned thread) {
        for (std::uint64_t n = 0; n < 300; ++n)
          s.insert(std::to_string(thread) + "-" + std::to_string(n), value_of(n, 1000 + round));
      });
      s.tag("round-" + std::to_string(round));
      if (round != 2) static_cast<void>(s.compact());
    }
    s.checkpoint().write(path);
  }
  const auto expect_all = [](const store& s) {
    for (unsigned thread = 0; thread < 3; ++thread) {
      for (std::uint64_t n = 0; n < 300; ++n)
        ASSERT_EQ(s.find(std::to_string(thread) + "-" + std::to_string(n)), value_of(n, 1002));
    }
    EXPECT_TRUE(s.verify().ok());
  };
  fill_device();
  EXPECT_TRUE(verify_file(path).ok());
  options reading;
  reading.access = access::read_only;
  expect_all(store(path, reading));
  bool is_full = false;
  std::uint64_t written = 0;
  try {
    store s(path, GetParam().options());  // makes an index that lasts, for which there is no room
    expect_all(s);
    for (; written < 100'000; ++written) s.insert("new", std::to_string(written));
  } catch (const error& failure) {
    is_full = failure.code() == errc::no_space;
  }
  EXPECT_EQ(written > 0, GetParam().index != index_kind::persistent);
  EXPECT_TRUE(is_full);
  const store s(path, reading);
  expect_all(s);
  EXPECT_EQ(s.find("new"), written == 0 ? std::nullopt : std::optional(std::to_string(written - 1)));
}

/// However much room there is for opening it, for what was given back, and for its copies.
TEST_P(FullDevice, that_is_almost_full_beside_a_checkpoint_opens_it_or_says_why_not) {
  const auto path = *device_ / "full.ice";
  store original(folder_ / "original.ice", GetParam().options());
  for (unsigned round = 0; round < 4; ++round) {
    for (std::uint64_t n = 0; n < 300; ++n) original.insert(std::to_string(n), value_of(n, 1000 + round));
    original.insert("large", value_of(round, 300'000 + 100'000 * round));
    original.tag("round " + std::to_string(round));
    original.set_retention({.newest = 1});
    original.compact({.whole = true, .on_progress = {}});
  }
  original.insert("young", "1");
  options opening;  // of another durability than the store's may be: then an index that lasts is made anew
  opening.grow_in_background = false;
  for (std::uint64_t room = 0; room < 600'000; room += 3 * 4096) {
    SCOPED_TRACE(room);
    original.checkpoint().write(path);
    fill_device();
    const std::uint64_t filled = std::filesystem::file_size(*device_ / "ballast");
    std::filesystem::resize_file(*device_ / "ballast", filled > room ? filled - room : 0);
    bool is_full = false;
    try {
      store s(path, opening);
      for (unsigned n = 0; n < 100'000; ++n) s.insert("new " + std::to_string(n), "value");
    } catch (const error& failure) {
      is_full = failure.code() == errc::no_space;
    }
    EXPECT_TRUE(is_full);
    for (const char* each : {"ballast", "full.ice"}) std::filesystem::remove(*device_ / each);
  }
}

/// However much room there is: for all of it, and not for going on.
TEST_P(FullDevice, has_almost_no_room_for_a_copy_and_is_left_as_it_was_or_opens_it) {
  options copying = GetParam().options();
  copying.copy_of = folder_ / "original.ice";
  {
    store original(copying.copy_of, GetParam().options());
    for (unsigned round = 0; round < 3; ++round) {
      for (std::uint64_t n = 0; n < 300; ++n) original.insert(std::to_string(n), value_of(n, 500 + round));
      original.tag();
      original.compact();
    }
  }
  std::array<unsigned, 2> met{};
  for (std::uint64_t room = 200'000; met[1] < 5; room += 2 * 4096) {
    SCOPED_TRACE(room);
    fill_device();
    std::filesystem::resize_file(*device_ / "ballast", std::filesystem::file_size(*device_ / "ballast") - room);
    bool is_opened = true;
    try {
      const store s(*device_ / "copy.ice", copying);
    } catch (const error& failure) {
      EXPECT_EQ(failure.code().value(), static_cast<int>(errc::no_space)) << failure.what();
      is_opened = false;
    }
    ++met[is_opened ? 1 : 0];
    ASSERT_EQ(std::filesystem::exists(*device_ / "copy.ice"), is_opened);
    for (const char* each : {"copy.ice", "ballast"}) std::filesystem::remove(*device_ / each);
  }
  EXPECT_GT(met[0], 5U);
}

TEST_P(FullDevice, has_no_room_for_a_checkpoint_and_is_left_as_it_was) {
  store s(folder_ / "original.ice", GetParam().options());
  for (std::uint64_t n = 0; n < 1000; ++n) s.insert(std::to_string(n), value_of(n, 1000));
  fill_device();
  for (unsigned pages = 0; pages < 40; ++pages) {
    expect_error(errc::no_space, "copy.ice", [&] { s.checkpoint().write(*device_ / "copy.ice"); });
    std::filesystem::resize_file(*device_ / "ballast", std::filesystem::file_size(*device_ / "ballast") - 4096);
  }
  std::filesystem::remove(*device_ / "ballast");
  EXPECT_TRUE(std::filesystem::is_empty(*device_));
  s.checkpoint().write(*device_ / "copy.ice");
  EXPECT_TRUE(verify_file(*device_ / "copy.ice").ok());
}

/// A compaction that leaves nothing of forgotten keys gives the blocks of segments back that queries use again.
TEST_P(FullDevice, has_no_room_for_a_query_and_says_so) {
  for (const auto& what : {"query", "feed and hold", "run"}) {
    SCOPED_TRACE(what);
    const auto path = *device_ / "full.ice";
    options opening = GetParam().options();
    opening.grow_in_background = false;
    store s(path, opening);
    for (std::uint64_t n = 0; n < 500; ++n) s.insert(std::to_string(n), value_of(n, 100));
    s.tag("one");
    for (const char* name : {"first", "second", "third"}) {
      s.start({.name = name, .select = {"key", "value"}}).run({.every_item = true});
    }
    s.forget({.keys = {"7"}});
    ASSERT_TRUE(s.compact().erased);
    const std::uint64_t used = s.stats().used_bytes;
    const auto start_and_run = [&] { s.start({.name = "new", .select = {"key", "value"}}).run({.every_item = true}); };
    if (what == std::string("run")) {
      s.start({.name = "new", .select = {"key", "value"}}).run({.every_item = true, .keys = 1});
    } else if (what == std::string("feed and hold")) {
      static_cast<void>(s.feed({.name = "of all", .after = 1, .snapshot = true}));
      s.hold_version("one");
    }
    fill_device();
    if (what == std::string("feed and hold")) {
      s.checkpoint().write(folder_ / "copy.ice");
      EXPECT_TRUE(verify_file(folder_ / "copy.ice").ok());
      std::filesystem::remove(folder_ / "copy.ice");
      EXPECT_TRUE(s.verify().ok());
    } else {
      if (what == std::string("run")) {
        expect_error(errc::no_space, "full.ice", [&] { s.query("new").run({.every_item = true}); });
      } else {
        expect_error(errc::no_space, "full.ice", start_and_run);
      }
      EXPECT_TRUE(s.verify().ok());
      std::filesystem::remove(*device_ / "ballast");
      if (s.queries().empty()) {
        start_and_run();
      } else {
        s.query("new").run();
      }
      EXPECT_EQ(s.query("new").rows().size(), 499U);
      EXPECT_LE(s.stats().used_bytes, used) << "it uses the space of those that were dropped";
    }
    s.close();
    for (const auto& each : std::filesystem::directory_iterator(*device_)) std::filesystem::remove(each);
  }
}

/// As a copy that leaves out pages of zeros.
TEST_P(FullDevice, that_is_full_beside_segments_of_queries_with_holes_reads_none) {
  const auto path = *device_ / "full.ice";
  std::vector<segment> of_queries;
  {
    store s(path, GetParam().options());
    for (std::uint64_t n = 0; n < 100; ++n) s.insert(std::to_string(n), value_of(n, 100));
    s.tag("one");
    static_cast<void>(s.feed({.name = "of all", .after = 1, .snapshot = true}));
    s.hold_version("one");
    s.start({.name = "all"}).run();
    s.start({.name = "begun"}).run({.keys = 10});
    of_queries = listed_query_segments(s.core().the_pool());
  }
  const std::string bytes = read_file(path);
  const int file = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  ASSERT_GE(file, 0);
  for (const segment& s : of_queries) {
    for (std::uint64_t at = link_offset(s.offset); at < link_offset(s.end()); at += format::page_size) {
      if (bytes.find_first_not_of('\0', at) < at + format::page_size) continue;
      constexpr int punch = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;
      ASSERT_EQ(::fallocate(file, punch, static_cast<off_t>(at), format::page_size), 0);
    }
  }
  ::close(file);
  fill_device();
  options reading;
  reading.access = access::read_only;
  const store s(path, reading);
  s.checkpoint().write(folder_ / "copy.ice");
  EXPECT_TRUE(verify_file(folder_ / "copy.ice").ok());
  EXPECT_EQ(store(folder_ / "copy.ice", reading).queries().size(), 2U);
}

TEST_P(FullDevice, has_no_room_for_an_index_that_lasts_and_the_store_keeps_the_one_it_has) {
  if (GetParam().index == index_kind::persistent) GTEST_SKIP() << "it has that index";
  const auto path = *device_ / "full.ice";
  std::uint64_t count = 0;
  {
    store s(path, GetParam().options());
    count = fill(s, 8);
  }
  options change = GetParam().options();
  change.index = index_kind::persistent;
  change.change_index = true;
  expect_error(errc::no_space, "full.ice", [&] { const store s(path, change); });
  for (int i = 0; i < 2; ++i) {
    const store s(path, GetParam().options());
    EXPECT_EQ(s.stats().index, GetParam().index);
    expect_filled(s, count, 8);
  }
}

TEST_P(FullDevice, that_holds_one_of_several_files_leaves_its_writers_to_the_others) {
  const scratch roomy;  // elsewhere in memory
  options opening = GetParam().options();
  opening.placements = {{roomy / "secondary.ice", -1}};
  const auto path = *device_ / "full.ice";
  constexpr std::uint64_t in_all = 30'000;  // 30 MB: the device has 8
  {
    store s(path, opening);
    map<std::uint64_t, std::string> entries(s);
    for (std::uint64_t n = 0; n < in_all; ++n) entries.insert(n, value_of(n, 1000));
    EXPECT_GT(s.stats().files[1].used_bytes, std::uint64_t{20} << 20);
    s.close();
  }
  options reading;
  reading.access = access::read_only;
  expect_filled(store(path, reading), in_all, 1000);
}

TEST_P(FullDevice, says_so_only_once_all_files_are_full) {
  options opening = GetParam().options();
  opening.placements = {{*device_ / "second full.ice", -1}, {*device_ / "third full.ice", -1}};
  const auto path = *device_ / "full.ice";
  store s(path, opening);
  const std::uint64_t count = fill(s, 1000);
  EXPECT_GT(count, 1000U);
  expect_filled(s, count, 1000);
  s.close();
  expect_filled(store(path, GetParam().options()), count, 1000);
}

/// A request that has no room for the removals which belong to it would erase what nobody was told about.
TEST_P(FullDevice, has_no_room_to_forget_keys_and_nothing_is_forgotten) {
  const auto path = *device_ / "full.ice";
  constexpr std::uint64_t count = 12'000;
  options opening = GetParam().options();
  opening.grow_in_background = false;
  store s(path, opening);
  for (std::uint64_t n = 0; n < count; ++n) s.insert(fmt::format("user/{:05}", n), "value");
  const version all = s.tag();
  write_file(*device_ / "room for a request", std::string(192 << 10, 'r'));
  fill(s, 1000);
  std::filesystem::remove(*device_ / "room for a request");
  expect_error(errc::no_space, "full.ice", [&] { s.forget({.prefixes = {"user/"}}); });
  EXPECT_EQ(shown_of(s.latest(), "user/"), count);
  s.close();
  // where there is room
  std::filesystem::copy_file(path, folder_ / "roomy.ice");
  store roomy(folder_ / "roomy.ice", opening);
  roomy.compact();
  EXPECT_EQ(shown_of(roomy.at(all), "user/"), count);
  EXPECT_EQ(roomy.forget({.prefixes = {"user/"}}).keys, count);
  EXPECT_TRUE(roomy.compact().erased);
  EXPECT_EQ(shown_of(roomy.at(all), "user/"), 0U);
  EXPECT_TRUE(roomy.verify().ok());
}

/// A checkpoint has holes. Opened with the index that lasts, they are segments, of which no more than a page may be
/// there.
TEST_P(FullDevice, is_read_where_a_killed_process_has_left_segments_that_are_holes) {
  const auto path = *device_ / "full.ice";
  {
    store s(folder_ / "original.ice", GetParam().options());
    for (std::uint64_t n = 0; n < 1'000; ++n) s.insert(std::to_string(n), value_of(n, 100));
    s.insert("large", std::string(600'000, 'l'));
    s.tag();
    s.checkpoint().write(path);
  }
  options opening = GetParam().options();
  opening.grow_in_background = false;
  opening.copy_of.clear();
  child killed([&] {
    static store s(path, opening);
    s.insert("one", "1");
    s.tag();
    ::kill(getpid(), SIGKILL);
    return 0;
  });
  ASSERT_EQ(killed.wait(), -SIGKILL);
  fill_device();
  options reading;
  reading.access = access::read_only;
  EXPECT_TRUE(verify_file(path).ok());
  EXPECT_EQ(store(path, reading).find("1"), value_of(1, 100));
  reading.accept_damage = true;
  EXPECT_EQ(store(path, reading).find("2"), value_of(2, 100));
  std::filesystem::remove(*device_ / "ballast");
  const store s(path, opening);
  EXPECT_EQ(s.find("3"), value_of(3, 100));
  EXPECT_TRUE(s.verify().ok());
}

/// With room in another file, a packed store makes its index there.
TEST_P(FullDevice, of_the_first_of_several_files_does_not_keep_a_packed_store_from_being_opened) {
  const scratch roomy;
  options opening = GetParam().options();
  opening.placements = {{roomy / "secondary.ice", -1}};
  opening.grow_in_background = false;
  const auto path = *device_ / "full.ice";
  {
    store s(path, opening);
    for (std::uint64_t n = 0; n < 5'000; ++n) s.insert(std::to_string(n), value_of(n, 200));
    s.tag();
    EXPECT_TRUE(s.compact().packed);
  }
  fill_device();
  for (int again = 0; again < 2; ++again) {
    store s(path, opening);
    EXPECT_EQ(s.find("1"), value_of(1, 200));
    s.insert("again " + std::to_string(again), "there");
    EXPECT_TRUE(s.verify().ok());
  }
  EXPECT_EQ(store(path, opening).find("again 1"), "there");
}

INSTANTIATE_TEST_SUITE_P(EveryDurability, FullDevice, ::testing::ValuesIn(tmpfs_settings()),
                         [](const auto& tested) { return tested.param.name(); });

}  // namespace
}  // namespace icecore::testing
