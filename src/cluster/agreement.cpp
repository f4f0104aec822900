#include "cluster/agreement.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <string>

namespace icecore::mpi {
namespace {

/// What a failed rank tells the others.
struct failure_notice {
  std::int32_t code;
  char text[2044];
};
constexpr std::int32_t out_of_memory = 0;  // no errc has this number

failure_notice notice_of(const std::exception_ptr& failure) {
  failure_notice notice{};
  const auto say = [&notice](std::int32_t code, std::string_view text) {
    notice.code = code;
    text.copy(notice.text, sizeof notice.text - 1);
  };
  try {
    std::rethrow_exception(failure);
  } catch (const error& e) {
    say(e.code().value(), e.message());
  } catch (const std::bad_alloc&) {
    say(out_of_memory, "");
  } catch (const std::exception& e) {
    say(static_cast<std::int32_t>(errc::io), e.what());
  } catch (...) {  // of a function of the caller's
    say(static_cast<std::int32_t>(errc::io), "something was thrown that is no std::exception");
  }
  return notice;
}

}  // namespace

std::string_view call_of(std::int64_t number) noexcept {
  const auto at = static_cast<step>(number);
  if (at <= step::open_lost) return "the constructor";
  if (at <= step::barrier_aligned) return "barrier";
  if (at <= step::tag_aligned) return "tag";
  if (at <= step::change_made) return "consistency or protect";
  if (at <= step::checkpoint_aligned) return "checkpoint";
  if (at <= step::restore_stored) return "restore";
  if (at <= step::extract_read) return "extract, stream or find_by_broadcast";
  return "close";
}

agreement::agreement(MPI_Comm comm, progress& running) : comm_(comm), running_(running) {
  check(MPI_Comm_rank(comm, &rank_), "MPI_Comm_rank");
  check(MPI_Comm_size(comm, &ranks_), "MPI_Comm_size");
}

void agreement::finish(MPI_Request& request) {
  running_.wait([&request] {
    int done = 0;
    check(MPI_Test(&request, &done, MPI_STATUS_IGNORE), "MPI_Test");
    return done != 0;
  });
}

agreed agreement::on(step here, const std::exception_ptr& failure, std::int64_t number) {
  running_.throw_if_broken();
  const auto at = static_cast<std::int64_t>(here);
  // the greatest of something is the least of its negative, so one reduction does for all
  mine_ = {at, -at, failure ? rank_ : ranks_, number, -number};
  MPI_Request request = MPI_REQUEST_NULL;
  check(MPI_Iallreduce(mine_.data(), least_.data(), static_cast<int>(mine_.size()), MPI_INT64_T, MPI_MIN, comm_,
                       &request),
        "MPI_Iallreduce");
  finish(request);
  if (least_[0] != -least_[1]) {
    const std::string why = fmt::format(
        "some ranks called {} while others called {}; collective functions are called by "
        "all ranks in the same order",
        call_of(least_[0]), call_of(-least_[1]));
    running_.fail(why);
    throw error(errc::mpi, why);
  }
  if (least_[2] < ranks_) throw_failure(static_cast<int>(least_[2]), failure);
  return {least_[3], -least_[4]};
}

void agreement::throw_failure(int failed, const std::exception_ptr& mine) {
  failure_notice notice{};
  if (failed == rank_) notice = notice_of(mine);
  broadcast(&notice, sizeof notice, failed);
  if (notice.code == out_of_memory) throw std::bad_alloc();
  notice.text[sizeof notice.text - 1] = '\0';
  throw error(static_cast<errc>(notice.code), fmt::format("rank {}: {}", failed, notice.text));
}

void agreement::broadcast(void* bytes, int size, int from) {
  MPI_Request request = MPI_REQUEST_NULL;
  check(MPI_Ibcast(bytes, size, MPI_BYTE, from, comm_, &request), "MPI_Ibcast");
  finish(request);
}

void agreement::gather(const void* mine, int size, void* all) {
  MPI_Request request = MPI_REQUEST_NULL;
  check(MPI_Iallgather(mine, size, MPI_BYTE, all, size, MPI_BYTE, comm_, &request), "MPI_Iallgather");
  finish(request);
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
