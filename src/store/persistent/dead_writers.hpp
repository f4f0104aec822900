// Recovers dead writers, whose processes were killed during a write, while the store stays open: rolls their last
// operation forward or back. This is possible only with the persistent index, where a kill leaves nothing that instant
// recovery could not deal with.
//
// What is known of a dead writer: all its operations but the last one had returned, or its thread had gone on from
// them. Its log names its segment and where the records that it has not counted begin (logged_segments.hpp). Memory
// survives the process, so these records show the state of the last operation:
//
//   left                                    meaning                      what is done
//   ------------------------------------    -------------------------    ---------------------------------------------
//   bytes that fail their checksum          no thread has seen them      zeroed
//   update, sealed, no head led to it       no thread has seen it        zeroed
//   update, linked, not stamped             it took effect               stamped, as by any thread that meets it
//   entry, stamped or not, without a pair   not seen: finds              zeroed; it must not be entered with that
//     in the index                          waited for its leaf's lock     stamp, whose version may be closed and have
//                                                                          been read. The thread that takes the leaf's
//                                                                          lock over does it before it frees the leaf:
//                                                                          roll_back()
//   entry with a pair                       it took effect               its pair is flushed, in case it was not
//   batch, ready or stamped                 it took effect               stamped
//   batch, not ready, no record linked      no thread has seen it        zeroed
//   batch, not ready, some records linked   it never takes effect: its   the heads are set back; see below
//                                           other records are unknown
//   tag, stamped and intact                 it took effect               listed and told of, if it is not
//   any of these, counted or half counted   it took effect               counted again: log and records give the sum
//
// Only bytes that nothing ever led to are zeroed, so no thread reads them, with one exception: pairs that a leaf showed
// while the killed process held its lock. What is read through these is not trusted (persistent_index::lower_bound()).
// Other threads may be reading the records of a batch that some head did lead to. These stay as they are for ever, and
// the batch stays unready. So the free space of their segment is given up: no log and no list names it any more, until
// a record scan finds it again.
//
// All of this is computed from the media, and is done again if it is interrupted: a zeroed record is one that fails its
// checksum; a head that was set back does not lead to the record any more; the log stops naming the segment only when
// all heads are set back.
//
// Threads: roll_forward(): one at a time (W4); roll_back(): all. What one of them zeroes another may be reading, in
//   this process or in another one: nothing is taken for a record whose checksum fails, and zeroing is done again.
//   Threads of one process take turns all the same (zeroing_), so that no thread reads what another one writes. Nobody
//   waits for a leaf meanwhile: who rolls back holds one.
#pragma once

#include <mutex>

#include "history/history.hpp"
#include "index/persistent/persistent_index.hpp"
#include "store/persistent/durable_media.hpp"
#include "store/persistent/writer_tail.hpp"
#include "store/write/tag_catalog.hpp"
#include "store/write/writer.hpp"

namespace icecore::detail {

class dead_writers final : public dead_writer_recovery {
 public:
  dead_writers(pool_set& pool, durable_media& media, const durable_histories& histories,
               const index::persistent_index& index, listed_tags& tags, made_tags& told, index::arena& memory)
      : pool_(&pool),
        media_(&media),
        histories_(&histories),
        index_(&index),
        tags_(&tags),
        told_(&told),
        memory_(&memory),
        tails_(pool) {}

  void roll_forward(unsigned writer, writer_slot& slot) override;
  void roll_back(unsigned writer, const std::function<bool(std::string_view key, link entry)>& never_shown) override;

 private:
  [[nodiscard]] writer_tail::content what_happened(const segment& s, link from) const;
  [[nodiscard]] bool roll_forward_linked(const segment& s, link position) const;
  [[nodiscard]] bool roll_back_batch(const segment& s, link position) const;
  void list_and_tell(link tag) const;
  void make_durable(const std::vector<link>& last) const;
  void commit(link entry) const;

  pool_set* pool_;
  durable_media* media_;
  const durable_histories* histories_;
  const index::persistent_index* index_;
  listed_tags* tags_;
  made_tags* told_;
  index::arena* memory_;
  writer_tail tails_;
  mutable std::mutex zeroing_;  // held to read what roll_back() may zero, and to zero it
};

}  // namespace icecore::detail
