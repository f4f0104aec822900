#include "support/faults.hpp"

#include <mpi.h>

#include <atomic>
#include <cstdlib>
#include <new>
#include <thread>

namespace icecore::testing {
namespace {

constexpr long never = -1;

// seq_cst, the default: a test's speed is not what these cost
std::atomic<fault> armed_kind{fault::allocation};
std::atomic<long> left{never};
std::atomic<long> left_at_reduction{never};
std::atomic<bool> happened{false};
std::atomic<std::size_t> longest{0};

void remember(std::size_t bytes) {
  std::size_t before = longest.load();
  while (before < bytes && !longest.compare_exchange_weak(before, bytes)) {
  }
}

/// A thread in which something has failed. It has seen to that when it calls MPI again, or ends. One that never calls
/// MPI, such as a store's own, tells other ranks nothing: nobody waits for it.
class failing_thread {
 public:
  ~failing_thread() { settle(); }
  void calls_mpi() { calls_mpi_ = true; }
  void begin() {
    fails_ = calls_mpi_;
    if (fails_) pending.fetch_add(1);
  }
  void settle() {
    if (fails_) pending.fetch_sub(1);
    fails_ = false;
  }
  static void wait_for_others() {
    while (pending.load() != 0) std::this_thread::yield();
  }

 private:
  static inline std::atomic<int> pending{0};
  bool calls_mpi_ = false;
  bool fails_ = false;
};
thread_local failing_thread this_thread;

/// Whether this event is the one that fails.
bool fails(fault kind) {
  if (kind != fault::allocation) {
    this_thread.calls_mpi();
    this_thread.settle();
  }
  if (left.load() == never || armed_kind.load() != kind) return false;
  this_thread.begin();  // before anybody can see that it has happened: disarm() waits
  if (left.fetch_sub(1) != 0) {
    this_thread.settle();
    return false;
  }
  happened.store(true);
  return true;
}

void reduction_begins() {
  const long number = left_at_reduction.exchange(never);
  if (number != never) left.store(number);
}

void* allocate(std::size_t size, std::size_t alignment) {
  if (fails(fault::allocation)) return nullptr;
  return alignment == 0 ? std::malloc(size == 0 ? 1 : size)
                        : std::aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
}

void* allocate_or_throw(std::size_t size, std::size_t alignment) {
  void* const memory = allocate(size, alignment);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

const char* name_of(fault kind) {
  switch (kind) {
    case fault::allocation:
      return "allocation";
    case fault::send:
      return "send";
    case fault::receive:
      return "receive";
    case fault::look:
      return "look";
    case fault::request:
      return "request";
  }
  return "?";
}

void faults::arm(fault kind, long number) {
  happened.store(false);
  armed_kind.store(kind);
  left.store(number);
}

void faults::arm_at_reduction(fault kind, long number) {
  happened.store(false);
  armed_kind.store(kind);
  left_at_reduction.store(number);
}

bool faults::disarm() {
  left.store(never);
  left_at_reduction.store(never);
  this_thread.settle();  // the call that failed here has ended
  failing_thread::wait_for_others();
  return happened.exchange(false);
}

std::size_t faults::longest_send() { return longest.load(); }
void faults::forget_sends() { longest.store(0); }

}  // namespace icecore::testing

using icecore::testing::fails;
using icecore::testing::fault;

void* operator new(std::size_t size) { return icecore::testing::allocate_or_throw(size, 0); }
void* operator new[](std::size_t size) { return icecore::testing::allocate_or_throw(size, 0); }
void* operator new(std::size_t size, std::align_val_t alignment) {
  return icecore::testing::allocate_or_throw(size, static_cast<std::size_t>(alignment));
}
void* operator new(std::size_t size, const std::nothrow_t&) noexcept { return icecore::testing::allocate(size, 0); }
void* operator new[](std::size_t size, const std::nothrow_t&) noexcept { return icecore::testing::allocate(size, 0); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, const std::nothrow_t&) noexcept { std::free(memory); }

extern "C" {

/// A leak checker's question. What a rank that fails gives up while MPI may still use it is never freed, which is
/// meant.
const char* __lsan_default_suppressions();  // NOLINT: the sanitizer's name
const char* __lsan_default_suppressions() {
  return "leak:icecore::ranks::detail::allocate\n"      // keep_all_buffers()
         "leak:icecore::mpi::cluster_core::extract\n";  // the columns that it sends from
}

int MPI_Isend(const void* bytes, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm, MPI_Request* request) {
  constexpr int request_tag = 1;
  constexpr int shortened = 2;
  if (fails(fault::send)) return MPI_ERR_OTHER;
  if (tag == request_tag && fails(fault::request)) count = shortened;
  icecore::testing::remember(static_cast<std::size_t>(count));
  return PMPI_Isend(bytes, count, type, to, tag, comm, request);
}

int MPI_Irecv(void* bytes, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm, MPI_Request* request) {
  if (fails(fault::receive)) return MPI_ERR_OTHER;
  return PMPI_Irecv(bytes, count, type, from, tag, comm, request);
}

int MPI_Imrecv(void* bytes, int count, MPI_Datatype type, MPI_Message* matched, MPI_Request* request) {
  if (fails(fault::receive)) return MPI_ERR_OTHER;
  return PMPI_Imrecv(bytes, count, type, matched, request);
}

int MPI_Improbe(int from, int tag, MPI_Comm comm, int* found, MPI_Message* matched, MPI_Status* status) {
  if (fails(fault::look)) return MPI_ERR_OTHER;
  return PMPI_Improbe(from, tag, comm, found, matched, status);
}

int MPI_Test(MPI_Request* request, int* done, MPI_Status* status) {
  if (fails(fault::look)) return MPI_ERR_OTHER;
  return PMPI_Test(request, done, status);
}

int MPI_Iallreduce(const void* mine, void* all, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm,
                   MPI_Request* request) {
  icecore::testing::reduction_begins();
  if (fails(fault::send)) return MPI_ERR_OTHER;
  return PMPI_Iallreduce(mine, all, count, type, op, comm, request);
}

int MPI_Ibcast(void* bytes, int count, MPI_Datatype type, int root, MPI_Comm comm, MPI_Request* request) {
  if (fails(fault::send)) return MPI_ERR_OTHER;
  return PMPI_Ibcast(bytes, count, type, root, comm, request);
}

int MPI_Iallgather(const void* mine, int count, MPI_Datatype type, void* all, int all_count, MPI_Datatype all_type,
                   MPI_Comm comm, MPI_Request* request) {
  if (fails(fault::send)) return MPI_ERR_OTHER;
  return PMPI_Iallgather(mine, count, type, all, all_count, all_type, comm, request);
}

}  // extern "C"
