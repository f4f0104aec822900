// Calls, driving, sleeping. Frames in and out: client_frames.cpp.
#include "wire/client/client_endpoint.hpp"

#include <poll.h>

#include <algorithm>
#include <utility>

#include "wire/client/slot.hpp"
#include "wire/client/wire_up.hpp"
#include "wire/transport/failure.hpp"

namespace icecore::wire {

namespace {

constexpr auto tick_interval = std::chrono::milliseconds(10);
constexpr unsigned idle_polls_between_clocks = 16;
constexpr unsigned busy_polls_between_clocks = 256;
constexpr unsigned patience_rounds = 200;  // how long a driver leaves the mutex to those who want it
constexpr int longest_sleep_ms = 1000;

void pause() noexcept {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#else
  std::this_thread::yield();
#endif
}

}  // namespace

client_endpoint::client_endpoint(client_settings settings) : settings_(std::move(settings)), worker_(settings_.ucx) {
  worker_.receive_with(&client_endpoint::on_message, this);
  const hello said{.token = settings_.token,
                   .user = settings_.user,
                   .secret = settings_.secret,
                   .group = settings_.group,
                   .name = settings_.name};
  const auto deadline = std::chrono::steady_clock::now() + settings_.connect_limit;
  wired_up wired = wire_up(settings_.address, said, worker_, deadline);
  socket_ = std::move(wired.socket);
  told_ = std::move(wired.told);
  std::string why;
  endpoint_ = worker_.make_endpoint(told_.worker_address, &client_endpoint::on_endpoint_error, this, why);
  if (endpoint_ == nullptr) {
    throw failure("no transport leads to the server at " + socket_.peer() + ": " + why +
                      "; with transport = shared_memory it must be on this machine",
                  close_reason::lost);
  }
  try {
    reach(endpoint_, socket_, worker_, deadline);
  } catch (...) {
    worker_.end_endpoint(endpoint_);
    throw;
  }
  thread_ = std::thread([this] { background(); });
}

client_endpoint::~client_endpoint() {
  close(std::chrono::milliseconds(0));
  {
    const lock held = enter();
    stop_background_ = true;
  }
  wake_background_.ring();
  wake_driver_.ring();
  thread_.join();
}

void client_endpoint::close(std::chrono::milliseconds limit) {
  lock held = enter();
  refusing_ = true;
  const auto deadline = std::chrono::steady_clock::now() + limit;
  wait_for(
      held, [this] { return under_way_ == 0; }, deadline);
  if (ended() == close_reason::none) {
    static_cast<void>(socket_.write_now(encode(goodbye{close_reason::by_peer, ""}).view()));
    // Nobody else may be inside UCX: a driver that sleeps is woken, and leaves once the connection has ended.
    end_connection(close_reason::by_peer);
  }
  run_finished(held);
}

answer client_endpoint::call(std::uint16_t operation, std::uint32_t database, byte_buffer payload,
                             steady_time deadline) {
  lock held = enter();
  completion none;
  slot* const mine = begin(held, operation, database, std::move(payload), none, deadline);
  if (mine == nullptr) return {};
  wait_for(
      held, [mine] { return mine->done; }, deadline);
  answer result;
  if (mine->done) {
    result = std::move(mine->gathered);
    release(*mine);
  } else {
    result.how = outcome::timed_out;
    abandon(*mine);
    if (!driven_) wake_background_.ring();
  }
  return result;
}

void client_endpoint::start(std::uint16_t operation, std::uint32_t database, byte_buffer payload, completion done,
                            steady_time deadline) {
  lock held = enter();
  if (begin(held, operation, database, std::move(payload), done, deadline) == nullptr) {
    held.unlock();
    done({});
    return;
  }
  const bool first = completions_due_ == 1;  // later ones find the thread driving, or looking each millisecond
  const bool driven = driven_;
  held.unlock();
  if (first && !driven && settings_.background_progress) wake_background_.ring();
}

std::future<answer> client_endpoint::send(std::uint16_t operation, std::uint32_t database, byte_buffer payload,
                                          steady_time deadline) {
  auto promised = std::make_shared<std::promise<answer>>();
  std::future<answer> result = promised->get_future();
  auto gathered = std::make_shared<byte_buffer>();
  start(
      operation, database, std::move(payload),
      [promised, gathered](answer&& got) {
        if (got.more || !gathered->empty()) gathered->append(got.payload.view());
        if (got.more) return;
        if (!gathered->empty()) got.payload = std::move(*gathered);
        promised->set_value(std::move(got));
      },
      deadline);
  return result;
}

bool client_endpoint::wait(const std::function<bool()>& holds, steady_time deadline) {
  lock held = enter();
  return wait_for(held, holds, deadline);
}

void client_endpoint::progress() {
  lock held = enter();
  if (driven_ || ended() != close_reason::none) return run_finished(held);
  unsigned rounds = 0;
  drive(
      held, [&rounds] { return rounds++ > 0; }, steady_time::max());
}

bool client_endpoint::drain(steady_time deadline) {
  lock held = enter();
  return wait_for(
      held, [this] { return under_way_ == 0; }, deadline);
}

// ---- waiting

client_endpoint::lock client_endpoint::enter() {
  lock held(mutex_, std::try_to_lock);
  if (!held.owns_lock()) {
    wanting_.fetch_add(1, std::memory_order_relaxed);
    held.lock();
    wanting_.fetch_sub(1, std::memory_order_relaxed);
  }
  return held;
}

/// True: the condition holds. False: the deadline or the end of the connection came first.
template <class Condition>
bool client_endpoint::wait_for(lock& held, const Condition& holds, steady_time deadline) {
  while (!holds()) {
    if (ended() != close_reason::none) return false;
    if (!driven_ || driver_ == std::this_thread::get_id()) {  // a completion that waits drives on
      drive(held, holds, deadline);
      if (!holds() && std::chrono::steady_clock::now() >= deadline) return false;
    } else {
      ++waiting_;
      if (sleeping_) wake_driver_.ring();  // the endpoint's own thread gives the seat away
      const bool changed =
          changed_.wait_until(held, deadline, [&] { return holds() || !driven_ || ended() != close_reason::none; });
      --waiting_;
      if (!changed) return holds();
    }
  }
  return true;
}

/// Drives until the condition holds, the deadline has come, or the connection has ended.
template <class Condition>
void client_endpoint::drive(lock& held, const Condition& holds, steady_time deadline) {
  const bool was_driven = std::exchange(driven_, true);  // true: by this thread, whose completion waits
  const std::thread::id driver_before = std::exchange(driver_, std::this_thread::get_id());
  unsigned idle = 0, busy = 0;
  auto last_event = std::chrono::steady_clock::now();
  while (!holds() && ended() == close_reason::none) {
    const bool happened = worker_.progress() > 0;
    if (output_.can_go()) static_cast<void>(send_waiting());
    if (loss_ != close_reason::none) end_connection(loss_);
    if (!finished_.empty()) run_finished(held);
    if (wanting_.load(std::memory_order_relaxed) > 0) let_others_in(held);
    if (happened ? ++busy % busy_polls_between_clocks != 0 : ++idle % idle_polls_between_clocks != 0) continue;
    const auto now = std::chrono::steady_clock::now();
    if (busy > 0) last_event = now;
    busy = 0;
    if (now >= deadline) break;
    if (now - last_tick_ >= tick_interval) {
      tick(now);  // it may have made the condition true, or completions due: the loop looks before it sleeps
    } else if (core_.wanted_by_others() && !output_.under_way() ? !happened : now - last_event >= settings_.spin) {
      // What UCX still holds over shared memory rings nobody: for that it is polled in any case.
      core_.look();
      sleep(held, deadline);
    }
  }
  if (!finished_.empty()) run_finished(held);
  driven_ = was_driven;
  driver_ = driver_before;
  if (!was_driven && waiting_ > 0) changed_.notify_all();
  if (!was_driven && abandoned_ > 0) wake_background_.ring();
}

void client_endpoint::let_others_in(lock& held) {
  held.unlock();
  for (unsigned i = 0; i < patience_rounds && wanting_.load(std::memory_order_relaxed) > 0; ++i) pause();
  held.lock();
}

void client_endpoint::sleep(lock& held, steady_time deadline) {
  if (!worker_.arm()) return;
  // Over shared memory nobody rings when there is room again for what UCX still holds: then it is looked at soon.
  const int longest_ms = output_.under_way()    ? 1
                         : completions_due_ > 0 ? static_cast<int>(tick_interval.count())
                                                : longest_sleep_ms;
  pollfd polled[] = {
      {worker_.event_descriptor(), POLLIN, 0}, {wake_driver_.number(), POLLIN, 0}, {socket_.number(), POLLIN, 0}};
  const int wait_ms = milliseconds_until(deadline, longest_ms);
  sleeping_ = true;
  held.unlock();
  static_cast<void>(poll(polled, 3, wait_ms));
  held.lock();
  sleeping_ = false;
  if (polled[1].revents != 0) wake_driver_.silence();
  if (polled[2].revents != 0) read_control();
}

void client_endpoint::run_finished(lock& held) {
  while (!finished_.empty()) {
    std::vector<finished> running;
    running.swap(finished_);
    held.unlock();
    for (finished& each : running) each.done(std::move(each.what));
    running.clear();
    held.lock();
    if (waiting_ > 0) changed_.notify_all();  // perhaps for what a completion has done
  }
}

void client_endpoint::tick(steady_time now) {
  last_tick_ = now;
  pollfd readable{socket_.number(), POLLIN, 0};
  if (ended() == close_reason::none && poll(&readable, 1, 0) > 0) read_control();
  if (completions_due_ == 0) return;
  for (slot& each : slots_) {
    if (!each.used || !each.done_call || each.abandoned || now < each.deadline) continue;
    --completions_due_;
    finished_.push_back({std::move(each.done_call), answer{.how = outcome::timed_out}});
    each.done_call = nullptr;
    abandon(each);
  }
}

/// The endpoint's own thread: drives when nobody else does and completions are due; else watches the control socket.
void client_endpoint::background() {
  lock held = enter();
  while (!stop_background_) {
    if (loss_ != close_reason::none && !driven_) end_connection(loss_);
    const bool due = settings_.background_progress && something_due();
    if (!finished_.empty() && !driven_) run_finished(held);
    if (due && !driven_ && waiting_ == 0 && ended() == close_reason::none) {
      drive(
          held, [this] { return stop_background_ || !something_due() || waiting_ > 0; }, steady_time::max());
      continue;
    }
    const bool alive = ended() == close_reason::none;
    pollfd polled[] = {{wake_background_.number(), POLLIN, 0}, {alive ? socket_.number() : -1, POLLIN, 0}};
    held.unlock();
    static_cast<void>(poll(polled, 2, due ? 1 : longest_sleep_ms));
    wake_background_.silence();
    held.lock();
    if (polled[1].revents != 0 && ended() == close_reason::none) read_control();
  }
}

// ---- the end

void client_endpoint::read_control() {
  if (ended() != close_reason::none || !socket_) return;
  const read_state state = socket_.read_some(record_bytes_max);
  bool malformed = false;
  const auto read = next_record(socket_.unread(), record_bytes_max, malformed);
  goodbye said;
  close_reason reason = close_reason::none;
  if (malformed || (read && (read->kind != record_kind::goodbye || !decode(read->body, said)))) {
    reason = close_reason::malformed;
  } else if (read && said.reason == close_reason::stopping && state == read_state::open) {
    refusing_ = server_stops_ = true;  // what is under way is still answered
    socket_.consume(record_header_bytes + read->body.size());
    if (under_way_ > 0) return;
    reason = close_reason::stopping;
  } else if (read) {
    reason = said.reason;
  } else if (state == read_state::ended) {
    reason = server_stops_ ? close_reason::stopping : close_reason::lost;
  }
  if (reason == close_reason::none) return;
  // Answers that have arrived before the end are answers: UCX has them already.
  for (unsigned idle = 0; idle < 64; ++idle) {
    if (worker_.progress() > 0) idle = 0;
  }
  end_connection(reason);
}

void client_endpoint::note_loss(close_reason reason) noexcept {
  if (loss_ == close_reason::none) loss_ = reason;
  wake_background_.ring();  // it ends the connection if nobody drives
}

void client_endpoint::end_connection(close_reason reason) {
  if (ended() != close_reason::none) return;
  // An endpoint with a message under way ends with the worker: to close it over TCP is not safe (server/io_thread.hpp,
  // invariant 7).
  ucp_ep_h const endpoint = std::exchange(endpoint_, nullptr);
  if (endpoint != nullptr && !output_.under_way()) worker_.end_endpoint(endpoint);
  output_.drop_waiting();
  ended_.store(reason, std::memory_order_release);
  for (slot& each : slots_) {
    if (each.used && !each.done) {
      if (each.abandoned) {
        release(each);
      } else {
        complete(each, answer{.how = outcome::broken});
      }
    }
  }
  socket_.close();
  changed_.notify_all();
  if (sleeping_) wake_driver_.ring();
  wake_background_.ring();
}

}  // namespace icecore::wire
