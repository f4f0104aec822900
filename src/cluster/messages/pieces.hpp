// Answers of any length, in pieces: an owner packs a bounded amount at once, and the asker requests the next piece.
//
//   history_piece piece = pack_history(records(key), from, out);      // at the owner
//   history_reader past;                                              // at the asker
//   while (!past.complete()) past.read(ask(past.next()));
//
// Threads: one at a time.
// Cost: an owner skips the records it has sent already: a piece costs O(records before it) steps, without their values.
//
// Invariants:
//   H1 A place in a history names a record by its version and by the number of records of that version that are not
//      newer. Records are only added at the newest end, so a place keeps naming the same record, whatever is written
//      meanwhile.
//   H2 A value that is longer than a piece is sent in several: `offset` says how much of the record at the place was
//      sent.
#pragma once

#include <cstdint>
#include <vector>

#include "cluster/messages/wire.hpp"
#include "icecore/cluster_snapshot.hpp"
#include "icecore/history.hpp"
#include "icecore/options.hpp"

namespace icecore::mpi {

/// How much an owner packs for one answer, approximately.
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

/// Packs as many records as fit in a piece, newest first, and the place where the next piece begins.
void pack_history(key_history records, const history_place& from, packer& out);

/// Joins the pieces.
class history_reader {
 public:
  [[nodiscard]] bool complete() const noexcept { return complete_; }
  [[nodiscard]] const history_place& next() const noexcept { return next_; }
  void read(unpacker in);
  [[nodiscard]] std::vector<versioned_value> take() { return std::move(past_); }

 private:
  std::vector<versioned_value> past_;
  history_place next_;
  bool complete_ = false;
};

}  // namespace icecore::mpi
