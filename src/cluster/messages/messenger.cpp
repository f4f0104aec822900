#include "cluster/messages/messenger.hpp"

#include <fmt/format.h>

#include <cstring>
#include <utility>

#include "cluster/communicator.hpp"
#include "cluster/messages/wire.hpp"
#include "icecore/error.hpp"

namespace icecore::mpi {
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

arriving::~arriving() {
  if (request_ != MPI_REQUEST_NULL) bytes_.abandon();  // M4
}

arriving::arriving(arriving&& from) noexcept
    : source_(from.source_), bytes_(std::move(from.bytes_)), request_(std::exchange(from.request_, MPI_REQUEST_NULL)) {}

arriving& arriving::operator=(arriving&& from) noexcept {
  std::swap(source_, from.source_);
  std::swap(bytes_, from.bytes_);
  std::swap(request_, from.request_);
  return *this;
}

bool arriving::arrived() { return request_ == MPI_REQUEST_NULL || completed(request_); }

messenger::messenger(MPI_Comm comm) : comm_(comm), notice_(sizeof(notice)), own_notice_(sizeof(notice)) {
  int ranks = 0;
  check(MPI_Comm_rank(comm_, &rank_), "MPI_Comm_rank");
  check(MPI_Comm_size(comm_, &ranks), "MPI_Comm_size");
  for (int to = 0; to < ranks; ++to) {
    if (to != rank_) notices_.push_back({to});
  }
  expect_notice();
}

messenger::~messenger() {
  stop();
  abandon(sends_);
  for (notifying& each : notices_) {
    if (each.request != MPI_REQUEST_NULL) own_notice_.abandon();
  }
}

void messenger::abandon(std::list<sending>& all) noexcept {
  static std::mutex mutex;
  // never freed: other objects may be destroyed later; without memory for it the program ends
  static auto& kept = *new std::list<sending>;  // NOLINT
  const std::scoped_lock lock(mutex);
  kept.splice(kept.end(), all);
}

void messenger::send(int to, int tag, std::shared_ptr<const std::string> bytes) {
  if (bytes->size() > message_size_max) {
    throw error(errc::value_too_large, fmt::format("a message of {} bytes to rank {} is too large: the maximum is {}; "
                                                   "insert or find so large a value on its owner",
                                                   bytes->size(), to, message_size_max));
  }
  std::list<sending> one;  // allocated before sending: after that nothing may fail
  sending& begun = one.emplace_back(MPI_REQUEST_NULL, std::move(bytes));
  check(MPI_Isend(begun.bytes->data(), static_cast<int>(begun.bytes->size()), MPI_BYTE, to, tag, comm_, &begun.request),
        "MPI_Isend");
  int done = 0;
  if (MPI_Test(&begun.request, &done, MPI_STATUS_IGNORE) == MPI_SUCCESS && done != 0) return;
  const std::scoped_lock lock(sends_mutex_);
  sends_.splice(sends_.end(), one);
}

bool messenger::finish_sends() {
  const std::unique_lock lock(sends_mutex_, std::try_to_lock);
  if (!lock) return false;  // another thread does it
  for (auto it = sends_.begin(); it != sends_.end();) {
    it = completed(it->request) ? sends_.erase(it) : std::next(it);
  }
  return sends_.empty();
}

// ---- Notices of failure ----

void messenger::expect_notice() {
  check(MPI_Irecv(notice_.data(), sizeof(notice), MPI_BYTE, MPI_ANY_SOURCE, failure_tag, comm_, &noticing_),
        "MPI_Irecv");
}

std::optional<notice> messenger::receive_notice() {
  const std::unique_lock lock(receives_mutex_, std::try_to_lock);
  if (!lock || noticing_ == MPI_REQUEST_NULL || !completed(noticing_)) return std::nullopt;
  notice received;
  std::memcpy(&received, notice_.data(), sizeof received);
  return received;  // one notice is enough
}

void messenger::stop() noexcept {
  const std::scoped_lock lock(receives_mutex_);
  if (noticing_ == MPI_REQUEST_NULL) return;
  int done = 0;
  if (mpi_runs()) {
    MPI_Cancel(&noticing_);
    if (MPI_Test(&noticing_, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS) done = 0;
    if (done == 0) MPI_Request_free(&noticing_);
  }
  noticing_ = MPI_REQUEST_NULL;
  if (done == 0) notice_.abandon();  // a notice may be arriving
}

void messenger::report_failure(const ranks::failure& why) noexcept {
  {
    const std::scoped_lock lock(notices_mutex_);
    const notice mine{rank_, why};
    std::memcpy(own_notice_.data(), &mine, sizeof mine);
    for (notifying& each : notices_) each.begun = false;
    failure_reported_ = true;
  }
  resend_notices();
}

bool messenger::resend_notices() noexcept {
  const std::scoped_lock lock(notices_mutex_);
  if (!failure_reported_ || !mpi_runs()) return true;
  bool all = true;
  for (notifying& each : notices_) {
    if (!each.begun) {
      each.begun = MPI_Isend(own_notice_.data(), sizeof(notice), MPI_BYTE, each.to, failure_tag, comm_,
                             &each.request) == MPI_SUCCESS;
    }
    int done = 0;
    const bool sent = each.begun && MPI_Test(&each.request, &done, MPI_STATUS_IGNORE) == MPI_SUCCESS && done != 0;
    all = all && sent;
  }
  return all;
}

// ---- Requests and answers ----

std::optional<message> messenger::receive_request() {
  const std::unique_lock lock(receives_mutex_, std::try_to_lock);
  if (!lock) return std::nullopt;  // another thread does it
  for (auto it = receives_.begin(); it != receives_.end(); ++it) {
    if (!it->arrived()) continue;
    message complete{it->source(), it->take()};
    receives_.erase(it);
    return complete;
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
    if (next_tag_ > reply_tag_max) throw error(errc::mpi, "more than 32,765 requests wait for an answer at once");
    free_tags_.reserve(static_cast<std::size_t>(next_tag_));  // so that return_tag() never fails
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
