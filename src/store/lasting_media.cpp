#include "store/lasting_media.hpp"

#include "base/raise.hpp"

namespace icecore::detail {

lasting_media::lasting_media(pool& in, const index::arena& processes, link anchor, state& shared)
    : pool_(&in),
      processes_(&processes),
      anchor_(reinterpret_cast<format::index_anchor*>(in.at(link_offset(anchor)))),
      shared_(&shared),
      segments_(in, *anchor_, shared.segments) {}

index::node_space::parts lasting_media::index_parts(std::uint64_t epoch, unsigned process) noexcept {
  index::node_space::parts parts;
  parts.bases[0] = pool_->base();
  parts.anchor = anchor_;
  parts.persist = &pool_->persist();
  parts.owner = this;
  parts.shared = &shared_->index.space;
  parts.codec = pool_->codec();
  parts.epoch = epoch;
  parts.process = static_cast<std::uint16_t>(process);
  return parts;
}

void lasting_media::take_segment(claim& by) {
  static_cast<void>(segments_.take_for_nodes([&](const segment& s) {
    const std::uint64_t nodes = (s.size - sizeof(format::segment_header)) / sizeof(format::index_node);
    by.told(make_link(0, s.first_record()), make_link(0, s.first_record() + nodes * sizeof(format::index_node)));
  }));
}

void lasting_media::raise_damaged(link l, const char* what) const {
  raise(errc::damaged,
        "{}: damaged at byte {}: {}; icecore verify lists everything, icecore reindex makes the index anew, icecore "
        "repair makes a new store of what is intact",
        pool_->origin(), link_offset(l), what);
}

std::optional<segment> lasting_media::segment_of(link l) const noexcept {
  // Most segments are one granule. In others few records begin behind the first one: only behind a large value.
  for (std::uint64_t at = link_offset(l) / format::granule_size * format::granule_size;
       at >= format::first_segment_offset; at -= format::granule_size) {
    if (!pool_->valid_header(at)) continue;
    const segment s = pool_->segment_at(at);
    if (link_offset(l) >= s.first_record() && link_offset(l) < s.end()) return s;
    break;
  }
  return std::nullopt;
}

bool lasting_media::is_whole(link l) const noexcept {
  const auto in = segment_of(l);
  if (!in) return false;
  const std::uint64_t offset = link_offset(l);
  if (offset % 8 != 0 || in->end() - offset < sizeof(format::record_header)) return false;
  const record r(pool_->at(offset));
  const record_layout layout = r.layout();
  return layout.plausible() && layout.size() <= in->end() - offset &&
         r.intact(pool_->codec().record_seed(in->generation, offset));
}

}  // namespace icecore::detail
