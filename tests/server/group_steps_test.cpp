// A server of a dependent group makes, changes and drops databases in steps: whichever of them fails at another server,
// this one is left with the same as that one. The group is played: this server is the second one of two.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <limits>

#include "icecore/error.hpp"
#include "service/catalog.hpp"
#include "service/service.hpp"
#include "service/store_database.hpp"
#include "support/scratch.hpp"

namespace icecore::service {
namespace {

constexpr int never = std::numeric_limits<int>::max();

class played_group final : public group_link {
 public:
  explicit played_group(std::filesystem::path data) : data_(std::move(data)) {}

  [[nodiscard]] std::uint32_t index() const noexcept override { return 1; }
  [[nodiscard]] std::uint32_t size() const noexcept override { return 2; }
  [[nodiscard]] bool leads_node() const noexcept override { return leads; }
  [[nodiscard]] std::string of_first(const std::string& mine) override {
    // The first server's records; and its number of a database, which begins with `numbers`.
    return mine.empty() ? R"({"is_new":false,"records":{}})" : numbers + mine;
  }
  void agree(const std::optional<failure>& mine) override {
    ++steps_done;
    if (mine) raise(*mine);
    if (steps_done == fails_at) throw icecore::error(errc::io, "server 0 of the group: it failed");
  }
  [[nodiscard]] bool everywhere_is(bool mine) override { return mine; }
  [[nodiscard]] std::filesystem::path folder(std::uint64_t number) const override {
    return data_ / "group" / std::to_string(number);
  }
  [[nodiscard]] std::shared_ptr<database> open(const std::filesystem::path& folder, const database_settings& settings,
                                               const database_environment& around) override {
    return std::make_shared<store_database>(folder / "store.ice", settings, around);
  }
  std::string everywhere(const std::string& order) override { return how_(order); }
  void executes(std::function<std::string(const std::string&)> how) override { how_ = std::move(how); }

  bool leads = true;
  std::string numbers;  // before this server's
  int steps_done = 0;
  int fails_at = never;  // which step the first server fails in

 private:
  std::filesystem::path data_;
  std::function<std::string(const std::string&)> how_;
};

template <typename Call>
errc code_of(Call call) {
  try {
    call();
  } catch (const icecore::error& e) {
    return static_cast<errc>(e.code().value());
  }
  return {};
}

class GroupSteps : public ::testing::Test {
 protected:
  GroupSteps() { start(); }
  void start() {
    service_.reset();
    service_options options;
    options.data = folder_ / "rank-1";
    options.limits.free_disk_bytes = 0;
    options.link = &group_;
    options.group = {.name = "g", .index = 1, .size = 2};
    options.log = [this](std::string_view event, const auto&) { events_.emplace_back(event); };
    service_ = std::make_unique<service>(std::move(options));
  }
  void create(const std::string& name) {
    database_settings settings;
    settings.name = name;
    settings.rule = version_rule::tag;
    service_->create(root_, settings);
  }
  // What fails if the first server fails in the step of this number, from 1, that `call` takes.
  template <typename Call>
  errc failing_in(int step, const Call& call) {
    group_.fails_at = group_.steps_done + step;
    const errc came = code_of(call);
    group_.fails_at = never;
    return came;
  }
  // The catalog as a server that starts finds it.
  [[nodiscard]] std::optional<catalog_entry> kept(const std::string& name) {
    service_.reset();
    std::optional<catalog_entry> found;
    {
      catalog known(folder_ / "rank-1" / "catalog.ice");
      found = known.find(name);
      known.close();
    }
    return found;
  }
  [[nodiscard]] bool folder_there(int number) const {
    return std::filesystem::exists(folder_ / "group" / std::to_string(number));
  }

  icecore::testing::scratch folder_;
  principal root_ = principal::anyone();
  std::vector<std::string> events_;
  played_group group_{folder_.path()};
  std::unique_ptr<service> service_;
};

TEST_F(GroupSteps, a_database_that_another_server_cannot_make_is_made_nowhere) {
  int step = 1;
  for (; failing_in(step, [&] { create("one"); }) == errc::io; ++step) {
    EXPECT_TRUE(service_->list(root_).empty()) << step;
    EXPECT_EQ(code_of([&] { static_cast<void>(service_->find_database(root_, "one")); }), errc::denied) << step;
    for (int number = 0; number < 10; ++number) EXPECT_FALSE(folder_there(number)) << step;
  }
  EXPECT_GT(step, 4) << "before the folder, before the database is opened, after that, and after the catalog";
  EXPECT_EQ(service_->list(root_).size(), 1U);
  service_->drop(root_, "one");
  EXPECT_EQ(failing_in(step - 1, [&] { create("one"); }), errc::io) << "the last step";
  EXPECT_FALSE(kept("one"));
}

TEST_F(GroupSteps, a_database_has_the_first_servers_number) {
  group_.numbers = "4";
  create("one");
  EXPECT_TRUE(folder_there(41));
  group_.numbers = "";
  create("two");
  EXPECT_TRUE(folder_there(42)) << "no number is used again";
}

TEST_F(GroupSteps, a_database_that_another_server_cannot_drop_is_dropped_nowhere) {
  create("one");
  int step = 1;
  for (; failing_in(step, [&] { service_->drop(root_, "one"); }) == errc::io && !service_->list(root_).empty();
       ++step) {
    EXPECT_NO_THROW(service_->find_database(root_, "one")->tag({})) << step;
    EXPECT_TRUE(folder_there(1)) << step;
  }
  EXPECT_EQ(step, 3) << "before it is gone there are two: is it there, and can the catalog forget it";
  EXPECT_FALSE(folder_there(1)) << "what fails later, at any server, leaves nothing here";
  EXPECT_FALSE(kept("one"));
}

TEST_F(GroupSteps, a_catalog_knows_a_database_again_that_was_not_dropped) {
  create("one");
  EXPECT_EQ(failing_in(2, [&] { service_->drop(root_, "one"); }), errc::io);
  EXPECT_TRUE(kept("one"));
}

TEST_F(GroupSteps, settings_that_another_server_cannot_change_are_changed_nowhere) {
  create("one");
  changed_settings what;
  what.quota_bytes = 1U << 30;
  what.interval = std::chrono::milliseconds(7);
  int step = 1;
  for (; failing_in(step, [&] { service_->change(root_, "one", what); }) == errc::io; ++step) {
    EXPECT_EQ(service_->list(root_).at(0).quota_bytes, 0U) << step;
    EXPECT_EQ(service_->find_database(root_, "one")->settings().quota_bytes, 0U) << step;
    EXPECT_EQ(service_->find_database(root_, "one")->settings().interval, std::chrono::milliseconds(1000)) << step;
  }
  EXPECT_GT(step, 2);
  EXPECT_EQ(service_->find_database(root_, "one")->settings().quota_bytes, 1U << 30);
  what.quota_bytes = 5;
  EXPECT_EQ(failing_in(step - 1, [&] { service_->change(root_, "one", what); }), errc::io);
  const auto entry = kept("one");
  ASSERT_TRUE(entry);
  EXPECT_EQ(entry->settings.quota_bytes, 1U << 30);
}

TEST_F(GroupSteps, the_first_server_of_a_node_removes_folders_that_nobody_names) {
  const auto orphan = folder_ / "group/77/cluster";
  for (const bool leads : {false, true}) {
    std::filesystem::create_directories(orphan);
    group_.leads = leads;
    events_.clear();
    start();
    EXPECT_EQ(std::filesystem::exists(orphan), !leads);
    EXPECT_EQ(events_.size(), leads ? 1U : 0U);
  }
}

}  // namespace
}  // namespace icecore::service
