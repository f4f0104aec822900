#include "doors/grpc/calls/streams.hpp"

#include <utility>

#include "doors/grpc/messages.hpp"

namespace icecore::doors {

namespace {

/// One stream of rows. Its states follow each other: stepping (a task of the door's threads has it), then writing (gRPC
/// has the message), then stepping again, until a step calls Finish. Only steps call Finish, so the object lives as
/// long as a step runs: OnDone, which deletes it, comes after Finish.
class rows_to_client final : public grpc::ServerWriteReactor<v1::Rows>, public call, public open_stream {
 public:
  rows_to_client(door_parts& shared, grpc::CallbackServerContext& its, const stream_kind& kind, stream_opener open)
      : call(shared, its, kind.method), kind_(kind), open_(std::move(open)) {
    shared.add(*this);
  }

  void begin(std::size_t request_bytes) {
    try {
      admit(request_bytes);
      hold(kind_.limits.bytes);
      scans_ = door().all.open_scans().take(1);
      post_step();
    } catch (...) {
      Finish(ended_by(service::failure_of(std::current_exception())));
    }
  }

  void OnWriteDone(bool taken) override {
    writing_since_.store(0, std::memory_order_relaxed);
    if (!taken) cancelled_.store(true, std::memory_order_relaxed);
    post_step();
  }
  void OnCancel() override { cancelled_.store(true, std::memory_order_relaxed); }
  void OnDone() override {
    door_parts& shared = door();
    shared.remove(*this);
    rows_.reset();
    scans_ = {};
    report();
    delete this;
    shared.closed();
  }

  void end(const service::failure&) override {}  // it ends by itself
  void cut_if_stalled(std::chrono::steady_clock::time_point before) override {
    const std::int64_t since = writing_since_.load(std::memory_order_relaxed);
    if (since != 0 && since < before.time_since_epoch().count()) context().TryCancel();
  }

 private:
  void post_step() {
    door().work.post([this] { step(); });
  }

  void step() {
    if (cancelled_.load(std::memory_order_relaxed)) return Finish(ended_by(cancelled_stream()));
    if (ended_) return Finish(ended_well());
    try {
      if (!rows_) rows_ = open_(*this);
      const bool more = rows_->next(block_, kind_.limits);
      if (!more && sent_ && !kind_.tells) return Finish(ended_well());
      send(more);
    } catch (...) {
      Finish(ended_by(service::failure_of(std::current_exception())));
    }
  }

  void send(bool more) {
    if (block_.bytes() > message_bytes_max) {
      throw error(errc::limit_reached,
                  "a row is larger than a message of gRPC can be (2 GiB); read it by another door");
    }
    exchange(message_, block_);
    message_.set_version(rows_->version());
    if (!more && kind_.tells) message_.set_told(rows_->version());
    ended_ = !more;
    sent_ = true;
    writing_since_.store(std::chrono::steady_clock::now().time_since_epoch().count(), std::memory_order_relaxed);
    StartWrite(&message_);
  }

  static service::failure cancelled_stream() { return {errc::cancelled, "the client cancelled the stream"}; }

  const stream_kind kind_;
  stream_opener open_;
  std::unique_ptr<service::row_stream> rows_;
  service::row_block block_;
  v1::Rows message_;
  service::gauge::share scans_;
  bool sent_ = false;
  bool ended_ = false;  ///< the last message is sent
  // Relaxed: each guards no other memory; a step that misses it is followed by one that does not.
  std::atomic<bool> cancelled_{false};
  std::atomic<std::int64_t> writing_since_{0};  ///< when gRPC got the message that it has; 0: it has none
};

/// One load. Reading (gRPC) and loading (a task) follow each other; only one of them runs, and it alone calls Finish.
class rows_from_client final : public grpc::ServerReadReactor<v1::LoadRequest>, public call {
 public:
  rows_from_client(door_parts& shared, grpc::CallbackServerContext& its, v1::LoadResponse& response)
      : call(shared, its, "Store.Load"), response_(response) {}

  void begin() {
    try {
      admit(0);
      StartRead(&message_);
    } catch (...) {
      Finish(ended_by(service::failure_of(std::current_exception())));
    }
  }

  void OnReadDone(bool came) override {
    if (!came) {
      if (is_cancelled()) return Finish(ended_by({errc::cancelled, "the client cancelled the load"}));
      if (!database_) return Finish(ended_by({errc::invalid_argument, "the load ended before it named a database"}));
      return Finish(ended_well());
    }
    door().work.post([this] { load(); });
  }
  void OnDone() override {
    door_parts& shared = door();
    report();
    delete this;
    shared.closed();
  }

 private:
  void load() {
    try {
      const service::gauge::share bytes = door().all.in_flight_bytes().take(2 * message_.ByteSizeLong());
      if (!database_) {
        database_ = find(message_.database());
        settings_ = database_->settings();
        keep_ = message_.keep();
        may_write_all_ =
            who().is_root() || who().allows(settings_.name, settings_.owner, key_bounds{}, service::right::write);
      }
      const service::row_block rows = rows_of(*message_.mutable_rows());
      if (!may_write_all_) {
        for (std::size_t i = 0; i < rows.size(); ++i) require(settings_, rows.keys[i], service::right::write);
      }
      if (!rows.empty()) {
        response_.set_written(response_.written() + database_->load(rows, keep_));
        response_.set_rows(response_.rows() + rows.size());
      }
    } catch (...) {
      return Finish(ended_by(service::failure_of(std::current_exception())));
    }
    StartRead(&message_);
  }

  v1::LoadResponse& response_;
  v1::LoadRequest message_;
  std::shared_ptr<service::database> database_;
  service::database_settings settings_;
  bool keep_ = false;
  bool may_write_all_ = false;
};

}  // namespace

grpc::ServerWriteReactor<v1::Rows>* stream_rows(door_parts& door, grpc::CallbackServerContext* context,
                                                const stream_kind& kind, std::size_t request_bytes,
                                                stream_opener open) {
  auto* const made = new rows_to_client(door, *context, kind, std::move(open));
  made->begin(request_bytes);
  return made;
}

grpc::ServerReadReactor<v1::LoadRequest>* load_rows(door_parts& door, grpc::CallbackServerContext* context,
                                                    v1::LoadResponse* response) {
  auto* const made = new rows_from_client(door, *context, *response);
  made->begin();
  return made;
}

}  // namespace icecore::doors
