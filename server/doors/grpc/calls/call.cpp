#include "doors/grpc/calls/call.hpp"

#include <fmt/format.h>
#include <google/protobuf/descriptor.h>
#include <grpc/grpc_security_constants.h>
#include <grpcpp/support/proto_buffer_reader.h>
#include <grpcpp/support/slice.h>

#include <algorithm>
#include <thread>
#include <utility>

namespace icecore::doors {

namespace {

/// What a call costs besides its message: gRPC's own objects, and ours.
constexpr std::size_t bytes_of_a_call = 1024;
constexpr std::size_t request_id_bytes_max = 128;
constexpr std::string_view bearer = "Bearer ";

unsigned threads_of(unsigned wanted) {
  return wanted != 0 ? wanted : std::max(8U, 4 * std::thread::hardware_concurrency());
}

std::string_view view_of(grpc::string_ref text) { return {text.data(), text.size()}; }

}  // namespace

door_parts::door_parts(service::service& served, const grpc_door_options& opening)
    : all(served),
      options(opening),
      work(threads_of(opening.threads)),
      lengthy(2),
      accounts(2),
      users_of_connections(served.options().limits.connections_per_user) {}

void door_parts::opened() {
  const std::lock_guard lock(mutex_);
  ++calls_;
}

void door_parts::closed() {
  const std::lock_guard lock(mutex_);
  if (--calls_ == 0) none_left_.notify_all();
}

void door_parts::wait_until_all_closed() {
  std::unique_lock lock(mutex_);
  none_left_.wait(lock, [&] { return calls_ == 0; });
}

void door_parts::add(open_stream& stream) {
  const std::lock_guard lock(mutex_);
  streams_.insert(&stream);
}

void door_parts::remove(open_stream& stream) {
  const std::lock_guard lock(mutex_);
  streams_.erase(&stream);
}

void door_parts::end_streams(const service::failure& why) {
  const std::lock_guard lock(mutex_);
  for (open_stream* const stream : streams_) stream->end(why);
}

void door_parts::cut_stalled(std::chrono::steady_clock::time_point before) {
  const std::lock_guard lock(mutex_);
  for (open_stream* const stream : streams_) stream->cut_if_stalled(before);
}

void door_parts::begin_reading(grpc_call& reading) {
  const std::lock_guard lock(reading_mutex_);
  reading.reading_since_ = std::chrono::steady_clock::now();
  reading.listed_ = true;
  reading.previous_ = last_reading_;
  reading.next_ = nullptr;
  (last_reading_ != nullptr ? last_reading_->next_ : first_reading_) = &reading;
  last_reading_ = &reading;
}

bool door_parts::end_reading(grpc_call& reading) {
  const std::lock_guard lock(reading_mutex_);
  if (!std::exchange(reading.listed_, false)) return false;
  (reading.previous_ != nullptr ? reading.previous_->next_ : first_reading_) = reading.next_;
  (reading.next_ != nullptr ? reading.next_->previous_ : last_reading_) = reading.previous_;
  return true;
}

// A listed call waits for the event of its message, so it is there. Who takes it from the list ends it.
void door_parts::refuse_unread(std::chrono::steady_clock::time_point before) {
  for (;;) {
    grpc_call* late = nullptr;
    {
      const std::lock_guard lock(reading_mutex_);
      late = first_reading_;
      if (late == nullptr || late->reading_since_ >= before) return;
      late->listed_ = false;
      first_reading_ = late->next_;
      (first_reading_ != nullptr ? first_reading_->previous_ : last_reading_) = nullptr;
      late->keep();
    }
    unread.fetch_add(1, std::memory_order_relaxed);
    late->finish(late->ended_by(
        {errc::limit_reached, fmt::format("the limit \"read_limit\" is {} ms: the request's message did not arrive "
                                          "in that time",
                                          all.options().limits.read_limit.count())}));
    late->release();
  }
}

byte_service::byte_service(const std::string& name) {
  const google::protobuf::ServiceDescriptor* const known =
      google::protobuf::DescriptorPool::generated_pool()->FindServiceByName(name);
  for (int i = 0; i < known->method_count(); ++i) {
    methods_.push_back(std::make_unique<names>(names{.path = fmt::format("/{}/{}", name, known->method(i)->name()),
                                                     .short_ = known->name() + "." + known->method(i)->name()}));
    AddMethod(new grpc::internal::RpcServiceMethod(methods_.back()->path.c_str(),
                                                   grpc::internal::RpcMethod::BIDI_STREAMING, nullptr));
    MarkMethodAsync(i);
  }
}

byte_service::method byte_service::find(std::string_view wanted) {
  const auto found = std::ranges::find_if(methods_, [&](const auto& one) {
    return std::string_view(one->path).substr(one->path.rfind('/') + 1) == wanted;
  });
  return {.of = this, .index = static_cast<int>(found - methods_.begin()), .name = (*found)->short_.c_str()};
}

grpc_call::grpc_call(door_parts& door, const byte_service::method& method, grpc::ServerCompletionQueue& queue)
    : door_(door), queue_(queue), method_(method) {
  door_.opened();
  context_.AsyncNotifyWhenDone(ended_.tag());
  method.of->ask(method.index, context_, stream_, queue, headers_came_.tag());
}

void grpc_call::headers_came(bool well) {
  if (!well) {  // no client has come, and none will: the server is shutting down
    door_parts& shared = door_;
    delete this;
    return shared.closed();
  }
  again();
  began_ = std::chrono::steady_clock::now();
  try {
    admit();
  } catch (...) {
    return finish(ended_by(service::failure_of(std::current_exception())));
  }
  came();
}

void grpc_call::admit() {
  hold(bytes_of_a_call);
  if (!needs_user()) return;
  if (door_.stopping.load(std::memory_order_relaxed)) {  // relaxed: it guards no other memory
    throw error(errc::unavailable, "the server is stopping; ask another one, or again when it is back");
  }
  service::access& users = door_.all.users();
  const std::string shown = token();
  if (users.has_users() && shown.empty()) {
    const auto names = context_.auth_context()->FindPropertyValues(GRPC_X509_CN_PROPERTY_NAME);
    if (names.size() == 1) who_ = users.certified(view_of(names.front()));
  }
  if (!who_) who_ = users.recognise(shown);
  if (door_.users_of_connections.is_limited() && !who_->name().empty()) {
    door_.users_of_connections.use(context_.peer(), who_->name());
  }
}

void grpc_call::read(bool limited) {
  keep();
  limited_ = limited;
  if (limited) door_.begin_reading(*this);
  stream_.Read(&bytes_, bytes_came_.tag());
}

void grpc_call::bytes_came(bool well) {
  if (!limited_ || door_.end_reading(*this)) {  // else it is refused already
    begun_ = true;
    message_came(well);
  }
  release();
}

bool grpc_call::decode(google::protobuf::MessageLite& into) {
  bool read = false;
  {
    grpc::ProtoBufferReader bytes(&bytes_);
    read = bytes.status().ok() && into.ParseFromZeroCopyStream(&bytes);
  }
  bytes_.Clear();
  return read;
}

namespace {

grpc::ByteBuffer bytes_of(const google::protobuf::MessageLite& message) {
  const grpc::Slice bytes(message.ByteSizeLong());
  // Nobody else has the bytes yet.
  message.SerializeWithCachedSizesToArray(const_cast<std::uint8_t*>(bytes.begin()));
  return {&bytes, 1};
}

}  // namespace

void grpc_call::write(const google::protobuf::MessageLite& message) {
  keep();
  stream_.Write(bytes_of(message), written_.tag());
}

void grpc_call::written(bool taken) {
  was_written(taken);
  release();
}

void grpc_call::send_headers() {
  keep();
  stream_.SendInitialMetadata(headers_sent_.tag());
}

void grpc_call::finish(const grpc::Status& status, const google::protobuf::MessageLite& message) {
  stream_.WriteAndFinish(bytes_of(message), grpc::WriteOptions(), status, sent_.tag());
}

void grpc_call::release() {
  if (events_.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  door_parts& shared = door_;
  over();
  report();
  delete this;
  shared.closed();
}

void grpc_call::ended(bool) {
  // Who has not begun is refused already, or told by message_came() that there is no message: finished once.
  if (begun_ && context_.IsCancelled()) cancelled();
  release();
}

void grpc_call::hold(std::size_t bytes) { held_.push_back(door_.all.in_flight_bytes().take(bytes)); }

std::shared_ptr<service::database> grpc_call::find(const std::string& name) const {
  return door_.all.find_database(who(), name);
}

std::shared_ptr<service::database> grpc_call::find(const std::string& name, const key_bounds& bounds,
                                                   service::right what) const {
  std::shared_ptr<service::database> found = find(name);
  if (!who().is_root()) require(found->settings(), bounds, what);
  return found;
}

void grpc_call::require(const service::database_settings& settings, std::string_view key, service::right what) const {
  if (!who().is_root() && !who().allows(settings.name, settings.owner, key, what)) service::deny(settings.name);
}

void grpc_call::require(const service::database_settings& settings, const key_bounds& bounds,
                        service::right what) const {
  if (!who().is_root() && !who().allows(settings.name, settings.owner, bounds, what)) service::deny(settings.name);
}

std::string grpc_call::token() const {
  const auto found = context_.client_metadata().find("authorization");
  if (found == context_.client_metadata().end()) return {};
  const std::string_view text = view_of(found->second);
  if (!text.starts_with(bearer)) {
    throw error(errc::unauthenticated, "the metadata `authorization` must be \"Bearer \" and a token");
  }
  return std::string(text.substr(bearer.size()));
}

grpc::Status grpc_call::ended_well() {
  status_ = grpc::StatusCode::OK;
  return grpc::Status::OK;
}

grpc::Status grpc_call::ended_by(const service::failure& why) {
  context_.AddTrailingMetadata(code_metadata, std::to_string(static_cast<int>(why.code)));
  return ended_as(status_of(why));
}

grpc::Status grpc_call::ended_as(grpc::Status status) {
  status_ = status.error_code();
  message_ = status.error_message();
  return status;
}

void grpc_call::report() noexcept {
  held_.clear();
  if (door_.options.observer) {
    std::string_view request;
    const auto found = context_.client_metadata().find("x-request-id");
    if (found != context_.client_metadata().end()) request = view_of(found->second).substr(0, request_id_bytes_max);
    door_.options.observer->finished({.method = method_.name,
                                      .status = static_cast<int>(status_),
                                      .took = std::chrono::steady_clock::now() - began_,
                                      .request = request,
                                      .user = who_ ? std::string_view(who_->name()) : std::string_view{},
                                      .message = message_});
  }
}

service::failure cancelled_by_client() {
  return {errc::cancelled, "the client cancelled the call, or its deadline passed, before the server began with it"};
}

}  // namespace icecore::doors
