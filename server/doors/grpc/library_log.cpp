#include "doors/grpc/library_log.hpp"

#include <fmt/format.h>
#include <google/protobuf/stubs/logging.h>
#include <grpc/support/log.h>

#include <cstdio>
#include <mutex>
#include <utility>

namespace icecore::doors {

namespace {

struct receiver {
  std::mutex mutex;
  library_log::function to;
};

receiver& the_receiver() {
  static receiver* const only = new receiver;  // gRPC's threads may outlive static objects
  return *only;
}

void tell(bool is_error, const std::string& text) {
  receiver& where = the_receiver();
  const std::lock_guard lock(where.mutex);
  if (where.to) {
    where.to(is_error, text);
  } else {
    std::fprintf(stderr, "%s\n", text.c_str());
  }
}

void tell_of_grpc(gpr_log_func_args* said) {
  tell(said->severity == GPR_LOG_SEVERITY_ERROR, fmt::format("{}:{}: {}", said->file, said->line, said->message));
}

// What a client sends can make protobuf say something: text that is no UTF-8, for example.
void tell_of_protobuf(google::protobuf::LogLevel level, const char* file, int line, const std::string& message) {
  tell(level >= google::protobuf::LOGLEVEL_ERROR, fmt::format("{}:{}: {}", file, line, message));
}

}  // namespace

library_log::library_log(function to) {
  {
    const std::lock_guard lock(the_receiver().mutex);
    the_receiver().to = std::move(to);
  }
  gpr_set_log_function(tell_of_grpc);
  google::protobuf::SetLogHandler(tell_of_protobuf);
}

library_log::~library_log() {
  const std::lock_guard lock(the_receiver().mutex);
  the_receiver().to = nullptr;
}

}  // namespace icecore::doors
