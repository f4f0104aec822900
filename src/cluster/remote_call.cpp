#include "cluster/remote_call.hpp"

#include <fmt/format.h>

#include <cstring>
#include <new>

#include "icecore/error.hpp"

namespace icecore::mpi {
namespace {

constexpr int out_of_memory = 0;  // no errc has this number

std::string with_reply_tag(std::string request, std::int32_t tag) {
  std::memcpy(request.data() + reply_tag_offset, &tag, sizeof tag);
  return request;
}

}  // namespace

remote_call::remote_call(progress& running, int owner, std::string request)
    : running_(running),
      owner_(owner),
      tag_(running.messages().lease_tag()),
      request_(std::make_shared<const std::string>(with_reply_tag(std::move(request), tag_))) {
  try {
    running_.throw_if_broken();
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
  const int code = in.number<std::int32_t>();
  if (code == out_of_memory) throw std::bad_alloc();
  throw error(static_cast<errc>(code), fmt::format("rank {}: {}", owner_, in.text()));
}

std::string pack_current_exception() {
  packer out;
  out.number(outcome::failed);
  try {
    throw;
  } catch (const error& e) {
    out.number(static_cast<std::int32_t>(e.code().value()));
    out.text(e.message());
  } catch (const std::bad_alloc&) {
    out.number(std::int32_t{out_of_memory});
  } catch (const std::exception& e) {
    out.number(static_cast<std::int32_t>(errc::io));
    out.text(e.what());
  } catch (...) {  // of a function of the caller's
    out.number(static_cast<std::int32_t>(errc::io));
    out.text("something was thrown that is no std::exception");
  }
  return out.take();
}

}  // namespace icecore::mpi
