// What an error of icecore is in gRPC: a status code, a message, and icecore's own number in the trailing metadata.
//
//   return status_of(failure{errc::version_expired, "version 3 was given up; the oldest one kept is 7"});
//   // FAILED_PRECONDITION; the call adds icecore-code: 36
//
// Threads: any number. The table is part of the interface (docs/errors.md): a code never changes its status.
#pragma once

#include <grpcpp/support/status.h>

#include "icecore/error.hpp"
#include "service/transaction.hpp"

namespace icecore::doors {

inline constexpr const char* code_metadata = "icecore-code";
/// Longer messages are cut: a status travels in HTTP/2 headers, whose size clients limit to 8 KiB.
inline constexpr std::size_t status_message_bytes_max = 1500;

[[nodiscard]] grpc::StatusCode status_code_of(errc code) noexcept;
[[nodiscard]] grpc::Status status_of(const service::failure& what);

}  // namespace icecore::doors
