// GoogleTest on all ranks at once: every rank runs the same tests in the same order.
#include <gtest/gtest.h>
#include <mpi.h>

#include "base/memory/sanitizer.hpp"

#if defined(ICECORE_UNDER_ADDRESS_SANITIZER) || defined(ICECORE_UNDER_THREAD_SANITIZER)
#include <cstdlib>
#include <new>

// The sanitizers' own end the process where there is no memory. In these tests one rank after the other has none.
void* operator new(std::size_t size, const std::nothrow_t&) noexcept { return std::malloc(size); }
void* operator new(std::size_t size) {
  void* const memory = operator new(size, std::nothrow);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete(void* memory, const std::nothrow_t&) noexcept { std::free(memory); }
#endif

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  testing::InitGoogleTest(&argc, argv);
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (rank != 0) testing::FLAGS_gtest_brief = true;  // failures only
  const int failed = RUN_ALL_TESTS();
  int any_failed = 0;
  MPI_Allreduce(&failed, &any_failed, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
  MPI_Finalize();
  return any_failed;
}
