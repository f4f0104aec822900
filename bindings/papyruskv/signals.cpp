#include "signals.hpp"

#include <numeric>
#include <string>

#include "icecore/error.hpp"

namespace papyruskv {
namespace {

constexpr int tag = 1;

}  // namespace

signals::signals(MPI_Comm comm, answer_others answer) : comm_(comm), answer_(std::move(answer)) {
  MPI_Comm_size(comm_, &ranks_);
  sent_.resize(static_cast<std::size_t>(ranks_));
}

void signals::refuse_unknown(std::span<const int> ranks) const {
  for (const int each : ranks) {
    if (known(each)) continue;
    throw icecore::error(icecore::errc::invalid_argument, "there is no rank " + std::to_string(each) +
                                                              ": the ranks are 0 to " + std::to_string(ranks_ - 1));
  }
}

void signals::notify(int signum, std::span<const int> ranks) {
  {
    const std::scoped_lock lock(mutex_);
    for (const int to : ranks) {
      if (known(to)) send(signum, to);
    }
  }
  refuse_unknown(ranks);
}

void signals::send(int signum, int to) {
  sending& one = sending_.emplace_back(sending{MPI_REQUEST_NULL, signum});
  MPI_Isend(&one.signum, 1, MPI_INT, to, tag, comm_, &one.request);
  ++sent_[static_cast<std::size_t>(to)];
}

void signals::receive() {
  const std::scoped_lock lock(mutex_);
  std::erase_if(sending_, [](sending& one) {
    int sent = 0;
    MPI_Test(&one.request, &sent, MPI_STATUS_IGNORE);
    return sent != 0;
  });
  for (;;) {
    int found = 0;
    MPI_Message message = MPI_MESSAGE_NULL;
    MPI_Status status;
    MPI_Improbe(MPI_ANY_SOURCE, tag, comm_, &found, &message, &status);
    if (found == 0) return;
    int signum = 0;
    MPI_Mrecv(&signum, 1, MPI_INT, &message, MPI_STATUS_IGNORE);
    ++here_[{status.MPI_SOURCE, signum}];
    ++received_;
  }
}

bool signals::take(int from, int signum) {
  const std::scoped_lock lock(mutex_);
  const auto found = here_.find({from, signum});
  if (found == here_.end()) return false;
  if (--found->second == 0) here_.erase(found);
  return true;
}

void signals::wait(int signum, std::span<const int> ranks) {
  for (const int from : ranks) {
    if (!known(from)) continue;
    wait_until(answer_, [&] {
      receive();
      return take(from, signum);
    });
  }
  refuse_unknown(ranks);
}

void signals::finish() {
  std::vector<std::uint64_t> theirs(sent_.size());
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Ialltoall(sent_.data(), 1, MPI_UINT64_T, theirs.data(), 1, MPI_UINT64_T, comm_, &request);
  wait_for(answer_, request);
  const std::uint64_t all = std::accumulate(theirs.begin(), theirs.end(), std::uint64_t{0});
  wait_until(answer_, [&] {
    receive();
    return received_ == all && sending_.empty();
  });
}

}  // namespace papyruskv
