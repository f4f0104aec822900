// What the suites ycsb and recovery rely on, of every map they measure; and that they tell a wrong answer when there is
// one.
#include "stores/map.hpp"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cctype>
#include <map>
#include <mutex>
#include <random>
#include <thread>

#include "stores/kinds.hpp"
#include "ycsb/phases.hpp"
#include "ycsb/records.hpp"

namespace icecore::bench {

static void PrintTo(const store_kind& kind, std::ostream* to) { *to << kind.name; }

namespace {

using ycsb::record_key;

class scratch_folder {
 public:
  scratch_folder() {
    const auto under = std::filesystem::exists("/dev/shm") ? "/dev/shm" : std::filesystem::temp_directory_path();
    std::string name = (under / "icecore-maps-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("no folder for the test's maps");
    path_ = name;
  }
  ~scratch_folder() { std::filesystem::remove_all(path_); }
  scratch_folder(const scratch_folder&) = delete;
  scratch_folder& operator=(const scratch_folder&) = delete;
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

class maps_test : public testing::TestWithParam<store_kind> {
 protected:
  [[nodiscard]] std::unique_ptr<map> open(std::size_t value_size = 8) const {
    return GetParam().open_map(
        {.folder = folder_.path(), .threads = 4, .records = 200'000, .keys = 100'000, .value_size = value_size});
  }

  scratch_folder folder_;
};

using pairs = std::vector<std::pair<std::string, std::string>>;

pairs scanned(map_session& in, const std::string& from, std::size_t count, std::size_t value_size) {
  pair_columns columns(count, 8, value_size);
  in.scan(from, count, columns);
  pairs found;
  for (std::size_t i = 0; i < columns.count(); ++i) found.emplace_back(columns.key(i), columns.value(i));
  return found;
}

pairs expected_from(const std::map<std::string, std::string>& model, const std::string& from, std::size_t count) {
  pairs found;
  for (auto it = model.lower_bound(from); it != model.end() && found.size() < count; ++it) found.emplace_back(*it);
  return found;
}

/// Inserts, updates, reads and scans of few keys, of all bytes, beside a model.
void check_beside_model(map& subject, std::size_t value_size) {
  const auto session = subject.new_session();
  ycsb::values values(value_size);
  std::map<std::string, std::string> model;
  std::mt19937_64 random(1);
  for (std::uint64_t i = 0; i < 5'000; ++i) {
    const record_key key(random() % 500);
    const std::string bytes(key.bytes());
    const std::string value(values.make(key.number(), i));
    if (model.contains(bytes)) {
      session->update(bytes, value);
    } else {
      ASSERT_FALSE(session->read(bytes).has_value());
      session->insert(bytes, value);
    }
    model[bytes] = value;
    const record_key other(random() % 500);
    const auto found = session->read(other.bytes());
    const auto wanted = model.find(std::string(other.bytes()));
    ASSERT_EQ(found, wanted == model.end() ? std::nullopt : std::optional<std::string_view>(wanted->second));
    if (i % 20 == 0) {
      const std::string from(record_key(random() % 600).bytes());
      const std::size_t count = 1 + random() % 100;
      ASSERT_EQ(scanned(*session, from, count, value_size), expected_from(model, from, count));
    }
  }
  ASSERT_EQ(scanned(*session, std::string(8, '\0'), 1'000, value_size), pairs(model.begin(), model.end()));
}

TEST_P(maps_test, answers_as_a_map_does) { check_beside_model(*open(), 8); }

TEST_P(maps_test, answers_as_a_map_does_with_values_of_100_bytes) { check_beside_model(*open(100), 100); }

TEST_P(maps_test, what_a_thread_wrote_is_read_by_others) {
  constexpr unsigned threads = 4;
  constexpr std::uint64_t keys_each = 5'000;
  const auto subject = open();
  std::array<std::atomic<std::uint64_t>, threads> written{};
  std::atomic<unsigned> wrong{0};
  {
    std::vector<std::jthread> running;
    for (unsigned thread = 0; thread < threads; ++thread) {
      running.emplace_back([&, thread] {
        const auto session = subject->new_session();
        ycsb::values values(8);
        std::mt19937_64 random(thread);
        for (std::uint64_t i = 0; i < keys_each; ++i) {
          const record_key key(i * threads + thread);
          session->insert(key.bytes(), values.make(key.number(), i));
          written[thread] = i + 1;
          const unsigned other = static_cast<unsigned>(random() % threads);
          const std::uint64_t there = written[other];
          if (there == 0) continue;
          const record_key read(random() % there * threads + other);
          const auto value = session->read(read.bytes());
          if (!value || !values.is_of(read.number(), *value)) ++wrong;
          if (random() % 4 == 0) session->update(read.bytes(), values.make(read.number(), i));
        }
      });
    }
  }
  EXPECT_EQ(wrong, 0U);
  EXPECT_EQ(scanned(*subject->new_session(), std::string(8, '\0'), threads * keys_each + 1, 8).size(),
            threads * keys_each);
}

TEST_P(maps_test, what_a_killed_process_wrote_is_there_when_opened_again) {
  constexpr std::uint64_t keys = 3'000;
  const pid_t child = fork();
  if (child == 0) {
    const auto subject = open();
    const auto session = subject->new_session();
    ycsb::values values(8);
    for (std::uint64_t i = 0; i < keys; ++i) {
      const record_key key(i);
      session->insert(key.bytes(), values.make(key.number(), 0));
      if (i % 2 == 0) session->update(key.bytes(), values.make(key.number(), 1));
    }
    kill(getpid(), SIGKILL);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
  const auto subject = open();
  const auto session = subject->new_session();
  ycsb::values values(8);
  for (std::uint64_t i = 0; i < keys; ++i) {
    const record_key key(i);
    ASSERT_EQ(session->read(key.bytes()), values.make(key.number(), i % 2 == 0 ? 1 : 0)) << i;
  }
  const record_key fresh(keys);
  session->insert(fresh.bytes(), values.make(fresh.number(), 0));
  session->update(fresh.bytes(), values.make(fresh.number(), 2));
  EXPECT_EQ(session->read(fresh.bytes()), values.make(fresh.number(), 2));
}

void run_all_workloads(map& subject, const ycsb::workload& work) {
  constexpr unsigned threads = 3;
  constexpr std::uint64_t records = 2'000;
  ycsb::settings chosen;
  ycsb::loaded_map loaded(subject, threads, records, chosen);
  loaded.load();
  const ycsb::plan does(work, threads, records, chosen);
  loaded.warm_up(does);
  EXPECT_EQ(loaded.run(does).operations, records);
  std::uint64_t timed = 0;
  for (const auto& of_kind : loaded.run_timed(does)) timed += of_kind.count();
  EXPECT_EQ(timed, records);
  loaded.check_writes_are_seen();
}

TEST_P(maps_test, every_workload_runs_and_finds_right_answers) {
  for (const ycsb::workload& work : ycsb::all_workloads()) {
    const scratch_folder own;
    const auto subject = GetParam().open_map({.folder = own.path(), .threads = 3, .records = 20'000, .keys = 10'000});
    ASSERT_NO_THROW(run_all_workloads(*subject, work)) << work.name;
  }
}

std::vector<store_kind> kinds_of_maps() {
  std::vector<store_kind> kinds = all_kinds();
  std::erase_if(kinds, [](const store_kind& kind) { return !kind.open_map; });
  return kinds;
}

INSTANTIATE_TEST_SUITE_P(kinds, maps_test, testing::ValuesIn(kinds_of_maps()), [](const auto& instance) {
  std::string name = instance.param.name;
  std::ranges::replace_if(
      name, [](char c) { return std::isalnum(static_cast<unsigned char>(c)) == 0; }, '_');
  return name;
});

enum class fault { none, forgets_inserts, forgets_updates, another_keys_value, short_scan, scan_out_of_order };

/// A map in memory that is wrong in one way.
class faulty_map final : public map {
 public:
  explicit faulty_map(fault wrong) : wrong_(wrong) {}

  std::unique_ptr<map_session> new_session() override { return std::make_unique<own_session>(*this); }

 private:
  class own_session final : public map_session {
   public:
    explicit own_session(faulty_map& of) : of_(of) {}

    void insert(std::string_view key, std::string_view value) override {
      const std::lock_guard lock(of_.together_);
      if (of_.wrong_ == fault::forgets_inserts && ++of_.inserts_ % 100 == 0) return;
      of_.pairs_[std::string(key)] = value;
    }
    void update(std::string_view key, std::string_view value) override {
      const std::lock_guard lock(of_.together_);
      if (of_.wrong_ != fault::forgets_updates) of_.pairs_[std::string(key)] = value;
    }
    std::optional<std::string_view> read(std::string_view key) override {
      const std::lock_guard lock(of_.together_);
      const auto found =
          of_.wrong_ == fault::another_keys_value ? of_.pairs_.begin() : of_.pairs_.find(std::string(key));
      if (found == of_.pairs_.end()) return std::nullopt;
      read_ = found->second;
      return read_;
    }
    void scan(std::string_view from, std::size_t count, pair_columns& out) override {
      const std::lock_guard lock(of_.together_);
      auto at = of_.pairs_.lower_bound(std::string(from));
      if (of_.wrong_ == fault::short_scan) count = (count + 1) / 2;
      if (of_.wrong_ == fault::scan_out_of_order && at != of_.pairs_.end() && std::next(at) != of_.pairs_.end()) {
        out.add(std::next(at)->first, std::next(at)->second);
      }
      for (; at != of_.pairs_.end() && out.count() < count; ++at) out.add(at->first, at->second);
    }

   private:
    faulty_map& of_;
    std::string read_;
  };

  fault wrong_;
  std::mutex together_;
  std::uint64_t inserts_ = 0;
  std::map<std::string, std::string> pairs_;
};

void run_with(fault wrong, const char* name) {
  faulty_map subject(wrong);
  run_all_workloads(subject, ycsb::workload_of_name(name));
}

TEST(wrong_answers, of_a_map_end_its_run) {
  EXPECT_NO_THROW(run_with(fault::none, "E"));
  EXPECT_THROW(run_with(fault::forgets_inserts, "C"), std::runtime_error);
  EXPECT_THROW(run_with(fault::forgets_updates, "A"), std::runtime_error);
  EXPECT_THROW(run_with(fault::another_keys_value, "B"), std::runtime_error);
  EXPECT_THROW(run_with(fault::short_scan, "E"), std::runtime_error);
  EXPECT_THROW(run_with(fault::scan_out_of_order, "E"), std::runtime_error);
}

}  // namespace
}  // namespace icecore::bench
