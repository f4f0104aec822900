#include "cluster/gather/team.hpp"

#include <utility>

#include "base/raise.hpp"

namespace icecore::ranks {
namespace {

/// Nobody waits for these any more, and their memory may go.
void give_up(std::span<MPI_Request> requests) noexcept {
  for (MPI_Request& request : requests) {
    if (request == MPI_REQUEST_NULL) continue;
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

team::team(MPI_Comm comm, waiting how) : comm_(comm), how_(std::move(how)) {
  check_mpi(MPI_Comm_rank(comm_, &rank_), "MPI_Comm_rank");
  check_mpi(MPI_Comm_size(comm_, &size_), "MPI_Comm_size");
}

template <class Blocking, class Begun>
void team::call(const char* name, Blocking blocking, Begun begun) const {
  if (!how_.until) {
    check_mpi(blocking(), name);
    return;
  }
  MPI_Request request = MPI_REQUEST_NULL;
  check_mpi(begun(&request), name);
  how_.until([&] {
    int done = 0;
    check_mpi(MPI_Test(&request, &done, MPI_STATUS_IGNORE), name);
    return done != 0;
  });
}

void team::allreduce(const void* mine, void* all, int count, MPI_Datatype type, MPI_Op op) const {
  call(
      "MPI_Allreduce", [&] { return MPI_Allreduce(mine, all, count, type, op, comm_); },
      [&](MPI_Request* request) { return MPI_Iallreduce(mine, all, count, type, op, comm_, request); });
}

void team::bcast(void* bytes, int count, int root) const {
  call(
      "MPI_Bcast", [&] { return MPI_Bcast(bytes, count, MPI_BYTE, root, comm_); },
      [&](MPI_Request* request) { return MPI_Ibcast(bytes, count, MPI_BYTE, root, comm_, request); });
}

void team::gather(const void* mine, int count, MPI_Datatype type, void* all, int root) const {
  call(
      "MPI_Gather", [&] { return MPI_Gather(mine, count, type, all, count, type, root, comm_); },
      [&](MPI_Request* request) { return MPI_Igather(mine, count, type, all, count, type, root, comm_, request); });
}

void team::gatherv(const void* mine, int count, MPI_Datatype type, void* all, const int* counts, const int* begins,
                   int root) const {
  call(
      "MPI_Gatherv", [&] { return MPI_Gatherv(mine, count, type, all, counts, begins, type, root, comm_); },
      [&](MPI_Request* request) {
        return MPI_Igatherv(mine, count, type, all, counts, begins, type, root, comm_, request);
      });
}

void team::allgather(const void* mine, int count, MPI_Datatype type, void* all) const {
  call(
      "MPI_Allgather", [&] { return MPI_Allgather(mine, count, type, all, count, type, comm_); },
      [&](MPI_Request* request) { return MPI_Iallgather(mine, count, type, all, count, type, comm_, request); });
}

void team::allgatherv(const void* mine, int count, MPI_Datatype type, void* all, const int* counts,
                      const int* begins) const {
  call(
      "MPI_Allgatherv", [&] { return MPI_Allgatherv(mine, count, type, all, counts, begins, type, comm_); },
      [&](MPI_Request* request) {
        return MPI_Iallgatherv(mine, count, type, all, counts, begins, type, comm_, request);
      });
}

void team::alltoall(const void* to, int count, MPI_Datatype type, void* from) const {
  call(
      "MPI_Alltoall", [&] { return MPI_Alltoall(to, count, type, from, count, type, comm_); },
      [&](MPI_Request* request) { return MPI_Ialltoall(to, count, type, from, count, type, comm_, request); });
}

void team::send(int number, int to_rank, int tag) const {
  call(
      "MPI_Send", [&] { return MPI_Send(&number, 1, MPI_INT, to_rank, tag, comm_); },
      [&](MPI_Request* request) { return MPI_Isend(&number, 1, MPI_INT, to_rank, tag, comm_, request); });
}

int team::receive(int from_rank, int tag) const {
  int number = 0;
  call(
      "MPI_Recv", [&] { return MPI_Recv(&number, 1, MPI_INT, from_rank, tag, comm_, MPI_STATUS_IGNORE); },
      [&](MPI_Request* request) { return MPI_Irecv(&number, 1, MPI_INT, from_rank, tag, comm_, request); });
  return number;
}

void team::wait(std::span<MPI_Request> requests) const {
  const int count = static_cast<int>(requests.size());
  if (count == 0) return;
  if (!how_.until) {
    check_mpi(MPI_Waitall(count, requests.data(), MPI_STATUSES_IGNORE), "MPI_Waitall");
    return;
  }
  try {
    how_.until([&] {
      int done = 0;
      check_mpi(MPI_Testall(count, requests.data(), &done, MPI_STATUSES_IGNORE), "MPI_Testall");
      return done != 0;
    });
  } catch (...) {
    give_up(requests);
    throw;
  }
}

void team::work(const std::function<void()>& local_work) const { how_.beside ? how_.beside(local_work) : local_work(); }

}  // namespace icecore::ranks
