// A database as clients of the doors see it, for histories.
//
//   grpc_target by_grpc("localhost:7480", "judged");
//   ucx_target by_ucx(7482, token, "judged");
//   several_targets both({&by_grpc, &by_ucx});            // call n goes to the target n % 2, whoever asks
//
// Threads: any number, as of any target; each call of several_targets goes through another door, those of one client
//   too, and so do the watches that one after the other go on where the last one ended.
// Errors: those of targets: what a lost connection leaves unknown is errc::outcome_unknown.
#pragma once

#include <grpcpp/grpcpp.h>
#include <icecore/v1/icecore.grpc.pb.h>

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "judge/target.hpp"
#include "wire/client/client_endpoint.hpp"
#include "wire/messages/requests.hpp"

namespace icecore::judge {

class grpc_target : public target {
 public:
  grpc_target(const std::string& address, std::string database);
  service::outcome write(service::transaction what) override;
  std::optional<service::row> find(const std::string& key) override;
  scanned scan(const icecore::key_bounds& bounds) override;
  std::unique_ptr<target_watch> watch(icecore::version after, const icecore::key_bounds& bounds) override;
  void tag() override;

 private:
  const std::string database_;
  std::unique_ptr<v1::Store::Stub> store_;
  std::unique_ptr<v1::Versions::Stub> versions_;
};

class ucx_target : public target {
 public:
  /// Shared memory, or TCP.
  ucx_target(std::uint16_t port, const std::string& token, const std::string& database, bool tcp);
  service::outcome write(service::transaction what) override;
  std::optional<service::row> find(const std::string& key) override;
  scanned scan(const icecore::key_bounds& bounds) override;
  std::unique_ptr<target_watch> watch(icecore::version after, const icecore::key_bounds& bounds) override;
  void tag() override;

 private:
  std::shared_ptr<wire::client_endpoint> endpoint_;
  std::uint32_t handle_ = 0;
};

class several_targets : public target {
 public:
  explicit several_targets(std::vector<target*> all) : all_(std::move(all)) {}
  service::outcome write(service::transaction what) override { return next().write(std::move(what)); }
  std::optional<service::row> find(const std::string& key) override { return next().find(key); }
  scanned scan(const icecore::key_bounds& bounds) override { return next().scan(bounds); }
  std::unique_ptr<target_watch> watch(icecore::version after, const icecore::key_bounds& bounds) override {
    return all_[watches_++ % all_.size()]->watch(after, bounds);
  }
  void tag() override { next().tag(); }

 private:
  target& next() { return *all_[calls_++ % all_.size()]; }

  const std::vector<target*> all_;
  std::atomic<std::size_t> calls_{0};
  std::atomic<std::size_t> watches_{0};
};

}  // namespace icecore::judge
