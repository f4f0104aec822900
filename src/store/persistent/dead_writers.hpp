// Writers whose processes were killed amid a write, in a store that goes on: their last operation is finished, or it
// never happened. Only where the index lasts: what a kill leaves there is what opening finds after it.
//
// What is known of such a writer: all its operations but the last one had returned, or its thread had gone on from
// them. Its log names its segment and where what is not counted begins (logged_segments.hpp); the records from there
// on tell the rest. Memory has outlived the process, so it is decided what the last operation had come to:
//
//   left                                    what it is                   what is done
//   ------------------------------------    ------------------------- -----------------------------------------------
//   bytes that fail their checksum          nobody knows of them         zeroed
//   update, sealed, no head led to it       nobody knows of it           zeroed
//   update, linked, not stamped             it happened                  stamped, as whoever meets it does
//   entry, stamped or not, without a pair   nobody knows of it: finds    zeroed; with that stamp it could not be
//     in the index                          waited for its leaf's lock     entered, for its version may be closed and
//                                                                          have been read. By whoever takes the leaf's
//                                                                          lock over, before it is free: undo()
//   entry with a pair                       it happened                  its pair may not be on its way to the media
//   batch, ready or stamped                 it happened                  stamped
//   batch, not ready, no record linked      nobody knows of it           zeroed
//   batch, not ready, some records linked   it never happens: nobody     the heads are set back; see below
//                                           can tell what was to come
//   tag, stamped and whole                  it happened                  listed, if it is not
//   all of it, counted or half counted      it happened                  counted anew: log and records say the sum
//
// Zeroed is only what nothing ever led to, so nobody reads it: but for one thing, pairs that a leaf showed while it was
// locked by the killed process; what is read through these is not believed (persistent_index::lower_bound()). Records
// of a batch that some head did lead to may be being read. They stay as they are for ever, unready; so the rest of
// their segment is given up, which nothing names any more, and a full recovery takes it back.
//
// All is computed from the media and done again if it is interrupted: zeroing makes a record one that fails its
// checksum; a head that is set back no record leads to; the log names no segment only when all heads are set back.
//
// Threads: finish(), one at a time (W4); undo(), all.
#pragma once

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
               const index::persistent_index& index, listed_tags& tags)
      : pool_(&pool), media_(&media), histories_(&histories), index_(&index), tags_(&tags), tails_(pool) {}

  void roll_forward(unsigned writer, writer_slot& slot) override;
  void roll_back(unsigned writer, const std::function<bool(std::string_view key, link entry)>& never_shown) override;

 private:
  [[nodiscard]] writer_tail::content what_happened(const segment& s, link from) const;
  [[nodiscard]] bool roll_forward_linked(const segment& s, link position) const;
  [[nodiscard]] bool roll_back_batch(const segment& s, link position) const;
  void make_durable(const std::vector<link>& last) const;
  void commit(link entry) const;

  pool_set* pool_;
  durable_media* media_;
  const durable_histories* histories_;
  const index::persistent_index* index_;
  listed_tags* tags_;
  writer_tail tails_;
};

}  // namespace icecore::detail
