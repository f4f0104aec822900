#include "cluster/agreement.hpp"

#include <fmt/format.h>

#include <atomic>
#include <string>
#include <thread>

#include "cluster/communicator.hpp"

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
    done.store(true, std::memory_order_release);  // release: publishes the failure and the work's results
  });
  // acquire: pairs with the release above
  const auto waited = attempt([&] { running.wait([&done] { return done.load(std::memory_order_acquire); }); });
  worker.join();
  if (failure) std::rethrow_exception(failure);
  if (waited) std::rethrow_exception(waited);
}

}  // namespace

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
              },
          .failed = [&running](const std::exception_ptr& why) { running.fail(why); }};
}

std::string_view call_of(std::int64_t number) noexcept {
  const auto at = static_cast<step>(number);
  if (at <= step::open_lost) return "the constructor";
  if (at <= step::barrier_aligned) return "barrier";
  if (at <= step::tag_aligned) return "tag";
  if (at <= step::change_made) return "consistency or protect";
  if (at <= step::checkpoint_aligned) return "checkpoint";
  if (at <= step::restore_stored) return "restore";
  if (at <= step::extract_read) return "extract, stream or find_by_broadcast";
  if (at <= step::query_told) return "a call of a kept query";
  if (at <= step::compact_done) return "compact";
  if (at <= step::retention_read) return "set_retention or retention";
  if (at <= step::hold_released) return "hold_version or release_version";
  if (at <= step::forget_aligned) return "forget";
  if (at <= step::expired_known) return "the end of compact or of the constructor";
  return "close";
}

agreement::agreement(MPI_Comm comm, progress& running) : running_(running), ranks_(comm, waiting_in(running)) {}

agreed agreement::on(step here, const std::exception_ptr& failure, std::int64_t number) {
  const auto at = static_cast<std::int64_t>(here);
  by_all_ = false;
  if (running_.broken()) {  // A3
    static_cast<void>(attempt([&] {
      const std::optional<int> failed = running_.failed_rank();
      if (failed && mpi_runs()) say_last_words(ranks_, {.broken_by = failed, .step = at, .number = number});
    }));
    running_.throw_if_broken();
  }
  const ranks::heard all = say(ranks_, {.failed = failure != nullptr, .step = at, .number = number});
  if (all.broken_by < ranks_.size()) {
    running_.step();  // the notice of that rank, which gives the cause, has probably arrived
    running_.failed_elsewhere(all.broken_by, {});
    running_.throw_if_broken();
  }
  if (all.step.least != all.step.greatest) throw_other_calls(all.step);
  if (all.first_failed == ranks_.size()) return all.number;
  const ranks::failure reported = failure_of(ranks_, all.first_failed, failure);
  by_all_ = true;
  reported.raise(all.first_failed);
}

void agreement::refuse(errc code, const std::string& why) {
  by_all_ = true;
  throw error(code, why);
}

void agreement::throw_other_calls(const agreed& steps) {
  const std::string why = fmt::format(
      "some ranks called {} while others called {}; all ranks must call collective functions in the same order",
      call_of(steps.least), call_of(steps.greatest));
  running_.fail_everywhere({errc::mpi, why});  // all ranks reached this step
  refuse(errc::mpi, why);
}

void publish_manifest(agreement& agree, int rank, const std::filesystem::path& folder, const manifest& content) {
  agree.on(step::open_written, attempt([&] {
             if (rank == 0) write_manifest(folder, content, rank);
           }));
  agree.on(step::open_seen, attempt([&] {
             const std::optional<manifest> there = read_manifest(folder);
             if (!there || there->id != content.id) write_manifest(folder, content, rank);
           }));
}

}  // namespace icecore::mpi
