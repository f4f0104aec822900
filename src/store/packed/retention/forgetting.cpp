#include "store/packed/retention/forgetting.hpp"

#include <algorithm>
#include <cstring>
#include <set>

#include "base/checksum.hpp"
#include "base/forget_tag.hpp"
#include "base/raise.hpp"
#include "pool/manifest/manifest.hpp"
#include "pool/query/feed_places.hpp"
#include "pool/query/query_space.hpp"
#include "store/engine.hpp"

namespace icecore::detail {
namespace {

using format::forget_header;

std::uint32_t crc_of(const pool_set& pools, const segment& s, forget_header header, std::string_view content) {
  header.crc = 0;
  header.made = 0;
  const std::uint32_t seed = pools.codec().record_seed(s.generation, s.first_record());
  return crc32c(crc32c(seed, &header, sizeof header), content.data(), content.size());
}

std::string encoded(std::span<const key_to_forget> what) {
  std::string bytes;
  for (const key_to_forget& each : what) {
    const format::forgotten_key head{static_cast<std::uint32_t>(each.bytes.size()), each.is_prefix ? 1U : 0U};
    bytes.append(reinterpret_cast<const char*>(&head), sizeof head);
    bytes.append(each.bytes);
  }
  return bytes;
}

}  // namespace

segment write_forget_request(pool_set& pools, version up_to, std::span<const key_to_forget> what) {
  const std::string content = encoded(what);
  announce_packed_segments(pools);
  const segment s = pools.allocate(sizeof(forget_header) + content.size(), 0, format::forget_segment_magic, {});
  // Where nothing is flushed line by line a power cut may keep what follows and lose this: that would be damage.
  pools.persist().persist(pools.at(s.offset), sizeof(format::segment_header));
  pools.persist().sync();
  forget_header header{};
  header.up_to = up_to;
  header.count = static_cast<std::uint32_t>(what.size());
  header.size = content.size();
  header.crc = crc_of(pools, s, header, content);
  std::byte* const to = pools.at(s.first_record());
  std::memcpy(to, &header, sizeof header);
  std::memcpy(to + sizeof header, content.data(), content.size());
  pools.persist().persist(pools.at(s.offset), sizeof(format::segment_header) + sizeof(forget_header) + content.size());
  pools.persist().sync();
  std::byte* const made = to + offsetof(forget_header, made);
  std::memcpy(made, &format::request_made, sizeof format::request_made);
  pools.persist().persist(made, sizeof format::request_made);
  pools.persist().sync();
  return s;
}

forgotten_keys::forgotten_keys(const pool_set& pools) {
  for_each_segment(pools, [&](const segment& s, const format::segment_header& h) {
    if (h.magic == format::forget_segment_magic) read(pools, s);
  });
}

void forgotten_keys::read(const pool_set& pools, const segment& s) {
  segments_.push_back(s);
  forget_header header;
  const std::byte* const from = pools.at(s.first_record());
  std::memcpy(&header, from, sizeof header);
  const std::uint64_t room = s.size - sizeof(format::segment_header) - sizeof header;
  const std::string_view content(reinterpret_cast<const char*>(from) + sizeof header, std::min(header.size, room));
  if (header.size > room || header.crc != crc_of(pools, s, header, content)) {
    if (header.made == format::request_made) {
      damages_.push_back({s.first_record(), "forget",
                          "a request to forget cannot be read: which keys it names is not known, and they are not "
                          "erased; the tags forgotten-1 and so on tell when requests were made",
                          std::nullopt, std::nullopt});
    }
    return;
  }
  std::size_t at = 0;
  for (std::uint32_t i = 0; i < header.count && content.size() - at >= sizeof(format::forgotten_key); ++i) {
    format::forgotten_key head;
    std::memcpy(&head, content.data() + at, sizeof head);
    at += sizeof head;
    auto& list = head.is_prefix != 0 ? prefixes_ : keys_;
    version& known = list[std::string(content.substr(at, head.size))];
    known = std::max<version>(known, header.up_to);
    at += std::min<std::size_t>(head.size, content.size() - at);
  }
}

void forgotten_keys::require_intact(const pool_set& pools) const {
  if (damages_.empty()) return;
  const damage& first = damages_.front();
  raise(errc::damaged,
        "{}: damaged at byte {} ({}): {}; icecore repair makes a store without it: forget the keys there",
        pools.origin(first.offset), link_offset(first.offset), first.structure, first.what);
}

version forgotten_keys::up_to(std::string_view key) const {
  version found = 0;
  if (const auto named = keys_.find(key); named != keys_.end()) found = named->second;
  for (const auto& [prefix, up_to] : prefixes_) {
    if (key.starts_with(prefix)) found = std::max(found, up_to);
  }
  return found;
}

bool forgotten_keys::are_in(const stratum::strata& all, const stratum::strata::range& one) const {
  stratum::stratum_walk walk(all, one);
  const auto first_from = [&](const std::string& key) -> std::optional<std::string_view> {
    walk.seek(key);
    return walk.at_end() ? std::nullopt : std::optional<std::string_view>(walk.key());
  };
  return std::ranges::any_of(keys_, [&](const auto& each) { return first_from(each.first) == each.first; }) ||
         std::ranges::any_of(prefixes_, [&](const auto& each) {
           const auto found = first_from(each.first);
           return found && found->starts_with(each.first);
         });
}

bool forgotten_keys::are_in(std::string_view bytes) const {
  const auto holds = [&](const auto& each) {
    return !each.first.empty() && bytes.find(each.first) != std::string_view::npos;
  };
  return std::ranges::any_of(keys_, holds) || std::ranges::any_of(prefixes_, holds) || prefixes_.contains("");
}

/// Under the lock: no query is made or dropped meanwhile, and the list is whole.
void forgetting::drop_queries(query_space& space) {
  pool_set& pools = space.pools();
  for (const link head : space.heads([](link, const std::string&) {})) {
    if (space.is_hold(head)) {
      space.clear_behind_definition(head);
      continue;
    }
    if (feed_places::is_feed(space, head)) {
      const segment in = pools.segment_at(head);
      const std::vector<std::byte> bytes = space.copied(in.first_record(), in.end());
      if (!keys_.are_in({reinterpret_cast<const char*>(bytes.data()), bytes.size()})) continue;
    }
    auto& state = space.head_at(head).state;
    space.write(state, static_cast<std::uint64_t>(format::query_phase::dropped));
    pools.persist().persist(&state, sizeof state);
  }
}

/// Under the lock, as query_catalog::free_dropped(). Also where no query was kept any more: what was dropped before
/// left its rows in free segments. False if some of it is used.
bool forgetting::clear_queries(query_space& space, const opened_store& in) {
  if (in.pool->file().is_observed()) return false;
  const query_users users(in);
  if (!users.nobody_reads()) return false;
  const bool are_free =
      space.free_dropped([&](link head) { return users.is_run(head, space.read(space.head_at(head).runner)); });
  if (!are_free) return false;
  space.clear_free_space();
  return true;
}

namespace {

void mark_requests(pool_set& pools, const std::vector<segment>& requests, std::uint64_t mark) {
  for (const segment& s : requests) {
    std::byte* const made = pools.at(s.first_record()) + offsetof(forget_header, made);
    std::memcpy(made, &mark, sizeof mark);
    pools.persist().persist(made, sizeof mark);
  }
  if (!requests.empty()) pools.persist().sync();
}

}  // namespace

std::vector<segment> forgetting::finish(opened_store& in) {
  pool_set& pools = *in.pool;
  query_space space(pools, in.shared->queries);
  const recovering_lock nobody_looks = space.hold();
  if (!keys_.empty()) {
    if (!has_dropped_) drop_queries(space);
    has_dropped_ = true;
    space.clear_what_is_used_again(true);
    if (!clear_queries(space, in)) return {};
    space.clear_what_is_used_again(false);
  }
  // Amid a crash some of a request is zeros, and the mark may not be: that would be damage.
  mark_requests(pools, keys_.segments(), 0);
  std::vector<segment> free = give_back(pools, keys_.segments());
  if (free.empty()) mark_requests(pools, keys_.segments(), format::request_made);
  return free;
}

namespace {

/// The keys that the store knows, of those that are named.
std::set<std::string, std::less<>> known_keys(const store_core& core, const forget_request& what) {
  return with_engine(core, [&](const auto& engine) {
    std::set<std::string, std::less<>> known;
    for (const std::string& key : what.keys) {
      if (engine.standing_for(key) != null_link) known.insert(key);
    }
    for (const std::string& prefix : what.prefixes) {
      for (const std::string_view key : engine.keys(key_bounds::of_prefix(prefix))) known.emplace(key);
    }
    return known;
  });
}

std::vector<key_to_forget> all_of(const forget_request& what) {
  std::vector<key_to_forget> all;
  for (const bool is_prefix : {false, true}) {
    for (const std::string& each : is_prefix ? what.prefixes : what.keys) {
      if (each.size() > key_size_max) {
        raise(errc::key_too_long, "forget: a key or prefix of {} bytes: keys have at most {}", each.size(),
              key_size_max);
      }
      all.push_back({each, is_prefix});
    }
  }
  if (all.empty()) raise(errc::invalid_argument, "forget: no key and no prefix is named");
  if (what.note.size() > forget_note_size_max) {
    raise(errc::invalid_argument, "forget: a note of {} bytes: at most {}", what.note.size(), forget_note_size_max);
  }
  return all;
}

/// As if the request had not been made: it can no longer be read, and does not say that it was made. The mark goes
/// first: a request that is marked and cannot be read is damage. Takes no memory before that is durable.
void withdraw(pool_set& pools, const std::vector<segment>& request) {
  mark_requests(pools, request, 0);
  std::byte* const header = pools.at(request.front().first_record());
  std::memset(header, 0, sizeof(forget_header));
  pools.persist().persist(header, sizeof(forget_header));
  pools.persist().sync();
  for (const segment& s : give_back(pools, request)) pools.add_free(s.offset, s.size);
}

/// More than the removals of these keys take.
std::uint64_t room_for_removals(const std::set<std::string, std::less<>>& keys) {
  std::uint64_t sum = 0;
  for (const std::string& key : keys) {
    const std::uint64_t of_key =
        std::max(record_layout::of_key(key.size()).size(), record_layout::of_entry(key.size(), 0, false, true).size());
    sum += of_key + record_layout::of_remove(false).size() + 2 * format::record_padding_max;
  }
  return sum;
}

}  // namespace

forget_report store_core::forget(const forget_request& what) {
  check_writable();
  const std::vector<key_to_forget> all = all_of(what);
  const pin holds = take_pin();  // what is packed may be inflated for us
  forget_report report;
  // What is written from here on is in a later version, and stays: also what others write amid the call, and what comes
  // after a crash amid it.
  report.up_to = close_version();
  const auto known = known_keys(*this, what);
  report.keys = known.size();
  // Where there is no room for the removals, that is told before anything is decided.
  with_writer(*opened_, [&](auto&, const writer& w) { w.reserve(room_for_removals(known)); });
  query_space queries(*pool_, shared_->queries);
  std::vector<segment> request(1);  // now: there may be no memory when it is withdrawn
  {
    // A compaction that looks for requests meets none that is half made: it would take that for what a crash left.
    const recovering_lock no_compaction_looks = queries.hold();
    // From here on it is decided; a crash before the keys are removed leaves that to the compaction.
    request.front() = write_forget_request(*pool_, report.up_to, all);
  }
  try {
    for (const std::string& key : known) {
      const std::uint64_t hash = index::lookup_cache::hash_of(key);
      with_writer(*opened_, [&](auto& engine, const writer& w) { static_cast<void>(engine.remove(w, key, hash)); });
    }
  } catch (...) {
    try {
      const recovering_lock no_compaction_looks = queries.hold();
      withdraw(*pool_, request);
    } catch (const std::exception&) {  // the store is poisoned, or the next compaction gives the space back
    }
    throw;
  }
  if (!what.tag) return report;
  const std::string note = forget_tag_note(report.keys, what.note);
  for (std::uint64_t number = 1;; ++number) {
    report.tag = forget_tag_name(number);
    if (tags().find(report.tag)) continue;
    try {
      static_cast<void>(opened_->tag({.name = report.tag, .note = note}));
      return report;
    } catch (const error& e) {  // another thread was faster
      if (e.code() != errc::tag_exists) throw;
    }
  }
}

}  // namespace icecore::detail
