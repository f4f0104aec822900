#include "store/persistent/durable_media.hpp"

#include <algorithm>
#include <bit>

#include "base/raise.hpp"
#include "base/threads.hpp"
#include "store/write/writer.hpp"

namespace icecore::detail {

durable_media::durable_media(pool_set& in, const index::arena& processes, writer_set& writers, link anchor,
                             state& shared)
    : pool_(&in),
      era_(in.first().era()),
      processes_(&processes),
      writers_(&writers),
      anchor_(reinterpret_cast<format::index_anchor*>(in.at(anchor))),
      shared_(&shared),
      segments_(in, *anchor_, shared.segments) {}

index::node_space::parts durable_media::index_parts(std::uint64_t epoch, std::uint32_t evidence_from, unsigned process,
                                                    bool attached) noexcept {
  index::node_space::parts parts;
  std::ranges::copy(pool_->bases(), parts.bases.begin());
  parts.anchor = anchor_;
  parts.persist = &pool_->persist();
  parts.owner = this;
  parts.shared = &shared_->index.space;
  parts.codec = pool_->codec();
  parts.epoch = epoch;
  parts.epochs_trusted = static_cast<std::uint32_t>(epoch) - evidence_from;
  parts.process = static_cast<std::uint16_t>(process);
  parts.searches_link = !attached;
  return parts;
}

void durable_media::take_segment(claim& by) {
  // near this thread, which will fill them
  const segment taken = segments_.take_for_nodes(pool_->number_for(thread_number()), [&](const segment& s) {
    by.bounds(s.first_record(), s.offset + format::granule_size + format::nodes_end);
  });
  pool_->grow_ahead(taken.offset);
}

link durable_media::partner_of(link node) const noexcept {
  const link granule = node / format::granule_size * format::granule_size;
  const auto has_two = [&](link at) {
    return link_offset(at) >= format::first_segment_offset && pool_->valid_header(at, format::index_segment_magic) &&
           pool_->segment_at(at).size == format::node_segment_size;
  };
  if (has_two(granule)) return node + format::granule_size;
  const link before = granule - format::granule_size;  // which need not be one of the index
  return !pool_->of(before).is_in_hole(link_offset(before)) && has_two(before) ? node - format::granule_size
                                                                               : null_link;
}

void durable_media::note_met(link node) noexcept {
  const std::uint64_t granule = link_offset(node) / format::granule_size;
  auto& word = shared_->met[granule / 64 % shared_->met.size()];
  const std::uint64_t bit = std::uint64_t{1} << granule % 64;
  // relaxed, both: the bit is set before the node's word is of this epoch, and never cleared
  if ((word.load(std::memory_order_relaxed) & bit) == 0) word.fetch_or(bit, std::memory_order_relaxed);
}

void durable_media::for_each_met(const std::function<void(link granule)>& visit) const {
  for (const pool* p : pool_->files()) {
    const std::uint64_t end = p->used_end() / format::granule_size;
    for (std::uint64_t first = 0; first < end; first += 64) {
      std::uint64_t bits =
          shared_->met[first / 64 % shared_->met.size()].load(std::memory_order_relaxed);  // relaxed: nothing else runs
      for (; bits != 0; bits &= bits - 1) {
        const std::uint64_t granule = first + static_cast<unsigned>(std::countr_zero(bits));
        // Of several files each has such a granule, and one that is not of the index may be in a hole.
        const std::uint64_t at = granule * format::granule_size;
        if (granule < end && !p->is_in_hole(at)) visit(make_link(p->number(), at));
      }
    }
  }
}

void durable_media::roll_back_dead_writers(const std::function<bool(std::string_view key, link entry)>& never_shown) {
  writers_->roll_back_dead_writers(never_shown);
}

void durable_media::raise_damaged(link l, const char* what) const {
  raise(errc::damaged,
        "{}: damaged at byte {}: {}; icecore verify reports the damage, icecore reindex rebuilds the index, icecore "
        "repair makes a new store of what is intact",
        pool_->origin(l), link_offset(l), what);
}

std::optional<segment> durable_media::segment_of(link l) const noexcept {
  if (!leads_into_pool(l, sizeof(format::record_header))) return std::nullopt;
  const pool& p = pool_->of(l);
  // Most segments are one granule. In larger ones few records begin behind the first granule: only behind a large
  // value.
  for (link at = l / format::granule_size * format::granule_size; link_offset(at) >= format::first_segment_offset;
       at -= format::granule_size) {
    if (!p.valid_header(at) || p.header_of(at).era != era_) continue;
    const segment s = p.segment_at(at);
    if (l >= s.first_record() && l < s.end()) return s;
    break;
  }
  return std::nullopt;
}

bool durable_media::is_intact(link l) const noexcept {
  const auto in = segment_of(l);
  if (!in || in->end() - l < sizeof(format::record_header)) return false;
  const record r(pool_->at(l));
  const record_layout layout = r.layout();
  if (!r.batched() && r.header().stamp.load(std::memory_order_relaxed) == 0) {  // relaxed: only an old 0 matters
    const auto fill = pool_->fill_of(*in);
    if (fill && l < *fill) return false;  // when the store was closed, it had a stamp
  }
  return layout.plausible() && layout.size() <= in->end() - l &&
         r.intact(pool_->codec().record_seed(in->generation, l));
}

}  // namespace icecore::detail
