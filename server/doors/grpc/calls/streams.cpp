#include "doors/grpc/calls/streams.hpp"

#include <utility>

#include "doors/grpc/calls/serve.hpp"
#include "doors/grpc/messages.hpp"

namespace icecore::doors {

namespace {

service::failure cancelled_stream() { return {errc::cancelled, "the client cancelled the stream"}; }

}  // namespace

void rows_to_client::begin(const stream_kind& kind, std::size_t request_bytes, stream_opener open) {
  kind_ = kind;
  open_ = std::move(open);
  try {
    hold(request_bytes + kind_.limits.bytes);
    scans_ = door().all.open_scans().take(1);
    post_step();
  } catch (...) {
    finish(ended_by(service::failure_of(std::current_exception())));
  }
}

void rows_to_client::was_written(bool taken) {
  if (!taken) cancelled_.store(true, std::memory_order_relaxed);
  post_step();
}

void rows_to_client::over() {
  rows_.reset();
  scans_ = {};
}

void rows_to_client::post_step() {
  door().work.post([this] { step(); });
}

void rows_to_client::step() {
  if (cancelled_.load(std::memory_order_relaxed)) return finish(ended_by(cancelled_stream()));
  if (ended_) return finish(ended_well());
  try {
    if (!rows_) rows_ = open_(*this);
    const bool more = rows_->next(block_, kind_.limits);
    if (!more && sent_ && !kind_.tells) return finish(ended_well());
    send(more);
  } catch (...) {
    finish(ended_by(service::failure_of(std::current_exception())));
  }
}

void rows_to_client::send(bool more) {
  if (block_.bytes() > message_bytes_max) {
    throw error(errc::limit_reached, "a row is larger than a message of gRPC can be (2 GiB); read it by another door");
  }
  exchange(message_, block_);
  message_.set_version(rows_->version());
  if (!more && kind_.tells) message_.set_told(rows_->version());
  ended_ = !more;
  sent_ = true;
  write(message_);
}

void rows_from_client::message_came(bool well) {
  if (well) {
    if (!decode(message_)) return finish(ended_as(undecodable));
    door().work.post([this] { load(); });
  } else if (is_cancelled()) {
    finish(ended_by({errc::cancelled, "the client cancelled the load"}));
  } else if (!database_) {
    finish(ended_by({errc::invalid_argument, "the load ended before it named a database"}));
  } else {
    succeed();
  }
}

void rows_from_client::load() {
  try {
    const service::gauge::share bytes = door().all.in_flight_bytes().take(2 * message_.ByteSizeLong());
    renew_user();
    if (!database_) {
      database_ = find(message_.database());
      keep_ = message_.keep();
    }
    // For each message: the right may have been withdrawn since the one before, or the owner may be another one.
    settings_ = database_->settings();
    const bool may_write_all =
        who().is_root() || who().allows(settings_.name, settings_.owner, key_bounds{}, service::right::write);
    const service::row_block rows = rows_of(*message_.mutable_rows());
    if (!may_write_all) {
      for (std::size_t i = 0; i < rows.size(); ++i) require(settings_, rows.keys[i], service::right::write);
    }
    for (std::size_t i = 0; i < rows.size(); ++i) door().all.require_owner(rows.keys[i]);
    if (!rows.empty()) {
      response_.set_written(response_.written() + database_->load(rows, keep_));
      response_.set_rows(response_.rows() + rows.size());
    }
  } catch (...) {
    return finish(ended_by(service::failure_of(std::current_exception())));
  }
  read(false);
}

}  // namespace icecore::doors
