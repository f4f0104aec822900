// Frames of an I/O thread: how they come in, how they are let in, how they go out.
#include "wire/server/io_thread.hpp"

namespace icecore::wire {

namespace {

/// What one connection sends before others have their turn.
constexpr std::size_t turn_bytes = std::size_t{256} << 10;

}  // namespace

// ---- in

ucs_status_t io_thread::on_message(void* self, const void* header, std::size_t header_bytes, void* data,
                                   std::size_t bytes, const ucp_am_recv_param_t* how) {
  const std::span said(static_cast<const std::byte*>(header), header_bytes);
  static_cast<io_thread*>(self)->take_message(said, {static_cast<const std::byte*>(data), bytes}, *how);
  return UCS_OK;  // what comes by rendezvous is not fetched
}

void io_thread::take_message(std::span<const std::byte> said, std::span<const std::byte> payload,
                             const ucp_am_recv_param_t& how) {
  const ucp_ep_h sender = (how.recv_attr & UCP_AM_RECV_ATTR_FIELD_REPLY_EP) != 0 ? how.reply_ep : nullptr;
  frame_header header;
  const frame_defect defect = read_header(said, payload.size(), header);
  if (defect != frame_defect::none) return bad_frame(sender, std::string(describe(defect)));
  const bool piece = (header.flags & flag_piece) != 0;
  header.flags &= static_cast<std::uint8_t>(~flag_piece);
  if (header.flags != 0) return bad_frame(sender, "it is no request");
  if ((how.recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) != 0) return bad_frame(sender, "it is to be fetched by rendezvous");
  const std::size_t place = header.connection & 0xFFFFU;
  io_connection* const from = place < places_.size() ? places_[place].get() : nullptr;
  if (from == nullptr || from->handle() != header.connection || from->endpoint != sender) {
    return bad_frame(sender, "its connection is unknown, or another peer's");
  }
  if (!from->ready) return bad_frame(sender, "it came before the server was ready");
  from->last_frame = now_;
  if (from->closing != close_reason::none) return;
  if (piece) return take_piece(*from, header, payload);
  if (from->input.under_way()) return bad_frame(sender, "it came between the pieces of another");
  if (admit(*from, header)) deliver(request(from->shared(), header, payload, payload.size() + sizeof header), *from);
}

void io_thread::take_piece(io_connection& from, const frame_header& header, std::span<const std::byte> piece) {
  if (!from.input.under_way()) {
    from.input_begun = now_;
    if (!admit(from, header) || !begin_input(from, header)) from.input.leave_out(header);
  }
  switch (from.input.add(header, piece)) {
    case frame_input::state::more:
    case frame_input::state::left_out:
      return;
    case frame_input::state::broken:
      return will_close(from, close_reason::malformed, "a frame was refused: it came between the pieces of another");
    case frame_input::state::whole:
      return deliver(request(from.shared(), header, from.input.take(), header.payload_bytes + sizeof header), from);
  }
}

/// False: there is no memory for it, which its client is told.
bool io_thread::begin_input(io_connection& from, const frame_header& header) {
  try {
    from.input.begin(header);
    return true;
  } catch (const std::bad_alloc&) {  // UCX's code, which called this, is not to be left by an exception
    shared_->counters.requests_refused_busy.fetch_add(1, std::memory_order_relaxed);
    request(from.shared(), header, byte_buffer(), header.payload_bytes + sizeof header).answer(status_busy);
    return false;
  }
}

void io_thread::bad_frame(ucp_ep_h from, const std::string& why) {
  const auto found = by_endpoint_.find(from);
  if (found != by_endpoint_.end())
    return will_close(*found->second, close_reason::malformed, "a frame was refused: " + why);
  shared_->counters.frames_unattributed.fetch_add(1, std::memory_order_relaxed);
  shared_->warn("a frame of no connection was dropped: " + why);
}

bool io_thread::admit(io_connection& from, const frame_header& header) {
  const server_limits& limits = shared_->settings.limits;
  const std::uint64_t charged = header.payload_bytes + sizeof header;
  const char* over = nullptr;
  if (header.payload_bytes > limits.frame_bytes_max) over = "a frame is longer than the welcome allows";
  if (from.requests_in_flight >= limits.requests_in_flight_max)
    over = "more requests are under way than the welcome allows";
  if (from.bytes_in_flight + charged > limits.bytes_in_flight_max)
    over = "more bytes are under way than the welcome allows";
  if (over != nullptr) {
    will_close(from, close_reason::over_limit, over);
    return false;
  }
  if (stopping_) {
    refuse(from, header, status_stopping);
    return false;
  }
  if (!shared_->charge(charged + request_cost)) {
    shared_->counters.requests_refused_busy.fetch_add(1, std::memory_order_relaxed);
    refuse(from, header, status_busy);
    return false;
  }
  ++from.requests_in_flight;
  from.bytes_in_flight += charged;
  shared_->counters.requests.fetch_add(1, std::memory_order_relaxed);
  shared_->counters.requests_in_flight.fetch_add(1, std::memory_order_relaxed);
  shared_->counters.bytes_received.fetch_add(charged, std::memory_order_relaxed);
  return true;
}

void io_thread::refuse(io_connection& from, const frame_header& header, std::uint16_t status) {
  frame_header answer = header;
  answer.flags = flag_answer;
  answer.status = status;
  answer.database = 0;
  transmit(from, answer, {}, 0);
}

void io_thread::deliver(request&& asked, io_connection& from) {
  if (!from.parked.empty() || from.output_charged > shared_->settings.limits.output_bytes_slow) {
    from.parked.push_back(std::move(asked));
    return;
  }
  try {
    shared_->handler.on_request(std::move(asked));
  } catch (const std::exception& thrown) {  // a service that throws must not end the thread of all connections
    shared_->warn(std::string("a request failed: ") + thrown.what());
  }
}

void io_thread::deliver_parked(io_connection& from) {
  while (!from.parked.empty() && from.closing == close_reason::none &&
         from.output_charged <= shared_->settings.limits.output_bytes_slow) {
    request next = std::move(from.parked.front());
    from.parked.pop_front();
    try {
      shared_->handler.on_request(std::move(next));
    } catch (const std::exception& thrown) {
      shared_->warn(std::string("a request failed: ") + thrown.what());
    }
  }
}

// ---- out

void io_thread::transmit(io_connection& to, const frame_header& header, frame_payload payload, std::uint64_t charged) {
  if (charged > 0) {
    --to.requests_in_flight;
    to.bytes_in_flight -= charged;
    shared_->counters.requests_in_flight.fetch_sub(1, std::memory_order_relaxed);
    shared_->release(charged + request_cost);
  }
  if (to.endpoint == nullptr || to.closing != close_reason::none) return;
  if (to.output_charged > shared_->settings.limits.output_bytes_max) {
    return will_close(to, close_reason::not_reading, "too many bytes of answers wait for it");
  }
  shared_->counters.bytes_sent.fetch_add(payload.size() + sizeof header, std::memory_order_relaxed);
  frame_header told = header;
  told.connection = to.handle();
  to.output.push(told, std::move(payload));
  // What is charged waits: then this frame waits behind it, until on_sent() or send_unfinished() sends both.
  const bool nothing_waits = to.output_charged == 0;
  if (nothing_waits) {
    send_waiting(to);
  } else {
    charge_output(to);
  }
}

/// Hands over what UCX takes, and charges what it does not take.
void io_thread::send_waiting(io_connection& to) {
  const ucs_status_t status =
      to.output.advance(to.endpoint, {.taken = &io_thread::on_sent, .argument = &to}, turn_bytes);
  if (UCS_STATUS_IS_ERR(status) && status != UCS_ERR_NO_RESOURCE) {
    return will_close(to, close_reason::lost, std::string("an answer cannot be sent: ") + ucs_status_string(status));
  }
  if (status == UCS_INPROGRESS) ++messages_;
  if (status == UCS_ERR_NO_RESOURCE) unfinished_.push_back(to.shared());
  to.output_moved = now_;
  charge_output(to);
}

void io_thread::charge_output(io_connection& of) {
  const std::uint64_t now = of.output.bytes(), before = std::exchange(of.output_charged, now);
  if (now > before) shared_->charge_anyhow(now - before);
  if (now < before) shared_->release(before - now);
}

void io_thread::send_unfinished() {
  std::vector<std::shared_ptr<io_connection>> turns;
  turns.swap(unfinished_);
  for (const auto& each : turns) {
    if (each->endpoint == nullptr || each->closing != close_reason::none) continue;
    send_waiting(*each);
    if (!each->parked.empty()) deliver_parked(*each);
  }
}

/// The connection lives: either it has not ended, or it waits in closing_endpoints_ until UCX has closed its endpoint,
/// which comes after this.
void io_thread::on_sent(void* ucx_request, ucs_status_t status, void* connection) {
  io_connection& to = *static_cast<io_connection*>(connection);
  ucp_request_free(ucx_request);
  to.output.taken();
  if (to.endpoint == nullptr) return;
  io_thread& self = to.io();
  --self.messages_;
  if (status != UCS_OK) {
    return self.will_close(to, close_reason::lost,
                           std::string("an answer was not taken: ") + ucs_status_string(status));
  }
  self.unfinished_.push_back(to.shared());  // which does not send from here
}

void io_thread::on_endpoint_error(void* self, ucp_ep_h endpoint, ucs_status_t status) {
  io_thread& io = *static_cast<io_thread*>(self);
  const auto found = io.by_endpoint_.find(endpoint);
  if (found == io.by_endpoint_.end()) return;
  io.will_close(*found->second, close_reason::lost, ucs_status_string(status));
}

}  // namespace icecore::wire
