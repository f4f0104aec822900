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
  throw error(static_cast<errc>(what.code), what.message);
}

}  // namespace

void check_mpi(int result, const char* call) {
  if (result == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  MPI_Error_string(result, text, &length);
  raise(errc::io, "{} failed: {}", call, text);
}

int rank_in(MPI_Comm comm) {
  int rank = 0;
  check_mpi(MPI_Comm_rank(comm, &rank), "MPI_Comm_rank");
  return rank;
}

int ranks_in(MPI_Comm comm) {
  int size = 0;
  check_mpi(MPI_Comm_size(comm, &size), "MPI_Comm_size");
  return size;
}

messages::messages(MPI_Comm comm, std::size_t message_bytes_max)
    : comm_(comm), message_bytes_max_(std::clamp<std::size_t>(message_bytes_max, 1, INT_MAX)) {}

messages::~messages() {
  if (!requests_.empty()) MPI_Waitall(static_cast<int>(requests_.size()), requests_.data(), MPI_STATUSES_IGNORE);
}

void messages::send(const void* from, std::size_t bytes, int to_rank, int tag) {
  for (std::size_t done = 0; done < bytes;) {
    const std::size_t part = std::min(bytes - done, message_bytes_max_);
    requests_.push_back(MPI_REQUEST_NULL);
    check_mpi(MPI_Isend(static_cast<const char*>(from) + done, static_cast<int>(part), MPI_BYTE, to_rank, tag, comm_,
                        &requests_.back()),
              "MPI_Isend");
    done += part;
  }
}

void messages::receive(void* to, std::size_t bytes, int from_rank, int tag) {
  for (std::size_t done = 0; done < bytes;) {
    const std::size_t part = std::min(bytes - done, message_bytes_max_);
    requests_.push_back(MPI_REQUEST_NULL);
    check_mpi(MPI_Irecv(static_cast<char*>(to) + done, static_cast<int>(part), MPI_BYTE, from_rank, tag, comm_,
                        &requests_.back()),
              "MPI_Irecv");
    done += part;
  }
}

void messages::wait() {
  if (requests_.empty()) return;
  const int result = MPI_Waitall(static_cast<int>(requests_.size()), requests_.data(), MPI_STATUSES_IGNORE);
  requests_.clear();
  check_mpi(result, "MPI_Waitall");
}

void agree(MPI_Comm comm, std::exception_ptr own) {
  const int rank = rank_in(comm);
  int mine = own ? rank : INT_MAX;
  int first = INT_MAX;
  check_mpi(MPI_Allreduce(&mine, &first, 1, MPI_INT, MPI_MIN, comm), "MPI_Allreduce");
  if (first == INT_MAX) return;
  told what{0, {}};
  if (rank == first) what = tell(own);
  int head[2] = {what.code, static_cast<int>(what.message.size())};
  check_mpi(MPI_Bcast(head, 2, MPI_INT, first, comm), "MPI_Bcast");
  what.message.resize(static_cast<std::size_t>(head[1]));
  check_mpi(MPI_Bcast(what.message.data(), head[1], MPI_BYTE, first, comm), "MPI_Bcast");
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

void together(MPI_Comm comm, const std::function<void()>& local_work) { agree(comm, caught(local_work)); }

}  // namespace icecore::ranks
