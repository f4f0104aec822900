// Opening what is not a store, no longer a store, or not allowed: always a clear error, and nothing is changed.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <fstream>

#include "base/checksum.hpp"
#include "icecore/icecore.hpp"
#include "pool/format.hpp"
#include "support/expect.hpp"
#include "support/file.hpp"
#include "support/process.hpp"
#include "support/roots.hpp"
#include "support/scratch.hpp"

namespace icecore::testing {
namespace {

class Opening : public ::testing::Test {
 protected:
  scratch folder_;
  std::filesystem::path path_ = folder_ / "store.ice";

  void make_store() const {
    store made(path_);
    made.insert("a", "1");
    made.tag("one");
    made.insert("a", "2");
    made.close();
  }
  void make_store_anew() const {
    std::filesystem::remove(path_);
    make_store();
  }
  static options reading() {
    options opening;
    opening.access = access::read_only;
    return opening;
  }
  static options existing() {
    options opening;
    opening.creation = creation::open_existing;
    return opening;
  }
  /// Expects that every way of opening fails with this error, and that the file stays as it is.
  void expect_refused(errc code, const std::string& part = "") const {
    const std::string before = read_file(path_);
    for (const options& opening : {options{}, reading(), existing()}) {
      expect_error(code, part, [&] { const store opened(path_, opening); });
    }
    EXPECT_TRUE(read_file(path_) == before) << "a refused file was changed";
  }
};

TEST_F(Opening, nothing_is_at_the_path) {
  expect_error(errc::no_such_store, path_.native(), [&] { const store opened(path_, reading()); });
  expect_error(errc::no_such_store, path_.native(), [&] { const store opened(path_, existing()); });
  EXPECT_FALSE(std::filesystem::exists(path_));
  expect_error(errc::no_such_store, path_.native(), [&] { static_cast<void>(verify_file(path_)); });
}

TEST_F(Opening, the_folder_is_missing) {
  const auto path = folder_ / "no" / "such" / "store.ice";
  EXPECT_THROW(store opened(path), error);
  expect_error(errc::no_such_store, "store.ice", [&] { const store opened(path, reading()); });
}

TEST_F(Opening, something_is_there_but_a_new_store_was_asked_for) {
  make_store();
  options opening;
  opening.creation = creation::create_new;
  expect_error(errc::store_exists, path_.native(), [&] { const store opened(path_, opening); });
  EXPECT_EQ(store(path_).find("a"), "2");
}

TEST_F(Opening, a_folder_is_no_store) {
  for (const options& opening : {options{}, reading(), existing()}) {
    expect_error(errc::not_a_store, folder_.path().native(), [&] { const store opened(folder_.path(), opening); });
  }
  expect_error(errc::not_a_store, "", [&] { static_cast<void>(verify_file(folder_.path())); });
}

TEST_F(Opening, a_device_a_pipe_and_a_socket_are_no_stores) {
  const auto pipe = folder_ / "pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  for (const std::filesystem::path& path :
       {std::filesystem::path("/dev/null"), std::filesystem::path("/dev/zero"), pipe}) {
    for (const options& opening : {options{}, reading()}) {
      const deadline no_waiting("opening " + path.string(), std::chrono::seconds(20));
      expect_error(errc::not_a_store, path.native(), [&] { const store opened(path, opening); });
    }
  }
}

TEST_F(Opening, a_symbolic_link_leads_to_its_store) {
  make_store();
  const auto link = folder_ / "link.ice";
  std::filesystem::create_symlink(path_, link);
  {
    store opened(link);
    EXPECT_EQ(opened.find("a"), "2");
    expect_error(errc::locked, "", [&] { const store second(path_); });
    opened.insert("a", "3");
  }
  EXPECT_EQ(store(path_).find("a"), "3");
}

TEST_F(Opening, a_symbolic_link_to_nothing_is_reported) {
  const auto link = folder_ / "link.ice";
  std::filesystem::create_symlink(folder_ / "nothing", link);
  expect_error(errc::no_such_store, "link.ice", [&] { const store opened(link, reading()); });
  const auto loop = folder_ / "loop";
  std::filesystem::create_symlink(loop, loop);
  EXPECT_THROW(store opened(loop), error);
}

TEST_F(Opening, without_permission_it_says_so) {
  make_store();
  // root may do everything: try as user nobody, in a child
  ASSERT_EQ(chmod(path_.c_str(), 0), 0);
  ASSERT_EQ(chmod(folder_.path().c_str(), 0755), 0);
  child other([&] {
    if (getuid() == 0 && (setgid(65'534) != 0 || setuid(65'534) != 0)) return 77;
    for (const options& opening : {options{}, reading()}) {
      try {
        const store opened(path_, opening);
        return 1;
      } catch (const error& failure) {
        if (failure.code() != errc::permission) {
          std::fprintf(stderr, "%s\n", failure.what());
          return 2;
        }
      }
    }
    try {
      const store opened(folder_ / "new.ice");  // in a folder that is not ours
      return 3;
    } catch (const error& failure) {
      return failure.code() == errc::permission ? 0 : 4;
    }
  });
  const int end = other.wait();
  if (end == 77) GTEST_SKIP() << "cannot become another user";
  if (getuid() != 0) {
    EXPECT_TRUE(end == 0 || end == 3);
  } else {
    EXPECT_EQ(end, 0);
  }
}

TEST_F(Opening, a_file_without_permission_to_write_can_be_read) {
  make_store();
  ASSERT_EQ(chmod(path_.c_str(), 0444), 0);
  ASSERT_EQ(chmod(folder_.path().c_str(), 0555), 0);
  child other([&] {
    if (getuid() == 0 && (setgid(65'534) != 0 || setuid(65'534) != 0)) return 77;
    const store opened(path_, reading());
    if (opened.find("a") != "2") return 1;
    try {
      const store writing(path_);
      return 2;
    } catch (const error& failure) {
      return failure.code() == errc::permission ? 0 : 3;
    }
  });
  EXPECT_EQ(other.wait(), 0);
  ASSERT_EQ(chmod(folder_.path().c_str(), 0755), 0);
}

TEST_F(Opening, foreign_files_are_no_stores) {
  for (const std::string& content :
       {std::string("#!/bin/sh\necho hello\n"), std::string("SQLite format 3") + std::string(100'000, '\0'),
        std::string("\x7f"
                    "ELF") +
            std::string(3'000'000, 'x'),
        std::string(4096, 'a'), std::string(1, 'I'), std::string("ICECORE"), std::string(2 << 20, '\xff')}) {
    write_file(path_, content);
    SCOPED_TRACE(content.substr(0, 8));
    expect_refused(errc::not_a_store, path_.native());
    expect_error(errc::not_a_store, "", [&] { static_cast<void>(verify_file(path_)); });
  }
}

TEST_F(Opening, an_empty_file_and_a_file_of_zeros_are_no_stores_to_read) {
  for (const std::size_t size : {0U, 1U, 4096U, 65'536U, 3U << 20}) {
    write_file(path_, std::string(size, '\0'));
    SCOPED_TRACE(size);
    expect_error(errc::not_a_store, path_.native(), [&] { const store opened(path_, reading()); });
    EXPECT_EQ(read_file(path_).size(), size);
  }
}

TEST_F(Opening, a_store_that_was_overwritten_with_zeros_does_not_come_back_as_a_new_one) {
  make_store();
  const std::size_t size = read_file(path_).size();
  for (const std::size_t zeros : {size, std::size_t{1} << 20, std::size_t{3} << 20}) {
    write_file(path_, std::string(zeros, '\0'));
    expect_refused(errc::not_a_store, "zeros where a store's roots are");
  }
  std::string without_roots = (make_store_anew(), read_file(path_));
  without_roots.replace(0, format::live_page_offset, format::live_page_offset, '\0');
  write_file(path_, without_roots);
  expect_refused(errc::not_a_store, "zeros where a store's roots are");
}

TEST_F(Opening, a_long_file_with_nothing_in_it_is_no_store) {
  write_file(path_, "");
  std::filesystem::resize_file(path_, std::uintmax_t{8} << 40);
  for (const options& opening : {options{}, reading(), existing()}) {
    expect_error(errc::not_a_store, path_.native(), [&] { const store opened(path_, opening); });
  }
  expect_error(errc::not_a_store, path_.native(), [&] { static_cast<void>(verify_file(path_)); });
}

TEST_F(Opening, a_truncated_store_says_so_whatever_its_length) {
  make_store();
  const std::string complete = read_file(path_);
  for (std::size_t size = 1; size < complete.size(); size += size < 20'000 ? 509 : 60'013) {
    write_file(path_, complete.substr(0, size));
    SCOPED_TRACE("cut at " + std::to_string(size));
    for (const options& opening : {options{}, reading()}) {
      try {
        const store opened(path_, opening);
        ADD_FAILURE() << "opened";
      } catch (const error& failure) {
        EXPECT_TRUE(failure.code() == errc::truncated || failure.code() == errc::not_a_store ||
                    failure.code() == errc::damaged)
            << failure.what();
        EXPECT_TRUE(size < 12'288 || failure.code() == errc::truncated) << failure.what();
      }
    }
    EXPECT_EQ(std::filesystem::file_size(path_), size) << "a refused file was changed";
    try {
      EXPECT_FALSE(verify_file(path_).ok());
    } catch (const error& failure) {
      EXPECT_TRUE(failure.code() == errc::truncated || failure.code() == errc::not_a_store) << failure.what();
    }
  }
}

TEST_F(Opening, a_store_of_another_format_is_refused_with_its_version) {
  make_store();
  const std::string sound = read_file(path_);
  write_file(path_, with_roots_changed(sound, [](format::root&) {}));
  EXPECT_EQ(store(path_, reading()).find("a"), "2") << "the test itself spoils the file";
  write_file(path_, with_roots_changed(sound, [](format::root& root) { root.version_major = 77; }));
  expect_refused(errc::unsupported_format, "77");
  write_file(path_, with_roots_changed(sound, [](format::root& root) { root.byte_order = 0x04030201U; }));
  expect_refused(errc::unsupported_format);
}

TEST_F(Opening, a_store_that_this_library_cannot_have_made_is_refused) {
  make_store();
  const std::string sound = read_file(path_);
  const auto expect_root_refused = [&](errc code, const std::string& part, const auto& change) {
    write_file(path_, with_roots_changed(sound, change));
    expect_refused(code, part);
  };
  expect_root_refused(errc::unsupported_format, "granules of 8192", [](auto& root) { root.granule_size = 8192; });
  expect_root_refused(errc::unsupported_format, "file 1 of 2", [](auto& root) { root.pool_count = 2; });
  expect_root_refused(errc::unsupported_format, "file 2 of 1", [](auto& root) { root.pool_number = 1; });
  expect_root_refused(errc::unsupported_format, "index 9", [](auto& root) { root.index = 9; });
  expect_root_refused(errc::damaged, "bytes, which is impossible", [](auto& root) { root.file_size = 4096; });
  expect_root_refused(errc::damaged, "bytes, which is impossible", [](auto& root) { root.file_size += 1; });
  for (const std::uint64_t end : {std::uint64_t{0}, format::first_segment_offset - 1}) {
    expect_root_refused(errc::damaged, "bytes are used, which is impossible", [&](auto& root) { root.used_end = end; });
  }
  expect_root_refused(errc::damaged, "version 1 is open", [](auto& root) {
    root.clock = 1;
    root.clock_limit = version_max + 1;
  });
  // ranges of lost versions ascend, do not touch, and contain only closed versions
  const auto with_lost = [](std::vector<format::lost_versions> ranges) {
    return [ranges = std::move(ranges)](auto& root) {
      root.clock = 9;
      std::ranges::copy(ranges, root.lost);
    };
  };
  for (const std::vector<format::lost_versions>& wrong : {std::vector<format::lost_versions>{{5, 5}},
                                                          {{5, 4}},
                                                          {{0, 4}},
                                                          {{5, 10}},
                                                          {{2, 4}, {4, 5}},
                                                          {{5, 6}, {2, 3}},
                                                          {{0, 0}, {2, 3}}}) {
    expect_root_refused(errc::damaged, "has an impossible list of lost versions", with_lost(wrong));
  }
  write_file(path_, with_roots_changed(sound, with_lost({{2, 4}, {5, 9}})));
  EXPECT_EQ(store(path_, reading()).lost_versions().ranges().size(), 2U);
  // a store of one file names no other file, and no store names a file that it does not have
  expect_root_refused(errc::unsupported_format, "file 1 of 1", [](auto& root) { root.files.path_size[1] = 5; });
  expect_root_refused(errc::unsupported_format, "file 1 of 17", [](auto& root) { root.pool_count = 17; });
}

TEST_F(Opening, what_is_asked_for_must_fit_together) {
  make_store();
  const std::string before = read_file(path_);
  options reindexed = reading();
  reindexed.change_index = true;
  expect_error(errc::invalid_argument, "index", [&] { const store opened(path_, reindexed); });
  options copied = existing();
  copied.copy_of = path_;
  expect_error(errc::invalid_argument, "a copy is a new store",
               [&] { const store opened(folder_ / "copy.ice", copied); });
  copied = reading();
  copied.copy_of = path_;
  expect_error(errc::invalid_argument, "a copy is a new store",
               [&] { const store opened(folder_ / "copy.ice", copied); });
  EXPECT_FALSE(std::filesystem::exists(folder_ / "copy.ice"));
  options spread;
  spread.placements = {{folder_ / "secondary.ice", -1}};
  expect_error(errc::invalid_argument, "is a store of one file", [&] { const store opened(path_, spread); });
  EXPECT_EQ(read_file(path_), before);
}

TEST_F(Opening, a_store_of_the_other_byte_order_is_recognised_by_its_magic) {
  make_store();
  std::string file = read_file(path_);
  for (const std::uint64_t offset : {format::root_a_offset, format::root_b_offset}) {
    std::reverse(file.begin() + static_cast<std::ptrdiff_t>(offset),
                 file.begin() + static_cast<std::ptrdiff_t>(offset) + 8);
  }
  write_file(path_, file);
  expect_refused(errc::unsupported_format, "other byte order");
}

TEST_F(Opening, a_store_whose_roots_are_both_damaged_says_so) {
  make_store();
  std::string file = read_file(path_);
  for (const std::uint64_t offset : {format::root_a_offset, format::root_b_offset}) file[offset + 100] ^= 1;
  write_file(path_, file);
  expect_refused(errc::damaged, "both root pages are damaged");
}

TEST_F(Opening, an_empty_file_becomes_a_store_only_where_creating_was_asked_for) {
  write_file(path_, "");
  expect_error(errc::no_such_store, "is empty", [&] { const store opened(path_, existing()); });
  EXPECT_EQ(read_file(path_), "");
  make_store();
  EXPECT_EQ(store(path_, existing()).find("a"), "2");
}

TEST_F(Opening, a_store_of_a_later_minor_format_is_read_but_not_written) {
  make_store();
  write_file(path_, with_roots_changed(read_file(path_), [](format::root& root) { root.version_minor = 88; }));
  EXPECT_EQ(store(path_, reading()).find("a"), "2");
  const std::string before = read_file(path_);
  expect_error(errc::unsupported_format, "88", [&] { const store opened(path_); });
  EXPECT_TRUE(read_file(path_) == before) << "a refused file was changed";
}

TEST_F(Opening, bytes_behind_the_end_do_no_harm) {
  make_store();
  std::string complete = read_file(path_);
  write_file(path_, complete + std::string(200'000, '\0'));
  store opened(path_);
  EXPECT_EQ(opened.find("a"), "2");
  opened.insert("b", std::string(5 << 20, 'b'));
  opened.close();
  EXPECT_EQ(store(path_).find("b")->size(), 5U << 20);
}

TEST_F(Opening, after_a_refusal_the_store_opens_as_before) {
  make_store();
  const std::string complete = read_file(path_);
  std::string cut = complete.substr(0, complete.size() / 2);
  write_file(path_, cut);
  EXPECT_THROW(store opened(path_), error);
  write_file(path_, complete);
  const store again(path_);
  EXPECT_EQ(again.find("a"), "2");
  EXPECT_EQ(again.at("one").find("a"), "1");
}

TEST_F(Opening, closed_and_moved_from_stores_say_so) {
  make_store();
  store first(path_);
  const snapshot then = first.at("one");
  store second(std::move(first));
  EXPECT_FALSE(first.is_open());  // NOLINT(bugprone-use-after-move): that is what is tested
  EXPECT_EQ(then.find("a"), "1") << "snapshots survive a move";
  const auto expect_closed = [](store& closed) {
    expect_error(errc::closed, "", [&] { static_cast<void>(closed.find("a")); });
    expect_error(errc::closed, "", [&] { static_cast<void>(closed.find("a", 1)); });
    expect_error(errc::closed, "", [&] { closed.insert("a", "3"); });
    expect_error(errc::closed, "", [&] { static_cast<void>(closed.remove("a")); });
    expect_error(errc::closed, "", [&] { closed.apply(batch{}); });
    expect_error(errc::closed, "", [&] { closed.tag(); });
    expect_error(errc::closed, "", [&] { closed.tag("two"); });
    expect_error(errc::closed, "", [&] { closed.sync(); });
    expect_error(errc::closed, "", [&] { static_cast<void>(closed.at(version{1})); });
    expect_error(errc::closed, "", [&] { static_cast<void>(closed.at("one")); });
    expect_error(errc::closed, "", [&] { static_cast<void>(closed.latest()); });
    expect_error(errc::closed, "", [&] { static_cast<void>(closed.history("a")); });
    expect_error(errc::closed, "", [&] { static_cast<void>(closed.diff(0, 1)); });
    expect_error(errc::closed, "", [&] { static_cast<void>(closed.clock()); });
    expect_error(errc::closed, "", [&] { static_cast<void>(closed.tags()); });
    expect_error(errc::closed, "", [&] { static_cast<void>(closed.find_tag("one")); });
    expect_error(errc::closed, "", [&] { static_cast<void>(closed.durability()); });
    expect_error(errc::closed, "", [&] { static_cast<void>(closed.stats()); });
    expect_error(errc::closed, "", [&] { static_cast<void>(closed.verify()); });
    expect_error(errc::closed, "", [&] { static_cast<void>(closed.read_only()); });
  };
  expect_closed(first);
  EXPECT_EQ(second.find("a"), "2");
  second.close();
  EXPECT_FALSE(second.is_open());
  expect_closed(second);
  second.close();  // again: nothing happens
  second = store(path_);
  EXPECT_EQ(second.find("a"), "2");
}

}  // namespace
}  // namespace icecore::testing
