// What the benchmark relies on, of every store it measures: the same answers, so that only the time differs.
#include "stores/store.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cctype>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <map>
#include <random>
#include <thread>

#include "stores/kinds.hpp"

namespace icecore::bench {

static void PrintTo(const store_kind& kind, std::ostream* to) { *to << kind.name; }

namespace {

/// A folder for a store, removed with what is in it. A child that gtest starts for a death test gets its parent's.
class scratch_folder {
 public:
  scratch_folder() : owner_(std::getenv(variable) == nullptr) {
    if (owner_) {
      const auto under = std::filesystem::exists("/dev/shm") ? "/dev/shm" : std::filesystem::temp_directory_path();
      std::string name = (under / "icecore-stores-XXXXXX").string();
      if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("no folder for the test's stores");
      setenv(variable, name.c_str(), 1);
    }
    path_ = std::getenv(variable);
    std::filesystem::create_directory(path_ / "store");
  }
  ~scratch_folder() {
    if (!owner_) return;
    unsetenv(variable);
    std::filesystem::remove_all(path_);
  }
  scratch_folder(const scratch_folder&) = delete;
  scratch_folder& operator=(const scratch_folder&) = delete;

  [[nodiscard]] std::filesystem::path store() const { return path_ / "store"; }
  [[nodiscard]] std::filesystem::path notes() const { return path_ / "notes"; }

 private:
  static constexpr const char* variable = "ICECORE_STORES_TEST_FOLDER";
  bool owner_;
  std::filesystem::path path_;
};

/// A key of `size` bytes of all values, in which order differs from that of the numbers.
std::string key_of_number(std::uint64_t number, std::size_t size) {
  std::mt19937_64 bytes(number);
  std::string key(size, '\0');
  std::ranges::generate(key, [&] { return static_cast<char>(bytes()); });
  return key;
}

std::string value_of_number(std::uint64_t number) { return {reinterpret_cast<const char*>(&number), sizeof(number)}; }

/// What a store should know: the changes of each key, oldest first.
class model {
 public:
  void change(const std::string& key, version at, std::optional<std::uint64_t> value) {
    changes_[key].push_back({at, value});
  }

  [[nodiscard]] std::optional<std::uint64_t> find(const std::string& key, version at) const {
    const auto changes = changes_.find(key);
    if (changes == changes_.end()) return std::nullopt;
    const auto later = std::ranges::upper_bound(changes->second, at, {}, &recorded_change::version);
    return later == changes->second.begin() ? std::nullopt : std::prev(later)->value;
  }

  [[nodiscard]] std::vector<recorded_change> history(const std::string& key) const {
    const auto changes = changes_.find(key);
    if (changes == changes_.end()) return {};
    return {changes->second.rbegin(), changes->second.rend()};
  }

  /// In the order of bytes, as of std::string.
  [[nodiscard]] std::vector<std::pair<std::string, std::uint64_t>> extract(version at) const {
    std::vector<std::pair<std::string, std::uint64_t>> pairs;
    for (const auto& [key, unused] : changes_) {
      if (const auto value = find(key, at)) pairs.emplace_back(key, *value);
    }
    return pairs;
  }

 private:
  std::map<std::string, std::vector<recorded_change>> changes_;
};

std::optional<std::uint64_t> number_found(session& in, const std::string& key, version at) {
  const auto value = in.find(key, at);
  return value ? std::optional(number_of(*value)) : std::nullopt;
}

std::vector<std::pair<std::string, std::uint64_t>> pairs_at(session& in, version at, std::size_t key_size) {
  pair_columns columns(10'000, key_size, sizeof(std::uint64_t));
  in.extract(at, columns, 1);
  std::vector<std::pair<std::string, std::uint64_t>> pairs;
  for (std::size_t i = 0; i < columns.count(); ++i) pairs.emplace_back(columns.key(i), number_of(columns.value(i)));
  return pairs;
}

/// The newest version that may be read: a store may refuse one that is still written.
version newest_closed(const store& of) { return of.clock() - 1; }

class stores_test : public testing::TestWithParam<store_kind> {
 protected:
  [[nodiscard]] std::unique_ptr<store> open(std::size_t key_size = 8, std::size_t value_size = 8) const {
    return GetParam().open(
        {.folder = folder_.store(), .threads = 4, .records = 10'000, .key_size = key_size, .value_size = value_size});
  }

  scratch_folder folder_;
};

/// Few keys with long histories, and many that are written once: a key is changed at most once in a version.
class model_run {
 public:
  model_run(store& of, std::size_t key_size) : store_(of), session_(of.new_session()), key_size_(key_size) {}

  void write(unsigned operations) {
    std::map<std::string, version> last;
    for (unsigned i = 0; i < operations; ++i) {
      const std::string key = random_key();
      if (last.contains(key) && last[key] == store_.clock()) session_->tag();
      const bool there = expected_.find(key, store_.clock()).has_value();
      const bool removes = there && random_() % 4 == 0;
      const std::uint64_t value = random_();
      const version at = removes ? session_->remove(key) : session_->insert(key, value_of_number(value));
      expected_.change(key, at, removes ? std::nullopt : std::optional(value));
      last[key] = at;
      if (random_() % 3 == 0) session_->tag();
    }
    session_->tag();
    session_->commit();
  }

  void check_find() {
    for (std::uint64_t number = 0; number <= keys_; ++number) {  // the last was never written
      const std::string key = key_of_number(number, key_size_);
      for (version at = 1; at <= newest_closed(store_); ++at) {
        ASSERT_EQ(number_found(*session_, key, at), expected_.find(key, at)) << "key " << number << " at " << at;
      }
    }
  }

  void check_find_many() {
    constexpr std::size_t count = 100;
    for (unsigned round = 0; round < 40; ++round) {
      std::vector<std::string> keys(count);
      std::ranges::generate(keys, [&] { return random_key(); });
      std::vector<version> at(count, random_version());
      if (round % 2 == 0) std::ranges::generate(at, [&] { return random_version(); });
      const std::vector<std::string_view> views(keys.begin(), keys.end());
      std::vector<std::optional<std::uint64_t>> found(count, 1);
      session_->find_many(views, at, found);
      for (std::size_t i = 0; i < count; ++i) ASSERT_EQ(found[i], expected_.find(keys[i], at[i])) << "at " << at[i];
    }
  }

  void check_history() {
    for (std::uint64_t number = 0; number <= keys_; ++number) {
      const std::string key = key_of_number(number, key_size_);
      const recorded_change earlier{77, std::nullopt};
      std::vector<recorded_change> changes{earlier};
      session_->history(key, changes);
      ASSERT_EQ(changes.front(), earlier) << "history appends";
      changes.erase(changes.begin());
      ASSERT_EQ(changes, expected_.history(key)) << "key " << number;
    }
  }

  void check_extract() {
    for (version at = 1; at <= newest_closed(store_); at += 1 + store_.clock() / 20) {
      ASSERT_EQ(pairs_at(*session_, at, key_size_), expected_.extract(at)) << "at " << at;
    }
    const version newest = newest_closed(store_);
    ASSERT_EQ(pairs_at(*session_, newest, key_size_), expected_.extract(newest));
  }

 private:
  std::string random_key() {
    const std::uint64_t number = random_() % 2 == 0 ? random_() % long_histories : random_() % keys_;
    return key_of_number(number, key_size_);
  }
  version random_version() { return 1 + random_() % newest_closed(store_); }

  static constexpr std::uint64_t long_histories = 5, keys_ = 300;

  store& store_;
  std::unique_ptr<session> session_;
  std::size_t key_size_;
  std::mt19937_64 random_{20'220'530};
  model expected_;
};

void check_all(store& of, std::size_t key_size) {
  model_run run(of, key_size);
  for (unsigned phase = 0; phase < 3; ++phase) {  // reads between writes see the writes before them
    run.write(600);
    run.check_find();
    run.check_find_many();
    run.check_history();
    run.check_extract();
  }
}

TEST_P(stores_test, answers_as_a_map_of_histories_does_for_keys_of_8_bytes) { check_all(*open(8), 8); }

TEST_P(stores_test, answers_as_a_map_of_histories_does_for_keys_of_31_bytes) { check_all(*open(31), 31); }

TEST_P(stores_test, the_last_write_of_a_key_in_a_version_counts) {
  const auto subject = open();
  const auto writer = subject->new_session();
  const std::string replaced = key_of_number(1, 8), gone = key_of_number(2, 8);
  writer->insert(replaced, value_of_number(10));
  writer->insert(gone, value_of_number(20));
  writer->remove(gone);
  const version at = writer->insert(replaced, value_of_number(11));
  writer->tag();
  writer->commit();
  EXPECT_EQ(number_found(*writer, replaced, at), 11U);
  EXPECT_EQ(number_found(*writer, gone, at), std::nullopt);
  EXPECT_EQ(pairs_at(*writer, at, 8), (std::vector<std::pair<std::string, std::uint64_t>>{{replaced, 11}}));
}

TEST_P(stores_test, values_of_128_KiB_come_back_whole) {
  constexpr std::size_t value_size = 128 << 10;
  constexpr std::uint64_t keys = 20;
  const auto subject = open(31, value_size);
  const auto writer = subject->new_session();
  const auto value = [](std::uint64_t number) { return key_of_number(1'000 + number, value_size); };
  std::map<std::string, std::string> expected;
  for (std::uint64_t number = 0; number < keys; ++number) {
    writer->insert(key_of_number(number, 31), value(number + keys));
    writer->tag();
    writer->insert(key_of_number(number, 31), value(number));
    expected[key_of_number(number, 31)] = value(number);
  }
  writer->tag();
  writer->commit();
  const version now = newest_closed(*subject);
  for (const auto& [key, whole] : expected) ASSERT_TRUE(writer->find(key, now) == whole);
  pair_columns columns(keys, 31, value_size);
  writer->extract(now, columns, 1);
  ASSERT_EQ(columns.count(), expected.size());
  std::size_t i = 0;
  for (const auto& [key, whole] : expected) {
    ASSERT_EQ(columns.key(i), key);
    ASSERT_TRUE(columns.value(i++) == whole);
  }
}

class concurrent_run {
 public:
  explicit concurrent_run(store& of) : store_(of) {
    for (auto& versions : written_) versions.resize(keys_each);
  }

  void run() {
    std::vector<std::jthread> writing, reading;
    for (unsigned thread = 0; thread < writers; ++thread) writing.emplace_back([this, thread] { write(thread); });
    for (unsigned thread = 0; thread < readers; ++thread) reading.emplace_back([this, thread] { read(thread); });
    writing.clear();
    stop_ = true;
  }

  void check_all_there() {
    const auto reader = store_.new_session();
    for (unsigned thread = 0; thread < writers; ++thread) {
      for (std::uint64_t i = 0; i < keys_each; ++i) {
        ASSERT_EQ(number_found(*reader, key(thread, i), written_[thread][i]), i);
        if (written_[thread][i] == 1) continue;
        ASSERT_EQ(number_found(*reader, key(thread, i), written_[thread][i] - 1), std::nullopt);
      }
    }
    ASSERT_EQ(pairs_at(*reader, newest_closed(store_), 8).size(), writers * keys_each);
    ASSERT_EQ(wrong_, 0U) << "a reader saw a value that nobody wrote";
  }

 private:
  static constexpr unsigned writers = 4, readers = 2;
  static constexpr std::uint64_t keys_each = 1'500;

  static std::string key(unsigned thread, std::uint64_t i) { return key_of_number(thread * keys_each + i, 8); }

  void write(unsigned thread) {
    const auto writer = store_.new_session();
    for (std::uint64_t i = 0; i < keys_each; ++i) {
      written_[thread][i] = writer->insert(key(thread, i), value_of_number(i));
      writer->tag();
    }
    writer->commit();
  }

  void read(unsigned seed) {
    const auto reader = store_.new_session();
    std::mt19937_64 random(seed);
    std::vector<recorded_change> changes;
    while (!stop_) {
      const version at = newest_closed(store_);
      if (at == 0) continue;
      const std::uint64_t i = random() % keys_each;
      const std::string wanted = key(static_cast<unsigned>(random() % writers), i);
      if (number_found(*reader, wanted, at).value_or(i) != i) ++wrong_;
      changes.clear();
      reader->history(wanted, changes);
      if (changes.size() > 1 || (changes.size() == 1 && changes[0].value != i)) ++wrong_;
      if (random() % 50 == 0 && pairs_at(*reader, at, 8).size() > writers * keys_each) ++wrong_;
    }
  }

  store& store_;
  std::array<std::vector<version>, writers> written_;
  std::atomic<bool> stop_{false};
  std::atomic<unsigned> wrong_{0};
};

TEST_P(stores_test, all_that_four_threads_write_while_others_read_is_there) {
  const auto subject = open();
  concurrent_run run(*subject);
  run.run();
  run.check_all_there();
}

constexpr std::uint64_t keys_of_the_killed = 3'000;

/// The versions of the writes are noted in a file, then the process ends as if by the power of an operator.
[[noreturn]] void write_and_die(store& in, const std::filesystem::path& notes) {
  const auto writer = in.new_session();
  std::ofstream versions(notes);
  for (std::uint64_t i = 0; i < keys_of_the_killed; ++i) {
    versions << writer->insert(key_of_number(i, 8), value_of_number(i)) << '\n';
    writer->tag();
  }
  for (std::uint64_t i = 0; i < keys_of_the_killed; i += 2) versions << writer->remove(key_of_number(i, 8)) << '\n';
  writer->tag();
  writer->commit();
  versions.close();
  kill(getpid(), SIGKILL);
  std::abort();
}

TEST_P(stores_test, what_a_killed_process_committed_is_there_when_opened_again) {
  if (!GetParam().survives_kill) GTEST_SKIP() << "not promised";
  // The child is this program started anew: it has no threads or library state of the tests before.
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(write_and_die(*open(), folder_.notes()), testing::KilledBySignal(SIGKILL), "");

  std::ifstream notes(folder_.notes());
  const std::vector<version> versions{std::istream_iterator<version>(notes), {}};
  ASSERT_EQ(versions.size(), keys_of_the_killed * 3 / 2);
  const auto subject = open();
  const auto reader = subject->new_session();
  for (std::uint64_t i = 0; i < keys_of_the_killed; ++i) {
    const std::string key = key_of_number(i, 8);
    ASSERT_EQ(number_found(*reader, key, versions[i]), i);
    const bool removed = i % 2 == 0;
    ASSERT_EQ(number_found(*reader, key, versions.back()), removed ? std::nullopt : std::optional(i));
  }
  ASSERT_EQ(pairs_at(*reader, versions.back(), 8).size(), keys_of_the_killed / 2);
}

/// What the threads of a process have committed, in a file that outlives it.
class shared_notes {
 public:
  static constexpr unsigned threads = 4;
  static constexpr std::uint64_t keys_each = 100'000;
  struct written {
    std::atomic<std::uint64_t> count;
    std::array<version, keys_each> versions;
  };

  explicit shared_notes(const std::filesystem::path& path) {
    const int file = open(path.c_str(), O_RDWR | O_CREAT, 0600);
    if (file < 0 || ftruncate(file, sizeof(written) * threads) != 0) throw std::runtime_error("no file for notes");
    address_ = mmap(nullptr, sizeof(written) * threads, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    if (address_ == MAP_FAILED) throw std::runtime_error("no memory for notes");
  }
  ~shared_notes() { munmap(address_, sizeof(written) * threads); }
  shared_notes(const shared_notes&) = delete;
  shared_notes& operator=(const shared_notes&) = delete;

  [[nodiscard]] written& of(unsigned thread) { return static_cast<written*>(address_)[thread]; }

 private:
  void* address_;
};

std::string key_of_thread(unsigned thread, std::uint64_t i) {
  return key_of_number(thread * shared_notes::keys_each + i, 8);
}

/// Is killed in the middle of writes, when each thread has done some.
void write_until_killed(store& in, const std::filesystem::path& path) {
  constexpr std::uint64_t writes_each_min = 300;
  shared_notes notes(path);
  std::vector<std::jthread> writing;
  for (unsigned thread = 0; thread < shared_notes::threads; ++thread) {
    writing.emplace_back([&in, thread, &written = notes.of(thread)] {
      const auto writer = in.new_session();
      for (std::uint64_t i = 0; i < shared_notes::keys_each; ++i) {
        written.versions[i] = writer->insert(key_of_thread(thread, i), value_of_number(i));
        writer->tag();
        writer->commit();
        written.count = i + 1;
      }
    });
  }
  for (unsigned thread = 0; thread < shared_notes::threads; ++thread) {
    while (notes.of(thread).count < writes_each_min) std::this_thread::yield();
  }
  kill(getpid(), SIGKILL);
}

TEST_P(stores_test, what_threads_committed_before_a_kill_amid_writes_is_there_when_opened_again) {
  if (!GetParam().survives_kill) GTEST_SKIP() << "not promised";
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(write_until_killed(*open(), folder_.notes()), testing::KilledBySignal(SIGKILL), "");

  shared_notes notes(folder_.notes());
  const auto subject = open();
  const auto reader = subject->new_session();
  for (unsigned thread = 0; thread < shared_notes::threads; ++thread) {
    const auto& written = notes.of(thread);
    ASSERT_GT(written.count, 0U);
    for (std::uint64_t i = 0; i < written.count; ++i) {
      ASSERT_EQ(number_found(*reader, key_of_thread(thread, i), written.versions[i]), i) << "of " << written.count;
    }
  }
}

std::vector<store_kind> kinds_of_versions() {
  std::vector<store_kind> kinds = all_kinds();
  std::erase_if(kinds, [](const store_kind& kind) { return !kind.open; });
  return kinds;
}

INSTANTIATE_TEST_SUITE_P(kinds, stores_test, testing::ValuesIn(kinds_of_versions()), [](const auto& instance) {
  std::string name = instance.param.name;
  std::ranges::replace_if(
      name, [](char c) { return std::isalnum(static_cast<unsigned char>(c)) == 0; }, '_');
  return name;
});

}  // namespace
}  // namespace icecore::bench
