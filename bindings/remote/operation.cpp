#include "operation.hpp"

namespace icecore::remote::detail {

namespace {

// A deadline of the endpoint completes a call; this only bounds the wait if that takes a moment longer.
constexpr std::chrono::seconds grace{1};

}  // namespace

void slot::put(wire::answer&& got) {
  {
    const std::lock_guard held(mutex_);
    answer_ = std::move(got);
    done_.store(true, std::memory_order_release);
    changed_.notify_all();
  }
  if (on_done_) on_done_();
}

bool slot::wait_until(steady_time time) {
  std::unique_lock held(mutex_);
  return changed_.wait_until(held, time, [this] { return done(); });
}

operation::operation(std::shared_ptr<database> of, std::size_t part, operation_number number, wire::byte_buffer payload,
                     bool repeatable, steady_time deadline)
    : of_(std::move(of)),
      part_(part),
      number_(number),
      payload_(std::move(payload)),
      repeatable_(repeatable),
      deadline_(deadline) {}

void operation::begin() {
  slot_ = std::make_shared<slot>(on_done_);
  failed_ = nullptr;
  try {
    endpoint_pointer endpoint = sent_over_.endpoint.lock();
    if (!bound_) {
      of_->all->look_again(deadline_);
      to_ = &of_->all->link_of(part_);
      endpoint = to_->connect(of_->name, sent_over_.handle, deadline_);
      sent_over_.endpoint = endpoint;
    }
    if (!endpoint) return slot_->put({.how = wire::outcome::not_sent});
    if (!is_short_for(*endpoint)) return slot_->put({.how = wire::outcome::not_sent});
    const auto put = [to = slot_](wire::answer&& got) { to->put(std::move(got)); };
    endpoint->start(static_cast<std::uint16_t>(number_), sent_over_.handle, wire::byte_buffer(payload_.view()), put,
                    deadline_);
  } catch (const icecore::error& why) {
    const bool another_way = to_ != nullptr && of_->all->only_saves_a_hop(*to_);
    if (why.code() != errc::unavailable && !another_way) failed_ = std::current_exception();
    slot_->put({.how = wire::outcome::not_sent});
  }
}

bool operation::is_short_for(const wire::client_endpoint& endpoint) {
  try {
    require_short_request(payload_.size(), endpoint, server());
    return true;
  } catch (const icecore::error&) {  // by any other way, too
    failed_ = std::current_exception();
    return false;
  }
}

bool operation::settled() {
  if (failed_ || cancelled_) return true;
  if (!slot_->done()) return false;
  link& to = to_ != nullptr ? *to_ : of_->all->link_of(part_);
  const wire::answer& got = slot_->answer();
  const bool broke = got.how != wire::outcome::answered && got.how != wire::outcome::timed_out;
  const bool dropped = got.how == wire::outcome::answered && got.status == wire::status_dropped;
  if (bound_ && (broke || dropped)) {  // a dropped request may have taken rows or changes with it: not a second time
    failed_ = std::make_exception_ptr(
        icecore::error(errc::unavailable, broke ? "the connection to " + to.name() + " broke"
                                                : "the server " + to.name() + " let go of the request"));
    return true;
  }
  const endpoint_pointer endpoint = sent_over_.endpoint.lock();
  try {
    if (of_->all->settle(slot_->answer(), to, endpoint, repeatable_, attempt_++, deadline_)) return true;
  } catch (const icecore::error&) {
    failed_ = std::current_exception();
    return true;
  }
  begin();
  return failed_ != nullptr;
}

wire::answer operation::wait() {
  if (taken_) throw icecore::error(errc::invalid_argument, "the result was taken already");
  while (!settled()) {
    const endpoint_pointer endpoint = sent_over_.endpoint.lock();
    if (endpoint) endpoint->wait([&] { return slot_->done(); }, deadline_ + grace);
    if (!slot_->done() && !slot_->wait_until(deadline_ + grace)) {
      failed_ = std::make_exception_ptr(
          icecore::error(errc::deadline_exceeded, "the server " + server() + " did not answer in time"));
    }
  }
  taken_ = true;
  if (failed_) std::rethrow_exception(failed_);
  if (cancelled_) throw icecore::error(errc::cancelled, "the call was cancelled; a write may still take effect");
  return std::move(slot_->answer());
}

bool operation::wait_for(std::chrono::milliseconds limit) {
  const steady_time until = in(limit);
  while (!settled()) {
    if (!slot_->wait_until(std::min(until, deadline_ + grace))) return false;
  }
  return true;
}

bool operation::test() {
  if (const endpoint_pointer endpoint = sent_over_.endpoint.lock()) endpoint->progress();
  return settled();
}

}  // namespace icecore::remote::detail
