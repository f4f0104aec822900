#include "judge/door_targets.hpp"

#include <chrono>
#include <deque>
#include <mutex>
#include <thread>

#include "icecore/error.hpp"
#include "wire/messages/answers.hpp"

namespace icecore::judge {
namespace {

using namespace std::chrono_literals;
using service::operation;

constexpr auto patience = 60s;
constexpr std::uint32_t small_block_bytes = 256;  // several blocks a scan

// ---- gRPC ----

void require(const grpc::Status& status, const grpc::ClientContext& context) {
  if (status.ok()) return;
  errc code = errc::outcome_unknown;
  const auto& told = context.GetServerTrailingMetadata();
  if (const auto found = told.find("icecore-code"); found != told.end()) {
    code = static_cast<errc>(std::stoi(std::string(found->second.data(), found->second.size())));
  }
  throw error(code, status.error_message());
}

v1::Bounds message_of(const icecore::key_bounds& bounds) {
  v1::Bounds message;
  if (bounds.from) message.set_from(*bounds.from);
  if (bounds.to) message.set_to(*bounds.to);
  return message;
}

void fill(v1::Operation& message, const operation& from) {
  switch (from.what) {
    case operation::kind::put:
    case operation::kind::put_new:
      message.mutable_put()->set_key(from.key);
      message.mutable_put()->set_value(from.value);
      message.mutable_put()->set_only_new(from.what == operation::kind::put_new);
      break;
    case operation::kind::remove:
    case operation::kind::remove_range:
      message.mutable_remove()->set_key(from.key);
      if (from.what == operation::kind::remove_range) message.mutable_remove()->set_end(from.end);
      break;
    case operation::kind::get:
    case operation::kind::get_range:
      message.mutable_get()->set_key(from.key);
      message.mutable_get()->set_limit(from.limit);
      if (from.what == operation::kind::get_range) message.mutable_get()->set_end(from.end);
      break;
    default:
      throw std::logic_error("no operation of histories");
  }
}

service::outcome outcome_of(const v1::WriteResponse& response) {
  service::outcome done{.succeeded = response.succeeded(), .version = response.version(), .results = {}};
  for (const v1::OperationResult& each : response.results()) {
    service::operation_result& result = done.results.emplace_back();
    result.is = static_cast<service::operation_result::state>(each.is());
    for (const v1::Row& row : each.rows()) result.rows.push_back({row.key(), row.value(), row.version()});
    result.more = each.more();
    result.count = each.count();
  }
  return done;
}

std::string_view cell(const v1::ByteColumn& column, int i) {
  const std::uint64_t begin = i == 0 ? 0 : column.ends(i - 1);
  return std::string_view(column.bytes()).substr(begin, column.ends(i) - begin);
}

service::row_block block_of(const v1::Rows& rows) {
  service::row_block block;
  for (int i = 0; i < rows.keys().ends_size(); ++i) {
    const bool removed = !rows.removed().empty() && rows.removed()[static_cast<std::size_t>(i)] != 0;
    block.add(cell(rows.keys(), i), removed ? std::nullopt : std::optional(cell(rows.values(), i)), rows.versions(i));
  }
  return block;
}

// A stream is read by a thread of its own, so that next() never waits.
class grpc_watch : public target_watch {
 public:
  grpc_watch(v1::Store::Stub& store, const v1::WatchRequest& request)
      : reader_(store.Watch(&context_, request)), told_(request.after()) {
    thread_ = std::thread([this] { read(); });
  }
  ~grpc_watch() override {
    context_.TryCancel();
    thread_.join();
  }
  watch_part next() override {
    const std::lock_guard lock(mutex_);
    if (came_.empty()) {
      if (failed_) std::rethrow_exception(failed_);
      return {.changes = {}, .told = told_};
    }
    watch_part first = std::move(came_.front());
    came_.pop_front();
    told_ = first.told;
    return first;
  }

 private:
  void read() {
    v1::Rows rows;
    while (reader_->Read(&rows)) {
      const icecore::version told = rows.told();
      watch_part part{.changes = block_of(rows), .told = told};
      const std::lock_guard lock(mutex_);
      came_.push_back(std::move(part));
    }
    const grpc::Status status = reader_->Finish();
    const std::lock_guard lock(mutex_);
    try {
      require(status, context_);
      throw error(errc::unavailable, "the watch ended by itself");
    } catch (...) {
      failed_ = std::current_exception();
    }
  }

  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReader<v1::Rows>> reader_;
  std::mutex mutex_;
  std::deque<watch_part> came_;
  icecore::version told_;
  std::exception_ptr failed_;
  std::thread thread_;
};

// ---- UCX ----

template <typename Answer, typename Request>
Answer ask(wire::client_endpoint& endpoint, std::uint32_t handle, const Request& what) {
  const wire::answer got = endpoint.call(static_cast<std::uint16_t>(Request::number), handle, wire::encoded(what),
                                         std::chrono::steady_clock::now() + patience);
  if (got.how != wire::outcome::answered) throw error(errc::outcome_unknown, "the connection is lost");
  if (got.status != 0) {
    wire::failed_answer why;
    if (!wire::decoded(got.payload.view(), why)) throw error(errc::unavailable, "an answer without a reason");
    throw error(static_cast<errc>(got.status), why.message);
  }
  Answer read;
  if (!wire::decoded(got.payload.view(), read)) throw std::runtime_error("an answer that is none");
  return read;
}

class ucx_watch : public target_watch {
 public:
  ucx_watch(std::shared_ptr<wire::client_endpoint> endpoint, std::uint32_t handle, wire::open_watch_request what)
      : endpoint_(std::move(endpoint)), handle_(handle) {
    number_ = ask<wire::changes_answer>(*endpoint_, handle_, what).watch;
  }
  ~ucx_watch() override {
    static_cast<void>(endpoint_->call(static_cast<std::uint16_t>(wire::close_watch_request::number), handle_,
                                      wire::encoded(wire::close_watch_request{.watch = number_}),
                                      std::chrono::steady_clock::now() + patience));
  }
  watch_part next() override {
    auto came =
        ask<wire::changes_answer>(*endpoint_, handle_, wire::next_changes_request{.watch = number_, .wait_ms = 0});
    return {.changes = std::move(came.changes), .told = came.told};
  }

 private:
  std::shared_ptr<wire::client_endpoint> endpoint_;
  std::uint32_t handle_;
  std::uint32_t number_ = 0;
};

void add_rows(scanned& to, const service::row_block& block) {
  for (std::size_t i = 0; i < block.size(); ++i) {
    to.rows.push_back({std::string(block.keys[i]), std::string(block.values[i]), block.versions[i]});
  }
}

}  // namespace

grpc_target::grpc_target(const std::string& address, std::string database) : database_(std::move(database)) {
  const auto channel = grpc::CreateChannel(address, grpc::InsecureChannelCredentials());
  store_ = v1::Store::NewStub(channel);
  versions_ = v1::Versions::NewStub(channel);
}

service::outcome grpc_target::write(service::transaction what) {
  v1::WriteRequest request;
  request.set_database(database_);
  for (const service::condition& c : what.conditions) {
    v1::Condition& message = *request.add_conditions();
    message.set_key(c.key);
    message.set_is(static_cast<v1::Condition::Kind>(c.is));
    message.set_version(c.version);
    message.set_value(c.value);
  }
  for (const operation& o : what.then) fill(*request.add_then(), o);
  for (const operation& o : what.otherwise) fill(*request.add_otherwise(), o);
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + patience);
  v1::WriteResponse response;
  require(store_->Write(&context, request, &response), context);
  return outcome_of(response);
}

std::optional<service::row> grpc_target::find(const std::string& key) {
  v1::GetRequest request;
  request.set_database(database_);
  request.set_key(key);
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + patience);
  v1::GetResponse response;
  require(store_->Get(&context, request, &response), context);
  if (!response.found()) return std::nullopt;
  return service::row{key, response.value(), response.version()};
}

scanned grpc_target::scan(const icecore::key_bounds& bounds) {
  v1::ScanRequest request;
  request.set_database(database_);
  *request.mutable_bounds() = message_of(bounds);
  request.set_versions(true);
  request.set_block_rows(7);
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + patience);
  const auto reader = store_->Scan(&context, request);
  scanned all;
  for (v1::Rows rows; reader->Read(&rows);) {
    all.version = rows.version();
    add_rows(all, block_of(rows));
  }
  require(reader->Finish(), context);
  return all;
}

std::unique_ptr<target_watch> grpc_target::watch(icecore::version after, const icecore::key_bounds& bounds) {
  v1::WatchRequest request;
  request.set_database(database_);
  request.set_after(after);
  *request.mutable_bounds() = message_of(bounds);
  request.set_progress_ms(100);
  return std::make_unique<grpc_watch>(*store_, request);
}

void grpc_target::tag() {
  v1::TagRequest request;
  request.set_database(database_);
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + patience);
  v1::TagResponse response;
  require(versions_->Tag(&context, request, &response), context);
}

ucx_target::ucx_target(std::uint16_t port, const std::string& token, const std::string& database, bool tcp) {
  wire::client_settings settings;
  settings.address = {.host = "127.0.0.1", .port = port};
  settings.token = token;
  settings.ucx.way = tcp ? wire::transport::tcp : wire::transport::shared_memory;
  endpoint_ = std::make_shared<wire::client_endpoint>(std::move(settings));
  handle_ = ask<wire::open_database_answer>(*endpoint_, 0, wire::open_database_request{.name = database}).handle;
}

service::outcome ucx_target::write(service::transaction what) {
  return ask<wire::write_answer>(*endpoint_, handle_, wire::write_request{.what = std::move(what)}).done;
}

std::optional<service::row> ucx_target::find(const std::string& key) {
  auto got = ask<wire::get_answer>(*endpoint_, handle_, wire::get_request{.key = key});
  if (!got.found) return std::nullopt;
  return service::row{key, std::move(got.value), got.version};
}

scanned ucx_target::scan(const icecore::key_bounds& bounds) {
  scanned all;
  auto part = ask<wire::rows_answer>(
      *endpoint_, handle_,
      wire::open_scan_request{.bounds = bounds, .versions = true, .block_bytes = small_block_bytes});
  all.version = part.version;
  add_rows(all, part.block_of_rows);
  for (std::uint64_t block = 1; !part.end; ++block) {
    part = ask<wire::rows_answer>(*endpoint_, handle_, wire::next_rows_request{.rows = part.rows, .block = block});
    add_rows(all, part.block_of_rows);
  }
  return all;
}

std::unique_ptr<target_watch> ucx_target::watch(icecore::version after, const icecore::key_bounds& bounds) {
  return std::make_unique<ucx_watch>(endpoint_, handle_, wire::open_watch_request{.after = after, .bounds = bounds});
}

void ucx_target::tag() { static_cast<void>(ask<wire::version_answer>(*endpoint_, handle_, wire::tag_request{})); }

}  // namespace icecore::judge
