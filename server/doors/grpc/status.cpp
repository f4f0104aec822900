#include "doors/grpc/status.hpp"

namespace icecore::doors {

grpc::StatusCode status_code_of(errc code) noexcept {
  switch (code) {
    case errc::invalid_argument:
    case errc::key_too_long:
    case errc::value_too_large:
    case errc::bad_input:
    case errc::bad_token:
    case errc::unknown_function:
      return grpc::StatusCode::INVALID_ARGUMENT;
    case errc::version_not_closed:
      return grpc::StatusCode::OUT_OF_RANGE;
    case errc::unknown_tag:
    case errc::no_such_store:
    case errc::no_such_query:
    case errc::no_such_lease:
      return grpc::StatusCode::NOT_FOUND;
    case errc::tag_exists:
    case errc::store_exists:
    case errc::query_exists:
    case errc::database_exists:
      return grpc::StatusCode::ALREADY_EXISTS;
    case errc::version_expired:
    case errc::read_only:
    case errc::poisoned:
    case errc::protection:
    case errc::other_cluster:
    case errc::crash_unknown:
    case errc::not_durable:
    case errc::not_owner:
    case errc::permission:
    case errc::query_busy:
      return grpc::StatusCode::FAILED_PRECONDITION;
    case errc::no_space:
    case errc::limit_reached:
      return grpc::StatusCode::RESOURCE_EXHAUSTED;
    case errc::unavailable:
    case errc::locked:
    case errc::closed:
    case errc::mpi:
    case errc::rank_failed:
      return grpc::StatusCode::UNAVAILABLE;
    case errc::damaged:
    case errc::truncated:
    case errc::not_a_store:
    case errc::unsupported_format:
    case errc::missing_file:
    case errc::version_lost:
    case errc::copied:
      return grpc::StatusCode::DATA_LOSS;
    case errc::denied:
      return grpc::StatusCode::PERMISSION_DENIED;
    case errc::unauthenticated:
      return grpc::StatusCode::UNAUTHENTICATED;
    case errc::deadline_exceeded:
      return grpc::StatusCode::DEADLINE_EXCEEDED;
    case errc::cancelled:
      return grpc::StatusCode::CANCELLED;
    case errc::outcome_unknown:
      return grpc::StatusCode::UNKNOWN;
    case errc::io:
    case errc::forked:
      return grpc::StatusCode::INTERNAL;
  }
  return grpc::StatusCode::INTERNAL;
}

grpc::Status status_of(const service::failure& what) {
  std::string message = what.message;
  if (message.size() > status_message_bytes_max) message.replace(status_message_bytes_max, std::string::npos, "...");
  return {status_code_of(what.code), message};
}

}  // namespace icecore::doors
