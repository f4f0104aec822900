// What the persistent index, and the histories of a store that has one, need from the store's pool.
//
// Threads: all functions.
#pragma once

#include <array>
#include <atomic>

#include "history/history.hpp"
#include "index/persistent/persistent_index.hpp"
#include "pool/pool_set.hpp"
#include "store/persistent/logged_segments.hpp"

namespace icecore {
class writer_set;
}

namespace icecore::detail {

class durable_media final : public index::space_owner, public record_checks {
 public:
  /// The part in the arena.
  struct state {
    index::persistent_index::state index;
    logged_segments::state segments;
    process_lock heads;
    /// By granule number, for all files together: whether a node in such a granule was met in this epoch.
    std::array<std::atomic<std::uint64_t>, 1024> met{};
  };

  durable_media(pool_set& in, const index::arena& processes, writer_set& writers, link anchor, state& shared);

  [[nodiscard]] logged_segments& segments() noexcept { return segments_; }
  [[nodiscard]] const logged_segments& segments() const noexcept { return segments_; }
  [[nodiscard]] format::index_anchor& anchor() const noexcept { return *anchor_; }
  /// For an index on this pool that is opened as `process`, attached or not. Evidence counts from `evidence_from` on.
  [[nodiscard]] index::node_space::parts index_parts(std::uint64_t epoch, std::uint32_t evidence_from, unsigned process,
                                                     bool attached) noexcept;
  /// Visits the granules that note_met() has noted, and perhaps others, whatever they hold. Call while nothing else
  /// runs. Cost: a look at one word for each 4 MiB of the store, and the headers of granules that share a bit.
  void for_each_met(const std::function<void(link granule)>& visit) const;

  // For the index.
  void take_segment(claim& by) override;
  void recover_dead() override { segments_.recover_dead(); }
  [[nodiscard]] link partner_of(link node) const noexcept override;
  void note_met(link node) noexcept override;
  [[nodiscard]] bool is_alive(std::uint16_t process) const noexcept override { return processes_->is_held(process); }
  void roll_back_dead_writers(const std::function<bool(std::string_view key, link entry)>& never_shown) override;

  // For both.
  [[noreturn]] void raise_damaged(link l, const char* what) const override;
  [[nodiscard]] bool leads_into_pool(link l, std::uint64_t bytes) const noexcept override {
    return l % 8 == 0 && link_offset(l) >= format::first_segment_offset && pool_->contains(l, bytes);
  }

  // For the histories. Cost: one look at the segment's header, one CRC.
  [[nodiscard]] bool is_intact(link l) const noexcept override;
  [[nodiscard]] recovering_lock hold_heads() const override {
    return {shared_->heads, [] {}};
  }

  /// The segment that `l` lies in; empty if there is none.
  [[nodiscard]] std::optional<segment> segment_of(link l) const noexcept;

 private:
  pool_set* pool_;
  std::uint32_t era_;  // of its segments: it may be read when the store is in another one
  const index::arena* processes_;
  writer_set* writers_;
  format::index_anchor* anchor_;
  state* shared_;
  logged_segments segments_;
};

}  // namespace icecore::detail
