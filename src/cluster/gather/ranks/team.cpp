#include "cluster/gather/ranks/team.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "base/raise.hpp"
#include "cluster/gather/columns/pairs.hpp"

namespace icecore::ranks {
namespace {

/// No thread waits for these requests any more. MPI may still use their memory, because not everything can be
/// cancelled.
void give_up(std::span<MPI_Request> requests) noexcept {
  for (MPI_Request& request : requests) {
    if (request == MPI_REQUEST_NULL) continue;
    keep_all_buffers();
    MPI_Cancel(&request);
    MPI_Request_free(&request);
  }
}

}  // namespace

void check_mpi(int result, const char* call) {
  if (result == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  MPI_Error_string(result, text, &length);
  raise(errc::mpi, "{} failed: {}", call, text);
}

team::team(MPI_Comm comm) : team(comm, waiting{}) {}

team::team(MPI_Comm comm, waiting how)
    : comm_(comm), how_(std::move(how)), kept_{how_.until ? request_memory(kept_size) : request_memory(), {}} {
  if (how_.until) kept_[1] = request_memory(kept_size);
  check_mpi(MPI_Comm_rank(comm_, &rank_), "MPI_Comm_rank");
  check_mpi(MPI_Comm_size(comm_, &size_), "MPI_Comm_size");
}

template <class Begin>
void team::finish(const char* name, std::span<request_memory*> used, Begin begin) const {
  MPI_Request request = MPI_REQUEST_NULL;
  const auto completed = [&] {
    int done = 0;
    check(MPI_Test(&request, &done, MPI_STATUS_IGNORE), name);
    return done != 0;
  };
  try {
    check(begin(&request), name);
    how_.until(std::ref(completed));  // by reference: a copy of the function would allocate memory
  } catch (...) {                     // a collective call that has begun cannot be undone
    in_step_ = false;
    if (request != MPI_REQUEST_NULL) {
      for (request_memory* each : used) each->abandon();
    }
    throw;
  }
}

std::size_t team::bytes_of(int count, MPI_Datatype type) {
  int size = 0;
  check_mpi(MPI_Type_size(type, &size), "MPI_Type_size");
  return static_cast<std::size_t>(count) * static_cast<std::size_t>(size);
}

/// A collective call whose arguments are copied to memory of the team, because the caller's memory may be freed before
/// MPI has finished with it.
template <class Begin>
void team::in_own_memory(const char* name, const void* mine, std::size_t given, void* all, std::size_t taken,
                         Begin begin) const {
  request_memory from = taken_memory(given);
  request_memory to = taken_memory(taken);
  if (mine != nullptr) std::memcpy(from.data(), mine, given);
  std::array<request_memory*, 2> used{&from, &to};
  finish(name, used, [&](MPI_Request* request) { return begin(from.data(), to.data(), request); });
  if (all != nullptr) std::memcpy(all, to.data(), taken);
  kept_[0] = std::move(from);
  kept_[1] = std::move(to);
}

request_memory team::taken_memory(std::size_t size) const {
  for (request_memory& each : kept_) {
    if (each.size() >= size && each.data() != nullptr) return std::move(each);
  }
  return guarded([&] { return request_memory(std::max(size, kept_size)); });
}

void team::allreduce(const void* mine, void* all, int count, MPI_Datatype type, MPI_Op op) const {
  if (!how_.until) return check(MPI_Allreduce(mine, all, count, type, op, comm_), "MPI_Allreduce");
  const std::size_t size = bytes_of(count, type);
  in_own_memory("MPI_Iallreduce", mine, size, all, size, [&](const char* from, char* to, MPI_Request* request) {
    return MPI_Iallreduce(from, to, count, type, op, comm_, request);
  });
}

void team::begin_allreduce(const void* mine, int count, MPI_Datatype type, MPI_Op op) const {
  if (!std::exchange(in_step_, false)) return;
  const std::size_t size = bytes_of(count, type);
  request_memory from = taken_memory(size);
  request_memory to = taken_memory(size);
  std::memcpy(from.data(), mine, size);
  MPI_Request request = MPI_REQUEST_NULL;
  const int result = MPI_Iallreduce(from.data(), to.data(), count, type, op, comm_, &request);
  from.abandon();
  to.abandon();
  check(result, "MPI_Iallreduce");
}

void team::bcast(void* bytes, int count, int root) const {
  if (!how_.until) return check(MPI_Bcast(bytes, count, MPI_BYTE, root, comm_), "MPI_Bcast");
  const auto size = static_cast<std::size_t>(count);
  request_memory shared = taken_memory(size);
  if (rank_ == root) std::memcpy(shared.data(), bytes, size);
  request_memory* used = &shared;
  finish("MPI_Ibcast", {&used, 1},
         [&](MPI_Request* request) { return MPI_Ibcast(shared.data(), count, MPI_BYTE, root, comm_, request); });
  if (rank_ != root) std::memcpy(bytes, shared.data(), size);
  kept_[0] = std::move(shared);
}

void team::gather(const void* mine, int count, MPI_Datatype type, void* all, int root) const {
  if (!how_.until) return check(MPI_Gather(mine, count, type, all, count, type, root, comm_), "MPI_Gather");
  const std::size_t size = bytes_of(count, type);
  const std::size_t taken = rank_ == root ? size * static_cast<std::size_t>(size_) : 0;
  in_own_memory("MPI_Igather", mine, size, rank_ == root ? all : nullptr, taken,
                [&](const char* from, char* to, MPI_Request* request) {
                  return MPI_Igather(from, count, type, to, count, type, root, comm_, request);
                });
}

void team::gatherv(const void* mine, int count, MPI_Datatype type, void* all, const int* counts, const int* begins,
                   int root) const {
  if (!how_.until) {
    return check(MPI_Gatherv(mine, count, type, all, counts, begins, type, root, comm_), "MPI_Gatherv");
  }
  try {
    finish("MPI_Igatherv", {}, [&](MPI_Request* request) {
      return MPI_Igatherv(mine, count, type, all, counts, begins, type, root, comm_, request);
    });
  } catch (...) {
    keep_all_buffers();  // all pairs of a rank: too many to copy
    throw;
  }
}

void team::allgather(const void* mine, int count, MPI_Datatype type, void* all) const {
  if (!how_.until) return check(MPI_Allgather(mine, count, type, all, count, type, comm_), "MPI_Allgather");
  const std::size_t size = bytes_of(count, type);
  in_own_memory("MPI_Iallgather", mine, size, all, size * static_cast<std::size_t>(size_),
                [&](const char* from, char* to, MPI_Request* request) {
                  return MPI_Iallgather(from, count, type, to, count, type, comm_, request);
                });
}

void team::allgatherv(const void* mine, int count, MPI_Datatype type, void* all, std::span<const int> counts,
                      std::span<const int> begins) const {
  if (!how_.until) {
    return check(MPI_Allgatherv(mine, count, type, all, counts.data(), begins.data(), type, comm_), "MPI_Allgatherv");
  }
  const std::size_t taken = bytes_of(begins.back() + counts.back(), type);
  in_own_memory("MPI_Iallgatherv", mine, bytes_of(count, type), all, taken,
                [&](const char* from, char* to, MPI_Request* request) {
                  return MPI_Iallgatherv(from, count, type, to, counts.data(), begins.data(), type, comm_, request);
                });
}

void team::alltoall(const void* to, int count, MPI_Datatype type, void* from) const {
  if (!how_.until) return check(MPI_Alltoall(to, count, type, from, count, type, comm_), "MPI_Alltoall");
  const std::size_t size = bytes_of(count, type) * static_cast<std::size_t>(size_);
  in_own_memory("MPI_Ialltoall", to, size, from, size, [&](const char* sent, char* received, MPI_Request* request) {
    return MPI_Ialltoall(sent, count, type, received, count, type, comm_, request);
  });
}

void team::send(int number, int to_rank, int tag) const {
  if (!how_.until) return check(MPI_Send(&number, 1, MPI_INT, to_rank, tag, comm_), "MPI_Send");
  request_memory memory = taken_memory(sizeof number);
  std::memcpy(memory.data(), &number, sizeof number);
  request_memory* used = &memory;
  finish("MPI_Isend", {&used, 1},
         [&](MPI_Request* request) { return MPI_Isend(memory.data(), 1, MPI_INT, to_rank, tag, comm_, request); });
  kept_[0] = std::move(memory);
}

int team::receive(int from_rank, int tag) const {
  int number = 0;
  if (!how_.until) {
    check(MPI_Recv(&number, 1, MPI_INT, from_rank, tag, comm_, MPI_STATUS_IGNORE), "MPI_Recv");
    return number;
  }
  request_memory memory = taken_memory(sizeof number);
  request_memory* used = &memory;
  finish("MPI_Irecv", {&used, 1},
         [&](MPI_Request* request) { return MPI_Irecv(memory.data(), 1, MPI_INT, from_rank, tag, comm_, request); });
  std::memcpy(&number, memory.data(), sizeof number);
  kept_[0] = std::move(memory);
  return number;
}

void team::wait(std::span<MPI_Request> requests) const {
  const int count = static_cast<int>(requests.size());
  if (count == 0) return;
  if (!how_.until) {
    check(MPI_Waitall(count, requests.data(), MPI_STATUSES_IGNORE), "MPI_Waitall");
    return;
  }
  const auto completed = [&] {
    int done = 0;
    check(MPI_Testall(count, requests.data(), &done, MPI_STATUSES_IGNORE), "MPI_Testall");
    return done != 0;
  };
  try {
    how_.until(std::ref(completed));
  } catch (...) {
    give_up(requests);
    throw;
  }
}

void team::check(int result, const char* call) const {
  guarded([&] {
    check_mpi(result, call);
    return 0;
  });
}

void team::work(const std::function<void()>& local_work) const { how_.beside ? how_.beside(local_work) : local_work(); }

}  // namespace icecore::ranks
