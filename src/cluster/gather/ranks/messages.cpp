#include "cluster/gather/ranks/messages.hpp"

#include <algorithm>
#include <climits>
#include <exception>

#include "cluster/gather/ranks/agreement.hpp"

namespace icecore::ranks {
messages::messages(const team& all, std::size_t message_bytes_max)
    : all_(&all), message_bytes_max_(std::clamp<std::size_t>(message_bytes_max, 1, INT_MAX)) {}

messages::~messages() {
  static_cast<void>(attempt([this] { wait(); }));  // an error has been thrown before
}

void messages::reserve(std::size_t bytes) {
  requests_.reserve(requests_.size() + (bytes + message_bytes_max_ - 1) / message_bytes_max_);
}

void messages::send(const void* from, std::size_t bytes, int to_rank, int tag) {
  reserve(bytes);
  for (std::size_t done = 0; done < bytes;) {
    const std::size_t part = std::min(bytes - done, message_bytes_max_);
    requests_.push_back(MPI_REQUEST_NULL);
    all_->check(MPI_Isend(static_cast<const char*>(from) + done, static_cast<int>(part), MPI_BYTE, to_rank, tag,
                          all_->comm(), &requests_.back()),
                "MPI_Isend");
    done += part;
  }
}

void messages::receive(void* to, std::size_t bytes, int from_rank, int tag) {
  reserve(bytes);  // allocate first: once a part is under way nothing may fail, because the other side would wait for
                   // the rest
  for (std::size_t done = 0; done < bytes;) {
    const std::size_t part = std::min(bytes - done, message_bytes_max_);
    requests_.push_back(MPI_REQUEST_NULL);
    all_->check(MPI_Irecv(static_cast<char*>(to) + done, static_cast<int>(part), MPI_BYTE, from_rank, tag, all_->comm(),
                          &requests_.back()),
                "MPI_Irecv");
    done += part;
  }
}

void messages::wait() {
  const std::exception_ptr failure = attempt([this] { all_->wait(requests_); });
  requests_.clear();  // keeps its memory: the next message of this size allocates none
  if (failure) std::rethrow_exception(failure);
}

}  // namespace icecore::ranks
