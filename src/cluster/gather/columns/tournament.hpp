// A tree of losers: it finds which of many sorted inputs has the least head, and then the next one.
//
//   tournament<std::uint64_t> heads(first_keys);
//   while (heads.size() > 0) {
//     use(heads.key(), heads.input());
//     more(heads.input()) ? heads.replace(next_key(heads.input())) : heads.remove();
//   }
//
// Threads: one at a time.
// Cost: replace O(log inputs), one comparison a level along one path; remove and building O(inputs).
// Source: Knuth, The Art of Computer Programming, volume 3, section 5.4.1, "Multiway merging".
//
// Invariant:
//   N1. Node n > 0 holds the loser of the match between the winners of its children, 2n and 2n + 1, where nodes from
//       size() on are the inputs themselves; node 0 holds the winner of all.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace icecore::ranks {

template <class Key>
class tournament {
 public:
  explicit tournament(std::span<const Key> first_keys) {
    players_.reserve(first_keys.size());
    for (std::size_t i = 0; i < first_keys.size(); ++i) players_.push_back({first_keys[i], i, 0});
    play_all();
  }
  /// Of a selection of inputs: (key, number) of each.
  explicit tournament(std::span<const std::pair<Key, std::size_t>> inputs) {
    players_.reserve(inputs.size());
    for (const auto& [key, input] : inputs) players_.push_back({key, input, 0});
    play_all();
  }

  /// The number of inputs that have not ended.
  [[nodiscard]] std::size_t size() const noexcept { return players_.size(); }
  /// The least head and the number of its input. Precondition: size() > 0.
  [[nodiscard]] const Key& key() const noexcept { return nodes_[0].key; }
  [[nodiscard]] std::size_t input() const noexcept { return nodes_[0].input; }

  /// The winner's input continues with this key.
  void replace(const Key& next) noexcept {
    player winner{next, nodes_[0].input, nodes_[0].leaf};
    for (std::size_t n = (size() + winner.leaf) / 2; n > 0; n /= 2) {
      if (nodes_[n].key < winner.key) std::swap(nodes_[n], winner);
    }
    nodes_[0] = winner;
  }

  /// The winner's input has ended.
  void remove() {
    const std::size_t gone = nodes_[0].leaf;
    for (const player& p : nodes_) players_[p.leaf] = p;
    players_[gone] = players_.back();
    players_.pop_back();
    play_all();
  }

 private:
  struct player {
    Key key;
    std::size_t input;
    std::size_t leaf;  // its index among the remaining inputs
  };

  void play_all() {
    const std::size_t n = players_.size();
    nodes_.resize(n);
    if (n == 0) return;
    winners_.resize(2 * n);
    for (std::size_t i = 0; i < n; ++i) {
      players_[i].leaf = i;
      winners_[n + i] = players_[i];
    }
    for (std::size_t i = n - 1; i > 0; --i) {
      const player& left = winners_[2 * i];
      const player& right = winners_[2 * i + 1];
      const bool right_wins = right.key < left.key;
      nodes_[i] = right_wins ? left : right;
      winners_[i] = right_wins ? right : left;
    }
    nodes_[0] = winners_[1];
  }

  std::vector<player> players_;
  std::vector<player> nodes_;
  std::vector<player> winners_;  // used only in play_all(); kept to reuse its memory
};

/// The same interface, but compares every head each time: O(inputs) for each pair.
template <class Key>
class linear_scan {
 public:
  explicit linear_scan(std::span<const Key> first_keys) : keys_(first_keys.begin(), first_keys.end()) {
    inputs_.reserve(keys_.size());
    for (std::size_t i = 0; i < keys_.size(); ++i) inputs_.push_back(i);
    find_least();
  }

  [[nodiscard]] std::size_t size() const noexcept { return keys_.size(); }
  [[nodiscard]] const Key& key() const noexcept { return keys_[least_]; }
  [[nodiscard]] std::size_t input() const noexcept { return inputs_[least_]; }

  void replace(const Key& next) noexcept {
    keys_[least_] = next;
    find_least();
  }
  void remove() {
    keys_[least_] = keys_.back();
    inputs_[least_] = inputs_.back();
    keys_.pop_back();
    inputs_.pop_back();
    find_least();
  }

 private:
  void find_least() noexcept {
    least_ = 0;
    for (std::size_t i = 1; i < keys_.size(); ++i) {
      if (keys_[i] < keys_[least_]) least_ = i;
    }
  }

  std::vector<Key> keys_;
  std::vector<std::size_t> inputs_;
  std::size_t least_ = 0;
};

}  // namespace icecore::ranks
