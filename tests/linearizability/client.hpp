// One client of the store: a thread that calls it again and again, as a seed decides, and records each call.
//
//   const habits usual(77);
//   client(store, log, {.number = 2, .life = 5, .seed = 77, .usual = usual}).run(stop);
//
// All clients write the same few keys besides their own, make the same new ones at about the same time, read what is
// newest and what was, scan, tag, and look at clock and histories.
// Threads: one. Returns when `stop` is set or the log is full.
#pragma once

#include <array>
#include <atomic>
#include <unordered_map>

#include "icecore/store.hpp"
#include "recorder.hpp"

namespace icecore::testing {

/// What the clients of one life do most, drawn from a seed: some lives tag all the time, some write one key, some
/// hardly write at all. Each brings other calls together.
struct habits {
  static constexpr unsigned errands = 13;

  explicit habits(std::uint64_t seed);

  /// Leaves out what only the process that opened the store may call.
  void keep_to_what_attached_may(bool may_tag);

  std::array<std::uint32_t, errands> weights{};
  std::uint32_t contended_eighths;  ///< of the calls that name a key go to the contended ones
  std::uint32_t fresh_eighths;      ///< of the others go to new keys
  std::uint32_t contended_keys;
};

struct client_options {
  std::uint32_t number;  ///< below 256, of its own among all clients of the life
  std::uint32_t seat;    ///< whose own keys it writes: those of one that was killed, where it takes its place
  std::uint32_t life;
  std::uint64_t seed;
  const habits& usual;
  /// Where the store is packed meanwhile, which keeps of several writes of a key in one version the last: each key is
  /// written by the client of one seat, of so many, and in one version once. So no write is without a record. 0: not
  /// so.
  std::uint32_t seats_apart = 0;
};

class client {
 public:
  client(store& s, client_log& log, const client_options& how);

  void run(const std::atomic<bool>& stop);

 private:
  [[nodiscard]] bool step();
  [[nodiscard]] bool insert(std::uint32_t key);
  [[nodiscard]] bool remove(std::uint32_t key);
  [[nodiscard]] bool apply();
  [[nodiscard]] bool tag(bool named);
  [[nodiscard]] bool latest();
  [[nodiscard]] bool sync();
  [[nodiscard]] bool clock();
  [[nodiscard]] bool find(std::uint32_t key);
  [[nodiscard]] bool find_at(std::uint32_t key);
  [[nodiscard]] bool scan(std::uint32_t group);
  [[nodiscard]] bool read_history(std::uint32_t key);

  [[nodiscard]] std::uint64_t random();
  [[nodiscard]] std::uint32_t any_key();
  [[nodiscard]] std::uint32_t key_to_write();
  [[nodiscard]] bool begin_to_write(std::uint32_t key);
  void note_written(std::uint32_t key, version at);
  [[nodiscard]] std::uint32_t own_key();
  [[nodiscard]] std::uint32_t fresh_key() const;
  [[nodiscard]] version any_closed();
  /// A value of its own for the slot that is next but `ahead`.
  [[nodiscard]] std::uint64_t value_of_slot(std::uint32_t ahead = 0) const;

  store* store_;
  client_log* log_;
  client_options how_;
  std::uint32_t weight_of_all_;
  std::uint64_t state_;
  std::unordered_map<std::uint32_t, version> written_;  // if seats are apart: the newest version of each key
};

/// Packs the store again and again, by ranges of keys or not, and records each call.
void pack_again_and_again(store& s, client_log& log, std::uint64_t seed, const std::atomic<bool>& stop);

/// The digest of a group in a snapshot, or of all keys; `garbled` if the scan is out of order or shows foreign bytes.
[[nodiscard]] std::uint64_t digest(const snapshot& of, std::uint32_t group);

}  // namespace icecore::testing
