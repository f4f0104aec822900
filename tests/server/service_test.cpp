// The whole service: databases by name, what survives a restart, snapshots of everything.
#include "service/service.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <future>
#include <thread>

#include "icecore/error.hpp"
#include "support/scratch.hpp"

namespace icecore::service {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

outcome put(database& db, std::string key, std::string value) {
  transaction t;
  t.then.push_back(operation::put(std::move(key), std::move(value)));
  std::promise<result<outcome>> promised;
  db.write(std::move(t), [&](result<outcome> came) { promised.set_value(std::move(came)); });
  result<outcome> came = promised.get_future().get();
  if (const auto* failed = std::get_if<failure>(&came)) raise(*failed);
  return std::get<outcome>(std::move(came));
}

std::string read(database& db, std::string_view key, const point& at = newest{}) {
  const auto is = db.find(key, at);
  return is ? std::string(is->value()) : "(none)";
}

template <typename Call>
errc code_of(Call call) {
  try {
    call();
  } catch (const icecore::error& e) {
    return static_cast<errc>(e.code().value());
  }
  return {};
}

class Service : public ::testing::Test {
 protected:
  Service() { start(); }
  void start(service_options options = {}) {
    service_.reset();
    options.data = folder_ / "data";
    options.limits.free_disk_bytes = 0;
    service_ = std::make_unique<service>(std::move(options));
  }
  std::shared_ptr<database> create(const std::string& name, version_rule rule = version_rule::write) {
    database_settings settings;
    settings.name = name;
    settings.rule = rule;
    return service_->create(root_, settings);
  }
  [[nodiscard]] std::vector<std::string> names() {
    std::vector<std::string> all;
    for (const database_settings& next : service_->list(root_)) all.push_back(next.name);
    return all;
  }

  testing::scratch folder_;
  principal root_ = principal::anyone();
  std::unique_ptr<service> service_;
};

TEST_F(Service, databases_are_there_after_a_restart) {
  put(*create("one"), "a", "1");
  create("two", version_rule::tag);
  const std::string identity = service_->identity();
  start();
  EXPECT_EQ(service_->identity(), identity);
  EXPECT_THAT(names(), ElementsAre("one", "two"));
  EXPECT_EQ(read(*service_->find_database(root_, "one"), "a"), "1");
  EXPECT_EQ(service_->find_database(root_, "two")->settings().rule, version_rule::tag);
}

TEST_F(Service, a_dropped_database_is_gone_with_its_files) {
  const auto held = create("one");
  create("two");
  service_->drop(root_, "one");
  EXPECT_THAT(names(), ElementsAre("two"));
  EXPECT_EQ(code_of([&] { put(*held, "a", "1"); }), errc::unavailable);
  EXPECT_EQ(code_of([&] { static_cast<void>(service_->find_database(root_, "one")); }), errc::denied);
  std::size_t folders = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder_ / "data/databases"))
    folders += entry.is_directory();
  EXPECT_EQ(folders, 1U);
  EXPECT_EQ(read(*create("one"), "a"), "(none)");
}

TEST_F(Service, names_and_limits_are_checked) {
  for (const char* bad : {"", ".hidden", "a/b", "a b", "-x"}) {
    EXPECT_EQ(code_of([&] { create(bad); }), errc::invalid_argument) << bad;
  }
  EXPECT_EQ(code_of([&] { create(std::string(256, 'x')); }), errc::invalid_argument);
  create("one");
  const database_settings no_text{.name = "two", .owner = "\xff"};
  EXPECT_EQ(code_of([&] { service_->create(root_, no_text); }), errc::invalid_argument);
  changed_settings without_text;
  without_text.owner = "\xff";
  EXPECT_EQ(code_of([&] { service_->change(root_, "one", without_text); }), errc::invalid_argument);
  EXPECT_EQ(service_->find_database(root_, "one")->settings().owner, "");
  EXPECT_EQ(code_of([&] { create("one"); }), errc::database_exists);
  service_options few;
  few.limits.databases = 2;
  start(few);
  create("two");
  EXPECT_EQ(code_of([&] { create("three"); }), errc::limit_reached);
}

TEST_F(Service, a_copy_has_the_state_of_its_version) {
  const auto from = create("from");
  put(*from, "a", "1");
  const version then = put(*from, "b", "2").version;
  put(*from, "a", "3");
  database_settings settings;
  settings.name = "copy";
  settings.compression = value_compression::zstd;
  const auto copy = service_->copy(root_, "from", then, settings);
  EXPECT_EQ(read(*copy, "a"), "1");
  EXPECT_EQ(read(*copy, "b"), "2");
  EXPECT_EQ(code_of([&] { service_->copy(root_, "from", version{1000}, {.name = "never"}); }),
            errc::version_not_closed);
  EXPECT_THAT(names(), ElementsAre("copy", "from"));
}

TEST_F(Service, a_damaged_database_is_named_and_the_others_are_served) {
  put(*create("good"), "a", "1");
  put(*create("bad"), "a", "1");
  service_.reset();
  std::fstream file(folder_ / "data/databases/2/store.ice", std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(0);
  file.write(std::string(8192, 'x').data(), 8192);
  file.close();
  start();
  EXPECT_EQ(read(*service_->find_database(root_, "good"), "a"), "1");
  EXPECT_EQ(code_of([&] { static_cast<void>(service_->find_database(root_, "bad")); }), errc::unavailable);
  ASSERT_EQ(service_->not_ready().size(), 1U);
  EXPECT_EQ(service_->not_ready()[0].first, "bad");
  EXPECT_THAT(service_->not_ready()[0].second.message, HasSubstr("icecore repair"));
  EXPECT_EQ(code_of([&] { service_->write_snapshot(root_, folder_ / "snapshot"); }), errc::unavailable);
  service_->drop(root_, "bad");
  EXPECT_THAT(service_->not_ready(), IsEmpty());
}

TEST_F(Service, of_a_database_that_is_cut_short_repair_is_offered_and_not_that_it_be_removed) {
  put(*create("cut"), "a", "1");
  service_.reset();
  std::filesystem::resize_file(folder_ / "data/databases/1/store.ice", 3000);
  start();
  ASSERT_EQ(service_->not_ready().size(), 1U);
  EXPECT_THAT(service_->not_ready()[0].second.message, HasSubstr("Keep the file: icecore repair"));
}

TEST_F(Service, a_second_server_on_one_folder_does_not_start) {
  service_options options;
  options.data = folder_ / "data";
  EXPECT_EQ(code_of([&] { service second(options); }), errc::locked);
}

TEST_F(Service, a_folder_belongs_to_one_place_of_a_group) {
  service_options options;
  options.group = {.name = "g", .index = 1, .size = 2};
  EXPECT_EQ(code_of([&] { start(options); }), errc::other_cluster);
}

TEST_F(Service, folders_that_nobody_names_are_removed_at_the_start) {
  create("one");
  std::filesystem::create_directory(folder_ / "data/databases/77");
  start();
  EXPECT_FALSE(std::filesystem::exists(folder_ / "data/databases/77"));
  EXPECT_THAT(names(), ElementsAre("one"));
}

TEST_F(Service, databases_without_their_catalog_are_not_taken_for_new_ones) {
  put(*create("one"), "a", "1");
  service_.reset();
  std::filesystem::rename(folder_ / "data/catalog.ice", folder_ / "away");
  EXPECT_EQ(code_of([&] { start(); }), errc::damaged);
  EXPECT_TRUE(std::filesystem::exists(folder_ / "data/databases/1/store.ice"));
  std::filesystem::rename(folder_ / "away", folder_ / "data/catalog.ice");
  start();
  EXPECT_EQ(read(*service_->find_database(root_, "one"), "a"), "1");
}

TEST_F(Service, a_database_whose_store_is_missing_is_not_taken_for_an_empty_one) {
  put(*create("lost"), "k", "v");
  put(*create("whole"), "k", "v");
  service_.reset();
  const std::filesystem::path store = folder_ / "data/databases/1/store.ice";
  std::filesystem::rename(store, folder_ / "elsewhere");
  start();
  EXPECT_EQ(code_of([&] { static_cast<void>(service_->find_database(root_, "lost")); }), errc::unavailable);
  EXPECT_FALSE(std::filesystem::exists(store));
  ASSERT_EQ(service_->not_ready().size(), 1U);
  EXPECT_EQ(service_->not_ready().front().second.code, errc::damaged);
  EXPECT_EQ(read(*service_->find_database(root_, "whole"), "k"), "v");
  service_.reset();
  std::filesystem::rename(folder_ / "elsewhere", store);
  start();
  EXPECT_EQ(read(*service_->find_database(root_, "lost"), "k"), "v");
  service_.reset();
  std::filesystem::remove_all(store.parent_path());
  start();
  service_->drop(root_, "lost");
  EXPECT_THAT(names(), ElementsAre("whole"));
}

TEST_F(Service, a_snapshot_under_load_is_one_instant_of_all_databases) {
  const auto first = create("first", version_rule::write);
  const auto second = create("second", version_rule::every);
  std::atomic<bool> stop{false};
  // Whoever wrote "first" writes "second" next: at each instant they are equal, or the first is one ahead.
  std::thread writer([&] {
    for (int i = 1; !stop; ++i) {
      put(*first, "n", std::to_string(i));
      put(*second, "n", std::to_string(i));
    }
  });
  while (read(*second, "n") == "(none)") std::this_thread::yield();
  for (int i = 0; i < 5; ++i) {
    const std::filesystem::path to = folder_ / ("snapshot" + std::to_string(i));
    EXPECT_EQ(service_->write_snapshot(root_, to).parts.size(), 2U);
    service::restore_snapshot(to, folder_ / ("restored" + std::to_string(i)));
  }
  stop = true;
  writer.join();
  for (int i = 0; i < 5; ++i) {
    service_options options;
    options.data = folder_ / ("restored" + std::to_string(i));
    service restored(options);
    const int a = std::stoi(read(*restored.find_database(root_, "first"), "n"));
    const int b = std::stoi(read(*restored.find_database(root_, "second"), "n"));
    EXPECT_TRUE(a == b || a == b + 1) << a << " and " << b;
  }
  EXPECT_EQ(code_of([&] { service_->write_snapshot(root_, folder_ / "snapshot0"); }), errc::store_exists);
}

// How many files are open below the folder, removed ones too.
std::size_t open_below(const std::filesystem::path& folder) {
  std::size_t count = 0;
  for (const auto& open : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code closed;
    count += std::filesystem::read_symlink(open.path(), closed).native().starts_with(folder.native()) ? 1U : 0U;
  }
  return count;
}

TEST_F(Service, databases_are_made_changed_and_dropped_while_a_snapshot_is_written) {
  put(*create("a"), "k", "of a");
  const auto dropped = create("b");
  for (int i = 0; i < 100; ++i) put(*dropped, std::to_string(i), std::string(10'000, 'v'));
  const std::filesystem::path folder_of_dropped = folder_ / "data/databases/2";
  std::promise<void> done;
  std::thread other;
  changed_settings with_quota;
  with_quota.quota_bytes = 1 << 30;
  bool first_part = true;
  const auto report = service_->write_snapshot(root_, folder_ / "snapshot", [&](const icecore::progress&) {
    if (!std::exchange(first_part, false)) return;
    other = std::thread([&] {
      create("new");
      service_->change(root_, "a", with_quota);
      service_->drop(root_, "b");
      EXPECT_EQ(code_of([&] { put(*dropped, "late", ""); }), errc::unavailable);
      EXPECT_THAT(names(), ElementsAre("a", "new"));
      put(*create("b"), "k", "of another b");
      done.set_value();
    });
    EXPECT_EQ(done.get_future().wait_for(std::chrono::minutes(1)), std::future_status::ready) << "they wait";
  });
  other.join();
  EXPECT_EQ(report.parts.size(), 2U);
  EXPECT_FALSE(std::filesystem::exists(folder_of_dropped));
  EXPECT_EQ(open_below(folder_of_dropped), 0U) << "its space is free once it is written";
  EXPECT_EQ(read(*service_->find_database(root_, "b"), "k"), "of another b");

  service::restore_snapshot(folder_ / "snapshot", folder_ / "restored");
  service_options options;
  options.data = folder_ / "restored";
  service restored(options);
  EXPECT_EQ(restored.list(root_).size(), 2U);
  EXPECT_EQ(read(*restored.find_database(root_, "a"), "k"), "of a");
  EXPECT_EQ(restored.find_database(root_, "b")->count({}, newest{}), 100U);
}

TEST_F(Service, stopping_gives_up_the_snapshot_that_is_written) {
  put(*create("a"), "k", "v");
  put(*create("b"), "k", "v");
  std::thread stopping;
  const auto written = [&](const icecore::progress&) {
    if (stopping.joinable()) return;
    stopping = std::thread([&] { service_->stop(); });
    while (code_of([&] { static_cast<void>(service_->list(root_)); }) != errc::unavailable) std::this_thread::yield();
  };
  EXPECT_EQ(code_of([&] { service_->write_snapshot(root_, folder_ / "snapshot", written); }), errc::unavailable);
  stopping.join();
  EXPECT_FALSE(std::filesystem::exists(folder_ / "snapshot"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "snapshot.partial"));
}

TEST_F(Service, a_snapshot_is_written_into_the_folder_that_was_named_or_nowhere) {
  create("db");
  const std::string cut = std::string(folder_ / "snapshot") + '\0' + "of monday";
  EXPECT_EQ(code_of([&] { service_->write_snapshot(root_, cut); }), errc::invalid_argument);
  EXPECT_EQ(code_of([&] { service_->write_snapshot(root_, ""); }), errc::invalid_argument);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_.path()), {}), 1) << "the data alone";
}

TEST_F(Service, a_changed_snapshot_is_refused) {
  put(*create("one"), "a", "1");
  service_->write_snapshot(root_, folder_ / "snapshot");
  std::fstream file(folder_ / "snapshot/databases/1/store.ice", std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(70'000);
  file.put('!');
  file.close();
  EXPECT_EQ(code_of([&] { service::restore_snapshot(folder_ / "snapshot", folder_ / "restored"); }), errc::damaged);
  EXPECT_FALSE(std::filesystem::exists(folder_ / "restored"));
  EXPECT_EQ(code_of([&] { service::restore_snapshot(folder_ / "nothing", folder_ / "restored"); }), errc::bad_input);
}

TEST_F(Service, after_stopping_nothing_is_served) {
  const auto db = create("one");
  service_->stop();
  EXPECT_EQ(code_of([&] { put(*db, "a", "1"); }), errc::unavailable);
  EXPECT_EQ(code_of([&] { static_cast<void>(service_->find_database(root_, "one")); }), errc::unavailable);
}

}  // namespace
}  // namespace icecore::service
