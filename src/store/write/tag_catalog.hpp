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
#include "store/write/writer.hpp"

namespace icecore::detail {

class tag_catalog {
 public:
  /// Of who makes a tag, in this process and among those that share the store.
  struct turn {
    std::unique_lock<std::mutex> here{};
    std::unique_lock<process_lock> among_processes{};
  };
  /// Makes sure that the next append(), of a tag with this name and note, needs no memory, and that no other thread or
  /// process appends before the turn ends. errc::no_space; errc::tag_exists if another process has made it.
  [[nodiscard]] virtual turn reserve(std::string_view name, std::string_view note) = 0;
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
  [[nodiscard]] turn reserve(std::string_view /*name*/, std::string_view /*note*/) override { return {}; }
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

  [[nodiscard]] turn reserve(std::string_view name, std::string_view note) override;
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
//
// Of two processes that make a tag of one name, one succeeds: each looks, behind the lock of all processes, whether the
// other has told of it, and tells of its own before it gives the lock back. A process that is killed in between leaves
// the lock to the next one, which first has the writers of killed processes recovered: a tag whose record counts is
// then listed and told (dead_writers), and one whose record does not count never was. Where a killed write poisons the
// store instead, the next tag learns of that there.
class shared_tags final : public tag_catalog {
 public:
  /// `own`: this process's. `told`, in `memory`, is what all processes see. `appending` is held by who appends: a
  /// thread may still do so with the catalog of an engine that was replaced. `known`: what load() is called with.
  shared_tags(tag_catalog& own, made_tags& told, index::arena& memory, const history_base& records,
              std::mutex& appending, tag_index& known, writer_set& writers)
      : own_(&own),
        told_(&told),
        memory_(&memory),
        records_(&records),
        mutex_(&appending),
        known_(&known),
        writers_(&writers) {}

  /// Tells of these: for the process that opened the store, before any other can attach. Throws std::bad_alloc.
  void tell(const std::vector<tag_info>& all);

  [[nodiscard]] turn reserve(std::string_view name, std::string_view note) override;
  void append(link tag) override;
  void load(tag_index& into) override;
  [[nodiscard]] bool lists(link tag) override;

 private:
  [[nodiscard]] std::unique_lock<process_lock> lock_among_processes() const;

  tag_catalog* own_;
  made_tags* told_;
  index::arena* memory_;
  const history_base* records_;
  std::mutex* mutex_;
  tag_index* known_;
  writer_set* writers_;
  index::arena_ref reserved_ = 0;  // by the holder
  std::mutex reading_;             // guards what follows
  made_tags::reader here_;
  std::vector<version> made_here_;  // told, and not met by load() yet: they are shown when they are durable
};

}  // namespace icecore::detail
