// The de Bruijn graph of a cluster's k-mers in the version that holds their codes, and the walks along it.
//
// A node is a k-mer whose code is two bases. It leads to the next k-mer if that is a node too and its code leads back.
// So every node has at most one neighbour on each side, and the graph consists of chains and rings.
// Threads: one at a time. Cost: one lookup in the cluster per step of each walk; one find_many does a step of many
// walks.
#pragma once

#include <deque>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "icecore/cluster.hpp"
#include "kmer.hpp"

namespace kmers {

/// A k-mer read in one direction, with the bases on both sides of it.
struct node {
  kmer x = 0;
  base left = 0;
  base right = 0;
};

/// The result of a walk: a chain from its first node to its last, or a ring once around.
struct path {
  node begin;
  node end;
  std::string bases;  ///< the bases of all its k-mers together
};

class graph {
 public:
  /// `codes` is the version whose k-mers have two-letter codes, under keys of the kind `kind`.
  graph(const coder& shape, icecore::cluster_snapshot codes, char kind) : coder_(shape), codes_(codes), kind_(kind) {}

  [[nodiscard]] const coder& shape() const noexcept { return coder_; }

  /// The node of a canonical k-mer with this code. Precondition: is_unique(code).
  [[nodiscard]] static node node_of(kmer canonical, std::string_view code) noexcept;
  /// The same node read in the other direction.
  [[nodiscard]] node flipped(const node& n) const noexcept;

  /// The node after each; empty where a chain ends.
  [[nodiscard]] std::vector<std::optional<node>> behind(std::span<const node> nodes) const;

  /// Walks from every start until the chain ends, the walk is back at its start, or `give_up` returns true for a node.
  /// Calls `found` for each walk that was not given up. Many walks advance together: O(longest walk) lookups one after
  /// another.
  void walk(std::deque<node> starts, const std::function<bool(const node& start, const node& next)>& give_up,
            const std::function<void(path)>& found) const;

 private:
  /// Whether a key was found for the candidate and it fits.
  [[nodiscard]] std::optional<node> linked(const node& from, kmer candidate,
                                           const std::optional<std::string>& code) const;

  coder coder_;
  icecore::cluster_snapshot codes_;
  char kind_;
};

}  // namespace kmers
