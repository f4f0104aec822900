// Writes to one other rank that have not been sent yet, packed in the form in which they are sent, and searchable by
// key.
//
//   staged_writes s;
//   s.append({"k", "v"});
//   s.find("k");                        // the newest staged write of the key
//   remote_call(progress, owner, s.take_request());
//
// Threads: one.
// Cost: append and find O(1); a write takes its bytes and 4 to 8 more.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cluster/messages/wire.hpp"

namespace icecore::mpi {

/// Finds the newest write of a key in packed writes: an open hash table of where each begins.
class staged_index {
 public:
  /// Records that the write at `offset` of `bytes` is now the newest of its key.
  void add(std::string_view bytes, std::uint32_t offset);
  [[nodiscard]] std::optional<write_view> find(std::string_view bytes, std::string_view key) const;

 private:
  static constexpr std::uint32_t none = 0;  // no write begins there: the request's header is there

  [[nodiscard]] std::size_t slot_of(std::string_view bytes, std::string_view key) const;
  void grow(std::string_view bytes);

  std::vector<std::uint32_t> slots_;  // a power of two of them, at most half used
  std::size_t used_ = 0;
};

class staged_writes {
 public:
  staged_writes() : packed_(kind::write) {}

  /// If it throws, nothing is appended.
  void append(const write_view& one);
  [[nodiscard]] std::optional<write_view> find(std::string_view key) const { return index_.find(packed_.bytes(), key); }
  [[nodiscard]] std::size_t bytes() const noexcept { return packed_.size(); }
  [[nodiscard]] bool empty() const noexcept { return packed_.size() == request_header_size; }

  /// The request for these writes. This object is empty afterwards.
  [[nodiscard]] std::string take_request();
  /// Restores both to the state before they were taken.
  void put_back(std::string request, staged_index index) noexcept;
  /// The index of the request that is taken next.
  [[nodiscard]] staged_index take_index() { return std::exchange(index_, staged_index{}); }

 private:
  packer packed_;
  staged_index index_;
};

}  // namespace icecore::mpi
