// The services of icecore.v1, each as gRPC's server takes it, and the streams that Store has.
//
//   std::vector<std::unique_ptr<served_service>> services;
//   services.push_back(make_store_calls(door));          // one for each service of the .proto file
//
// Lifetime: the door's parts must outlive the services, and those the server. Threads: their calls'
// events come on the queues' threads.
#pragma once

#include <grpcpp/impl/service_type.h>

#include <memory>

#include "doors/grpc/calls/serve.hpp"

namespace icecore::doors {

[[nodiscard]] std::unique_ptr<served_service> make_store_calls(door_parts& door);
[[nodiscard]] std::unique_ptr<served_service> make_database_calls(door_parts& door);
[[nodiscard]] std::unique_ptr<served_service> make_version_calls(door_parts& door);
[[nodiscard]] std::unique_ptr<served_service> make_lease_calls(door_parts& door);
[[nodiscard]] std::unique_ptr<served_service> make_user_calls(door_parts& door);
[[nodiscard]] std::unique_ptr<served_service> make_server_calls(door_parts& door);
[[nodiscard]] std::unique_ptr<served_service> make_health_calls(door_parts& door);
[[nodiscard]] std::unique_ptr<served_service> make_reflection_calls(door_parts& door);
[[nodiscard]] std::unique_ptr<served_service> make_old_reflection_calls(door_parts& door);

}  // namespace icecore::doors
