#include "cluster/gather/find.hpp"

#include <algorithm>
#include <array>
#include <climits>
#include <cstring>
#include <exception>

#include "base/raise.hpp"
#include "cluster/gather/parts.hpp"
#include "cluster/gather/ranks/agreement.hpp"
#include "cluster/gather/ranks/messages.hpp"

namespace icecore::ranks {
namespace {

constexpr std::size_t inline_bytes = 40;
constexpr std::size_t inline_words = inline_bytes / sizeof(std::uint64_t);

/// A question as it is sent: one cache line, and a second message if the key does not fit.
struct sent_question {
  std::uint64_t kind;
  std::uint64_t version;
  std::uint64_t key_bytes;
  char key[inline_bytes];
};
static_assert(sizeof(sent_question) == 64);

constexpr std::uint64_t find_kind = 1;
constexpr std::uint64_t end_kind = 2;

/// An answer as it is sent: numbers whose sum over all ranks is the owner's answer, because all others send zeros. If
/// `found` plus `failed` is more than 1, the other sums have no meaning.
struct sent_answer {
  std::uint64_t found = 0;
  std::uint64_t failed = 0;  // ranks whose lookup threw
  std::uint64_t rank = 0;    // the rank that found it
  std::uint64_t bytes = 0;
  std::array<std::uint64_t, inline_words> value{};
};
constexpr int words_per_answer = sizeof(sent_answer) / sizeof(std::uint64_t);
static_assert(sizeof(sent_answer) == (4 + inline_words) * sizeof(std::uint64_t), "an answer is summed as numbers");

sent_question packed_question(const question& asked) {
  if (asked.key.size() > key_size_max) {
    raise(errc::key_too_long, "find: a key of {} bytes is too long; the maximum is {}", asked.key.size(), key_size_max);
  }
  sent_question sent{find_kind, asked.at, asked.key.size(), {}};
  if (!asked.key.empty()) std::memcpy(sent.key, asked.key.data(), std::min(asked.key.size(), inline_bytes));
  return sent;
}

/// This rank's answer, and the exception of its lookup.
struct own_answer {
  sent_answer sent;
  std::optional<std::string_view> value;
  std::exception_ptr failure;
};

own_answer answer_of(int rank, const local_lookup& look, std::string_view key, version at) {
  own_answer own;
  own.failure = attempt([&] { own.value = look(key, at); });
  if (own.failure) own.sent.failed = 1;
  if (own.failure || !own.value) return own;
  own.sent.found = 1;
  own.sent.rank = static_cast<std::uint64_t>(rank);
  const std::string_view value = *own.value;
  own.sent.bytes = value.size();
  if (!value.empty()) std::memcpy(own.sent.value.data(), value.data(), std::min(value.size(), inline_bytes));
  return own;
}

/// The value of an answer. The bytes of a long value come in messages of their own.
std::string value_of(const team& ranks, const sent_answer& answer, int from_rank) {
  std::string value(answer.bytes, '\0');
  if (value.size() <= inline_bytes) {
    std::memcpy(value.data(), answer.value.data(), value.size());
  } else {
    messages m(ranks, INT_MAX);
    m.receive(value.data(), value.size(), from_rank, answer_bytes_tag);
    m.wait();
  }
  return value;
}

void send_long_value(const team& ranks, std::string_view value, int to_rank) {
  if (value.size() <= inline_bytes) return;
  messages m(ranks, INT_MAX);
  m.send(value.data(), value.size(), to_rank, answer_bytes_tag);
  m.wait();
}

/// Answers one question of another rank.
class service {
 public:
  service(MPI_Comm comm, const local_lookup& look) : comm_(comm), look_(&look), rank_(team(comm).rank()) {}

  /// Returns false at the end.
  [[nodiscard]] bool serve_one() {
    sent_question asked{};
    MPI_Status status;
    check_mpi(MPI_Recv(&asked, sizeof asked, MPI_BYTE, MPI_ANY_SOURCE, question_tag, comm_, &status), "MPI_Recv");
    if (asked.kind == end_kind) return false;
    const own_answer own = answer_of(rank_, *look_, key_of(asked, status.MPI_SOURCE), asked.version);
    check_mpi(MPI_Send(&own.sent, words_per_answer, MPI_UINT64_T, status.MPI_SOURCE, answer_tag, comm_), "MPI_Send");
    if (own.failure) {
      send_failure(own.failure, status.MPI_SOURCE);
    } else if (own.value) {
      send_long_value(comm_, *own.value, status.MPI_SOURCE);
    }
    return true;
  }

 private:
  std::string_view key_of(const sent_question& asked, int from_rank) {
    key_.resize(asked.key_bytes);
    if (key_.size() <= inline_bytes) {
      std::memcpy(key_.data(), asked.key, key_.size());
    } else {
      check_mpi(MPI_Recv(key_.data(), static_cast<int>(key_.size()), MPI_BYTE, from_rank, question_tag, comm_,
                         MPI_STATUS_IGNORE),
                "MPI_Recv");
    }
    return key_;
  }

  void send_failure(const std::exception_ptr& caught, int to_rank) const {
    const failure sent = failure::of(caught);
    check_mpi(MPI_Send(&sent, sizeof sent, MPI_BYTE, to_rank, answer_tag, comm_), "MPI_Send");
  }

  MPI_Comm comm_;
  const local_lookup* look_;
  int rank_;
  std::string key_;
};

[[noreturn]] void throw_failure(MPI_Comm comm, int owner) {
  failure sent;
  check_mpi(MPI_Recv(&sent, sizeof sent, MPI_BYTE, owner, answer_tag, comm, MPI_STATUS_IGNORE), "MPI_Recv");
  sent.raise(owner);
}

}  // namespace

std::optional<std::string> broadcast_find(const team& ranks, const question& asked, const local_lookup& look,
                                          int root) {
  const int rank = ranks.rank();
  sent_question sent{};
  std::exception_ptr refused;
  if (rank == root) refused = attempt([&] { sent = packed_question(asked); });
  ranks.bcast(&sent, sizeof sent, root);
  if (sent.kind != find_kind) {
    agree(ranks, refused);
    return std::nullopt;
  }
  std::string key(rank == root ? asked.key : std::string_view(sent.key, std::min(sent.key_bytes, inline_bytes)));
  key.resize(sent.key_bytes);
  if (key.size() > inline_bytes) {
    ranks.bcast(key.data(), static_cast<int>(key.size()), root);
  }
  const own_answer own = answer_of(rank, look, key, sent.version);
  sent_answer sum;
  // All ranks get the sum, not only the root, so that they agree when something is wrong. This costs only messages of
  // ranks that would otherwise be idle.
  ranks.allreduce(&own.sent, &sum, words_per_answer, MPI_UINT64_T, MPI_SUM);
  if (sum.failed > 0) agree(ranks, own.failure);
  if (sum.found > 1) raise(errc::damaged, "{} ranks hold the same key: each key must have one owner", sum.found);
  if (sum.found == 0) return std::nullopt;
  const bool owner = own.sent.found == 1;
  if (rank != root) {
    if (owner) send_long_value(ranks, *own.value, root);
    return std::nullopt;
  }
  return owner ? std::string(*own.value) : value_of(ranks, sum, static_cast<int>(sum.rank));
}

std::optional<std::string> routed_find(MPI_Comm comm, int owner, const question& asked, const local_lookup& look) {
  const sent_question sent = packed_question(asked);
  if (owner == team(comm).rank()) {
    const auto value = look(asked.key, asked.at);
    return value ? std::optional<std::string>(*value) : std::nullopt;
  }
  check_mpi(MPI_Send(&sent, sizeof sent, MPI_BYTE, owner, question_tag, comm), "MPI_Send");
  if (asked.key.size() > inline_bytes) {
    check_mpi(MPI_Send(asked.key.data(), static_cast<int>(asked.key.size()), MPI_BYTE, owner, question_tag, comm),
              "MPI_Send");
  }
  sent_answer answer;
  check_mpi(MPI_Recv(&answer, words_per_answer, MPI_UINT64_T, owner, answer_tag, comm, MPI_STATUS_IGNORE), "MPI_Recv");
  if (answer.failed > 0) throw_failure(comm, owner);
  if (answer.found == 0) return std::nullopt;
  return value_of(comm, answer, owner);
}

void serve_routed_finds(MPI_Comm comm, const local_lookup& look) {
  service finds(comm, look);
  while (finds.serve_one()) {
  }
}

void end_routed_finds(MPI_Comm comm) {
  const sent_question end{end_kind, 0, 0, {}};
  const team ranks(comm);
  for (int other = 0; other < ranks.size(); ++other) {
    if (other == ranks.rank()) continue;
    check_mpi(MPI_Send(&end, sizeof end, MPI_BYTE, other, question_tag, comm), "MPI_Send");
  }
}

}  // namespace icecore::ranks
