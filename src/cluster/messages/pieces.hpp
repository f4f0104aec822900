// Answers of any length, in pieces: what an owner packs at once is bounded, and the asker asks for the next one.
//
//   history_piece piece = pack_history(records(key), from, out);      // at the owner
//   history_reader past;                                              // at the asker
//   while (!past.complete()) past.read(ask(past.next()));
//
// Threads: functions and objects for use by one at a time.
// Cost: an owner reads past what it has sent already: a piece costs O(records before it) steps, without their values.
//
// Invariants:
//   H1 A place in a history names a record by its version and by how many records of that version are not newer.
//      Records are only ever added at the newest end, so a place stays one record, whatever is written meanwhile.
//   H2 A value that is longer than a piece is sent in several: `offset` tells how much of the place's record was sent.
#pragma once

#include <cstdint>
#include <vector>

#include "cluster/messages/wire.hpp"
#include "icecore/cluster_snapshot.hpp"
#include "icecore/history.hpp"
#include "icecore/options.hpp"

namespace icecore::mpi {

/// What an owner packs for one answer, about.
inline constexpr std::size_t piece_bytes = std::size_t{4} << 20;

/// Where a piece of a history begins (H1, H2).
struct history_place {
  static constexpr version newest_record = ~version{0};

  version at = newest_record;
  std::uint64_t not_newer = 0;
  std::uint64_t offset = 0;
};
void pack(packer& out, const history_place& place);
[[nodiscard]] history_place unpack_history_place(unpacker& in);

/// Packs what fits in a piece, newest first, and where the next one begins.
void pack_history(key_history records, const history_place& from, packer& out);

/// Puts the pieces together.
class history_reader {
 public:
  [[nodiscard]] bool complete() const noexcept { return complete_; }
  [[nodiscard]] const history_place& next() const noexcept { return next_; }
  void read(unpacker in);
  [[nodiscard]] std::vector<past_value> take() { return std::move(past_); }

 private:
  std::vector<past_value> past_;
  history_place next_;
  bool complete_ = false;
};

}  // namespace icecore::mpi
