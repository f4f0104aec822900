#include "group/control.hpp"

#include <fmt/format.h>
#include <algorithm>

#include <cstring>
#include <exception>
#include <limits>

#include "icecore/error.hpp"

namespace icecore::server::group {
namespace {

enum message : int { request = 1, order = 2, done = 3, result = 4, leaving = 5, over = 6, broken = 7 };

// What one message carries.
constexpr std::size_t bytes_max = std::size_t{std::numeric_limits<int>::max()} - 64;

void check(int code, const char* what) {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = {};
  int size = 0;
  MPI_Error_string(code, text, &size);
  throw error(errc::mpi, fmt::format("the group's control: {} failed: {}", what,
                                     std::string_view(text, static_cast<std::size_t>(size))));
}

std::string packed(const std::pair<std::optional<service::failure>, std::string>& told) {
  const int code = told.first ? static_cast<int>(told.first->code) : 0;
  std::string bytes(reinterpret_cast<const char*>(&code), sizeof code);
  return bytes + (told.first ? told.first->message : told.second);
}

std::pair<std::optional<service::failure>, std::string> unpacked(const std::string& bytes) {
  int code = 0;
  if (bytes.size() < sizeof code) return {service::failure{errc::mpi, "the group's control: a message was cut"}, {}};
  std::memcpy(&code, bytes.data(), sizeof code);
  std::string text = bytes.substr(sizeof code);
  if (code == 0) return {std::nullopt, std::move(text)};
  return {service::failure{static_cast<errc>(code), std::move(text)}, {}};
}

}  // namespace

control::control(MPI_Comm of) {
  check(MPI_Comm_dup(of, &comm_), "MPI_Comm_dup");
  MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN);
  MPI_Comm_rank(comm_, &rank_);
  MPI_Comm_size(comm_, &size_);
  find_node();
}

void control::find_node() {
  MPI_Comm node = MPI_COMM_NULL;
  int in_node = 0;
  check(MPI_Comm_split_type(comm_, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node), "MPI_Comm_split_type");
  check(MPI_Comm_rank(node, &in_node), "MPI_Comm_rank");
  MPI_Comm_free(&node);
  leads_node_ = in_node == 0;
}

control::~control() {
  if (thread_.joinable()) end();
  MPI_Comm_free(&comm_);
}

void control::begin(execute_function how) {
  how_ = std::move(how);
  thread_ = std::thread([this] { work(); });
}

std::string control::everywhere(const std::string& what) {
  if (what.size() > bytes_max) throw error(errc::limit_reached, "an order to a group of servers of 2 GiB and more");
  auto mine = std::make_shared<asked>();
  mine->order = what;
  std::unique_lock lock(mutex_);
  if (over_) throw error(errc::unavailable, "the group of servers is stopping");
  queue_.push_back(mine);
  asked_.notify_all();
  answered_.wait(lock, [&] { return mine->result.has_value(); });
  if (mine->result->first) service::raise(*mine->result->first);
  return std::move(mine->result->second);
}

void control::end() {
  ending_.store(true, std::memory_order_release);
  if (thread_.joinable()) thread_.join();
}

void control::work() noexcept {
  service::failure why{errc::unavailable, "the group of servers is stopping"};
  try {
    if (rank_ == 0) {
      work_as_first();
    } else {
      work_as_other();
    }
  } catch (...) {
    why = service::failure_of(std::current_exception());
    tell_broken(why);
  }
  finish(why);
}

void control::finish(const service::failure& why) noexcept {
  const std::lock_guard lock(mutex_);
  over_ = true;
  if (under_way_ != nullptr) queue_.push_front(std::exchange(under_way_, nullptr));
  for (const auto& next : queue_) next->result.emplace(why, std::string());
  queue_.clear();
  answered_.notify_all();
}

// Nobody waits for these messages: MPI keeps what is short until it is received, if it still does anything.
void control::tell_broken(const service::failure& why) const noexcept {
  const std::string text = packed({service::failure{why.code, why.message.substr(0, 256)}, {}});
  for (int other = 0; other < size_; ++other) {
    if (other == rank_) continue;
    try {
      send(other, broken, text);
    } catch (const error&) {  // it learns it when MPI fails there
    }
  }
}

void control::require_whole() const {
  const auto came = receive(MPI_ANY_SOURCE, broken);
  if (!came) return;
  const service::failure why = *unpacked(came->second).first;
  throw error(errc::mpi, fmt::format("server {} of the group takes no orders any more: {}", came->first, why.message));
}

bool control::take_next() {
  const std::lock_guard lock(mutex_);
  if (queue_.empty()) return false;
  under_way_ = std::move(queue_.front());
  queue_.pop_front();
  return true;
}

void control::answer(told came) {
  const std::lock_guard lock(mutex_);
  if (under_way_ == nullptr) return;
  under_way_->result = std::move(came);
  under_way_.reset();
  answered_.notify_all();
}

void control::rest(clock::time_point last_message) {
  const auto late = std::clamp<clock::duration>((clock::now() - last_message) / 8, pause_min, pause_max);
  std::unique_lock lock(mutex_);
  asked_.wait_for(lock, late, [this] { return under_way_ == nullptr && !queue_.empty(); });
}

control::told control::execute(const std::string& what) const {
  try {
    told came{std::nullopt, how_(what)};
    if (came.second.size() <= bytes_max) return came;
    return {service::failure{errc::limit_reached, "the answer to an order has 2 GiB and more"}, {}};
  } catch (...) {
    return {service::failure_of(std::current_exception()), {}};
  }
}

control::told control::execute_on_all(const std::string& what) {
  for (int other = 1; other < size_; ++other) send(other, order, what);
  told first = execute(what);
  for (int other = 1; other < size_; ++other) {
    told theirs = unpacked(await(other, done));
    if (theirs.first && !first.first) {
      first.first =
          service::failure{theirs.first->code, fmt::format("server {} of the group: {}", other, theirs.first->message)};
    }
  }
  return first;
}

// Ends when every rank has called end(): until then a rank that has not may still give orders.
void control::work_as_first() {
  int leaving_ranks = 0;
  bool told_leaving = false;
  clock::time_point last_message = clock::now();
  for (;;) {
    bool idle = true;
    require_whole();
    if (take_next()) {
      idle = false;
      answer(execute_on_all(under_way_->order));
    }
    if (const auto theirs = receive(MPI_ANY_SOURCE, request)) {
      idle = false;
      send(theirs->first, result, packed(execute_on_all(theirs->second)));
    }
    while (receive(MPI_ANY_SOURCE, leaving)) ++leaving_ranks;
    if (!told_leaving && ending_.load(std::memory_order_acquire)) {
      told_leaving = true;
      ++leaving_ranks;
    }
    if (leaving_ranks == size_) break;
    if (idle) {
      rest(last_message);
    } else {
      last_message = clock::now();
    }
  }
  for (int other = 1; other < size_; ++other) send(other, over, {});
}

void control::work_as_other() {
  bool told_leaving = false;
  clock::time_point last_message = clock::now();
  for (;;) {
    bool idle = true;
    require_whole();
    // Rank 0 has one order of this rank at a time; and it may be gone before it takes one that comes after `leaving`.
    if (under_way_ == nullptr && !told_leaving && take_next()) send(0, request, under_way_->order);
    if (const auto next = receive(0, order)) {
      idle = false;
      send(0, done, packed(execute(next->second)));
    }
    if (const auto came = receive(0, result)) {
      idle = false;
      answer(unpacked(came->second));
    }
    if (receive(0, over)) break;
    if (!told_leaving && under_way_ == nullptr && ending_.load(std::memory_order_acquire)) {
      told_leaving = true;
      send(0, leaving, {});
    }
    if (idle) {
      rest(last_message);
    } else {
      last_message = clock::now();
    }
  }
}

// ---- What all ranks do together. Collectives and the messages of orders do not meet: MPI keeps them apart. ----

std::string control::of_first(const std::string& mine) const {
  std::uint64_t size = mine.size();
  check(MPI_Bcast(&size, 1, MPI_UINT64_T, 0, comm_), "MPI_Bcast");
  if (size > static_cast<std::uint64_t>(std::numeric_limits<int>::max())) {
    throw error(errc::limit_reached, "the first server of the group tells 2 GiB and more at once");
  }
  std::string text = rank_ == 0 ? mine : std::string(static_cast<std::size_t>(size), '\0');
  check(MPI_Bcast(text.data(), static_cast<int>(size), MPI_BYTE, 0, comm_), "MPI_Bcast");
  return text;
}

void control::agree(const std::optional<service::failure>& mine) const {
  int first = mine ? rank_ : size_;
  check(MPI_Allreduce(MPI_IN_PLACE, &first, 1, MPI_INT, MPI_MIN, comm_), "MPI_Allreduce");
  if (first == size_) return;
  std::string text;
  if (rank_ == first) text = packed({mine, {}});
  std::uint64_t size = text.size();
  check(MPI_Bcast(&size, 1, MPI_UINT64_T, first, comm_), "MPI_Bcast");
  text.resize(static_cast<std::size_t>(size));
  check(MPI_Bcast(text.data(), static_cast<int>(size), MPI_BYTE, first, comm_), "MPI_Bcast");
  service::failure why = *unpacked(text).first;
  if (rank_ != first) why.message = fmt::format("server {} of the group: {}", first, why.message);
  service::raise(why);
}

bool control::everywhere_is(bool mine) const {
  int all = mine ? 1 : 0;
  check(MPI_Allreduce(MPI_IN_PLACE, &all, 1, MPI_INT, MPI_LAND, comm_), "MPI_Allreduce");
  return all != 0;
}

// ---- Messages: those of one kind between two ranks arrive in their order ----

void control::send(int to, int what, const std::string& bytes) const {
  check(MPI_Send(bytes.data(), static_cast<int>(bytes.size()), MPI_BYTE, to, what, comm_), "MPI_Send");
}

std::optional<std::pair<int, std::string>> control::receive(int from, int what) const {
  int there = 0;
  MPI_Message taken = MPI_MESSAGE_NULL;
  MPI_Status about;
  check(MPI_Improbe(from, what, comm_, &there, &taken, &about), "MPI_Improbe");
  if (there == 0) return std::nullopt;
  int size = 0;
  MPI_Get_count(&about, MPI_BYTE, &size);
  std::string bytes(static_cast<std::size_t>(size), '\0');
  check(MPI_Mrecv(bytes.data(), size, MPI_BYTE, &taken, MPI_STATUS_IGNORE), "MPI_Mrecv");
  return std::pair(about.MPI_SOURCE, std::move(bytes));
}

std::string control::await(int from, int what) const {
  for (;;) {
    if (auto came = receive(from, what)) return std::move(came->second);
    require_whole();
    std::this_thread::sleep_for(pause_in_order);
  }
}

}  // namespace icecore::server::group
