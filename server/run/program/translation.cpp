#include "run/program/translation.hpp"

#include <algorithm>

namespace icecore::server {
namespace {

using std::chrono::duration_cast;
using std::chrono::milliseconds;

service::version_rule rule_of(version_rule_setting::kind when) noexcept {
  switch (when) {
    case version_rule_setting::kind::write:
      return service::version_rule::write;
    case version_rule_setting::kind::tag:
      return service::version_rule::tag;
    case version_rule_setting::kind::every:
      break;
  }
  return service::version_rule::every;
}

}  // namespace

service::service_options service_options_of(const configuration& from) {
  service::service_options to;
  to.data = from.server.data;
  to.threads = from.server.threads;
  to.users = from.access.users;
  to.limits.connections = from.limits.connections;
  to.limits.leases = from.limits.leases;
  to.limits.connections_per_user = from.limits.connections_per_user;
  to.limits.request_bytes = from.limits.request_bytes;
  to.limits.in_flight_bytes = from.limits.in_flight_bytes;
  to.limits.output_bytes = from.limits.output_bytes;
  to.limits.before_login_bytes = from.limits.before_login_bytes;
  to.limits.strangers_bytes = from.limits.strangers_bytes;
  to.limits.watches = from.limits.watchers;
  to.limits.health_watches = from.limits.health_watches;
  to.limits.transaction_operations = from.limits.transaction_operations;
  to.limits.open_scans = from.limits.open_scans;
  to.limits.databases = from.limits.databases;
  to.limits.free_disk_bytes = from.limits.free_disk_bytes;
  to.limits.read_limit = duration_cast<milliseconds>(from.limits.read_limit);
  to.defaults.rule = rule_of(from.defaults.rule.when);
  if (from.defaults.rule.when == version_rule_setting::kind::every) {
    to.defaults.interval = std::max(milliseconds(1), duration_cast<milliseconds>(from.defaults.rule.interval));
  }
  to.defaults.durability = from.defaults.durability;
  to.defaults.index = from.defaults.index;
  to.defaults.compression = from.defaults.compression == value_compression::zstd ? service::value_compression::zstd
                                                                                 : service::value_compression::none;
  to.defaults.quota_bytes = from.defaults.quota_bytes;
  if (from.group.mode != group_mode::single) {
    to.group = {.name = from.group.name, .index = from.group.index, .size = from.group.size};
  }
  return to;
}

doors::grpc_door_options grpc_options_of(const configuration& from) {
  doors::grpc_door_options to;
  to.host = from.listen.grpc.host;
  to.port = from.listen.grpc.port;
  to.server_name = from.server.name;
  to.threads = from.server.threads == 0 ? 0 : 4 * from.server.threads;
  to.tls.certificate = from.tls.certificate.path();
  to.tls.key = from.tls.key.path();
  to.tls.client_authorities = from.tls.client_ca.path();
  if (!from.tls.client_ca.empty()) {
    to.tls.from_clients =
        from.tls.require_client_certificate ? doors::grpc_tls::clients::must_show : doors::grpc_tls::clients::may_show;
  }
  return to;
}

http::tls_files tls_files_of(const configuration& from) {
  return {.certificate = from.tls.certificate.path(),
          .key = from.tls.key.path(),
          .client_ca = from.tls.client_ca.path(),
          .require_client_certificate = from.tls.require_client_certificate};
}

}  // namespace icecore::server
