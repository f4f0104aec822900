// Which stores a process may attach to: the one that is open now and shared as the file it names, and no other.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <functional>
#include <string>
#include <string_view>

#include "failing_calls.hpp"
#include "icecore/icecore.hpp"
#include "pool/format.hpp"
#include "store/shared_state.hpp"
#include "support/expect.hpp"
#include "support/file.hpp"
#include "support/model.hpp"
#include "support/process.hpp"
#include "support/scratch.hpp"
#include "support/shared_store.hpp"

namespace icecore::testing {
namespace {

constexpr int keys = 100;

void write(store& s, const std::string& value) {
  for (int i = 0; i < keys; ++i) s.insert("key " + std::to_string(i), value);
}

[[nodiscard]] bool all_are(const store& s, const std::string& value) {
  for (int i = 0; i < keys; ++i) {
    if (s.find("key " + std::to_string(i)) != value) return false;
  }
  return true;
}

class Attaching : public SharedStore {
 protected:
  /// A process that is killed with the store open.
  static void in_a_process_that_is_killed(const std::function<void()>& work) {
    child one([&] {
      work();
      ::kill(getpid(), SIGKILL);
      return 0;
    });
    ASSERT_EQ(one.wait(), -SIGKILL);
  }
  void share_and_be_killed() const {
    in_a_process_that_is_killed([&] {
      static store s(path_, first());
      write(s, "first");
      s.tag("first");
    });
  }
};

TEST_P(Attaching, through_what_a_killed_process_left_leads_to_no_store_that_was_closed_since) {
  share_and_be_killed();
  {
    store s(path_, GetParam().options());
    write(s, "second");
    s.close();
  }
  expect_error(errc::closed, "opened since", [&] { const store s(path_, beside()); });
  const store s(path_, GetParam().options());
  EXPECT_TRUE(all_are(s, "second"));
  EXPECT_TRUE(s.verify().ok());
}

TEST_P(Attaching, through_what_a_killed_process_left_leads_to_no_store_whose_next_process_was_killed_too) {
  share_and_be_killed();
  in_a_process_that_is_killed([&] {
    static store s(path_, GetParam().options());
    write(s, "second");
  });
  expect_error(errc::closed, "opened since", [&] { const store s(path_, beside()); });
  EXPECT_TRUE(all_are(store(path_, GetParam().options()), "second"));
}

TEST_P(Attaching, through_what_a_killed_process_left_leads_to_no_store_that_is_shared_as_another_file) {
  share_and_be_killed();
  options again = first();
  again.shared_as = memory_ / "another";
  store s(path_, again);
  write(s, "second");
  expect_error(errc::closed, "opened since", [&] { const store stale(path_, beside()); });
  options right = beside();
  right.shared_as = again.shared_as;
  store attached(path_, right);
  EXPECT_TRUE(all_are(attached, "second"));
  attached.insert("key 0", "attached");
  EXPECT_EQ(s.find("key 0"), "attached");
}

TEST_P(Attaching, to_a_store_that_is_open_and_not_shared_is_refused_at_once_and_says_so) {
  share_and_be_killed();
  {
    const store s(path_, GetParam().options());
    expect_error(errc::locked, "does not share it", [&] { const store stale(path_, beside()); });
  }
  options reading;
  reading.access = access::read_only;
  const store s(path_, reading);
  expect_error(errc::locked, "for reading and does not share it", [&] { const store stale(path_, beside()); });
}

TEST_P(Attaching, to_a_copy_of_what_is_shared_is_refused_whenever_it_was_made) {
  const auto before = folder_ / "before.ice";
  const auto meanwhile = folder_ / "meanwhile.ice";
  const auto checkpoint = folder_ / "checkpoint.ice";
  {
    store s(path_, GetParam().options_at(path_));
    write(s, "old");
    s.close();
  }
  std::filesystem::copy_file(path_, before);
  store s(path_, first());
  write(s, "new");
  std::filesystem::copy_file(path_, meanwhile);
  static_cast<void>(s.checkpoint().write(checkpoint));
  for (const auto& copy : {before, meanwhile, checkpoint}) {
    expect_error(errc::invalid_argument, "or a copy", [&] { const store wrong(copy, beside()); });
    options accepting = beside();
    accepting.accept_copy = true;
    expect_error(errc::invalid_argument, "or a copy", [&] { const store wrong(copy, accepting); });
  }
  EXPECT_TRUE(all_are(store(path_, beside()), "new"));
}

INSTANTIATE_TEST_SUITE_P(EverySetting, Attaching,
                         ::testing::Values(setting{place::tmpfs, durability::none},
                                           setting{place::tmpfs, durability::operation, index_kind::skip_list},
                                           setting{place::tmpfs, durability::operation, index_kind::list},
                                           setting{place::tmpfs, durability::operation, index_kind::persistent}),
                         [](const auto& tried) { return tried.param.name(); });

class SharedFile : public ::testing::Test {
 protected:
  [[nodiscard]] options beside() const {
    options opening;
    opening.access = access::attached;
    opening.shared_as = common_;
    return opening;
  }
  [[nodiscard]] options first() const {
    options opening;
    opening.shared_as = common_;
    return opening;
  }
  void expect_refused(errc code, const std::string& part) const {
    expect_error(code, part, [&] { const store s(path_, beside()); });
  }

  scratch folder_;
  std::filesystem::path path_ = folder_ / "one.ice";
  std::filesystem::path common_ = folder_ / "common";
};

/// A recovery that failed, or was killed, has dropped what did not count, and set what its own session would need.
TEST_F(SharedFile, of_a_killed_process_is_not_believed_once_somebody_began_to_recover) {
  child one([&] {
    static store s(path_, first());
    for (int i = 0; i < keys; ++i) s.insert("key " + std::to_string(i), "first");
    ::kill(getpid(), SIGKILL);
    return 0;
  });
  ASSERT_EQ(one.wait(), -SIGKILL);
  std::string left = read_file(path_);
  const std::size_t end = (left.find_last_not_of('\0') + 72) / 8 * 8;
  left.replace(end, 8, "\x01rest of");  // as of an interrupted write
  write_file(path_, left);
  bool changed = false;
  for (int n = 0;; ++n) {
    try {
      const failing_call broken("fdatasync", EIO, {.after = n, .times = 1});
      const store s(path_);
      break;
    } catch (const error&) {
      if (read_file(path_).compare(format::first_segment_offset, std::string::npos, left,
                                   format::first_segment_offset) == 0)
        continue;
      changed = true;
      expect_refused(errc::closed, "opened since");
    }
  }
  EXPECT_TRUE(changed) << "no recovery was cut off behind its first change";
}

TEST_F(SharedFile, that_other_users_may_write_is_not_believed) {
  const store s(path_, first());
  for (const mode_t mode : {0620U, 0602U, 0666U}) {
    ASSERT_EQ(chmod(common_.c_str(), mode), 0);
    expect_refused(errc::permission, "mode");
  }
  ASSERT_EQ(chmod(common_.c_str(), 0600), 0);
  EXPECT_NO_THROW(store(path_, beside()));
}

TEST_F(SharedFile, of_another_user_is_not_believed) {
  if (geteuid() != 0) GTEST_SKIP() << "takes root, who may open another user's file";
  const store s(path_, first());
  ASSERT_EQ(chown(common_.c_str(), 65534, 65534), 0);
  expect_refused(errc::permission, "user 65534");
}

/// It is opened three times. Each of these may come behind the removal.
TEST_F(SharedFile, that_is_removed_while_a_process_attaches_is_one_as_which_no_store_is_shared) {
  const store s(path_, first());
  constexpr int opened_max = 30;  // also the store's file, and what the kernel tells of the boot
  int met = 0;
  for (int n = 0; n < opened_max; ++n) {
    try {
      const failing_call gone("open", ENOENT, {.after = n, .times = 1});
      const store attached(path_, beside());
    } catch (const error& e) {
      if (!std::string_view(e.what()).starts_with(common_.native())) continue;
      ++met;
      EXPECT_EQ(e.code(), errc::no_such_store) << e.what();
    }
  }
  EXPECT_EQ(met, 3);
}

TEST_F(SharedFile, that_holds_something_else_is_reported) {
  store(path_).close();
  std::ofstream(common_).close();
  expect_refused(errc::closed, "not shared yet");
  std::ofstream(common_) << std::string(10, '\0');
  expect_refused(errc::closed, "not shared yet");
  std::ofstream(common_) << "These are the notes of somebody who has nothing to do with stores.\n";
  expect_refused(errc::invalid_argument, "is not a file that a store is shared as");
  std::filesystem::remove(common_);
  std::filesystem::copy_file(path_, common_);
  expect_refused(errc::invalid_argument, "is not a file that a store is shared as");
}

/// Changes a word of the shared file as another process could, and puts it back.
template <class Check>
void with_word(const std::filesystem::path& file, std::uint64_t at, std::uint64_t word, const Check& check) {
  std::fstream f(file, std::ios::in | std::ios::out | std::ios::binary);
  std::uint64_t before = 0;
  const auto place = static_cast<std::streamoff>(at);
  f.seekg(place).read(reinterpret_cast<char*>(&before), sizeof before);
  ASSERT_TRUE(f.seekp(place).write(reinterpret_cast<const char*>(&word), sizeof word).flush());
  check();
  ASSERT_TRUE(f.seekp(place).write(reinterpret_cast<const char*>(&before), sizeof before).flush());
}

TEST_F(SharedFile, whose_words_lead_out_of_it_is_reported) {
  const store s(path_, first());
  constexpr std::uint64_t roots_at = 24;
  const std::uint64_t beyond = std::uint64_t{1} << 44;
  for (const std::uint64_t at : {0U, 8U, 16U}) {  // what it has reserved, has memory for, has handed out
    with_word(common_, at, beyond,
              [&] { expect_refused(errc::invalid_argument, "is not a file that a store is shared as"); });
  }
  constexpr std::uint64_t mark_at = roots_at + sizeof(index::arena_ref) * index::arena::root_count;
  with_word(common_, mark_at, beyond,
            [&] { expect_refused(errc::invalid_argument, "is not a file that a store is shared as"); });
  // both roots
  with_word(common_, roots_at, 0xfffffff0fffffff0U,
            [&] { expect_refused(errc::unsupported_format, "another version"); });
  EXPECT_NO_THROW(store(path_, beside()));
}

TEST_F(SharedFile, that_another_icecore_arranged_is_refused_though_it_has_the_same_size) {
  const store s(path_, first());
  std::uint32_t units = 0;
  std::ifstream(common_, std::ios::binary)
      .seekg(24 + 4 * detail::store_root)
      .read(reinterpret_cast<char*>(&units), sizeof units);
  const std::uint64_t at = std::uint64_t{units} * index::arena::unit_bytes;
  const std::uint64_t by_its_size = std::uint64_t{1} << 32 | sizeof(detail::shared_state);
  with_word(common_, at, by_its_size, [&] { expect_refused(errc::unsupported_format, "another version"); });
  EXPECT_NO_THROW(store(path_, beside()));
}

}  // namespace
}  // namespace icecore::testing
