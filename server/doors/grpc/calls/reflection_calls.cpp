// Reflection: which services there are, and what their messages are, for tools such as grpcurl. It needs no user.
// gRPC's own service for it takes a thread for each open stream (docs/design/0024-completion-queues.md).
#include <google/protobuf/descriptor.h>
#include <google/protobuf/descriptor.pb.h>
#include <grpc/reflection/v1/reflection.pb.h>
#include <grpc/reflection/v1alpha/reflection.pb.h>

#include <array>
#include <unordered_set>

#include "doors/grpc/calls/conversation.hpp"
#include "doors/grpc/calls/services.hpp"

namespace icecore::doors {

namespace {

using google::protobuf::DescriptorPool;
using google::protobuf::FileDescriptor;
using grpc::reflection::v1::FileDescriptorResponse;
using grpc::reflection::v1::ServerReflectionRequest;
using grpc::reflection::v1::ServerReflectionResponse;

/// What this door serves is what these files describe.
constexpr std::array served_files{"icecore/v1/icecore.proto", "grpc/health/v1/health.proto",
                                  "grpc/reflection/v1/reflection.proto", "grpc/reflection/v1alpha/reflection.proto"};

void add_with_imports(const FileDescriptor& file, std::unordered_set<const FileDescriptor*>& there,
                      FileDescriptorResponse& to) {
  if (!there.insert(&file).second) return;
  google::protobuf::FileDescriptorProto described;
  file.CopyTo(&described);
  to.add_file_descriptor_proto(described.SerializeAsString());
  for (int i = 0; i < file.dependency_count(); ++i) add_with_imports(*file.dependency(i), there, to);
}

void answer_file(const FileDescriptor* file, const std::string& wanted, ServerReflectionResponse& to) {
  if (file == nullptr) {
    to.mutable_error_response()->set_error_code(grpc::StatusCode::NOT_FOUND);
    to.mutable_error_response()->set_error_message("the server does not know " + wanted);
    return;
  }
  std::unordered_set<const FileDescriptor*> there;
  add_with_imports(*file, there, *to.mutable_file_descriptor_response());
}

void answer_services(ServerReflectionResponse& to) {
  for (const char* const name : served_files) {
    const FileDescriptor* const file = DescriptorPool::generated_pool()->FindFileByName(name);
    for (int i = 0; i < file->service_count(); ++i) {
      to.mutable_list_services_response()->add_service()->set_name(file->service(i)->full_name());
    }
  }
}

/// Messages of this server have no extensions.
void answer(const ServerReflectionRequest& request, ServerReflectionResponse& to) {
  const DescriptorPool& known = *DescriptorPool::generated_pool();
  to.set_valid_host(request.host());
  *to.mutable_original_request() = request;
  switch (request.message_request_case()) {
    case ServerReflectionRequest::kFileByFilename:
      return answer_file(known.FindFileByName(request.file_by_filename()), request.file_by_filename(), to);
    case ServerReflectionRequest::kFileContainingSymbol:
      return answer_file(known.FindFileContainingSymbol(request.file_containing_symbol()),
                         request.file_containing_symbol(), to);
    case ServerReflectionRequest::kFileContainingExtension:
      return answer_file(nullptr, "extensions of " + request.file_containing_extension().containing_type(), to);
    case ServerReflectionRequest::kAllExtensionNumbersOfType: {
      const std::string& type = request.all_extension_numbers_of_type();
      if (known.FindMessageTypeByName(type) == nullptr) return answer_file(nullptr, type, to);
      to.mutable_all_extension_numbers_response()->set_base_type_name(type);
      return;
    }
    case ServerReflectionRequest::kListServices:
      return answer_services(to);
    case ServerReflectionRequest::MESSAGE_REQUEST_NOT_SET:
      to.mutable_error_response()->set_error_code(grpc::StatusCode::INVALID_ARGUMENT);
      to.mutable_error_response()->set_error_message("the request asks for nothing that this server knows");
      return;
  }
}

/// A stream of questions. The messages of both versions are the same on the wire.
class reflection_stream : public conversation {
 public:
  using conversation::conversation;

 private:
  [[nodiscard]] bool needs_user() const override { return false; }
  void came() override { begin(true); }
  void asked() override {
    ServerReflectionRequest request;
    if (!decode(request)) return finish_once([&] { return ended_as(undecodable); });
    ServerReflectionResponse response;
    try {
      answer(request, response);
      hold(door().all.strangers_bytes().take(response.ByteSizeLong()));  // instead of those of the answer before
    } catch (...) {
      const service::failure why = service::failure_of(std::current_exception());
      return finish_once([&] { return ended_by(why); });
    }
    reply(response);
  }
};

class reflection_calls final : public served_service {
 public:
  using served_service::served_service;
  void wait_on(grpc::ServerCompletionQueue& queue) override {
    wait_for<reflection_stream>(queue, "ServerReflectionInfo");
  }
};

}  // namespace

std::unique_ptr<served_service> make_reflection_calls(door_parts& door) {
  return std::make_unique<reflection_calls>(door, "grpc.reflection.v1.ServerReflection");
}

// Its messages are named once, so that the linker keeps what describes them.
std::unique_ptr<served_service> make_old_reflection_calls(door_parts& door) {
  static_cast<void>(grpc::reflection::v1alpha::ServerReflectionRequest::descriptor());
  return std::make_unique<reflection_calls>(door, "grpc.reflection.v1alpha.ServerReflection");
}

}  // namespace icecore::doors
