// For tests of the gRPC door: a service with a door on a free port, in this process, and a client of it.
//
//   class Put : public door_fixture {};
//   TEST_F(Put, is_read_back) { put("db", "key", "value"); EXPECT_EQ(get("db", "key"), "value"); }
#pragma once

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <icecore/v1/icecore.grpc.pb.h>

#include <chrono>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "doors/grpc/door.hpp"
#include "icecore/error.hpp"
#include "support/scratch.hpp"

namespace icecore::doors {

/// Remembers the calls that ended.
class remembering_observer final : public call_observer {
 public:
  struct ended {
    std::string method;
    int status;
    std::string request;
    std::string user;
  };
  void finished(const call_report& what) noexcept override {
    const std::lock_guard lock(mutex_);
    ended_.push_back({std::string(what.method), what.status, std::string(what.request), std::string(what.user)});
  }
  [[nodiscard]] std::vector<ended> all() {
    const std::lock_guard lock(mutex_);
    return ended_;
  }

 private:
  std::mutex mutex_;
  std::vector<ended> ended_;
};

/// icecore's code of a call that failed; 0 if it did not say one.
inline errc code_of(const grpc::ClientContext& context) {
  const auto& metadata = context.GetServerTrailingMetadata();
  const auto found = metadata.find("icecore-code");
  if (found == metadata.end()) return errc{};
  return static_cast<errc>(std::stoi(std::string(found->second.data(), found->second.size())));
}

/// Waits, at most half a minute, until it holds.
template <typename Condition>
bool eventually(Condition holds) {
  for (int i = 0; i < 3000; ++i) {
    if (holds()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return holds();
}

class door_fixture : public ::testing::Test {
 protected:
  door_fixture() = default;
  ~door_fixture() override {
    door_.reset();
    service_.reset();
  }

  void SetUp() override { start(); }

  void start(service::service_options options = {}, grpc_door_options door = {}) {
    door_.reset();
    service_.reset();
    options.data = folder_ / "data";
    options.limits.free_disk_bytes = 0;
    service_ = std::make_unique<service::service>(std::move(options));
    door.port = 0;
    door_ = std::make_unique<grpc_door>(*service_, std::move(door));
    door_->start();
    connect(grpc::InsecureChannelCredentials());
  }

  [[nodiscard]] std::shared_ptr<grpc::Channel> new_channel(
      const std::shared_ptr<grpc::ChannelCredentials>& credentials) const {
    grpc::ChannelArguments arguments;
    arguments.SetMaxReceiveMessageSize(-1);
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);  // a connection of its own
    return grpc::CreateCustomChannel("localhost:" + std::to_string(door_->port()), credentials, arguments);
  }
  void connect(const std::shared_ptr<grpc::ChannelCredentials>& credentials) {
    channel_ = new_channel(credentials);
    store_ = v1::Store::NewStub(channel_);
    databases_ = v1::Databases::NewStub(channel_);
    versions_ = v1::Versions::NewStub(channel_);
    leases_ = v1::Leases::NewStub(channel_);
    users_ = v1::Users::NewStub(channel_);
    server_ = v1::Server::NewStub(channel_);
  }

  void create(const std::string& name, v1::VersionRule rule = v1::VERSION_RULE_WRITE) {
    v1::CreateDatabaseRequest request;
    request.mutable_settings()->set_name(name);
    request.mutable_settings()->set_rule(rule);
    v1::CreateDatabaseResponse response;
    grpc::ClientContext context;
    authorize(context);
    const grpc::Status status = databases_->Create(&context, request, &response);
    ASSERT_TRUE(status.ok()) << status.error_message();
  }

  /// Every call bears this, if it is not empty.
  void authorize(grpc::ClientContext& context) const {
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
    if (!token_.empty()) context.AddMetadata("authorization", "Bearer " + token_);
  }

  /// Calls, and returns icecore's code; 0 if the call succeeded.
  template <typename Stub, typename Request, typename Response>
  errc call(Stub& stub, grpc::Status (Stub::StubInterface::*method)(grpc::ClientContext*, const Request&, Response*),
            const Request& request, Response& response) {
    grpc::ClientContext context;
    authorize(context);
    status_ = (stub.*method)(&context, request, &response);
    return status_.ok() ? errc{} : code_of(context);
  }

  std::uint64_t put(const std::string& database, const std::string& key, const std::string& value) {
    v1::PutRequest request;
    request.set_database(database);
    request.set_key(key);
    request.set_value(value);
    v1::PutResponse response;
    grpc::ClientContext context;
    authorize(context);
    const grpc::Status status = store_->Put(&context, request, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return response.version();
  }

  /// Puts `count` keys "k0000000", each with the value.
  void load(const std::string& database, std::size_t count, const std::string& value) {
    grpc::ClientContext context;
    authorize(context);
    v1::LoadResponse response;
    const auto writer = store_->Load(&context, &response);
    std::size_t next = 0;
    while (next < count) {
      v1::LoadRequest request;
      request.set_database(database);
      for (std::size_t i = 0; i < 10'000 && next < count; ++i, ++next)
        add_row(*request.mutable_rows(), key(next), value);
      ASSERT_TRUE(writer->Write(request));
    }
    writer->WritesDone();
    const grpc::Status status = writer->Finish();
    ASSERT_TRUE(status.ok()) << status.error_message();
    ASSERT_EQ(response.written(), count);
  }
  static void add_row(v1::Rows& rows, const std::string& key, const std::string& value) {
    rows.mutable_keys()->mutable_bytes()->append(key);
    rows.mutable_keys()->add_ends(rows.keys().bytes().size());
    rows.mutable_values()->mutable_bytes()->append(value);
    rows.mutable_values()->add_ends(rows.values().bytes().size());
  }
  static std::string key(std::size_t number) {
    std::string digits = std::to_string(number);
    return "k" + std::string(7 - std::min<std::size_t>(7, digits.size()), '0') + digits;
  }

  /// "(none)" if it is not there.
  std::string get(const std::string& database, const std::string& key, std::uint64_t version = 0) {
    v1::GetRequest request;
    request.set_database(database);
    request.set_key(key);
    if (version != 0) request.mutable_at()->set_version(version);
    v1::GetResponse response;
    grpc::ClientContext context;
    authorize(context);
    status_ = store_->Get(&context, request, &response);
    EXPECT_TRUE(status_.ok()) << status_.error_message();
    return response.found() ? response.value() : "(none)";
  }

  struct told_row {
    std::string key;
    std::string value;
    friend bool operator==(const told_row&, const told_row&) = default;
  };
  static std::string cell(const v1::ByteColumn& column, int i) {
    const std::uint64_t begin = i == 0 ? 0 : column.ends(i - 1);
    return column.bytes().substr(begin, column.ends(i) - begin);
  }
  static void append(std::vector<told_row>& to, const v1::Rows& rows) {
    const int count = std::max(rows.keys().ends_size(), rows.values().ends_size());
    for (int i = 0; i < count; ++i) {
      const bool removed = !rows.removed().empty() && rows.removed()[static_cast<std::size_t>(i)] != 0;
      to.push_back({rows.keys().ends_size() == 0 ? "" : cell(rows.keys(), i), removed ? "(removed)"
                                                                              : rows.values().ends_size() == 0
                                                                                  ? ""
                                                                                  : cell(rows.values(), i)});
    }
  }
  template <typename Reader>
  std::vector<told_row> read_all(Reader& reader) {
    std::vector<told_row> all;
    v1::Rows rows;
    while (reader->Read(&rows)) append(all, rows);
    status_ = reader->Finish();
    return all;
  }

  testing::scratch folder_;
  std::unique_ptr<service::service> service_;
  std::unique_ptr<grpc_door> door_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::Store::Stub> store_;
  std::unique_ptr<v1::Databases::Stub> databases_;
  std::unique_ptr<v1::Versions::Stub> versions_;
  std::unique_ptr<v1::Leases::Stub> leases_;
  std::unique_ptr<v1::Users::Stub> users_;
  std::unique_ptr<v1::Server::Stub> server_;
  std::string token_;
  grpc::Status status_;  ///< of the last call
};

}  // namespace icecore::doors
