// Where the server is built without UCX. Reading the configuration has refused an address for it already.
#include "icecore/error.hpp"
#include "run/program/job_door.hpp"

namespace icecore::server {

std::unique_ptr<job_door> open_job_door(const configuration& /*told*/, service::service& /*all*/,
                                        server_metrics& /*metrics*/, slow_log& /*slow*/, log& /*out*/) {
  throw error(errc::bad_input, "listen.ucx: this icecore-server was built without UCX");
}

}  // namespace icecore::server
