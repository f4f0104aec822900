// Streams of rows to a client (scans, histories, differences, changes) and from one (loads).
//
//   return stream_rows(door, context, "Store.Scan", request->ByteSizeLong(), limits, [=](call& c) { ...; return
//   db->scan(what); });
//
// A block of rows is produced after gRPC has taken the one before, so that a stream holds one block, however slow its
// client is; a load's message is loaded before the next one is read. A cancelled stream stops at the block it is at.
// Threads: a stream's steps follow each other, each on a thread of the door.
#pragma once

#include <icecore/v1/icecore.pb.h>

#include <functional>
#include <memory>

#include "doors/grpc/calls/call.hpp"
#include "service/rows.hpp"

namespace icecore::doors {

/// Finds the database, checks the rights and begins. It may wait.
using stream_opener = std::function<std::unique_ptr<service::row_stream>(call&)>;

struct stream_kind {
  const char* method;
  service::block_limits limits{};
  bool tells = false;  ///< the last message's `told` is the stream's version: of changes
};

[[nodiscard]] grpc::ServerWriteReactor<v1::Rows>* stream_rows(door_parts& door, grpc::CallbackServerContext* context,
                                                              const stream_kind& kind, std::size_t request_bytes,
                                                              stream_opener open);
[[nodiscard]] grpc::ServerReadReactor<v1::LoadRequest>* load_rows(door_parts& door,
                                                                  grpc::CallbackServerContext* context,
                                                                  v1::LoadResponse* response);
[[nodiscard]] grpc::ServerWriteReactor<v1::Rows>* watch_rows(door_parts& door, grpc::CallbackServerContext* context,
                                                             const v1::WatchRequest* request);

}  // namespace icecore::doors
