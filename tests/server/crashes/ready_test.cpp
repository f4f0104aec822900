// A server that was killed under load is ready again without reading its databases: with the persistent index, opening
// looks at the ends of the writers' logs alone, whatever the size. Judged by the pages of the store's file that the
// server has touched when it is ready, not by time.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <fstream>
#include <string>
#include <thread>

#include "http_get.hpp"
#include "support/scratch.hpp"
#include "ways/server_process.hpp"
#include "ways/way.hpp"

namespace icecore::service {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

/// The pages of `file` that are mapped by the process: whatever it has read or written there since its start, and what
/// the kernel maps around such a page (64 KiB).
std::size_t touched_bytes(pid_t process, const std::string& file) {
  std::ifstream in("/proc/" + std::to_string(process) + "/smaps");
  std::size_t kib = 0;
  bool is_its = false;
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("Rss:")) {
      if (is_its) kib += std::stoul(line.substr(4));
    } else if (line.find('-') < 17 && line.find(' ') > line.find('-')) {  // "7f00-7f01 rw-s ... FILE"
      is_its = line.ends_with(file);
    }
  }
  return kib << 10;
}

class Ready : public ::testing::Test {
 protected:
  struct start {
    std::size_t touched = 0;
    std::size_t file_bytes = 0;
    std::string metrics;
  };

  /// Kills a server that has so many records, while it is written to, and starts it again.
  static start after_a_kill(std::uint64_t records, const std::string& index) {
    const testing::scratch folder(testing::place::disk);
    const ways::server_settings settings{.listen = {{"grpc", ways::any_port}, {"http", ways::any_port}},
                                         .flags = {"--defaults-index", index}};
    {
      ways::server_process server(folder.path(), settings);
      const auto to = ways::connect({.through = ways::door::grpc, .address = server.address("grpc")});
      to->create("all", {.rule = remote::version_rule::tag});
      const auto database = to->open("all");
      constexpr std::uint64_t block = 10'000;
      for (std::uint64_t from = 0; from < records; from += block) {
        ways::rows some;
        for (std::uint64_t i = from; i < from + block; ++i) some.emplace_back(std::to_string(i), std::string(200, 'v'));
        database->load(some);
      }
      database->tag();
      std::atomic<int> written = 0;
      std::thread under_load([&] {
        try {
          for (;; ++written) database->insert("more-" + std::to_string(written), std::string(200, 'v'));
        } catch (const error&) {  // the server is killed
        }
      });
      while (written < 200) std::this_thread::yield();
      server.kill();
      under_load.join();
    }
    ways::server_process server(folder.path(), settings);
    const std::string address = server.address("http");
    EXPECT_THAT(server::testing::http_get(address, "/readyz"), StartsWith("HTTP/1.1 200 "));
    const std::string file = "/databases/1/store.ice";
    const start is{.touched = touched_bytes(server.pid(), file),
                   .file_bytes = std::filesystem::file_size(folder.path() / ("data" + file)),
                   .metrics = server::testing::http_get(address, "/metrics")};
    std::printf("%s, %llu records: %zu KiB of %zu KiB are touched\n", index.c_str(),
                static_cast<unsigned long long>(records), is.touched >> 10, is.file_bytes >> 10);
    const auto to = ways::connect({.through = ways::door::grpc, .address = server.address("grpc")});
    const auto database = to->open("all");
    EXPECT_EQ(database->get(std::to_string(records - 1)), std::string(200, 'v'));
    EXPECT_EQ(database->get("more-199"), std::string(200, 'v'));
    return is;
  }
};

TEST_F(Ready, after_a_kill_without_reading_the_records) {
  const start few = after_a_kill(20'000, "persistent");
  const start many = after_a_kill(200'000, "persistent");
  for (const start& is : {few, many}) {
    EXPECT_THAT(is.metrics, HasSubstr("icecore_database{database=\"all\",what=\"recovered_from_crash\"} 1\n"));
    EXPECT_THAT(is.metrics, HasSubstr("icecore_database{database=\"all\",what=\"recovered_instantly\"} 1\n"));
  }
  EXPECT_LE(many.touched, few.touched + (std::size_t{1} << 20));
  EXPECT_LE(many.touched, many.file_bytes / 8);
}

// An index in memory is built from the records: so what is counted above would show it if they were read.
TEST_F(Ready, with_an_index_in_memory_all_records_are_read) {
  const start is = after_a_kill(20'000, "btree");
  EXPECT_THAT(is.metrics, HasSubstr("icecore_database{database=\"all\",what=\"recovered_instantly\"} 0\n"));
  EXPECT_GE(is.touched, 20'000U * 200);
}

}  // namespace
}  // namespace icecore::service
