// Where a store finds its tags: in its records, which opening scans, or in a list beside the persistent index; and, if
// processes share the store, in the memory that they share.
//
// Threads: all functions from any thread, except list() and leave_evidence(), which state theirs.
#pragma once

#include <atomic>
#include <mutex>

#include "history/history.hpp"
#include "store/feed/made_tags.hpp"
#include "store/persistent/durable_media.hpp"
#include "store/persistent/tag_list.hpp"
#include "store/write/tags.hpp"

namespace icecore::detail {

class tag_catalog {
 public:
  /// Makes sure that the next append(), of a tag with this name and note, needs no memory, and that no other thread
  /// appends before the lock is released. errc::no_space.
  [[nodiscard]] virtual std::unique_lock<std::mutex> reserve(std::string_view name, std::string_view note) = 0;
  /// Appends the record of a tag, whose flush has begun. Durable after the next fence, or sync.
  virtual void append(link tag) = 0;
  /// Adds the tags that opening has not read, and those that other processes have made. errc::damaged.
  virtual void load(tag_index& into) = 0;
  /// Whether a tag's record was appended. For the process that makes the tags. errc::damaged. Cost: O(tags).
  [[nodiscard]] virtual bool lists(link tag) = 0;

 protected:
  ~tag_catalog() = default;
};

/// Opening has read the records of all tags.
class scanned_tags final : public tag_catalog {
 public:
  [[nodiscard]] std::unique_lock<std::mutex> reserve(std::string_view /*name*/, std::string_view /*note*/) override {
    return {};
  }
  void append(link /*tag*/) override {}
  void load(tag_index& /*into*/) override {}
  [[nodiscard]] bool lists(link /*tag*/) override { return true; }  // the records are all there is
};

/// The tags are listed, and the list is read when a tag is first asked for.
class listed_tags final : public tag_catalog {
 public:
  /// `were_read`: opening has read the records of all tags.
  listed_tags(index::node_space& space, const durable_histories& histories, const durable_media& media, bool were_read)
      : list_(space), histories_(&histories), media_(&media), loaded_(were_read) {}

  [[nodiscard]] std::unique_lock<std::mutex> reserve(std::string_view name, std::string_view note) override;
  void append(link tag) override { list_.append(tag); }
  void load(tag_index& into) override;
  [[nodiscard]] bool lists(link tag) override;

  /// Used by one thread at a time: the one that recovers from a crash or from a killed process.
  [[nodiscard]] tag_list& list() noexcept { return list_; }
  /// As tag_list's. Does nothing if this process has not read the tags: then it has added none. Nothing else may run.
  void leave_evidence() const;

 private:
  tag_list list_;
  const durable_histories* histories_;
  const durable_media* media_;
  std::mutex mutex_;
  std::atomic<bool> loaded_;
};

/// For a store that processes share: tells the others of this process's tags, and is told of theirs.
class shared_tags final : public tag_catalog {
 public:
  /// `own`: this process's. `told`, in `memory`, is what all processes see. `appending` is held by who appends: a
  /// thread may still do so with the catalog of an engine that was replaced.
  shared_tags(tag_catalog& own, made_tags& told, index::arena& memory, const history_base& records,
              std::mutex& appending)
      : own_(&own), told_(&told), memory_(&memory), records_(&records), mutex_(&appending) {}

  /// Tells of these: for the process that opened the store, before any other can attach. Throws std::bad_alloc.
  void tell(const std::vector<tag_info>& all);

  [[nodiscard]] std::unique_lock<std::mutex> reserve(std::string_view name, std::string_view note) override;
  void append(link tag) override;
  void load(tag_index& into) override;
  [[nodiscard]] bool lists(link tag) override;

 private:
  tag_catalog* own_;
  made_tags* told_;
  index::arena* memory_;
  const history_base* records_;
  std::mutex* mutex_;
  index::arena_ref reserved_ = 0;  // by the holder
  std::mutex reading_;             // guards here_
  made_tags::reader here_;
};

}  // namespace icecore::detail
