#include "wire/server/io_thread.hpp"

#include <sys/epoll.h>

#include <algorithm>
#include <cerrno>

#include "wire/transport/failure.hpp"
#include "wire/transport/polling.hpp"

namespace icecore::wire {

namespace {

constexpr int clocks_ms = 20;                                    // how often limits of time are looked at
constexpr auto sockets_interval = std::chrono::milliseconds(1);  // how often a busy thread looks at control sockets
constexpr auto closing_time_max = std::chrono::seconds(1);       // UCX closes an endpoint at once, unless it is broken
constexpr unsigned rounds_between_clocks = 16;
constexpr int endless_ms = 1000;
constexpr int spin_growth = 10;

thread_local const io_thread* this_thread = nullptr;

void watch(int sockets, int number, void* what) {
  epoll_event event{};
  event.events = EPOLLIN | EPOLLRDHUP;
  event.data.ptr = what;
  if (epoll_ctl(sockets, EPOLL_CTL_ADD, number, &event) != 0) throw failure("epoll_ctl failed");
}

}  // namespace

// ---- of any thread

void io_connection::send(std::uint16_t operation, std::uint16_t status, byte_buffer payload) {
  frame_header header;
  header.flags = flag_unasked;
  header.operation = operation;
  header.status = status;
  io_->post_frame(shared(), header, std::move(payload), 0);
}

void io_connection::send_part(const frame_header& header, frame_payload payload, std::uint64_t charged) {
  io_->post_frame(shared(), header, std::move(payload), charged);
}

void io_connection::close(close_reason reason, std::string text) { io_->post_close(shared(), reason, std::move(text)); }

io_thread::io_thread(std::shared_ptr<server_state> shared)
    : shared_(std::move(shared)),
      worker_(std::make_unique<ucx_worker>(shared_->settings.ucx)),
      sockets_(epoll_create1(EPOLL_CLOEXEC)),
      places_(shared_->settings.limits.connections_max) {
  if (!sockets_) throw failure("epoll_create1 failed");
  worker_->receive_with(&io_thread::on_message, this);
  watch(sockets_.number(), worker_->event_descriptor(), nullptr);
  watch(sockets_.number(), wake_.number(), &wake_);
}

io_thread::~io_thread() = default;

void io_thread::start() {
  thread_ = std::thread([this] { run(); });
}

void io_thread::adopt(std::shared_ptr<io_connection> made, control_socket socket,
                      std::vector<std::byte> client_address) {
  posted what{.what = posted::kind::adopt, .which = std::move(made)};
  what.socket = std::move(socket);
  what.client_address = std::move(client_address);
  post(std::move(what));
}

void io_thread::post_frame(std::shared_ptr<io_connection> to, const frame_header& header, frame_payload payload,
                           std::uint64_t charged) {
  if (on_own_thread()) return transmit(*to, header, std::move(payload), charged);
  posted what{.what = posted::kind::frame, .which = std::move(to)};
  what.header = header;
  what.payload = std::move(payload);
  what.charged = charged;
  post(std::move(what));
}

void io_thread::post_close(std::shared_ptr<io_connection> which, close_reason reason, std::string text) {
  if (on_own_thread()) return will_close(*which, reason, std::move(text));
  posted what{.what = posted::kind::close, .which = std::move(which)};
  what.reason = reason;
  what.text = std::move(text);
  post(std::move(what));
}

void io_thread::stop(steady_time deadline) {
  posted what{.what = posted::kind::stop};
  what.deadline = deadline;
  post(std::move(what));
}

void io_thread::join() {
  if (thread_.joinable()) thread_.join();
  worker_.reset();
  // What UCX has not closed is closed with it. Connections name this object, which must not name them for ever.
  opening_.clear();
  closing_endpoints_.clear();
  draining_.clear();
  unfinished_.clear();
}

bool io_thread::on_own_thread() const noexcept { return this_thread == this; }

void io_thread::post(posted&& what) {
  {
    const std::lock_guard lock(inbox_mutex_);
    if (finished_) return;  // `what` is dropped by the caller, without the lock
    inbox_.push_back(std::move(what));
  }
  // Invariant 2: this write comes before the read of sleeping_ in the one order of all such accesses.
  inbox_filled_.store(true, std::memory_order_seq_cst);
  if (sleeping_.load(std::memory_order_seq_cst)) wake_.ring();
}

// ---- the loop

void io_thread::run() {
  this_thread = this;
  now_ = std::chrono::steady_clock::now();
  auto last_event = now_, last_sockets = now_, last_clocks = now_;
  auto spin = shared_->settings.spin;
  core_use core;
  for (unsigned idle_rounds = 0; !done();) {
    // Relaxed: what is seen late is seen in the next round; before it sleeps, the thread looks again.
    if (inbox_filled_.load(std::memory_order_relaxed)) take_posted();
    const bool busy = worker_->progress() > 0;
    if (!opening_.empty()) look_at_opening();
    if (!closing_.empty()) end_those_closing();
    if (!unfinished_.empty()) send_unfinished();
    if (!draining_.empty()) look_at_draining();
    if (!busy && ++idle_rounds < rounds_between_clocks) continue;
    idle_rounds = 0;
    now_ = std::chrono::steady_clock::now();
    if (busy) last_event = now_;
    if (now_ - last_sockets >= sockets_interval) {
      look_at_sockets(0);
      last_sockets = now_;
    }
    if (now_ - last_clocks >= std::chrono::milliseconds(clocks_ms)) {
      look_at_clocks();
      last_clocks = now_;
    }
    // What UCX still holds over shared memory rings nobody: for that it is polled in any case.
    const bool may_leave_out = core.wanted_by_others() && messages_ == 0;
    const bool polled_enough = may_leave_out ? !busy : now_ - last_event >= spin;
    if (polled_enough && closing_endpoints_.empty() && unfinished_.empty()) {
      core.look();
      sleep();
      // Who is woken soon would have done better to poll on: clients that wait for each answer come back at once. So
      // the time of polling grows while sleeps are short, to ten times the setting, and falls back with the first long
      // one.
      const auto woken = std::chrono::steady_clock::now();
      const bool soon = woken - now_ < spin_growth * shared_->settings.spin;
      spin = soon ? std::min(2 * spin, spin_growth * shared_->settings.spin) : shared_->settings.spin;
      now_ = last_event = last_sockets = woken;
    }
  }
  const std::lock_guard lock(inbox_mutex_);
  finished_ = true;
  inbox_.clear();
}

void io_thread::sleep() {
  sleeping_.store(true, std::memory_order_seq_cst);  // invariant 2
  if (!inbox_filled_.load(std::memory_order_seq_cst) && worker_->arm()) {
    const bool clocks_run = by_endpoint_.size() > 0 || stopping_;
    // Over shared memory nobody rings when there is room again for what UCX still holds: then it is looked at soon.
    look_at_sockets(messages_ > 0 || !opening_.empty() ? 1 : clocks_run ? clocks_ms : endless_ms);
  }
  sleeping_.store(false, std::memory_order_relaxed);  // a ring too many does no harm
}

void io_thread::take_posted() {
  std::vector<posted> taken;
  {
    const std::lock_guard lock(inbox_mutex_);
    taken.swap(inbox_);
    inbox_filled_.store(false, std::memory_order_relaxed);  // the mutex orders it with the writes of those who post
  }
  for (posted& what : taken) {
    switch (what.what) {
      case posted::kind::adopt:
        open(what);
        break;
      case posted::kind::frame:
        transmit(*what.which, what.header, std::move(what.payload), what.charged);
        break;
      case posted::kind::close:
        will_close(*what.which, what.reason, std::move(what.text));
        break;
      case posted::kind::stop:
        stopping_ = true;
        stop_deadline_ = what.deadline;
        for (auto& [endpoint, connection] : by_endpoint_) {
          static_cast<void>(connection->socket.write_now(encode(goodbye{close_reason::stopping, ""}).view()));
          connection->said_goodbye = true;
        }
        break;
    }
  }
}

void io_thread::look_at_sockets(int wait_ms) {
  epoll_event events[64];
  const int count = epoll_wait(sockets_.number(), events, 64, wait_ms);
  for (int i = 0; i < count; ++i) {
    void* const what = events[i].data.ptr;
    if (what == nullptr) continue;  // the worker: progress() is next
    if (what == &wake_) {
      wake_.silence();
    } else {
      read_control(*static_cast<io_connection*>(what));
    }
  }
}

void io_thread::read_control(io_connection& from) {
  if (from.closing != close_reason::none || !from.socket) return;
  const read_state state = from.socket.read_some(hello_bytes_max);
  bool malformed = false;
  const auto read = next_record(from.socket.unread(), hello_bytes_max, malformed);
  if (malformed || (read && read->kind != record_kind::goodbye)) {
    will_close(from, close_reason::malformed, "bytes on the control socket that do not belong there");
  } else if (read) {
    will_close(from, close_reason::by_peer, "");
  } else if (state == read_state::ended) {
    will_close(from, close_reason::lost, "its control socket ended");
  }
}

void io_thread::look_at_clocks() {
  const server_limits& limits = shared_->settings.limits;
  const auto longer = [&](steady_time since, std::uint32_t limit_ms) {
    return limit_ms != 0 && now_ - since > std::chrono::milliseconds(limit_ms);
  };
  for (auto& [endpoint, connection] : by_endpoint_) {
    if (!connection->ready) {
      if (longer(connection->last_frame, limits.handshake_ms)) {
        will_close(*connection, close_reason::too_slow, "its transport was not connected in time");
      }
    } else if (connection->output_charged > 0 && longer(connection->output_moved, limits.not_reading_ms)) {
      will_close(*connection, close_reason::not_reading, "its answers have not moved for too long");
    } else if (connection->input.under_way() && longer(connection->input_begun, limits.frame_ms)) {
      will_close(*connection, close_reason::too_slow, "a request did not arrive as a whole in time");
    } else if (connection->requests_in_flight == 0 && longer(connection->last_frame, limits.idle_ms)) {
      will_close(*connection, close_reason::idle, "");
    }
  }
}

bool io_thread::done() {
  if (!closing_endpoints_.empty()) {
    std::erase_if(closing_endpoints_, [&](auto& closing) { return worker_->closed(closing.first); });
  }
  if (!stopping_) return false;
  if (by_endpoint_.empty() && closing_endpoints_.empty()) return true;
  now_ = std::chrono::steady_clock::now();
  if (now_ < stop_deadline_) return false;
  for (auto& [endpoint, connection] : by_endpoint_) will_close(*connection, close_reason::stopping, "the time is over");
  end_those_closing();
  return closing_endpoints_.empty() || now_ > stop_deadline_ + closing_time_max;
}

// ---- connections

void io_thread::open(posted& what) {
  io_connection& made = *what.which;
  made.socket = std::move(what.socket);
  made.last_frame = made.output_moved = now_;
  std::string why;
  ucp_ep_h endpoint = nullptr;
  if (!stopping_) {
    endpoint = worker_->make_endpoint(what.client_address, &io_thread::on_endpoint_error, this, why);
  }
  if (endpoint == nullptr) {
    const goodbye said{stopping_ ? close_reason::stopping : close_reason::lost,
                       "no transport leads to the client: " + why};
    static_cast<void>(made.socket.write_now(encode(said).view()));
    made.socket.close();
    made.ended.store(true, std::memory_order_release);
    shared_->count_closed(said.reason);
    shared_->give_back_handle(made.handle());
    return;
  }
  made.endpoint = endpoint;
  places_[made.handle() & 0xFFFFU] = what.which;
  by_endpoint_.emplace(endpoint, &made);
  shared_->counters.connections_accepted.fetch_add(1, std::memory_order_relaxed);
  watch(sockets_.number(), made.socket.number(), &made);
  opening_.emplace_back(worker_->reach(endpoint), what.which);
}

/// Invariant 5.
void io_thread::look_at_opening() {
  std::erase_if(opening_, [&](auto& opening) {
    const ucs_status_t status = ucx_worker::reached(opening.first);
    if (status == UCS_INPROGRESS) return false;
    io_connection& made = *opening.second;
    if (status != UCS_OK) {
      will_close(made, close_reason::lost, std::string("it cannot be reached: ") + ucs_status_string(status));
    } else if (made.endpoint != nullptr && made.closing == close_reason::none) {
      become_ready(made);
    }
    return true;
  });
}

void io_thread::become_ready(io_connection& made) {
  made.ready = true;
  made.last_frame = now_;
  shared_->handler.on_open(made.shared());
  if (!made.socket.write_now(encode_ready().view())) will_close(made, close_reason::lost, "its control socket is full");
}

void io_thread::will_close(io_connection& which, close_reason reason, std::string text) {
  if (which.endpoint == nullptr || which.closing != close_reason::none) return;
  which.closing = reason;
  which.closing_text = std::move(text);
  closing_.push_back(which.shared());
}

void io_thread::end_those_closing() {
  for (std::vector<std::shared_ptr<io_connection>> ending; !closing_.empty(); ending.clear()) {
    ending.swap(closing_);
    for (const auto& each : ending) end(*each);
  }
}

void io_thread::end(io_connection& which) {
  const std::shared_ptr<io_connection> stays = which.shared();
  const close_reason reason = which.closing;
  const bool our_doing = reason != close_reason::by_peer && reason != close_reason::lost;
  shared_->count_closed(reason);
  if (our_doing && !which.said_goodbye) {
    static_cast<void>(which.socket.write_now(encode(goodbye{reason, which.closing_text}).view()));
  }
  static_cast<void>(epoll_ctl(sockets_.number(), EPOLL_CTL_DEL, which.socket.number(), nullptr));
  which.socket.close();
  by_endpoint_.erase(which.endpoint);
  places_[which.handle() & 0xFFFFU].reset();
  // Invariant 6. UCX does not wait for the peer of an endpoint that it closes by force.
  if (which.output.under_way()) --messages_;
  if (which.input.wanted()) {
    const request dropped(stays, which.input.header(), byte_buffer(),
                          which.input.header().payload_bytes + sizeof(frame_header));
  }
  which.input.clear();
  shared_->release(std::exchange(which.output_charged, 0));
  which.output.drop_waiting();
  ucp_ep_h const endpoint = std::exchange(which.endpoint, nullptr);
  const bool drains = which.output.under_way() && ucx_worker::over_tcp(endpoint);  // invariant 7
  if (drains) {
    draining_.emplace_back(endpoint, stays);
  } else {
    close_endpoint(endpoint, stays);
  }
  which.ended.store(true, std::memory_order_release);
  which.parked.clear();  // each is dropped, which gives back what was charged
  if (our_doing && reason != close_reason::stopping && reason != close_reason::idle) {
    shared_->warn("the connection of " + which.peer() + " was closed: " + std::string(describe(reason)) +
                  (which.closing_text.empty() ? "" : ": " + which.closing_text));
  }
  shared_->handler.on_close(which, reason);
  if (!drains) shared_->give_back_handle(which.handle());
}

void io_thread::close_endpoint(ucp_ep_h endpoint, const std::shared_ptr<io_connection>& of) {
  if (void* const request = worker_->close_endpoint(endpoint, true)) closing_endpoints_.emplace_back(request, of);
}

/// Invariant 7.
void io_thread::look_at_draining() {
  std::erase_if(draining_, [&](const auto& draining) {
    const auto& [endpoint, connection] = draining;
    if (connection->output.under_way()) return false;
    close_endpoint(endpoint, connection);
    shared_->give_back_handle(connection->handle());
    return true;
  });
}

}  // namespace icecore::wire
