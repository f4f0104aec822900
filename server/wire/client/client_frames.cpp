// Frames of a client endpoint: requests out, answers in.
#include <utility>

#include "wire/client/client_endpoint.hpp"
#include "wire/client/client_operations.hpp"

namespace icecore::wire {

namespace {

constexpr std::size_t spare_requests_max = 1024;
constexpr std::size_t early_parts_max = 4096;  // a server that lets parts overtake by more is broken

}  // namespace

// ---- out

/// Takes a slot, waiting for room, and sends. Null: not sent.
client_endpoint::slot* client_endpoint::begin(lock& held, std::uint16_t operation, std::uint32_t database,
                                              byte_buffer&& payload, completion& done, steady_time deadline) {
  const std::uint64_t charged = payload.size() + sizeof(frame_header);
  if (payload.size() > told_.frame_bytes_max || charged > told_.bytes_in_flight_max) return nullptr;
  const auto has_room = [&] {
    return under_way_ < told_.requests_in_flight_max && bytes_under_way_ + charged <= told_.bytes_in_flight_max;
  };
  if (!has_room()) {
    const bool in_completion = driven_ && driver_ == std::this_thread::get_id();
    if (in_completion || !wait_for(
                             held, [&] { return has_room() || refusing_; }, deadline))
      return nullptr;
  }
  if (refusing_ || ended() != close_reason::none) return nullptr;
  if (free_slots_.empty()) {
    slot& added = slots_.emplace_back();
    added.place = static_cast<std::uint16_t>(slots_.size() - 1);
    free_slots_.push_back(added.place);
  }
  slot& taken = slots_[free_slots_.back()];
  free_slots_.pop_back();
  taken.used = true;
  taken.done = taken.abandoned = false;
  taken.next_part = 0;
  taken.charged = charged;
  taken.deadline = deadline;
  taken.done_call = std::move(done);
  taken.gathered = {};
  ++under_way_;
  bytes_under_way_ += charged;
  if (taken.done_call) ++completions_due_;
  if (transmit(taken, operation, database, std::move(payload))) return &taken;
  if (taken.done_call) {
    --completions_due_;
    done = std::move(taken.done_call);
  }
  release(taken);
  return nullptr;
}

bool client_endpoint::transmit(slot& of, std::uint16_t operation, std::uint32_t database, byte_buffer&& payload) {
  std::unique_ptr<outgoing> sending;
  if (spare_.empty()) {
    sending = std::make_unique<outgoing>();
  } else {
    sending = std::move(spare_.back());
    spare_.pop_back();
  }
  sending->self = this;
  sending->header = {.operation = operation,
                     .database = database,
                     .connection = told_.connection,
                     .request = of.number(),
                     .payload_bytes = static_cast<std::uint32_t>(payload.size())};
  sending->payload = std::move(payload);
  ucp_request_param_t how{};
  how.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_FLAGS;
  how.flags = UCP_AM_SEND_FLAG_REPLY;  // so the server sees from which endpoint it comes
  how.cb.send = &client_endpoint::on_sent;
  how.user_data = sending.get();
  void* const request = ucp_am_send_nbx(endpoint_, frame_message, &sending->header, sizeof(frame_header),
                                        sending->payload.data(), sending->payload.size(), &how);
  if (UCS_PTR_IS_ERR(request)) {
    note_loss(close_reason::lost);
    return false;
  }
  if (request == nullptr) {
    sending->payload = {};
    if (spare_.size() < spare_requests_max) spare_.push_back(std::move(sending));
    return true;
  }
  sending.release();  // on_sent takes it back
  ++operations_;
  if (sleeping_) wake_driver_.ring();  // it slept without knowing of this one
  return true;
}

void client_endpoint::on_sent(void* ucx_request, ucs_status_t status, void* given) {
  std::unique_ptr<outgoing> sent(static_cast<outgoing*>(given));
  ucp_request_free(ucx_request);
  client_endpoint& self = *sent->self;
  --self.operations_;
  sent->payload = {};
  if (self.spare_.size() < spare_requests_max) self.spare_.push_back(std::move(sent));
  if (status != UCS_OK) self.note_loss(close_reason::lost);
}

void client_endpoint::on_endpoint_error(void* self, ucp_ep_h /*endpoint*/, ucs_status_t /*status*/) {
  static_cast<client_endpoint*>(self)->note_loss(close_reason::lost);
}

// ---- in

ucs_status_t client_endpoint::on_message(void* self, const void* header, std::size_t header_bytes, void* data,
                                         std::size_t bytes, const ucp_am_recv_param_t* how) {
  bool fetched = false;
  const std::span said(static_cast<const std::byte*>(header), header_bytes);
  static_cast<client_endpoint*>(self)->take_message(said, data, bytes, how->recv_attr, fetched);
  return fetched ? UCS_INPROGRESS : UCS_OK;
}

void client_endpoint::take_message(std::span<const std::byte> said, void* data, std::size_t bytes,
                                   std::uint64_t attributes, bool& fetched) {
  frame_header header;
  if (read_header(said, bytes, header) != frame_defect::none || (header.flags & (flag_answer | flag_unasked)) == 0 ||
      header.connection != told_.connection || bytes > settings_.answer_bytes_max) {
    return note_loss(close_reason::malformed);
  }
  if ((attributes & UCP_AM_RECV_ATTR_FLAG_RNDV) == 0) {
    return take_part(header, byte_buffer(std::span(static_cast<const std::byte*>(data), bytes)));
  }
  fetched = true;
  auto* const operation = new receiving{*this, header, byte_buffer(bytes)};
  ucp_request_param_t how{};
  how.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
  how.cb.recv_am = &client_endpoint::on_received;
  how.user_data = operation;
  ++operations_;
  void* const request = ucp_am_recv_data_nbx(worker_.handle(), data, operation->payload.data(), bytes, &how);
  if (request == nullptr) {
    on_received(nullptr, UCS_OK, bytes, operation);
  } else if (UCS_PTR_IS_ERR(request)) {
    on_received(nullptr, UCS_PTR_STATUS(request), 0, operation);
  }
}

void client_endpoint::on_received(void* ucx_request, ucs_status_t status, std::size_t bytes, void* given) {
  const std::unique_ptr<receiving> operation(static_cast<receiving*>(given));
  if (ucx_request != nullptr) ucp_request_free(ucx_request);
  client_endpoint& self = operation->self;
  --self.operations_;
  if (status != UCS_OK || bytes != operation->payload.size()) return self.note_loss(close_reason::lost);
  self.take_part(operation->header, std::move(operation->payload));
}

client_endpoint::slot* client_endpoint::find(std::uint32_t request) {
  const std::size_t place = request & 0xFFFFU;
  if (place >= slots_.size()) return nullptr;
  slot& found = slots_[place];
  return found.used && !found.done && found.number() == request ? &found : nullptr;
}

void client_endpoint::take_part(const frame_header& header, byte_buffer payload) {
  if ((header.flags & flag_unasked) != 0) {
    if (!settings_.on_unasked) return;
    finished_.push_back({[this, header](answer&& what) {
                           settings_.on_unasked(header.operation, header.status, std::move(what.payload));
                         },
                         answer{.how = outcome::answered, .payload = std::move(payload)}});
    return;
  }
  slot* const of = find(header.request);
  if (of == nullptr) return note_loss(close_reason::malformed);
  if (header.database != of->next_part) {
    if (header.database < of->next_part || of->early.size() >= early_parts_max)
      return note_loss(close_reason::malformed);
    of->early.emplace(header.database, std::pair(header, std::move(payload)));
    return;
  }
  part_in_order(*of, header, std::move(payload));
  for (auto next = of->early.begin(); of->used && !of->done && next != of->early.end() && next->first == of->next_part;
       next = of->early.begin()) {
    auto [early_header, early_payload] = std::move(next->second);
    of->early.erase(next);
    part_in_order(*of, early_header, std::move(early_payload));
  }
}

void client_endpoint::part_in_order(slot& of, const frame_header& header, byte_buffer payload) {
  ++of.next_part;
  const bool more = (header.flags & flag_more_parts) != 0;
  if (of.abandoned) {
    if (!more) release(of);
    return;
  }
  if (of.done_call) {
    answer part{.how = outcome::answered, .more = more, .status = header.status, .payload = std::move(payload)};
    if (!more) return complete(of, std::move(part));
    finished_.push_back({of.done_call, std::move(part)});
    return;
  }
  if (of.gathered.payload.empty()) {
    of.gathered.payload = std::move(payload);
  } else {
    of.gathered.payload.append(payload.view());
  }
  if (more) return;
  of.gathered.how = outcome::answered;
  of.gathered.status = header.status;
  of.done = true;
  if (waiting_ > 0) changed_.notify_all();
}

/// The end of a request that somebody waits for: a call finds it in its slot, a completion is run by the driver.
void client_endpoint::complete(slot& of, answer&& what) {
  if (!of.done_call) {
    of.gathered = std::move(what);
    of.done = true;
  } else {
    --completions_due_;
    finished_.push_back({std::move(of.done_call), std::move(what)});
    release(of);
  }
  if (waiting_ > 0) changed_.notify_all();
}

void client_endpoint::release(slot& which) {
  which.used = which.done = which.abandoned = false;
  which.done_call = nullptr;
  which.early.clear();
  ++which.uses;
  --under_way_;
  bytes_under_way_ -= which.charged;
  free_slots_.push_back(which.place);
  if (server_stops_ && under_way_ == 0) note_loss(close_reason::stopping);
  if (waiting_ > 0) changed_.notify_all();
}

}  // namespace icecore::wire
