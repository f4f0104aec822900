// Requests whose bytes are no message end with INTERNAL and say so. gRPC's callback interface of this version tells
// clients that such a method is not implemented.
//
//   interceptors.push_back(std::make_unique<undecodable_requests>());  // of the server
//
// Threads: gRPC's. Cost: one small object a call.
#pragma once

#include <grpcpp/support/server_interceptor.h>

namespace icecore::doors {

class undecodable_requests final : public grpc::experimental::ServerInterceptorFactoryInterface {
 public:
  grpc::experimental::Interceptor* CreateServerInterceptor(grpc::experimental::ServerRpcInfo* call) override;
};

}  // namespace icecore::doors
