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
constexpr unsigned log_in_threads_max = 4;
constexpr std::uint64_t log_ins_max = 64;
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
      log_ins(std::clamp(std::thread::hardware_concurrency(), 1U, log_in_threads_max)),
      limits(1),
      log_ins_at_once("log-ins at once", log_ins_max),
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

void waiting_calls::add(entry& which) {
  const std::lock_guard lock(mutex_);
  which.since = std::chrono::steady_clock::now();
  which.listed = true;
  which.previous = last_;
  which.next = nullptr;
  (last_ != nullptr ? last_->next : first_) = &which;
  last_ = &which;
}

bool waiting_calls::remove(entry& which) {
  const std::lock_guard lock(mutex_);
  if (!which.listed) return false;
  unlink(which);
  return true;
}

// The call keeps an event for the caller while its own is still to come: under the lock, or it might be over.
grpc_call* waiting_calls::take_late(std::chrono::steady_clock::time_point before) {
  const std::lock_guard lock(mutex_);
  if (first_ == nullptr || first_->since >= before) return nullptr;
  grpc_call* const late = first_->of;
  unlink(*first_);
  late->keep();
  return late;
}

void waiting_calls::unlink(entry& which) {
  which.listed = false;
  (which.previous != nullptr ? which.previous->next : first_) = which.next;
  (which.next != nullptr ? which.next->previous : last_) = which.previous;
}

// Who takes a call from the list refuses it.
void door_parts::refuse_unread(std::chrono::steady_clock::time_point before) {
  while (grpc_call* const late = reading.take_late(before)) {
    unread.fetch_add(1, std::memory_order_relaxed);
    all.refused().count(service::kept_limit::read_limit);
    late->refuse([&] {
      return late->ended_by(
          {errc::limit_reached, fmt::format("the limit \"read_limit\" is {} ms: the request's message did not arrive "
                                            "in that time",
                                            all.options().limits.read_limit.count())});
    });
    late->release();
  }
}

void door_parts::cut_stalled(std::chrono::steady_clock::time_point before) {
  while (grpc_call* const late = sending.take_late(before)) {
    cut.fetch_add(1, std::memory_order_relaxed);
    all.refused().count(service::kept_limit::output_bytes);
    late->context().TryCancel();  // the event that it waits for comes, and says that the client is gone
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

// Who is refused holds nothing: gRPC's own part of such a call, the greater one, is within its quota.
void grpc_call::admit() {
  if (!needs_user()) {
    return held_.take_more(door_.all.strangers_bytes(),
                           bytes_of_a_call + door_.all.options().limits.before_login_bytes);
  }
  if (door_.stopping.load(std::memory_order_relaxed)) {  // relaxed: it guards no other memory
    throw error(errc::unavailable, "the server is stopping; ask another one, or again when it is back");
  }
  recognise();
  hold(bytes_of_a_call);
  if (door_.users_of_connections.is_limited() && !who_->name().empty()) {
    door_.users_of_connections.use(context_.peer(), who_->name());
  }
}

void grpc_call::recognise() {
  service::access& users = door_.all.users();
  const std::string shown = token();
  if (users.has_users() && shown.empty()) {
    const auto names = context_.auth_context()->FindPropertyValues(GRPC_X509_CN_PROPERTY_NAME);
    if (names.size() == 1) {
      who_ = users.certified(view_of(names.front()));
      return;
    }
  }
  who_ = users.recognise(shown);
}

void grpc_call::renew_user() {
  if (!who_->is_current()) recognise();
}

void grpc_call::read(bool limited) {
  keep();
  limited_ = limited;
  if (limited) door_.reading.add(reading_);
  stream_.Read(&bytes_, bytes_came_.tag());
}

void grpc_call::bytes_came(bool well) {
  const std::uint64_t bytes_max = door_.all.options().limits.before_login_bytes;
  if (!limited_ || door_.reading.remove(reading_)) {  // else it is refused already
    begun_ = true;
    if (well && !needs_user() && bytes_.Length() > bytes_max) {
      door_.all.refused().count(service::kept_limit::before_login_bytes);
      refuse([&] {
        return ended_by(
            {errc::limit_reached,
             fmt::format("a message of {} bytes from who has not logged in; limits.before_login_bytes is {}",
                         bytes_.Length(), bytes_max)});
      });
    } else {
      message_came(well);
    }
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
  door_.sending.add(writing_);
  stream_.Write(bytes_of(message), written_.tag());
}

void grpc_call::written(bool taken) {
  static_cast<void>(door_.sending.remove(writing_));
  was_written(taken);
  release();
}

void grpc_call::send_headers() {
  keep();
  stream_.SendInitialMetadata(headers_sent_.tag());
}

void grpc_call::finish(const grpc::Status& status) {
  door_.sending.add(ending_);
  stream_.Finish(status, sent_.tag());
}

void grpc_call::finish(const grpc::Status& status, const google::protobuf::MessageLite& message) {
  door_.sending.add(ending_);
  stream_.WriteAndFinish(bytes_of(message), grpc::WriteOptions(), status, sent_.tag());
}

void grpc_call::sent(bool taken) {
  static_cast<void>(door_.sending.remove(ending_));
  delivered_ = taken;
  release();
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

// That the client has cancelled is known for certain when the call is over: its other events may come first.
void grpc_call::report() noexcept {
  held_ = {};
  answer_ = {};
  if (!delivered_ && context_.IsCancelled()) {
    status_ = grpc::StatusCode::CANCELLED;
    message_ = "the client has cancelled the call, did not read its answer, or is gone";
  }
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

service::failure no_message() {
  return {errc::invalid_argument, "the call ended without a message: this method takes one request"};
}

}  // namespace icecore::doors
