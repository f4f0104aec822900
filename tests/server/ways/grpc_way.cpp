#include <grpcpp/grpcpp.h>
#include <icecore/v1/icecore.grpc.pb.h>

#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

#include "ways/way.hpp"

namespace icecore::ways {
namespace {

using std::chrono::milliseconds;

// The server's own code; what the library reports has none.
errc code_of(const grpc::Status& status, const grpc::ClientContext& context) {
  const auto& told = context.GetServerTrailingMetadata();
  if (const auto found = told.find("icecore-code"); found != told.end()) {
    return static_cast<errc>(std::stoi(std::string(found->second.data(), found->second.size())));
  }
  switch (status.error_code()) {
    case grpc::StatusCode::UNAVAILABLE:
      return errc::unavailable;
    case grpc::StatusCode::DEADLINE_EXCEEDED:
      return errc::deadline_exceeded;
    case grpc::StatusCode::CANCELLED:
      return errc::cancelled;
    default:
      return errc::io;
  }
}
void require(const grpc::Status& status, const grpc::ClientContext& context) {
  if (!status.ok()) throw error(code_of(status, context), status.error_message());
}

std::string_view cell(const v1::ByteColumn& column, int i) {
  const std::uint64_t begin = i == 0 ? 0 : column.ends(i - 1);
  return std::string_view(column.bytes()).substr(begin, column.ends(i) - begin);
}
void add_cell(v1::ByteColumn& column, const std::string& text) {
  column.mutable_bytes()->append(text);
  column.add_ends(column.bytes().size());
}

// Calls `each(key, value or nothing, version)` for the rows of a block.
template <typename Each>
void for_rows(const v1::Rows& block, const Each& each) {
  for (int i = 0; i < block.keys().ends_size(); ++i) {
    const bool removed = !block.removed().empty() && block.removed()[static_cast<std::size_t>(i)] != 0;
    each(std::string(cell(block.keys(), i)),
         removed ? std::nullopt : std::optional(std::string(cell(block.values(), i))),
         i < block.versions_size() ? block.versions(i) : 0);
  }
}

void put_point(v1::Point* to, const point& at) {
  if (const auto* closed = std::get_if<version>(&at)) to->set_version(*closed);
  if (const auto* tag = std::get_if<std::string>(&at)) to->set_tag(*tag);
}

// A stream is read by a thread of its own, so that next() waits no longer than it may.
class grpc_watcher final : public watcher {
 public:
  grpc_watcher(v1::Store::Stub& store, const v1::WatchRequest& request) : reader_(store.Watch(&context_, request)) {
    thread_ = std::thread([this] { read(); });
  }
  ~grpc_watcher() override {
    context_.TryCancel();
    thread_.join();
  }
  std::vector<told_change> next(milliseconds wait) override {
    std::unique_lock lock(mutex_);
    came_.wait_for(lock, wait, [&] { return !changes_.empty() || ended_; });
    told_ = read_up_to_;
    if (!changes_.empty()) return std::exchange(changes_, {});
    if (ended_) throw *ended_;
    return {};
  }
  [[nodiscard]] version told() const override { return told_; }

 private:
  void read() {
    for (v1::Rows block; reader_->Read(&block);) {
      const std::lock_guard lock(mutex_);
      for_rows(block, [&](std::string key, std::optional<std::string> value, version at) {
        changes_.push_back({std::move(key), at, std::move(value)});
      });
      read_up_to_ = std::max<version>(read_up_to_, block.told());
      came_.notify_all();
    }
    const grpc::Status status = reader_->Finish();
    const std::lock_guard lock(mutex_);
    ended_ = error(status.ok() ? errc::unavailable : code_of(status, context_), "the watch: " + status.error_message());
    came_.notify_all();
  }

  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReader<v1::Rows>> reader_;
  std::mutex mutex_;
  std::condition_variable came_;
  std::vector<told_change> changes_;
  version read_up_to_ = 0;
  version told_ = 0;  // the reader's own
  std::optional<error> ended_;
  std::thread thread_;
};

// Calls with a deadline.
class caller {
 public:
  explicit caller(milliseconds deadline) : deadline_(deadline) {}

 protected:
  template <typename Response, typename Stub, typename Request>
  Response call(Stub& stub, grpc::Status (Stub::*what)(grpc::ClientContext*, const Request&, Response*),
                const Request& request) const {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + deadline_);
    Response response;
    require((stub.*what)(&context, request, &response), context);
    return response;
  }
  // All blocks of a stream.
  template <typename Stub, typename Request, typename Each>
  void read(Stub& stub,
            std::unique_ptr<grpc::ClientReader<v1::Rows>> (Stub::*what)(grpc::ClientContext*, const Request&),
            const Request& request, const Each& each) const {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + deadline_);
    const auto reader = (stub.*what)(&context, request);
    for (v1::Rows block; reader->Read(&block);) for_rows(block, each);
    require(reader->Finish(), context);
  }

  milliseconds deadline_;
};

class grpc_way final : public way, caller {
 public:
  grpc_way(const std::shared_ptr<grpc::Channel>& channel, std::string database, milliseconds deadline)
      : caller(deadline),
        database_(std::move(database)),
        store_(v1::Store::NewStub(channel)),
        versions_(v1::Versions::NewStub(channel)),
        leases_(v1::Leases::NewStub(channel)) {}

  version insert(const std::string& key, const std::string& value, std::uint64_t lease) override {
    return put(key, value, lease, false).version();
  }
  bool insert_new(const std::string& key, const std::string& value) override {
    return put(key, value, 0, true).written();
  }
  version apply(const std::vector<step>& all) override {
    auto request = of_database<v1::WriteRequest>();
    for (const step& each : all) {
      v1::Operation& operation = *request.add_then();
      if (each.value) {
        operation.mutable_put()->set_key(each.key);
        operation.mutable_put()->set_value(*each.value);
      } else {
        operation.mutable_remove()->set_key(each.key);
      }
    }
    return call(*store_, &v1::Store::Stub::Write, request).version();
  }
  std::int64_t increment(const std::string& key) override {
    auto request = of_database<v1::WriteRequest>();
    auto& what = *request.add_then()->mutable_increment();
    what.set_key(key);
    what.set_by(1);
    return call(*store_, &v1::Store::Stub::Write, request).results(0).number();
  }
  std::uint64_t append(const std::string& key, const std::string& part) override {
    auto request = of_database<v1::WriteRequest>();
    auto& what = *request.add_then()->mutable_update();
    what.set_key(key);
    what.set_part(part);
    what.set_rule(v1::UPDATE_RULE_APPEND);
    what.set_or_put(true);
    return call(*store_, &v1::Store::Stub::Write, request).results(0).size();
  }
  std::uint64_t load(const rows& all) override {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + deadline_);
    v1::LoadResponse response;
    const auto writer = store_->Load(&context, &response);
    auto request = of_database<v1::LoadRequest>();
    for (const auto& [key, value] : all) {
      add_cell(*request.mutable_rows()->mutable_keys(), key);
      add_cell(*request.mutable_rows()->mutable_values(), value);
    }
    writer->Write(request);
    writer->WritesDone();
    require(writer->Finish(), context);
    return response.written();
  }
  std::optional<std::string> get(const std::string& key, const point& at) override {
    auto request = of_database<v1::GetRequest>();
    request.set_key(key);
    put_point(request.mutable_at(), at);
    auto response = call(*store_, &v1::Store::Stub::Get, request);
    if (!response.found()) return std::nullopt;
    return std::move(*response.mutable_value());
  }
  rows scan(const key_bounds& bounds, const point& at) override {
    auto request = of_database<v1::ScanRequest>();
    if (bounds.from) request.mutable_bounds()->set_from(*bounds.from);
    if (bounds.to) request.mutable_bounds()->set_to(*bounds.to);
    put_point(request.mutable_at(), at);
    rows all;
    read(*store_, &v1::Store::Stub::Scan, request, [&](std::string key, std::optional<std::string> value, version) {
      all.emplace_back(std::move(key), std::move(value).value());
    });
    return all;
  }
  std::vector<std::optional<std::string>> history(const std::string& key) override {
    auto request = of_database<v1::HistoryRequest>();
    request.set_key(key);
    std::vector<std::optional<std::string>> all;
    read(*store_, &v1::Store::Stub::History, request,
         [&](const std::string&, std::optional<std::string> value, version) { all.push_back(std::move(value)); });
    return all;
  }
  version tag(const std::string& name) override {
    auto request = of_database<v1::TagRequest>();
    request.set_name(name);
    return call(*versions_, &v1::Versions::Stub::Tag, request).version();
  }
  void compact(version oldest_kept) override {
    auto request = of_database<v1::CompactRequest>();
    request.set_oldest_kept(oldest_kept);
    call(*versions_, &v1::Versions::Stub::Compact, request);
  }
  std::unique_ptr<watcher> watch(std::optional<version> after) override {
    auto request = of_database<v1::WatchRequest>();
    if (after) request.set_after(*after);
    request.set_progress_ms(100);
    return std::make_unique<grpc_watcher>(*store_, request);
  }
  std::uint64_t grant_lease(milliseconds time) override {
    auto request = of_database<v1::GrantRequest>();
    request.set_time_ms(static_cast<std::uint64_t>(time.count()));
    return call(*leases_, &v1::Leases::Stub::Grant, request).number();
  }
  void keep_lease(std::uint64_t lease) override {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + deadline_);
    const auto stream = leases_->KeepAlive(&context);
    auto request = of_database<v1::LeaseRequest>();
    request.set_number(lease);
    v1::Lease answer;
    if (stream->Write(request) && stream->Read(&answer)) stream->WritesDone();
    require(stream->Finish(), context);
  }
  std::uint64_t revoke_lease(std::uint64_t lease) override {
    auto request = of_database<v1::LeaseRequest>();
    request.set_number(lease);
    return call(*leases_, &v1::Leases::Stub::Revoke, request).removed();
  }

 private:
  template <typename Request>
  [[nodiscard]] Request of_database() const {
    Request request;
    request.set_database(database_);
    return request;
  }
  [[nodiscard]] v1::PutResponse put(const std::string& key, const std::string& value, std::uint64_t lease,
                                    bool only_new) const {
    auto request = of_database<v1::PutRequest>();
    request.set_key(key);
    request.set_value(value);
    request.set_lease(lease);
    request.set_only_new(only_new);
    return call(*store_, &v1::Store::Stub::Put, request);
  }

  const std::string database_;
  std::unique_ptr<v1::Store::Stub> store_;
  std::unique_ptr<v1::Versions::Stub> versions_;
  std::unique_ptr<v1::Leases::Stub> leases_;
};

v1::DatabaseSettings message_of(const std::string& name, const remote::settings& with) {
  v1::DatabaseSettings message;
  message.set_name(name);
  switch (with.rule) {
    case remote::version_rule::write:
      message.set_rule(v1::VERSION_RULE_WRITE);
      break;
    case remote::version_rule::every:
      message.set_rule(v1::VERSION_RULE_EVERY);
      break;
    case remote::version_rule::tag:
      message.set_rule(v1::VERSION_RULE_TAG);
      break;
    case remote::version_rule::server_default:
      break;
  }
  message.set_interval_ms(static_cast<std::uint64_t>(with.interval.count()));
  if (with.compression == remote::compression::zstd) message.set_compression(v1::COMPRESSION_ZSTD);
  return message;
}

// With a channel of its own: else gRPC shares the connections of all channels to one address.
class grpc_connection final : public connection, caller {
 public:
  explicit grpc_connection(const destination& to) : caller(to.deadline) {
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    // as docs/server.md advises, and the Python client does
    arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, 30'000);
    arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 20'000);
    arguments.SetInt(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
    arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
    arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 50);
    arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 5'000);
    arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 1'000);
    channel_ = grpc::CreateCustomChannel(to.address, grpc::InsecureChannelCredentials(), arguments);
    databases_ = v1::Databases::NewStub(channel_);
    server_ = v1::Server::NewStub(channel_);
  }
  void create(const std::string& name, const remote::settings& with) override {
    v1::CreateDatabaseRequest request;
    *request.mutable_settings() = message_of(name, with);
    call(*databases_, &v1::Databases::Stub::Create, request);
  }
  void drop(const std::string& name) override {
    v1::DropDatabaseRequest request;
    request.set_database(name);
    call(*databases_, &v1::Databases::Stub::Drop, request);
  }
  std::unique_ptr<way> open(const std::string& name) override {
    return std::make_unique<grpc_way>(channel_, name, deadline_);
  }
  void write_snapshot(const std::string& folder) override {
    v1::SnapshotRequest request;
    request.set_to(folder);
    call(*server_, &v1::Server::Stub::Snapshot, request);
  }

 private:
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::Databases::Stub> databases_;
  std::unique_ptr<v1::Server::Stub> server_;
};

}  // namespace

std::unique_ptr<connection> connect_grpc(const destination& to) { return std::make_unique<grpc_connection>(to); }

}  // namespace icecore::ways
