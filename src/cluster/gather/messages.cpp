#include "cluster/gather/messages.hpp"

#include <algorithm>
#include <climits>
#include <new>
#include <string>

#include "base/raise.hpp"

namespace icecore::ranks {
namespace {

/// An error as it travels: a code of errc, or one of these.
constexpr int out_of_memory = -1;
constexpr int of_another_kind = -2;

struct told {
  int code;
  std::string message;
};

told tell(const std::exception_ptr& exception) {
  try {
    std::rethrow_exception(exception);
  } catch (const error& e) {
    return {e.code().value(), e.message()};
  } catch (const std::bad_alloc&) {
    return {out_of_memory, {}};
  } catch (const std::exception& e) {
    return {of_another_kind, e.what()};
  } catch (...) {
    return {of_another_kind, "unknown exception"};
  }
}

[[noreturn]] void throw_told(const told& what, int rank) {
  if (what.code == out_of_memory) throw std::bad_alloc();
  if (what.code == of_another_kind) raise(errc::io, "rank {}: {}", rank, what.message);
  throw error(static_cast<errc>(what.code), fmt::format("rank {}: {}", rank, what.message));
}

}  // namespace

messages::messages(const team& all, std::size_t message_bytes_max)
    : all_(&all), message_bytes_max_(std::clamp<std::size_t>(message_bytes_max, 1, INT_MAX)) {}

messages::~messages() {
  static_cast<void>(caught([this] { wait(); }));  // whatever is wrong has been thrown already
}

void messages::reserve(std::size_t bytes) {
  requests_.reserve(requests_.size() + (bytes + message_bytes_max_ - 1) / message_bytes_max_);
}

void messages::send(const void* from, std::size_t bytes, int to_rank, int tag) {
  reserve(bytes);
  for (std::size_t done = 0; done < bytes;) {
    const std::size_t part = std::min(bytes - done, message_bytes_max_);
    requests_.push_back(MPI_REQUEST_NULL);
    check_mpi(MPI_Isend(static_cast<const char*>(from) + done, static_cast<int>(part), MPI_BYTE, to_rank, tag,
                        all_->comm(), &requests_.back()),
              "MPI_Isend");
    done += part;
  }
}

void messages::receive(void* to, std::size_t bytes, int from_rank, int tag) {
  reserve(bytes);  // nothing may fail once a part is under way: whoever sends would not be asked for it
  for (std::size_t done = 0; done < bytes;) {
    const std::size_t part = std::min(bytes - done, message_bytes_max_);
    requests_.push_back(MPI_REQUEST_NULL);
    check_mpi(MPI_Irecv(static_cast<char*>(to) + done, static_cast<int>(part), MPI_BYTE, from_rank, tag, all_->comm(),
                        &requests_.back()),
              "MPI_Irecv");
    done += part;
  }
}

void messages::wait() {
  const std::exception_ptr failure = caught([this] { all_->wait(requests_); });
  requests_.clear();  // but for its memory: the next message of this size needs none
  if (failure) std::rethrow_exception(failure);
}

void agree(const team& all, std::exception_ptr own) {
  int mine = own ? all.rank() : INT_MAX;
  int first = INT_MAX;
  all.allreduce(&mine, &first, 1, MPI_INT, MPI_MIN);
  if (first == INT_MAX) return;
  told what{0, {}};
  if (all.rank() == first) what = tell(own);
  int head[2] = {what.code, static_cast<int>(what.message.size())};
  all.bcast(head, sizeof head, first);
  what.message.resize(static_cast<std::size_t>(head[1]));
  all.bcast(what.message.data(), head[1], first);
  if (own) std::rethrow_exception(own);
  what.code = head[0];
  throw_told(what, first);
}

std::exception_ptr caught(const std::function<void()>& work) noexcept {
  try {
    work();
    return nullptr;
  } catch (...) {
    return std::current_exception();
  }
}

void together(const team& all, const std::function<void()>& local_work) { agree(all, caught(local_work)); }

}  // namespace icecore::ranks
