#include "wire/server/connection.hpp"

namespace icecore::wire {

request::request(request&& other)
    : from_(std::move(other.from_)),
      header_(other.header_),
      owned_(other.payload_.empty() ? byte_buffer()
             : other.owned_.empty() ? byte_buffer(other.payload_)
                                    : std::move(other.owned_)),
      payload_(owned_.view()),
      charged_(other.charged_),
      parts_(other.parts_) {
  other.payload_ = {};
}

request::~request() {
  if (from_) answer(status_dropped);
}

void request::answer_part(frame_payload payload) {
  if (!from_) return;
  frame_header header = header_;
  header.flags = flag_answer | flag_more_parts;
  header.database = parts_++;
  from_->send_part(header, std::move(payload), 0);
}

void request::answer(std::uint16_t status, frame_payload payload) {
  if (!from_) return;
  frame_header header = header_;
  header.flags = flag_answer;
  header.status = status;
  header.database = parts_;
  const std::shared_ptr<connection> to = std::move(from_);
  from_ = nullptr;
  payload_ = {};
  to->send_part(header, std::move(payload), charged_);
}

}  // namespace icecore::wire
