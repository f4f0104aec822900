#include "group/control.hpp"

#include <fmt/format.h>

#include <cstring>
#include <exception>
#include <limits>

#include "icecore/error.hpp"

namespace icecore::server::group {
namespace {

enum message : int { request = 1, order = 2, done = 3, result = 4, leaving = 5, over = 6 };

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
  auto mine = std::make_shared<asked>();
  mine->order = what;
  std::unique_lock lock(mutex_);
  if (over_) throw error(errc::unavailable, "the group of servers is stopping");
  queue_.push_back(mine);
  answered_.wait(lock, [&] { return mine->result.has_value(); });
  if (mine->result->first) service::raise(*mine->result->first);
  return std::move(mine->result->second);
}

void control::end() {
  ending_.store(true, std::memory_order_release);
  if (thread_.joinable()) thread_.join();
}

void control::work() {
  try {
    if (rank_ == 0) {
      work_as_first();
    } else {
      work_as_other();
    }
  } catch (...) {  // MPI failed: nobody waits for ever
    const service::failure why = service::failure_of(std::current_exception());
    const std::lock_guard lock(mutex_);
    for (const auto& next : queue_) next->result.emplace(why, std::string());
    queue_.clear();
    over_ = true;
    answered_.notify_all();
  }
}

std::shared_ptr<control::asked> control::next_asked() {
  const std::lock_guard lock(mutex_);
  if (queue_.empty()) return nullptr;
  auto next = queue_.front();
  queue_.pop_front();
  return next;
}

void control::answer(const std::shared_ptr<asked>& to, told came) {
  const std::lock_guard lock(mutex_);
  to->result = std::move(came);
  answered_.notify_all();
}

control::told control::execute(const std::string& what) const {
  try {
    return {std::nullopt, how_(what)};
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
  for (;;) {
    bool idle = true;
    if (const auto mine = next_asked()) {
      idle = false;
      answer(mine, execute_on_all(mine->order));
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
    if (idle) std::this_thread::sleep_for(pause);
  }
  for (int other = 1; other < size_; ++other) send(other, over, {});
  const std::lock_guard lock(mutex_);
  over_ = true;
  for (const auto& next : queue_) {
    next->result.emplace(service::failure{errc::unavailable, "the group of servers is stopping"}, std::string());
  }
  answered_.notify_all();
}

void control::work_as_other() {
  std::shared_ptr<asked> mine;  // the order that rank 0 has of this rank
  bool told_leaving = false;
  for (;;) {
    bool idle = true;
    if (mine == nullptr && !told_leaving) {  // rank 0 may be gone before it takes an order that comes after `leaving`
      mine = next_asked();
      if (mine != nullptr) send(0, request, mine->order);
    }
    if (const auto next = receive(0, order)) {
      idle = false;
      send(0, done, packed(execute(next->second)));
    }
    if (const auto came = receive(0, result)) {
      idle = false;
      answer(mine, unpacked(came->second));
      mine.reset();
    }
    if (receive(0, over)) break;
    if (!told_leaving && mine == nullptr && ending_.load(std::memory_order_acquire)) {
      told_leaving = true;
      send(0, leaving, {});
    }
    if (idle) std::this_thread::sleep_for(pause);
  }
  const std::lock_guard lock(mutex_);
  over_ = true;
  for (const auto& next : queue_) {
    next->result.emplace(service::failure{errc::unavailable, "the group of servers is stopping"}, std::string());
  }
  answered_.notify_all();
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
  if (bytes.size() > static_cast<std::size_t>(std::numeric_limits<int>::max())) {
    throw error(errc::limit_reached, "an order of 2 GiB and more");
  }
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
    std::this_thread::sleep_for(pause / 5);
  }
}

}  // namespace icecore::server::group
