#include "wire/server/acceptor.hpp"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <optional>

namespace icecore::wire {

struct acceptor::newcomer {
  control_socket socket;
  steady_time deadline;
  std::shared_ptr<io_thread> io;  // set with the welcome
  std::shared_ptr<io_connection> made;
};

acceptor::acceptor(std::shared_ptr<server_state> shared, std::vector<std::shared_ptr<io_thread>> io_threads,
                   socket_address& at)
    : shared_(std::move(shared)), io_threads_(std::move(io_threads)), listening_(listen_at(at)) {
  thread_ = std::thread([this] { run(); });
}

acceptor::~acceptor() { stop(); }

void acceptor::stop() {
  if (!thread_.joinable()) return;
  stopping_.store(true, std::memory_order_relaxed);
  wake_.ring();
  thread_.join();
  for (auto& each : newcomers_) send_away(*each, close_reason::stopping, "");
  newcomers_.clear();
  listening_ = descriptor();
}

void acceptor::run() {
  std::vector<pollfd> polled;
  while (!stopping_.load(std::memory_order_relaxed)) {
    auto first_deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    // Above the limit nobody new is accepted: they wait in the kernel's queue until a handshake ends or its time is
    // over.
    const bool accepts = newcomers_.size() < shared_->settings.limits.handshakes_max;
    polled.assign({{wake_.number(), POLLIN, 0}, {accepts ? listening_.number() : -1, POLLIN, 0}});
    for (const auto& each : newcomers_) {
      polled.push_back({each->socket.number(), POLLIN, 0});
      first_deadline = std::min(first_deadline, each->deadline);
    }
    static_cast<void>(poll(polled.data(), polled.size(), milliseconds_until(first_deadline, 10'000)));
    const auto now = std::chrono::steady_clock::now();
    for (std::size_t i = newcomers_.size(); i-- > 0;) {
      newcomer& who = *newcomers_[i];
      bool stays = true;
      if (polled[i + 2].revents != 0) stays = go_on(who);
      if (stays && now >= who.deadline) stays = send_away(who, close_reason::too_slow, "");
      if (!stays) newcomers_.erase(newcomers_.begin() + static_cast<std::ptrdiff_t>(i));
    }
    if (polled[1].revents != 0) accept_all();
  }
}

void acceptor::accept_all() {
  while (newcomers_.size() < shared_->settings.limits.handshakes_max) {
    descriptor socket(accept4(listening_.number(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!socket) {
      if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
        shared_->warn("no connection can be accepted: " + std::generic_category().message(errno));
        std::this_thread::sleep_for(std::chrono::milliseconds(20));  // the socket stays readable: do not spin on it
      }
      return;
    }
    auto who = std::make_unique<newcomer>();
    who->socket = control_socket(std::move(socket));
    who->deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(shared_->settings.limits.handshake_ms);
    newcomers_.push_back(std::move(who));
  }
}

bool acceptor::go_on(newcomer& who) {
  const std::size_t body_bytes_max = who.made ? record_bytes_max : hello_bytes_max - record_header_bytes;
  const read_state state = who.socket.read_some(body_bytes_max);
  bool malformed = false;
  const auto read = next_record(who.socket.unread(), body_bytes_max, malformed);
  if (malformed) return send_away(who, close_reason::malformed, "this is no handshake");
  if (!read) return state == read_state::open || send_away(who, close_reason::lost, "");
  if (!who.made) {
    if (read->kind != record_kind::hello) return send_away(who, close_reason::malformed, "a hello was expected");
    return answer_hello(who, read->body);
  }
  std::vector<std::byte> address;
  if (read->kind != record_kind::address || !decode_address(read->body, address)) {
    return send_away(who, close_reason::malformed, "an address was expected");
  }
  who.socket.consume(record_header_bytes + read->body.size());
  if (!who.socket.unread().empty()) return send_away(who, close_reason::malformed, "bytes behind the address");
  who.io->adopt(std::move(who.made), std::move(who.socket), std::move(address));
  return false;
}

bool acceptor::answer_hello(newcomer& who, std::span<const std::byte> body) {
  hello said;
  if (!decode(body, said)) return send_away(who, close_reason::malformed, "the hello's fields contradict its length");
  if (said.version != protocol_version) {
    return send_away(who, close_reason::other_protocol,
                     "this server speaks version " + std::to_string(protocol_version));
  }
  if (!same_secret(shared_->settings.token, said.token)) return send_away(who, close_reason::wrong_token, "");
  said.token.clear();
  admission decided = shared_->handler.admit(said, who.socket.peer());
  if (!decided.accepted) return send_away(who, decided.reason, decided.text);
  std::uint32_t handle = 0;
  if (!shared_->take_handle(handle)) {
    shared_->counters.connections_refused_full.fetch_add(1, std::memory_order_relaxed);
    return send_away(who, close_reason::too_many_connections, "");
  }
  who.io = io_threads_[next_io_thread_++ % io_threads_.size()];
  who.made = std::make_shared<io_connection>(who.io, handle, who.socket.peer(), std::move(decided.session));
  who.socket.consume(record_header_bytes + body.size());
  const server_limits& limits = shared_->settings.limits;
  const welcome answer{.connection = handle,
                       .frame_bytes_max = limits.frame_bytes_max,
                       .requests_in_flight_max = limits.requests_in_flight_max,
                       .bytes_in_flight_max = limits.bytes_in_flight_max,
                       .group = std::move(decided.group),
                       .worker_address = who.io->worker_address()};
  return who.socket.write_now(encode(answer).view()) || send_away(who, close_reason::lost, "");
}

bool acceptor::send_away(newcomer& who, close_reason reason, const std::string& text) {
  shared_->count_closed(reason);
  static_cast<void>(who.socket.write_now(encode(goodbye{reason, text}).view()));
  if (who.made) {
    who.made->ended.store(true, std::memory_order_release);
    shared_->give_back_handle(who.made->handle());
  }
  if (reason != close_reason::lost && reason != close_reason::stopping) {
    shared_->warn("no connection for " + who.socket.peer() + ": " + std::string(describe(reason)) +
                  (text.empty() ? "" : ": " + text));
  }
  return false;
}

}  // namespace icecore::wire
