#include "cluster/extraction_channel.hpp"

#include <atomic>
#include <exception>
#include <thread>

#include "cluster/agreement.hpp"

namespace icecore::mpi {
namespace {

bool may_have_threads() {
  int level = MPI_THREAD_SINGLE;
  check(MPI_Query_thread(&level), "MPI_Query_thread");
  return level != MPI_THREAD_SINGLE;
}

/// Does the work in another thread while this one answers other ranks.
void work_beside(progress& running, const std::function<void()>& work) {
  std::exception_ptr failure;
  std::atomic<bool> done{false};
  std::thread worker([&] {
    failure = attempt(work);
    done.store(true, std::memory_order_release);  // release: the failure and the work's results come before
  });
  // acquire: pairs with the release above
  const auto waited = attempt([&] { running.wait([&done] { return done.load(std::memory_order_acquire); }); });
  worker.join();
  if (failure) std::rethrow_exception(failure);
  if (waited) std::rethrow_exception(waited);
}

ranks::waiting waiting_in(progress& running) {
  return {.until =
              [&running](const std::function<bool()>& done) {
                running.step_now_and_then();
                running.wait(done);
              },
          .beside =
              [&running](const std::function<void()>& work) {
                if (running.has_thread() || !may_have_threads()) {
                  work();
                } else {
                  work_beside(running, work);
                }
              }};
}

}  // namespace

extraction_channel::extraction_channel(MPI_Comm cluster, progress& running)
    : comm_(cluster), ranks_(comm_.get(), waiting_in(running)) {}

}  // namespace icecore::mpi
