// The items of another rank's store, fetched in blocks: the first block is small, and each further one is twice as
// long, up to 256 KiB. So a reader that needs only the first item pays little more than for that item, and for a reader
// that continues the next block is already under way.
//
// Invariants:
//   F1 The next block is requested when the reader moves to the second item of the current block.
//   F2 When the cluster closes, no request is under way: requests_ahead waits for all of them, even if a program still
//      holds the streams.
// Threads: a stream by one at a time; requests_ahead by any number.
#pragma once

#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "cluster/messages/progress.hpp"
#include "cluster/messages/remote_call.hpp"
#include "cluster/read/item_stream.hpp"

namespace icecore::mpi {

/// A block ends with the item that makes it reach the requested length.
inline constexpr std::uint32_t block_bytes_first = 512;
inline constexpr std::uint32_t block_bytes_max = 256 * 1024;

/// The requests for blocks that are under way to one owner (F2).
class requests_ahead {
 public:
  /// One request; null once it is answered or dropped.
  struct request {
    std::mutex mutex;
    std::unique_ptr<remote_call> call;
  };
  void add(const std::shared_ptr<request>& made);
  /// Waits for all answers and drops them.
  void finish() noexcept;

 private:
  std::mutex mutex_;
  std::list<std::weak_ptr<request>> all_;
};

class fetched_stream final : public item_stream {
 public:
  /// Asks for the first block.
  fetched_stream(progress& running, requests_ahead& ahead, int owner, const scan_request& wanted);

  [[nodiscard]] bool valid() override;
  [[nodiscard]] item current() const override { return current_; }
  void next() override;

 private:
  void ask(std::string_view from, bool after, std::optional<std::string_view> to);
  void ask_for_what_follows();
  void take_block();
  void read_item();

  progress& running_;
  requests_ahead& ahead_;
  int owner_;
  version at_;
  bool backward_;
  std::string from_;
  std::optional<std::string> to_;

  std::uint32_t block_bytes_ = block_bytes_first;
  std::shared_ptr<requests_ahead::request> asked_;  // the next block, if it was requested
  std::optional<received_bytes> block_;
  unpacker rest_{std::string_view()};
  std::string_view last_key_;  // of this block
  bool ends_ = false;          // no block follows this one
  bool valid_ = false;
  bool first_item_ = false;  // the current item is the first of this block
  item current_{};
};

}  // namespace icecore::mpi
