// Record logs: everything that a closed store holds, in the order of versions.
#include "icecore/record_log.hpp"

#include <gtest/gtest.h>
#include <signal.h>

#include <cstdlib>
#include <map>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/checksum.hpp"
#include "icecore/icecore.hpp"
#include "support/expect.hpp"
#include "support/file.hpp"
#include "support/process.hpp"
#include "support/scratch.hpp"

namespace icecore::testing {
namespace {

class RecordLog : public ::testing::Test {
 protected:
  /// Several threads write to the same keys, in a few versions.
  void fill() const {
    store s(path_);
    for (int round = 0; round < 5; ++round) {
      std::vector<std::thread> writers;
      for (int t = 0; t < 3; ++t) {
        writers.emplace_back([&, t] {
          for (int i = 0; i < 200; ++i) {
            const std::string key = "key " + std::to_string(i % 50);
            const std::string value = std::to_string(round) + " " + std::to_string(t) + " " + std::to_string(i);
            s.insert(key, i % 20 == 0 ? value + std::string(5000, 'x') : value);
            if (i % 30 == 0) s.remove(key);
          }
        });
      }
      for (std::thread& each : writers) each.join();
      batch absent;
      absent.remove("never there " + std::to_string(round));
      absent.insert("of a batch", std::to_string(round));
      s.apply(absent);
      if (round % 2 == 0) {
        s.tag({.name = "tag " + std::to_string(round), .note = "note", .time_ns = round});
      } else {
        s.tag();
      }
    }
  }

  const scratch folder_;
  const std::filesystem::path path_ = folder_ / "one.ice";
};

TEST_F(RecordLog, has_every_version_of_every_key_in_order) {
  fill();
  const std::string bytes = read_file(path_);
  std::map<std::string, std::vector<std::pair<version, std::optional<std::string>>>> found;
  std::vector<std::string> tags;
  const record_log log(path_);
  version last = 0;
  for (std::size_t i = 0; i < log.size(); ++i) {
    log.prefetch(i + 1);
    const logged one = log.at(i);
    ASSERT_GE(one.at, last);
    if (one.what == logged::kind::tag) {
      EXPECT_GT(one.at, last) << "it comes before all others of its version";
      EXPECT_EQ(one.value, "note");
      tags.emplace_back(one.key);
    } else {
      std::optional<std::string> value;
      if (one.what == logged::kind::small) value = one.value;
      if (one.what == logged::kind::large) {
        value = bytes.substr(one.value_offset, one.value_size);
        EXPECT_EQ(one.value_crc, crc32c(0, value->data(), value->size()));
      }
      found[std::string(one.key)].emplace_back(one.at, value);
    }
    last = one.at;
  }
  EXPECT_EQ(tags, (std::vector<std::string>{"tag 0", "tag 2", "tag 4"}));
  options reading;
  reading.access = access::read_only;
  const store s(path_, reading);
  EXPECT_EQ(log.clock(), s.clock());
  EXPECT_EQ(log.pool_id(), s.stats().pool_id);
  EXPECT_EQ(found.size(), s.keys().size());
  for (const auto& [key, records] : found) {
    if (key.starts_with("never there")) {  // a batch has recorded it, histories do not show it
      EXPECT_TRUE(records.size() == 1 && !records[0].second) << key;
      continue;
    }
    std::size_t at = 0;
    for (const change& each : s.history(key).oldest_first()) {
      ASSERT_LT(at, records.size()) << key;
      EXPECT_EQ(records[at].first, each.version) << key;
      EXPECT_EQ(records[at].second, each.value) << key;
      ++at;
    }
    EXPECT_EQ(at, records.size()) << key;
  }
}

TEST_F(RecordLog, refuses_what_is_damaged_or_not_closed) {
  fill();
  const std::string bytes = read_file(path_);
  std::string changed = bytes;
  changed[bytes.find("key 0")] ^= 1;
  write_file(path_, changed);
  expect_error(errc::damaged, "one.ice: damaged at byte", [&] { static_cast<void>(record_log(path_)); });
  write_file(path_, bytes);
  EXPECT_GT(record_log(path_).size(), 3000U);
  child writer([&]() -> int {
    store dying(path_);
    dying.insert("not", "closed");
    std::abort();
  });
  EXPECT_EQ(writer.wait(), -SIGABRT);
  expect_error(errc::copied, "one.ice", [&] { static_cast<void>(record_log(path_)); });
  expect_error(errc::no_such_store, "nowhere", [&] { static_cast<void>(record_log(folder_ / "nowhere")); });
}

/// All that a log has, as text: of each key in the order of the log.
std::map<std::string, std::vector<std::string>> all_of(const record_log& log) {
  std::map<std::string, std::vector<std::string>> all;
  for (std::size_t i = 0; i < log.size(); ++i) {
    log.prefetch(i + 1);
    const logged one = log.at(i);
    EXPECT_LE(log.at(i == 0 ? 0 : i - 1).order(), one.order());
    all[std::string(one.key)].push_back(std::to_string(one.at) + " " + std::to_string(static_cast<int>(one.what)) +
                                        " " + std::string(one.value));
  }
  return all;
}

TEST(RecordLogOfPackedStores, a_log_has_what_is_packed_and_what_was_written_since) {
  for (const compression how : {compression::none, compression::zstd}) {
    const scratch folder(place::tmpfs);
    const auto path = folder / "store.ice";
    std::map<std::string, std::vector<std::string>> before;
    const auto write = [&](version from) {
      store s(path);
      for (version v = from; v < from + 5; ++v) {
        for (int i = 0; i < 300; i += static_cast<int>(v)) s.insert("key " + std::to_string(i), std::to_string(v));
        if (v == from + 1) s.remove("key 1");
        v == 3 ? s.tag("three", "note") : s.tag();
      }
    };
    write(1);
    before = all_of(record_log(path));
    static_cast<void>(compact(path, {}, {.compression = how, .on_progress = {}}));
    auto packed = all_of(record_log(path));
    EXPECT_EQ(packed, before);
    write(6);
    packed = all_of(record_log(path));
    EXPECT_GT(packed["key 0"].size(), before["key 0"].size());
    static_cast<void>(compact(path, {}, {.compression = how, .on_progress = {}}));
    EXPECT_EQ(all_of(record_log(path)), packed);  // two strata
    EXPECT_TRUE(record_log(path).expired_versions().empty());
    store(path).set_retention({.tagged = true});
    static_cast<void>(compact(path));
    const std::vector<version_range> expired = store(path).expired_versions();
    const record_log thinned(path);
    EXPECT_EQ(thinned.retention(), (retention{.tagged = true}));
    EXPECT_EQ(thinned.expired_versions(), expired);
    EXPECT_FALSE(thinned.expired_versions().empty());
  }
}

TEST(RecordLogOfPackedStores, a_log_refuses_a_store_with_keys_that_are_to_be_forgotten) {
  const scratch folder(place::tmpfs);
  const auto path = folder / "store.ice";
  {
    store s(path);
    s.insert("a", "1");
    s.forget({.keys = {"a"}});
  }
  expect_error(errc::unsupported_format, "are to be forgotten", [&] { const record_log log(path, {}); });
  static_cast<void>(compact(path));
  EXPECT_EQ(all_of(record_log(path)).count("a"), 0U);
}

}  // namespace
}  // namespace icecore::testing
