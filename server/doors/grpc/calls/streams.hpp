// Streams of rows to a client (scans, histories, differences, changes) and from one (loads).
//
//   void scan(rows_to_client& stream, const v1::ScanRequest* request) {
//     stream.begin({}, request->ByteSizeLong(), [=](grpc_call& c) { ...; return db->scan(what); });
//   }
//
// A block of rows is produced after gRPC has taken the one before, so that a stream holds one block, however slow its
// client is; a load's message is loaded before the next one is read. A cancelled stream stops at the block it is at.
// Threads: a stream's steps follow each other, each on a thread of the door.
#pragma once

#include <icecore/v1/icecore.pb.h>

#include <atomic>
#include <functional>
#include <memory>

#include "doors/grpc/calls/call.hpp"
#include "service/rows.hpp"

namespace icecore::doors {

/// Finds the database, checks the rights and begins. It may wait.
using stream_opener = std::function<std::unique_ptr<service::row_stream>(grpc_call&)>;

struct stream_kind {
  service::block_limits limits{};
  bool tells = false;  ///< the last message's `told` is the stream's version: of changes
};

/// One stream of rows. Its states follow each other: stepping (a task of the door's threads has it), then writing (gRPC
/// has the message), then stepping again, until a step calls finish(). Only steps call that, so the object lives as
/// long as a step runs.
class rows_to_client : public grpc_call {
 public:
  using grpc_call::grpc_call;
  void begin(const stream_kind& kind, std::size_t request_bytes, stream_opener open);

 protected:
  void was_written(bool taken) override;
  void cancelled() override { cancelled_.store(true, std::memory_order_relaxed); }
  void over() override;

 private:
  void post_step();
  void step();
  void send(bool more);

  stream_kind kind_;
  stream_opener open_;
  std::unique_ptr<service::row_stream> rows_;
  service::row_block block_;
  v1::Rows message_;
  service::gauge::share scans_;
  bool sent_ = false;
  bool ended_ = false;  ///< the last message is sent
  // Relaxed: it guards no other memory; a step that misses it is followed by one that does not.
  std::atomic<bool> cancelled_{false};
};

/// One load. Reading (gRPC) and loading (a task) follow each other; only one of them runs, and it alone calls finish().
class rows_from_client : public grpc_call {
 public:
  using grpc_call::grpc_call;

 protected:
  void came() override { read(false); }
  void message_came(bool well) override;

 private:
  void load();
  void succeed() { finish(ended_well(), response_); }

  v1::LoadResponse response_;
  v1::LoadRequest message_;
  std::shared_ptr<service::database> database_;
  service::database_settings settings_;
  bool keep_ = false;
};

}  // namespace icecore::doors
