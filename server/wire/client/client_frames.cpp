// Frames of a client endpoint: requests out, answers in.
#include <utility>

#include "wire/client/client_endpoint.hpp"
#include "wire/client/slot.hpp"

namespace icecore::wire {

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

bool client_endpoint::transmit(const slot& of, std::uint16_t operation, std::uint32_t database, byte_buffer&& payload) {
  output_.push({.operation = operation, .database = database, .connection = told_.connection, .request = of.number()},
               std::move(payload));
  return output_.under_way() || send_waiting();
}

/// False: UCX refused, and the connection will end.
bool client_endpoint::send_waiting() {
  // The server sees from which endpoint a request comes.
  const ucs_status_t status = output_.advance(
      endpoint_, {.taken = &client_endpoint::on_sent, .argument = this, .flags = UCP_AM_SEND_FLAG_REPLY});
  if (UCS_STATUS_IS_ERR(status)) {
    note_loss(close_reason::lost);
    return false;
  }
  if (status == UCS_INPROGRESS && sleeping_) wake_driver_.ring();  // it slept without knowing of this message
  return true;
}

void client_endpoint::on_sent(void* ucx_request, ucs_status_t status, void* given) {
  client_endpoint& self = *static_cast<client_endpoint*>(given);
  ucp_request_free(ucx_request);
  self.output_.taken();
  if (status != UCS_OK && self.endpoint_ != nullptr) self.note_loss(close_reason::lost);
}

void client_endpoint::on_endpoint_error(void* self, ucp_ep_h /*endpoint*/, ucs_status_t /*status*/) {
  static_cast<client_endpoint*>(self)->note_loss(close_reason::lost);
}

// ---- in

ucs_status_t client_endpoint::on_message(void* self, const void* header, std::size_t header_bytes, void* data,
                                         std::size_t bytes, const ucp_am_recv_param_t* how) {
  client_endpoint& client = *static_cast<client_endpoint*>(self);
  if ((how->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) != 0) {
    client.note_loss(close_reason::malformed);  // servers do not send so
    return UCS_OK;
  }
  try {
    client.take_message({static_cast<const std::byte*>(header), header_bytes},
                        {static_cast<const std::byte*>(data), bytes});
  } catch (const std::bad_alloc&) {  // an answer without memory for it; UCX's code is not to be left by an exception
    client.note_loss(close_reason::lost);
  }
  return UCS_OK;
}

void client_endpoint::take_message(std::span<const std::byte> said, std::span<const std::byte> payload) {
  frame_header header;
  if (read_header(said, payload.size(), header) != frame_defect::none ||
      (header.flags & (flag_answer | flag_unasked)) == 0 || header.connection != told_.connection ||
      header.payload_bytes > settings_.answer_bytes_max) {
    return note_loss(close_reason::malformed);
  }
  const bool piece = (header.flags & flag_piece) != 0;
  header.flags &= static_cast<std::uint8_t>(~flag_piece);
  if (!piece) {
    return input_.under_way() ? note_loss(close_reason::malformed) : take_part(header, byte_buffer(payload));
  }
  if (!input_.under_way()) input_.begin(header);
  switch (input_.add(header, payload)) {
    case frame_input::state::whole:
      return take_part(header, input_.take());
    case frame_input::state::broken:
      return note_loss(close_reason::malformed);
    case frame_input::state::more:
    case frame_input::state::left_out:
      return;
  }
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
  if (header.database != of->next_part) return note_loss(close_reason::malformed);
  ++of->next_part;
  take_answer(*of, header, std::move(payload));
}

void client_endpoint::take_answer(slot& of, const frame_header& header, byte_buffer payload) {
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

/// Nobody waits for it any more; the rest of it is sent, and its answer fetched, by whoever drives (invariant 4).
void client_endpoint::abandon(slot& which) {
  which.abandoned = true;
  ++abandoned_;
}

void client_endpoint::release(slot& which) {
  if (which.abandoned) --abandoned_;
  which.used = which.done = which.abandoned = false;
  which.done_call = nullptr;
  ++which.uses;
  --under_way_;
  bytes_under_way_ -= which.charged;
  free_slots_.push_back(which.place);
  if (server_stops_ && under_way_ == 0) note_loss(close_reason::stopping);
  if (waiting_ > 0) changed_.notify_all();
}

}  // namespace icecore::wire
