// A persistent index in memory of its own, for tests: without a store or pool, and nothing is flushed.
#pragma once

#include <sys/mman.h>

#include <algorithm>
#include <memory>
#include <mutex>
#include <new>
#include <stdexcept>
#include <string>

#include "index/arena.hpp"
#include "index/persistent/persistent_index.hpp"

namespace icecore::index {

/// The space that an index uses, as the media have it. An index can be destroyed and another one opened on it.
class persistent_memory final : public space_owner {
 public:
  explicit persistent_memory(std::uint64_t size_max_bytes = std::uint64_t{1} << 32)
      : size_(std::min(size_max_bytes, std::uint64_t{1} << 32) + 2 * format::granule_size + first_nodes_bytes),
        state_(std::make_unique<persistent_index::state>()) {
    void* at = ::mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED) throw std::bad_alloc();
    base_ = static_cast<std::byte*>(at);
    used_ = format::first_segment_offset + format::granule_size;
  }
  ~persistent_memory() { ::munmap(base_, size_); }
  persistent_memory(const persistent_memory&) = delete;
  persistent_memory& operator=(const persistent_memory&) = delete;

  /// What a session needs to open the index: the epoch grows, and what was only in memory is gone.
  [[nodiscard]] node_space::parts open() {
    ++epoch_;
    state_ = std::make_unique<persistent_index::state>();
    node_space::parts parts;
    parts.bases.fill(base_);
    parts.anchor = &anchor();
    parts.persist = &persist_;
    parts.owner = this;
    parts.shared = &state_->space;
    parts.codec = word_codec(12345);
    parts.epoch = epoch_;
    parts.epochs_trusted = epochs_believed_;
    return parts;
  }
  [[nodiscard]] persistent_index::state& state() noexcept { return *state_; }
  [[nodiscard]] std::byte* base() const noexcept { return base_; }
  [[nodiscard]] std::uint64_t used() const noexcept { return used_; }
  [[nodiscard]] format::index_anchor& anchor() noexcept {
    return *reinterpret_cast<format::index_anchor*>(base_ + format::first_segment_offset +
                                                    sizeof(format::segment_header));
  }
  [[nodiscard]] index_node& node_at(link l) noexcept { return *reinterpret_cast<index_node*>(base_ + link_offset(l)); }

  void take_segment(claim& by) override {
    const std::scoped_lock lock(mutex_);
    if (used_ + format::node_segment_size > size_) throw std::bad_alloc();
    by.bounds(used_ + sizeof(format::segment_header), used_ + format::granule_size + format::nodes_end);
    used_ += format::node_segment_size;
  }
  void recover_dead() override {}
  void roll_back_dead_writers(const std::function<bool(std::string_view, link)>&) override {}
  [[nodiscard]] bool is_alive(std::uint16_t process) const noexcept override { return process != dead_process; }
  [[noreturn]] void raise_damaged(link l, const char* what) const override {
    throw std::runtime_error(std::string(what) + " at " + std::to_string(l));
  }
  [[nodiscard]] bool leads_into_pool(link l, std::uint64_t bytes) const noexcept override { return l + bytes <= size_; }

  /// Segments follow the anchor's granule, which is the second.
  [[nodiscard]] link partner_of(link node) const noexcept override {
    return node / format::granule_size % 2 == 0 ? node + format::granule_size : node - format::granule_size;
  }
  void note_met(link) noexcept override {}
  /// Leaves evidence of all nodes, as a store does that is closed.
  void leave_evidence(const persistent_index& of) const {
    for (link granule = 2 * format::granule_size; granule < used_; granule += format::granule_size)
      of.leave_evidence(granule);
  }
  /// For the next open(): evidence of this many sessions before it counts.
  void believe(std::uint32_t epochs) noexcept { epochs_believed_ = epochs; }

  static constexpr std::uint16_t dead_process = 77;
  static constexpr std::uint64_t first_nodes_bytes = format::node_segment_size;  ///< available even if there is no more

 private:
  std::uint64_t size_;
  std::byte* base_ = nullptr;
  std::uint64_t used_ = 0;
  std::uint64_t epoch_ = 0;
  std::uint32_t epochs_believed_ = 0;
  std::mutex mutex_;
  persistence persist_;
  std::unique_ptr<persistent_index::state> state_;
};

/// An empty index with memory of its own; forwards all calls to the index.
class index_with_memory final : public ordered_index {
 public:
  index_with_memory(const key_source& source, std::uint64_t size)
      : memory_(size), opened_(memory_.open()), it_(source, opened_, memory_.state()) {
    it_.build({}, 1);
  }
  [[nodiscard]] link find(std::string_view key) const override { return it().find(key); }
  void find_many(std::span<const std::string_view> asked, std::span<link> out) const override {
    it().find_many(asked, out);
  }
  link insert(std::string_view key, entry_factory& factory) override { return it_.insert(key, factory); }
  void seek(std::string_view key, block& out) const override { it().seek(key, out); }
  void seek_first(block& out) const override { it().seek_first(out); }
  void seek_last(block& out) const override { it().seek_last(out); }
  bool next_block(block& b) const override { return it().next_block(b); }
  bool block_before(std::string_view key, block& out) const override { return it().block_before(key, out); }
  [[nodiscard]] std::vector<link> split_points(std::size_t count) const override { return it().split_points(count); }
  void build(std::span<const link> sorted, unsigned threads) override { it_.build(sorted, threads); }
  [[nodiscard]] std::uint64_t size() const noexcept override { return it_.size(); }
  [[nodiscard]] std::uint64_t memory_bytes() const noexcept override { return it_.memory_bytes(); }
  [[nodiscard]] std::vector<std::string> check() const override { return it().check(); }

 private:
  [[nodiscard]] const ordered_index& it() const noexcept { return it_; }
  persistent_memory memory_;
  node_space::parts opened_;
  persistent_index it_;
};

[[nodiscard]] inline std::unique_ptr<ordered_index> make_persistent(const key_source& source, arena_options options) {
  return std::make_unique<index_with_memory>(source, options.size_max_bytes);
}

}  // namespace icecore::index
