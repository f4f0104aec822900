// The files that a configuration names: secrets, certificates, keys.
//
//   require_usable_files(told);                                  // before anything is started, and for --check
//   const std::string token = secret_in(told.ucx.token_file);
//
// Errors: errc::bad_input, which names the file and what is wrong with it; errc::io if it cannot be read.
#pragma once

#include <cstddef>
#include <string>

#include "run/configuration/configuration.hpp"

namespace icecore::server {

inline constexpr std::size_t metrics_token_bytes_min = 16;
inline constexpr std::size_t job_token_bytes_min = 8;

/// What is in the file, without line ends at its end: `least` to 4,096 bytes.
[[nodiscard]] std::string secret_in(const file_reference& file, std::size_t least = 1);

/// Looks into each of them, and tells all that cannot be used, one a line. Secrets that come from a pipe are passed
/// over: they can be read only once.
void require_usable_files(const configuration& told);

}  // namespace icecore::server
