#include "cluster/read/fetched_stream.hpp"

#include <algorithm>
#include <utility>

#include "cluster/messages/wire.hpp"

namespace icecore::mpi {

void requests_ahead::add(const std::shared_ptr<request>& made) {
  const std::scoped_lock lock(mutex_);
  std::erase_if(all_, [](const auto& each) { return each.expired(); });
  all_.push_back(made);
}

void requests_ahead::finish() noexcept {
  const std::scoped_lock lock(mutex_);
  for (const auto& each : all_) {
    const auto made = each.lock();
    if (!made) continue;
    const std::scoped_lock not_taken(made->mutex);
    made->call.reset();  // waits for the answer
  }
  all_.clear();
}

fetched_stream::fetched_stream(progress& running, requests_ahead& ahead, int owner, const scan_request& wanted)
    : running_(running),
      ahead_(ahead),
      owner_(owner),
      at_(wanted.at),
      backward_(wanted.backward),
      from_(wanted.from),
      to_(wanted.to) {
  ask(wanted.from, wanted.after, wanted.to);
}

void fetched_stream::ask(std::string_view from, bool after, std::optional<std::string_view> to) {
  packer out(kind::scan);
  out.number(at_);
  out.text(from);
  out.number(static_cast<std::uint8_t>(after));
  out.optional_text(to);
  out.number(static_cast<std::uint8_t>(backward_));
  out.number(block_bytes_);
  auto asked = std::make_shared<requests_ahead::request>();
  ahead_.add(asked);
  asked->call = std::make_unique<remote_call>(running_, owner_, out.take());
  asked_ = std::move(asked);
  block_bytes_ = std::min(2 * block_bytes_, block_bytes_max);
}

void fetched_stream::ask_for_what_follows() { backward_ ? ask(from_, false, last_key_) : ask(last_key_, true, to_); }

void fetched_stream::take_block() {
  const std::scoped_lock taken(asked_->mutex);
  if (!asked_->call) throw error(errc::closed, "the cluster is closed");
  static_cast<void>(asked_->call->answer());  // throws the owner's error
  block_ = asked_->call->take();
  asked_->call.reset();
  rest_ = unpacker(block_->view());
  static_cast<void>(rest_.number<outcome>());
  ends_ = rest_.number<std::uint8_t>() != 0;
  last_key_ = rest_.text();
}

void fetched_stream::read_item() {
  valid_ = !rest_.at_end();
  if (!valid_) return;
  current_.key = rest_.text();
  current_.value = rest_.text();
}

bool fetched_stream::valid() {
  if (valid_ || !asked_) return valid_;
  take_block();
  asked_.reset();
  first_item_ = true;
  read_item();
  return valid_;
}

void fetched_stream::next() {
  if (std::exchange(first_item_, false) && !ends_) ask_for_what_follows();  // F1
  read_item();
}

}  // namespace icecore::mpi
