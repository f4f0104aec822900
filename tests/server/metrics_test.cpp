// What /metrics tells: every limit of the configuration, in a form that Prometheus' own program finds nothing against.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>
#include <fstream>
#include <string>

#include "icecore/error.hpp"
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
