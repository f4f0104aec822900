#include "cluster/messenger.hpp"

#include <fmt/format.h>

#include "cluster/wire.hpp"
#include "icecore/error.hpp"

namespace icecore::mpi {

void check(int result, const char* call) {
  if (result == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = {};
  int length = 0;
  MPI_Error_string(result, text, &length);
  throw error(errc::mpi, fmt::format("{} failed: {}", call, text));
}

namespace {

std::size_t size_of(const MPI_Status& status) {
  int size = 0;
  check(MPI_Get_count(&status, MPI_BYTE, &size), "MPI_Get_count");
  return static_cast<std::size_t>(size);
}

bool completed(MPI_Request& request) {
  int done = 0;
  check(MPI_Test(&request, &done, MPI_STATUS_IGNORE), "MPI_Test");
  return done != 0;
}

}  // namespace

arriving::arriving(MPI_Message& matched, const MPI_Status& status)
    : source_(status.MPI_SOURCE), bytes_(size_of(status)) {
  check(MPI_Imrecv(bytes_.data(), static_cast<int>(bytes_.view().size()), MPI_BYTE, &matched, &request_), "MPI_Imrecv");
}

bool arriving::arrived() { return request_ == MPI_REQUEST_NULL || completed(request_); }

messenger::messenger(MPI_Comm comm) : comm_(comm) {}

void messenger::send(int to, int tag, std::shared_ptr<const std::string> bytes) {
  if (bytes->size() > message_size_max) {
    throw error(errc::value_too_large,
                fmt::format("a message of {} bytes to rank {}: what goes from rank to rank has at "
                            "most {}; let its owner insert or find so large a value",
                            bytes->size(), to, message_size_max));
  }
  MPI_Request request = MPI_REQUEST_NULL;
  check(MPI_Isend(bytes->data(), static_cast<int>(bytes->size()), MPI_BYTE, to, tag, comm_, &request), "MPI_Isend");
  if (completed(request)) return;
  const std::scoped_lock lock(sends_mutex_);
  sends_.push_back({request, std::move(bytes)});
}

bool messenger::finish_sends() {
  const std::unique_lock lock(sends_mutex_, std::try_to_lock);
  if (!lock) return false;  // another thread is at it
  for (auto it = sends_.begin(); it != sends_.end();) {
    it = completed(it->request) ? sends_.erase(it) : std::next(it);
  }
  return sends_.empty();
}

std::optional<message> messenger::receive_request() {
  const std::unique_lock lock(receives_mutex_, std::try_to_lock);
  if (!lock) return std::nullopt;  // another thread is at it
  for (auto it = receives_.begin(); it != receives_.end(); ++it) {
    if (!it->arrived()) continue;
    message whole{it->source(), it->take()};
    receives_.erase(it);
    return whole;
  }
  std::optional<arriving> next = match(MPI_ANY_SOURCE, request_tag);
  if (!next) return std::nullopt;
  if (next->arrived()) return message{next->source(), next->take()};
  receives_.push_back(std::move(*next));
  return std::nullopt;
}

std::optional<arriving> messenger::match(int from, int tag) const {
  int found = 0;
  MPI_Message matched = MPI_MESSAGE_NULL;
  MPI_Status status;
  check(MPI_Improbe(from, tag, comm_, &found, &matched, &status), "MPI_Improbe");
  if (found == 0) return std::nullopt;
  return std::make_optional<arriving>(matched, status);
}

int messenger::lease_tag() {
  const std::scoped_lock lock(tags_mutex_);
  if (free_tags_.empty()) {
    constexpr int tag_max = 32'767;  // what every MPI allows
    if (next_tag_ > tag_max) throw error(errc::mpi, "more than 32,765 requests wait for an answer at once");
    free_tags_.reserve(static_cast<std::size_t>(next_tag_));  // so that returning a tag never fails
    return next_tag_++;
  }
  const int tag = free_tags_.back();
  free_tags_.pop_back();
  return tag;
}

void messenger::return_tag(int tag) noexcept {
  const std::scoped_lock lock(tags_mutex_);
  free_tags_.push_back(tag);
}

}  // namespace icecore::mpi
