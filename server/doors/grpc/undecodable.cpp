#include "doors/grpc/undecodable.hpp"

#include <google/protobuf/descriptor.h>

#include <algorithm>
#include <string>

namespace icecore::doors {

namespace {

using grpc::experimental::InterceptionHookPoints;
using grpc::experimental::InterceptorBatchMethods;

/// "/icecore.v1.Store/Get" is a method that this program knows.
bool is_known(const char* path) {
  std::string name(path == nullptr || *path == '\0' ? "" : path + 1);
  std::ranges::replace(name, '/', '.');
  return google::protobuf::DescriptorPool::generated_pool()->FindMethodByName(name) != nullptr;
}

class interceptor final : public grpc::experimental::Interceptor {
 public:
  explicit interceptor(grpc::experimental::ServerRpcInfo* call) : call_(call) {}

  /// Of a known method UNIMPLEMENTED means that its request could not be decoded.
  void Intercept(InterceptorBatchMethods* methods) override {
    if (methods->QueryInterceptionHookPoint(InterceptionHookPoints::PRE_SEND_STATUS) &&
        methods->GetSendStatus().error_code() == grpc::StatusCode::UNIMPLEMENTED && is_known(call_->method())) {
      methods->ModifySendStatus({grpc::StatusCode::INTERNAL, "the request's bytes are no message of this method"});
    }
    methods->Proceed();
  }

 private:
  grpc::experimental::ServerRpcInfo* call_;
};

}  // namespace

grpc::experimental::Interceptor* undecodable_requests::CreateServerInterceptor(
    grpc::experimental::ServerRpcInfo* call) {
  return new interceptor(call);  // gRPC deletes it when the call has ended
}

}  // namespace icecore::doors
