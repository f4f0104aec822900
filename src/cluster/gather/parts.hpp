// The parts of all ranks: their sizes, a common layout, sending and receiving them, and the check that no two ranks
// share a key.
//
//   const parts all(ranks, own);               // collective: every rank learns the sizes of all parts
//   all.of(3).count; all.total().key_bytes; all.own().keys[0];
//
// Threads: by one thread of a rank at a time. Collective functions must be called by all ranks of the communicator.
// Errors: as the functions of ranks/agreement.hpp, the same on all ranks.
#pragma once

#include <mpi.h>

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cluster/gather/columns/pairs.hpp"
#include "cluster/gather/ranks/agreement.hpp"
#include "cluster/gather/ranks/messages.hpp"

namespace icecore::ranks {

/// Tags of messages on this component's own communicator or in its own calls: no two of its functions run at once on
/// one communicator.
enum tag : int {
  key_offsets_tag = 1,
  key_bytes_tag = 2,
  value_offsets_tag = 3,
  value_bytes_tag = 4,
  block_tag = 5,
  credit_tag = 6,
  question_tag = 7,
  answer_tag = 8,
  answer_bytes_tag = 9,
};

/// A key as error messages show it: shortened, with unprintable bytes in hexadecimal.
[[nodiscard]] std::string readable(std::string_view key);

class parts {
 public:
  /// Collective. `own` is this rank's part; it and the team must stay valid.
  parts(const team& ranks, const pairs_view& own);

  [[nodiscard]] const team& ranks() const noexcept { return *ranks_; }
  [[nodiscard]] int rank() const noexcept { return ranks_->rank(); }
  [[nodiscard]] int count() const noexcept { return static_cast<int>(extents_.size()); }

  /// This rank's part, in the layout that all ranks use.
  [[nodiscard]] const pairs_view& own() const noexcept { return own_; }
  /// The extent of a rank's part, in that layout.
  [[nodiscard]] const extent& of(int rank) const noexcept { return extents_[static_cast<std::size_t>(rank)]; }
  [[nodiscard]] extent total() const noexcept;
  /// The extent of no pairs, in that layout.
  [[nodiscard]] extent nothing() const noexcept;

  /// Collective. Throws errc::damaged on all ranks, naming the key and the ranks that hold it, if any rank passes a key
  /// that two ranks hold.
  void require_no_common_key(const std::optional<std::string>& known) const;

 private:
  void take_common_layout();

  const team* ranks_;
  pairs_view own_;
  std::vector<extent> extents_;
  buffer<std::uint64_t> own_key_offsets_;  // used if the other ranks' keys have any size and this rank's had a fixed
                                           // size
  buffer<std::uint64_t> own_value_offsets_;
};

/// Sends pairs, or receives them into room of the same extent. Only the columns are sent: both sides know the extent.
void send(messages& by, const pairs_view& from, int to_rank);
void receive(messages& by, pairs& to, int from_rank);
/// The same for the pairs [begin, end) that were sent as a slice. Precondition: these are all pairs, or the columns
/// have a fixed width.
void receive(messages& by, pairs& to, std::size_t begin, std::size_t end, int from_rank);

}  // namespace icecore::ranks
