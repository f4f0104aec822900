// What needs no server: names and identifiers, configuration, handles.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <deque>
#include <filesystem>
#include <fstream>
#include <set>

#include "configuration.hpp"
#include "done_queue.hpp"
#include "handle_table.hpp"
#include "icecore/error.hpp"
#include "names.hpp"

namespace skv = icecore::skv;

TEST(SkvNames, every_name_is_a_database_and_back) {
  EXPECT_EQ(skv::database_of("weights"), "skv.weights");
  EXPECT_EQ(skv::database_of("my/set_1"), "skv.my_2Fset_5F1");
  std::set<std::string> databases;
  for (int byte = 1; byte < 256; ++byte) {
    const std::string name(1, static_cast<char>(byte));
    const std::string database = skv::database_of(name);
    EXPECT_TRUE(databases.insert(database).second);
    EXPECT_EQ(skv::pds_of(database), name);
    EXPECT_EQ(database.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"),
              std::string::npos);
  }
  for (const char* other : {"weights", "skv", "skv._", "skv._2", "skv._zz", "skv_attributes"}) {
    EXPECT_EQ(skv::pds_of(other), std::nullopt) << other;
  }
}

TEST(SkvNames, identifiers_are_the_same_for_ever) {
  const skv_pds_id_t id = skv::identifier_of("weights");
  EXPECT_EQ(skv::identifier_of("weights"), id);
  EXPECT_NE(skv::identifier_of("weight"), id);
  std::set<std::pair<unsigned, unsigned>> seen;
  for (int i = 0; i < 10'000; ++i) {
    const skv_pds_id_t each = skv::identifier_of("set" + std::to_string(i));
    EXPECT_TRUE(seen.emplace(each.mOwnerNodeId, each.mIdOnOwner).second);
  }
}

TEST(SkvHandles, a_closed_handle_is_never_open_again) {
  skv::handle_table<int> table;
  EXPECT_EQ(table.find(nullptr), nullptr);
  EXPECT_EQ(table.remove(reinterpret_cast<void*>(8)), nullptr);
  std::set<void*> given;
  for (int i = 0; i < 1000; ++i) {
    void* const handle = table.add(std::make_shared<int>(i));
    EXPECT_NE(handle, nullptr);
    EXPECT_TRUE(given.insert(handle).second) << "although its place is used again";
    EXPECT_EQ(*table.find(handle), i);
    EXPECT_EQ(*table.remove(handle), i);
    EXPECT_EQ(table.find(handle), nullptr);
    EXPECT_EQ(table.remove(handle), nullptr);
  }
  void* const first = table.add(std::make_shared<int>(1));
  void* const second = table.add(std::make_shared<int>(2));
  EXPECT_EQ(table.size(), 2U);
  EXPECT_EQ(table.remove_all().size(), 2U);
  EXPECT_EQ(table.find(first), nullptr);
  EXPECT_EQ(table.find(second), nullptr);
  EXPECT_EQ(table.size(), 0U);
}

namespace {

struct SkvConfiguration : testing::Test {
  std::filesystem::path folder = [] {
    std::string name = "/tmp/icecore-skv-parts-XXXXXX";
    if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("no folder in /tmp");
    return std::filesystem::path(name);
  }();
  ~SkvConfiguration() override { std::filesystem::remove_all(folder); }
  std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(folder / name) << text;
    return (folder / name).string();
  }
};

}  // namespace

TEST_F(SkvConfiguration, machine_files_have_a_server_a_line) {
  skv::configuration found;
  skv::read_machine_file(write("m", "# servers\n10.0.0.1 17002\n\n  node7:17003  \n::1 9\nicecore independent jobs\n"),
                         found);
  EXPECT_EQ(found.address(), "ucx://10.0.0.1:17002,node7:17003,[::1]:9");
  EXPECT_TRUE(found.independent);
  EXPECT_EQ(found.group, "jobs");
  for (const char* wrong : {"", "# none\n", "host\n", "host port\n", "host 123456\n", "host:\n", "a 1\nicecore\n",
                            "a 1\nicecore together g\n"}) {
    skv::configuration other;
    EXPECT_THROW(skv::read_machine_file(write("w", wrong), other), icecore::error) << wrong;
  }
}

TEST_F(SkvConfiguration, the_configuration_names_the_machine_file_and_the_token) {
  const std::string machines = write("machines", "a 1\n");
  const std::string token = write("token", "of the job\n");
  const std::string file = write("conf", "# SKV's\nSKV_SERVER_PORT = 17002\nSKV_SERVER_MACHINE_FILE = " + machines +
                                             "\nICECORE_TOKEN_FILE = " + token + "\n");
  unsetenv("ICECORE_TOKEN");
  unsetenv("ICECORE_TOKEN_FILE");
  EXPECT_EQ(skv::read_configuration(file.c_str()).token, "of the job");
  EXPECT_EQ(skv::read_configuration(file.c_str()).address(), "ucx://a:1");
  setenv("ICECORE_TOKEN_FILE", write("other", "another").c_str(), 1);
  EXPECT_EQ(skv::read_configuration(file.c_str()).token, "another");
  setenv("ICECORE_TOKEN", "a third", 1);
  EXPECT_EQ(skv::read_configuration(file.c_str()).token, "a third");
  EXPECT_THROW(static_cast<void>(skv::read_configuration((folder / "none").c_str())), icecore::error);
  setenv("HOME", folder.c_str(), 1);
  write(".skv_server.conf", "SKV_SERVER_MACHINE_FILE=" + write("m2", "home 2") + "\n");
  EXPECT_EQ(skv::read_configuration(nullptr).address(), "ucx://home:2");
}

// A program that waits for each command by its handle, and never for any of them.
TEST(SkvDoneQueue, has_no_more_than_twice_what_is_under_way) {
  skv::handle_table<int> commands;
  skv::done_queue done;
  std::deque<void*> under_way;
  for (int i = 0; i < 100'000; ++i) {
    done.tidy(commands);
    under_way.push_back(commands.add(std::make_shared<int>(i)));
    done.put(under_way.back());
    ASSERT_LE(done.handles.size(), 1024U + 2 * 100 + 1);
    if (under_way.size() < 100) continue;
    commands.remove(under_way.front());
    under_way.pop_front();
  }
  done.tidy(commands);
  for (void* each : under_way) EXPECT_EQ(std::ranges::count(done.handles, each), 1);
}
