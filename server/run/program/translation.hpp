// From the configuration to what the parts of the server are told.
#pragma once

#include "doors/grpc/door.hpp"
#include "doors/http/tls.hpp"
#include "run/configuration/configuration.hpp"
#include "service/service.hpp"

namespace icecore::server {

/// Errors: errc::bad_input, io: a file that the configuration names cannot be read.
[[nodiscard]] service::service_options service_options_of(const configuration& from);
[[nodiscard]] doors::grpc_door_options grpc_options_of(const configuration& from);
[[nodiscard]] http::tls_files tls_files_of(const configuration& from);

}  // namespace icecore::server
