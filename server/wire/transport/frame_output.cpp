#include "wire/transport/frame_output.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>

#include "wire/transport/ucx.hpp"

namespace icecore::wire {

namespace {

/// Gives the kernel back the whole pages among `bytes`, which nobody reads any more, but which are part of a block of
/// memory that cannot be freed yet. Where the kernel does not take them, nothing is lost but memory.
void give_back_pages(std::span<std::byte> bytes) noexcept {
  static const auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
  const auto start = reinterpret_cast<std::uintptr_t>(bytes.data());
  const std::size_t before = (page - start % page) % page;
  if (bytes.size() < before + page) return;
  static_cast<void>(madvise(bytes.data() + before, (bytes.size() - before) / page * page, MADV_DONTNEED));
}

}  // namespace

void frame_output::push(const frame_header& header, frame_payload payload) {
  if (payload.size() <= piece_bytes) payload.join();
  frame& added = frames_.emplace_back(frame{.header = header, .payload = std::move(payload)});
  added.header.payload_bytes = static_cast<std::uint32_t>(added.payload.size());
  if (added.payload.size() > piece_bytes) added.header.flags |= flag_piece;
  bytes_ += cost_of(added);
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
    const std::span<const std::byte> next = first.payload.from(first.sent);
    first.sending = std::min(piece_bytes, next.size());
    handed += first.sending + sizeof(frame_header);
    void* const request = ucp_am_send_nbx(endpoint, frame_message, &first.header, sizeof(frame_header), next.data(),
                                          first.sending, &told);
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

/// With what the allocator adds, about.
std::size_t frame_output::cost_of(const frame& one) noexcept { return sizeof one + 32 + one.payload.held_bytes(); }

void frame_output::gone() {
  frame& first = frames_.front();
  first.sent += first.sending;
  if (first.sent < first.payload.size()) return;
  bytes_ -= cost_of(first);
  frames_.pop_front();
}

void frame_output::drop_waiting() {
  while (frames_.size() > (under_way_ ? 1 : 0)) frames_.pop_back();
  if (under_way_) {
    frame& kept = frames_.front();  // UCX reads its header and the piece that goes now, nothing else of its payload
    const std::size_t kept_end = kept.sent + kept.sending;
    for (std::size_t at = 0; at < kept.payload.size();) {
      std::span<std::byte> row = kept.payload.from(at);
      if (at < kept.sent) {
        row = row.first(std::min(row.size(), kept.sent - at));
        give_back_pages(row);
      } else if (at < kept_end) {
        row = row.first(std::min(row.size(), kept_end - at));
      } else {
        give_back_pages(row);
      }
      at += row.size();
    }
  }
  bytes_ = 0;
}

}  // namespace icecore::wire
