// What /metrics tells: every limit of the configuration, in a form that Prometheus' own program finds nothing against.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <optional>
#include <string>

#include "icecore/error.hpp"
#include "icecore/query.hpp"
#include "icecore/store.hpp"
#include "run/program/metrics.hpp"
#include "service/service.hpp"
#include "support/scratch.hpp"

namespace icecore::server {
namespace {

class Metrics : public ::testing::Test {
 protected:
  [[nodiscard]] std::string text() {
    metrics_.refresh(service_);
    return metrics_.text({.all = true});
  }

  icecore::testing::scratch folder_{icecore::testing::place::tmpfs};
  service::service service_{[&] {
    service::service_options told;
    told.data = folder_ / "data";
    told.limits.free_disk_bytes = 12;
    told.limits.request_bytes = 70'000;
    told.limits.connections_per_user = 7;
    told.limits.databases = 2;
    told.limits.leases = 1;
    return told;
  }()};
  server_metrics metrics_;
};

TEST_F(Metrics, show_every_limit) {
  service::database_settings settings;
  settings.name = "a";
  service_.create(service::principal::anyone(), settings);
  const std::string is = text();
  for (const char* limit :
       {"connections", "connections_per_user", "request_bytes", "in_flight_bytes", "output_bytes", "before_login_bytes",
        "strangers_bytes", "watchers", "health_watches", "transaction_operations", "open_scans", "databases", "leases",
        "free_disk_bytes", "read_limit"}) {
    EXPECT_NE(is.find(std::string("icecore_limit_refused{limit=\"limits.") + limit + "\"} 0\n"), std::string::npos)
        << limit;
    EXPECT_NE(is.find(std::string("icecore_limit_most{limit=\"limits.") + limit + "\"}"), std::string::npos) << limit;
  }
  EXPECT_NE(is.find("icecore_limit_most{limit=\"limits.request_bytes\"} 70000\n"), std::string::npos) << is;
  EXPECT_NE(is.find("icecore_limit_most{limit=\"limits.connections_per_user\"} 7\n"), std::string::npos);
  EXPECT_NE(is.find("icecore_limit_most{limit=\"limits.read_limit\"} 30\n"), std::string::npos);
  EXPECT_NE(is.find("icecore_limit_used{limit=\"limits.databases\"} 1\n"), std::string::npos);
}

TEST_F(Metrics, count_what_limits_refuse_in_the_service_and_in_doors) {
  service::database_settings settings;
  settings.quota_bytes = 1;
  for (const char* name : {"a", "b"}) {
    settings.name = name;
    service_.create(service::principal::anyone(), settings);
  }
  settings.name = "c";
  EXPECT_THROW(service_.create(service::principal::anyone(), settings), icecore::error);
  const auto a = service_.find_database(service::principal::anyone(), "a");
  service::row_block rows;
  rows.add("key", "value", 0);
  EXPECT_THROW(a->load(rows, false), icecore::error);
  const service::lease_info one = a->grant(std::chrono::hours(1), 0);
  EXPECT_THROW(static_cast<void>(a->grant(std::chrono::hours(1), 0)), icecore::error);
  static_cast<void>(one);
  service_.refused().count(service::kept_limit::read_limit);
  metrics_.show_refused("ucx", "limits.request_bytes", 5);
  metrics_.show_refused("ucx", "limits.request_bytes", 7);
  metrics_.show_refused("ucx", "limits.connections", 4);
  metrics_.show_refused("grpc", "limits.read_limit", 2);
  const std::string is = text();
  for (const char* told : {"limits.databases\"} 1", "quota_bytes\"} 1", "limits.connections\"} 4", "limits.leases\"} 1",
                           "limits.request_bytes\"} 7", "limits.read_limit\"} 3", "limits.free_disk_bytes\"} 0"}) {
    EXPECT_NE(is.find(std::string("icecore_limit_refused{limit=\"") + told + "\n"), std::string::npos) << told << is;
  }
}

TEST_F(Metrics, of_databases_are_for_those_who_see_them) {
  for (const char* name : {"seen", "unseen"}) {
    service::database_settings settings;
    settings.name = name;
    service_.create(service::principal::anyone(), settings);
  }
  EXPECT_NE(text().find("{database=\"unseen\",what=\"keys\"}"), std::string::npos);
  const std::string some = metrics_.text({.names = {"seen"}});
  EXPECT_NE(some.find("{database=\"seen\",what=\"keys\"}"), std::string::npos);
  EXPECT_EQ(some.find("unseen"), std::string::npos);
  const std::string none = metrics_.text({});
  EXPECT_EQ(none.find("seen"), std::string::npos) << none;
  EXPECT_NE(none.find("icecore_limit_used{limit=\"limits.databases\"} 2\n"), std::string::npos);
  EXPECT_NE(none.find("icecore_databases_not_ready 0\n"), std::string::npos);
}

/// The number of a database; empty if it is not told.
std::optional<double> number_of(const std::string& text, const std::string& what) {
  const std::string series = "icecore_database{database=\"a\",what=\"" + what + "\"} ";
  const std::size_t at = text.find(series);
  return at == std::string::npos ? std::nullopt : std::optional(std::stod(text.substr(at + series.size())));
}

TEST_F(Metrics, tell_what_a_database_holds_and_what_it_cost_to_write) {
  service::database_settings settings;
  settings.name = "a";
  service_.create(service::principal::anyone(), settings);
  const auto a = service_.find_database(service::principal::anyone(), "a");
  server_metrics metrics{std::chrono::nanoseconds(0)};
  const auto now = [&] {
    metrics.refresh(service_);
    return metrics.text({.all = true});
  };
  std::string is = now();
  EXPECT_EQ(number_of(is, "given_bytes"), 0);
  EXPECT_FALSE(number_of(is, "write_amplification"));
  for (const char* what : {"oldest_pin_version", "oldest_pin_seconds", "oldest_held_version"}) {
    EXPECT_FALSE(number_of(is, what)) << what;
  }

  const std::string value(10'000, 'v');
  service::row_block rows;
  for (const char* key : {"one", "two", "six"}) rows.add(key, value, 0);
  a->load(rows, false);
  const version first = a->tag({});
  is = now();
  EXPECT_EQ(number_of(is, "given_bytes"), 30'009);
  EXPECT_GE(number_of(is, "written_bytes"), 30'009);
  EXPECT_EQ(number_of(is, "live_bytes"), number_of(is, "used_bytes"));
  EXPECT_EQ(number_of(is, "garbage_bytes"), 0);
  const double each = number_of(is, "written_bytes").value() / number_of(is, "given_bytes").value();
  EXPECT_NEAR(number_of(is, "write_amplification").value(), each, 0.001);

  std::unique_ptr<service::row_stream> reading = a->scan({.at = first});
  is = now();
  EXPECT_EQ(number_of(is, "oldest_pin_version"), static_cast<double>(first + 1));
  EXPECT_GE(number_of(is, "oldest_pin_seconds"), 0);
  EXPECT_GE(number_of(is, "pins"), 1);
  reading.reset();
  EXPECT_FALSE(number_of(now(), "oldest_pin_version"));  // it is told no more, once it is known

  for (int times = 0; times < 3; ++times) a->load(rows, false);  // the version that is open shows the last alone
  is = now();
  EXPECT_GE(number_of(is, "garbage_bytes"), 20'000);
  EXPECT_EQ(number_of(is, "waiting_bytes"), 0);
  EXPECT_EQ(number_of(is, "live_bytes").value() + number_of(is, "garbage_bytes").value(),
            number_of(is, "used_bytes").value());
}

TEST(MetricsOfAPackedStore, tell_strata_and_what_a_query_holds) {
  const icecore::testing::scratch folder(icecore::testing::place::tmpfs);
  service::service_options told;
  told.data = folder / "data";
  service::database_settings settings;
  settings.name = "a";
  std::filesystem::path file;
  {
    service::service made{told};
    made.create(service::principal::anyone(), settings);
    file = told.data / "databases" / "1" / "store.ice";
  }
  version held = 0;
  {
    options opening;
    opening.emulate_durability = true;
    store s(file, opening);
    for (int i = 0; i < 100; ++i) s.insert("key-" + std::to_string(i), std::string(1000, 'v'));
    held = s.tag();
    static_cast<void>(s.start({.name = "kept", .at = held, .where = filter("true")}));
    static_cast<void>(s.compact());
  }
  service::service again{told};
  server_metrics metrics;
  metrics.refresh(again);
  const std::string is = metrics.text({.all = true});
  EXPECT_EQ(number_of(is, "strata"), 1) << is;
  EXPECT_EQ(number_of(is, "packed_keys"), 100);
  EXPECT_GE(number_of(is, "packed_inflated_bytes"), 100'000);
  EXPECT_EQ(number_of(is, "oldest_held_version"), static_cast<double>(held));
  EXPECT_EQ(number_of(is, "compaction_failed"), 0);
}

TEST_F(Metrics, of_databases_are_in_the_page_of_operations) {
  service::database_settings settings;
  settings.name = "a";
  service_.create(service::principal::anyone(), settings);
  std::ifstream page(ICECORE_SOURCES "/docs/operations.md");
  const std::string words{std::istreambuf_iterator<char>(page), {}};
  const std::string is = text();
  std::size_t told = 0;
  const std::string before = "icecore_database{database=\"a\",what=\"";
  for (std::size_t at = is.find(before); at != std::string::npos; at = is.find(before, at + 1), ++told) {
    const std::size_t begin = at + before.size();
    const std::string what = is.substr(begin, is.find('"', begin) - begin);
    EXPECT_NE(words.find("`" + what + "`"), std::string::npos) << what << " is not in docs/operations.md";
  }
  EXPECT_GE(told, 30U);
}

TEST_F(Metrics, are_what_prometheus_expects) {
  if (std::system("promtool --version >/dev/null 2>&1") != 0) GTEST_SKIP() << "promtool is not installed";
  metrics_.count_call("grpc", "Store.Put", "OK", std::chrono::milliseconds(1));
  metrics_.count_call("ucx", "put", "unavailable", std::chrono::milliseconds(1));
  const std::string file = (folder_ / "metrics").string();
  std::ofstream(file) << text();
  EXPECT_EQ(std::system(("promtool check metrics < '" + file + "'").c_str()), 0);
}

}  // namespace
}  // namespace icecore::server
