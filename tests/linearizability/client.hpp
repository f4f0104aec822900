// One client of the store: a thread that calls it again and again, as a seed decides, and records each call.
//
//   client(store, log, {.number = 2, .life = 5, .seed = 77}).run(stop);
//
// All clients write the same few keys besides their own, make the same new ones at about the same time, read what is
// newest and what was, scan, tag, and look at clock and histories.
// Threads: one. Returns when `stop` is set or the log is full.
#pragma once

#include <atomic>
#include <vector>

#include "icecore/store.hpp"
#include "recorder.hpp"

namespace icecore::testing {

struct client_options {
  std::uint32_t number;
  std::uint32_t life;
  std::uint64_t seed;
};

inline constexpr std::uint32_t contended_keys = 6;

class client {
 public:
  client(store& s, client_log& log, const client_options& how);

  void run(const std::atomic<bool>& stop);

 private:
  [[nodiscard]] bool step();
  [[nodiscard]] bool write(std::uint64_t chance);
  [[nodiscard]] bool close_version(std::uint64_t chance);
  [[nodiscard]] bool read(std::uint64_t chance);

  [[nodiscard]] bool insert(std::uint32_t key);
  [[nodiscard]] bool remove(std::uint32_t key);
  [[nodiscard]] bool apply();
  [[nodiscard]] bool tag(bool named);
  [[nodiscard]] bool find(std::uint32_t key);
  [[nodiscard]] bool find_at(std::uint32_t key);
  [[nodiscard]] bool scan(std::uint32_t group);
  [[nodiscard]] bool read_history(std::uint32_t key);

  [[nodiscard]] std::uint64_t random();
  [[nodiscard]] std::uint32_t any_key();
  [[nodiscard]] std::uint32_t own_key();
  [[nodiscard]] std::uint32_t fresh_key() const;
  [[nodiscard]] version any_closed();
  /// A value of its own for the slot that is next but `ahead`.
  [[nodiscard]] std::uint64_t value_of_slot(std::uint32_t ahead = 0) const;

  store* store_;
  client_log* log_;
  client_options how_;
  std::uint64_t state_;
};

/// The digest of a group in a snapshot, or of all keys; `garbled` if the scan is out of order or shows foreign bytes.
[[nodiscard]] std::uint64_t digest(const snapshot& of, std::uint32_t group);

}  // namespace icecore::testing
