#include "wire/transport/frame_output.hpp"

#include <algorithm>

#include "wire/transport/ucx.hpp"

namespace icecore::wire {

void frame_output::push(const frame_header& header, byte_buffer payload) {
  frame& added = frames_.emplace_back(frame{.header = header, .payload = std::move(payload)});
  added.header.payload_bytes = static_cast<std::uint32_t>(added.payload.size());
  if (added.payload.size() > piece_bytes) added.header.flags |= flag_piece;
  bytes_ += added.payload.size() + sizeof(frame_header);
}

ucs_status_t frame_output::advance(ucp_ep_h endpoint, const how_to_send& how, std::size_t most) {
  ucp_request_param_t told{};
  told.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_FLAGS;
  told.flags = UCP_AM_SEND_FLAG_EAGER | how.flags;  // invariant 2
  told.cb.send = how.taken;
  told.user_data = how.argument;
  for (std::size_t handed = 0; !under_way_ && !frames_.empty();) {
    if (handed >= most) return UCS_ERR_NO_RESOURCE;
    frame& first = frames_.front();
    first.sending = std::min(piece_bytes, first.payload.size() - first.sent);
    handed += first.sending + sizeof(frame_header);
    void* const request = ucp_am_send_nbx(endpoint, frame_message, &first.header, sizeof(frame_header),
                                          first.payload.data() + first.sent, first.sending, &told);
    if (UCS_PTR_IS_ERR(request)) return UCS_PTR_STATUS(request);
    if (request == nullptr) {
      gone();
    } else {
      under_way_ = true;
    }
  }
  return under_way_ ? UCS_INPROGRESS : UCS_OK;
}

void frame_output::taken() {
  under_way_ = false;
  if (bytes_ > 0) {
    gone();
  } else {
    frames_.clear();  // it was given up meanwhile
  }
}

void frame_output::gone() {
  frame& first = frames_.front();
  first.sent += first.sending;
  if (first.sent < first.payload.size()) return;
  bytes_ -= first.payload.size() + sizeof(frame_header);
  frames_.pop_front();
}

void frame_output::drop_waiting() {
  while (frames_.size() > (under_way_ ? 1 : 0)) frames_.pop_back();
  bytes_ = 0;
}

}  // namespace icecore::wire
