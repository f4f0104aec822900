#include "cluster/messages/remote_call.hpp"

#include <cstring>
#include <exception>

namespace icecore::mpi {

remote_call::remote_call(progress& running, int owner, const std::shared_ptr<std::string>& request)
    : running_(running), owner_(owner), tag_(running.messages().lease_tag()), request_(request) {
  try {
    running_.throw_if_broken();
    const std::int32_t tag = tag_;
    std::memcpy(request->data() + reply_tag_offset, &tag, sizeof tag);
    running_.messages().send(owner_, request_tag, request_);
  } catch (...) {
    running_.messages().return_tag(tag_);
    throw;
  }
}

remote_call::~remote_call() {
  try {
    running_.wait([this] { return answered(); });
  } catch (...) {  // broken: nothing is sent or received any more
  }
}

bool remote_call::answered() {
  try {
    return look();
  } catch (...) {  // the answer is lost, and its sender waits until it is received
    running_.fail(std::current_exception());
    throw;
  }
}

bool remote_call::look() {
  if (answer_) return true;
  if (!arriving_) arriving_ = running_.messages().match(owner_, tag_);
  if (!arriving_ || !arriving_->arrived()) return false;
  answer_ = arriving_->take();
  running_.messages().return_tag(tag_);
  return true;
}

unpacker remote_call::answer() {
  running_.wait([this] { return answered(); });
  unpacker in(answer_->view());
  if (in.number<outcome>() == outcome::done) return in;
  unpack_failure(in).raise(owner_);
}

std::string pack_current_exception() {
  packer out;
  out.number(outcome::failed);
  pack(out, ranks::failure::of(std::current_exception()));
  return out.take();
}

}  // namespace icecore::mpi
