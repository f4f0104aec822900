// Evidence: whether a node, and the entries that a leaf leads to, are as they were when the store was closed.
//
// A device may lose a write: then the page holds an earlier state, intact and with correct checksums. So for each node
// that was met in its session, closing stores a digest and the session's epoch in the node at the same position in the
// other granule of the segment: no page, and no 64 KiB, holds both. The first thread that meets the node afterwards
// compares. The digest of a leaf includes the heads and committed heads of its entries, which change in place too.
//
// Why a sound node is never reported as outdated:
//   E1. A node's word gets this epoch before anything in the node changes, and before a head or committed head of a
//       leaf's entry does: the thread that changes these has come by the node (look_at()), in this process or in one
//       that shares the store. So a node that is not of this epoch is as closing left it. A thread that finds it
//       different loads its word again, behind an acquire fence: if another thread met the node meanwhile, it was right
//       then and has changed since.
//   E2. note_met() comes before the word gets this epoch, so closing finds all such nodes. It flushes their words and
//       the heads of their entries, so these are durable together with the evidence, before the root says that the
//       store was closed.
//   E3. If a session did not end in a close with evidence, the media do not show what it changed: heads may be durable
//       and the leaf's word not. Then no earlier evidence counts. A process that opens the store after a crash, or
//       closes it beside another process, which may still be in a call, writes to the root from which epoch on evidence
//       counts.
//   E4. Evidence that is itself outdated (its own write was lost) is older than the node, and proves nothing.
#include <atomic>

#include "base/checksum.hpp"
#include "index/persistent/persistent_index.hpp"

namespace icecore::index {

/// For a free node. A digest read while another thread changes the node is not used: E1.
std::uint64_t persistent_index::digest_of(const index_node& n, std::uint64_t word) const noexcept {
  constexpr std::uint64_t odd = 0x9e3779b97f4a7c15U;
  std::uint64_t step = 0;
  std::uint64_t sum = 0;
  const auto add = [&](std::uint64_t value) { sum += mix64(value + (step += odd)); };
  add(word & node_word::changes_mask);
  add(node_word::check(word));
  // relaxed, all of these: a caller that finds a difference has a fence before it looks at the word again (E1)
  for (const auto* field : {&n.next, &n.high_head, &n.high, &n.low}) add(field->load(std::memory_order_relaxed));
  const node_order order(n);
  for (unsigned i = 0; i < node_order::words; ++i) add(n.order[i].load(std::memory_order_relaxed));
  const bool is_leaf = order.level() == 0;
  for (unsigned i = 0; is_leaf && i < order.count(); ++i) source_.prefetch(to_at(n, order, i));
  for (unsigned i = 0; i < order.count(); ++i) {
    const link to = to_at(n, order, i);
    add(head_at(n, order, i));
    add(to);
    if (is_leaf) add(source_.state_of(to));
  }
  return sum;
}

/// Whether a node that was not met in this epoch, and whose links lead into the store, differs from what closing left.
bool persistent_index::is_outdated(const index_node& n, link ref, std::uint64_t word) const noexcept {
  if (!space_.trusts_any()) return false;
  const link partner = space_.owner().partner_of(ref);
  if (partner == null_link) return false;
  const std::uint64_t evidence =
      space_.at(partner).evidence.load(std::memory_order_relaxed);  // relaxed: set at closing
  if (!space_.trusts(evidence)) return false;
  const std::uint64_t met = space_.age_of(node_word::epoch(word));
  const std::uint64_t closed = space_.age_of(evidence);
  if (met != closed) return met > closed;  // E4
  return node_word::locked(word) || !space_.agrees(evidence, digest_of(n, word));
}

void persistent_index::leave_evidence(link granule) const noexcept {
  const link first = granule + sizeof(format::segment_header);
  const link partners = space_.owner().partner_of(first);
  if (partners == null_link) return;
  const link end = granule + format::nodes_end;
  for (link ref = first; ref < end; ref += sizeof(index_node)) {
    const index_node& n = space_.at(ref);
    const std::uint64_t word = n.lock.load(std::memory_order_relaxed);  // relaxed, all: no other thread runs
    if (node_word::epoch(word) != space_.epoch()) continue;
    // A process may have been killed in it: the next thread that meets it repairs it.
    std::uint64_t evidence = 0;
    if (!node_word::locked(word)) {
      evidence = space_.evidence_of(digest_of(n, word));
      const node_order order(n);
      for (unsigned i = 0; order.level() == 0 && i < order.count(); ++i) source_.flush_state(to_at(n, order, i));
      space_.flush(&n, format::cache_line_size);
    }
    auto& of_node = space_.at(partners + (ref - first)).evidence;
    of_node.store(evidence, std::memory_order_relaxed);
    space_.flush(&of_node, sizeof of_node);
  }
}

}  // namespace icecore::index
