#include "cluster/messages/pieces.hpp"

#include <algorithm>
#include <iterator>
#include <optional>
#include <string_view>

namespace icecore::mpi {
namespace {

using record = key_history::iterator;

/// The number of records of the version of `r` that are not newer than it, including itself. Moves `r` past them.
std::uint64_t count_not_newer(record r) {
  const version at = r->version;
  std::uint64_t count = 0;
  for (; r != std::default_sentinel && r->version == at; ++r) ++count;
  return count;
}

/// The record at this place; the history's first one if the place names none.
record find(key_history& records, const history_place& place) {
  if (place.at == history_place::newest_record) return records.begin();
  record r = records.begin();
  while (r != std::default_sentinel && r->version > place.at) ++r;
  if (r == std::default_sentinel || r->version != place.at) return r;
  key_history ahead = records;  // a copy from here: begin() would see later writes
  for (std::uint64_t of_version = count_not_newer(r.in(ahead)); of_version > place.not_newer; --of_version) ++r;
  return r;
}

}  // namespace

void pack(packer& out, const history_place& place) {
  out.number(place.at);
  out.number(place.not_newer);
  out.number(place.offset);
}

history_place unpack_history_place(unpacker& in) {
  history_place place;
  place.at = in.number<version>();
  place.not_newer = in.number<std::uint64_t>();
  place.offset = in.number<std::uint64_t>();
  return place;
}

void pack_history(key_history records, const history_place& from, packer& out) {
  packer pieces;
  std::uint64_t offset = from.offset;
  for (record r = find(records, from); r != std::default_sentinel; ++r, offset = 0) {
    const std::size_t size = r->value ? r->value->size() : 0;
    const std::size_t space = piece_bytes - std::min(piece_bytes, pieces.size());
    const std::size_t part = std::min<std::size_t>(size - std::min<std::size_t>(size, offset), space);
    if (space > 0) {
      pieces.number(r->version);
      pieces.number(static_cast<std::uint8_t>(r->value.has_value()));
      pieces.number(offset);
      pieces.number(std::uint64_t{size});
      pieces.text(r->value ? r->value->substr(std::min<std::size_t>(size, offset), part) : std::string_view());
    }
    if (space > 0 && offset + part >= size) continue;
    const version at = r->version;
    pack(out, history_place{at, count_not_newer(r), offset + part});
    out.append(pieces);
    return;
  }
  pack(out, history_place{});  // nothing follows
  out.append(pieces);
}

void history_reader::read(unpacker in) {
  next_ = unpack_history_place(in);
  complete_ = next_.at == history_place::newest_record;
  if (!complete_ && in.at_end()) throw error(errc::bad_input, "a piece of a history from another rank is empty");
  while (!in.at_end()) {
    const auto at = in.number<version>();
    const bool there = in.number<std::uint8_t>() != 0;
    const auto offset = in.number<std::uint64_t>();
    const auto size = in.number<std::uint64_t>();
    const std::string_view part = in.text();
    if (offset == 0) past_.push_back({at, there ? std::optional<std::string>(std::in_place) : std::nullopt});
    if (!there) continue;
    if (size > value_size_max || past_.empty() || !past_.back().value || past_.back().value->size() != offset ||
        offset + part.size() > size) {
      throw error(errc::bad_input, "a piece of a history from another rank does not continue where the last one ended");
    }
    past_.back().value->reserve(size);
    past_.back().value->append(part);
  }
}

}  // namespace icecore::mpi
