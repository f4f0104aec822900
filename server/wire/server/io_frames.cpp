// Frames of an I/O thread: how they come in, how they are let in, how they go out.
#include <cstring>

#include "wire/server/io_operations.hpp"
#include "wire/server/io_thread.hpp"

namespace icecore::wire {

namespace {

constexpr std::size_t spare_answers_max = 1024;

}  // namespace

// ---- in

ucs_status_t io_thread::on_message(void* self, const void* header, std::size_t header_bytes, void* data,
                                   std::size_t bytes, const ucp_am_recv_param_t* how) {
  const std::span said(static_cast<const std::byte*>(header), header_bytes);
  return static_cast<io_thread*>(self)->take_message(said, data, bytes, *how);
}

ucs_status_t io_thread::take_message(std::span<const std::byte> said, void* data, std::size_t bytes,
                                     const ucp_am_recv_param_t& how) {
  const ucp_ep_h sender = (how.recv_attr & UCP_AM_RECV_ATTR_FIELD_REPLY_EP) != 0 ? how.reply_ep : nullptr;
  frame_header header;
  const frame_defect defect = read_header(said, bytes, header);
  if (defect != frame_defect::none || header.flags != 0) {
    bad_frame(sender, defect == frame_defect::none ? "it is no request" : std::string(describe(defect)));
    return UCS_OK;
  }
  const std::size_t place = header.connection & 0xFFFFU;
  io_connection* const from = place < places_.size() ? places_[place].get() : nullptr;
  if (from == nullptr || from->handle() != header.connection || from->endpoint != sender) {
    bad_frame(sender, "its connection is unknown, or another peer's");
    return UCS_OK;
  }
  if (!from->ready) {
    bad_frame(sender, "it came before the server was ready");
    return UCS_OK;
  }
  from->last_frame = now_;
  if (from->closing != close_reason::none || !admit(*from, header)) return UCS_OK;  // the data is not fetched
  if ((how.recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) != 0) return begin_receive(*from, header, data);
  const std::span payload(static_cast<const std::byte*>(data), bytes);
  deliver(request(from->shared(), header, payload, bytes + sizeof header), *from);
  return UCS_OK;
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
  if (!shared_->charge(charged)) {
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

ucs_status_t io_thread::begin_receive(io_connection& from, const frame_header& header, void* data) {
  auto* const operation = new receiving{*this, from.shared(), header, byte_buffer(header.payload_bytes)};
  ucp_request_param_t how{};
  how.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
  how.cb.recv_am = [](void* request, ucs_status_t status, std::size_t bytes, void* operation_given) {
    on_received(request, status, bytes, operation_given);
  };
  how.user_data = operation;
  ++operations_;
  void* const request =
      ucp_am_recv_data_nbx(worker_->handle(), data, operation->payload.data(), operation->payload.size(), &how);
  if (request == nullptr) {
    on_received(nullptr, UCS_OK, operation->payload.size(), operation);
  } else if (UCS_PTR_IS_ERR(request)) {
    on_received(nullptr, UCS_PTR_STATUS(request), 0, operation);
  }
  return UCS_INPROGRESS;
}

void io_thread::on_received(void* ucx_request, ucs_status_t status, std::size_t bytes, void* given) {
  const std::unique_ptr<receiving> operation(static_cast<receiving*>(given));
  if (ucx_request != nullptr) ucp_request_free(ucx_request);
  io_thread& self = operation->self;
  --self.operations_;
  io_connection& from = *operation->from;
  const std::uint64_t charged = operation->header.payload_bytes + sizeof(frame_header);
  request asked(operation->from, operation->header, std::move(operation->payload), charged);
  if (status != UCS_OK || bytes != operation->header.payload_bytes) {
    self.will_close(from, close_reason::lost, std::string("a payload did not arrive: ") + ucs_status_string(status));
    return;  // the request is dropped, which gives back what was charged
  }
  self.deliver(std::move(asked), from);
}

void io_thread::deliver(request&& asked, io_connection& from) {
  if (!from.parked.empty() || from.output_bytes > shared_->settings.limits.output_bytes_slow) {
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
         from.output_bytes <= shared_->settings.limits.output_bytes_slow) {
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

void io_thread::transmit(io_connection& to, const frame_header& header, byte_buffer payload, std::uint64_t charged) {
  if (charged > 0) {
    --to.requests_in_flight;
    to.bytes_in_flight -= charged;
    shared_->counters.requests_in_flight.fetch_sub(1, std::memory_order_relaxed);
    shared_->release(charged);
  }
  if (to.endpoint == nullptr || to.closing != close_reason::none) return;
  if (to.output_bytes > shared_->settings.limits.output_bytes_max) {
    return will_close(to, close_reason::not_reading, "too many bytes of answers wait for it");
  }
  std::unique_ptr<outgoing> operation;
  if (spare_.empty()) {
    operation = std::make_unique<outgoing>();
  } else {
    operation = std::move(spare_.back());
    spare_.pop_back();
  }
  operation->header = header;
  operation->header.connection = to.handle();
  operation->header.payload_bytes = static_cast<std::uint32_t>(payload.size());
  operation->payload = std::move(payload);
  const std::uint64_t bytes = operation->payload.size() + sizeof header;
  ucp_request_param_t how{};
  how.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
  how.cb.send = &io_thread::on_sent;
  how.user_data = operation.get();
  void* const request = ucp_am_send_nbx(to.endpoint, frame_message, &operation->header, sizeof(frame_header),
                                        operation->payload.data(), operation->payload.size(), &how);
  if (UCS_PTR_IS_ERR(request)) {
    return will_close(to, close_reason::lost,
                      std::string("an answer cannot be sent: ") + ucs_status_string(UCS_PTR_STATUS(request)));
  }
  shared_->counters.bytes_sent.fetch_add(bytes, std::memory_order_relaxed);
  if (request == nullptr) {  // taken at once: the usual way of small answers
    recycle(std::move(operation));
    return;
  }
  ++operations_;
  operation->self = this;
  operation->to = to.shared();
  operation.release();  // on_sent takes it back
  if (to.output_bytes == 0) to.output_moved = now_;
  to.output_bytes += bytes;
  shared_->charge_anyhow(bytes);
}

void io_thread::on_sent(void* ucx_request, ucs_status_t status, void* given) {
  std::unique_ptr<outgoing> operation(static_cast<outgoing*>(given));
  ucp_request_free(ucx_request);
  io_thread& self = *operation->self;
  --self.operations_;
  const std::shared_ptr<io_connection> to = std::move(operation->to);
  const std::uint64_t bytes = operation->payload.size() + sizeof(frame_header);
  self.shared_->release(bytes);
  self.recycle(std::move(operation));
  to->output_bytes -= bytes;
  to->output_moved = self.now_;
  if (status != UCS_OK) {
    self.will_close(*to, close_reason::lost, std::string("an answer was not taken: ") + ucs_status_string(status));
  } else if (!to->parked.empty()) {
    self.deliver_parked(*to);
  }
}

void io_thread::recycle(std::unique_ptr<outgoing> operation) {
  operation->payload = {};
  if (spare_.size() < spare_answers_max) spare_.push_back(std::move(operation));
}

void io_thread::on_endpoint_error(void* self, ucp_ep_h endpoint, ucs_status_t status) {
  io_thread& io = *static_cast<io_thread*>(self);
  const auto found = io.by_endpoint_.find(endpoint);
  if (found == io.by_endpoint_.end()) return;
  io.will_close(*found->second, close_reason::lost, ucs_status_string(status));
}

}  // namespace icecore::wire
