// What gRPC and protobuf themselves have to say goes to the server's log instead of standard error.
//
//   const library_log lines([&](bool is_error, std::string_view text) { ... });   // until its end
//
// One at a time in a process. gRPC says errors alone unless the environment variable GRPC_VERBOSITY asks for more.
// Threads: the function is called by any, one at a time; it must not call gRPC. The destructor waits for a call.
#pragma once

#include <functional>
#include <string_view>

namespace icecore::doors {

class library_log {
 public:
  using function = std::function<void(bool is_error, std::string_view text)>;
  explicit library_log(function to);
  ~library_log();
  library_log(const library_log&) = delete;
  library_log& operator=(const library_log&) = delete;
};

}  // namespace icecore::doors
