#include "subject.hpp"

#include <algorithm>
#include <cstring>
#include <random>

#include "base/threads.hpp"
#include "history/record.hpp"
#include "pool/format.hpp"
#include "pool/link.hpp"

namespace icecore::damaging {

using crash::device;
using crash::kept_files;
using crash::machine;

std::string store_kind::name() const {
  std::string text = index == index_kind::btree ? "btree" : index == index_kind::skip_list ? "skip_list" : "persistent";
  return text + (how == ended::closed ? ",closed," : ",killed,") + std::to_string(files);
}

std::vector<store_kind> all_kinds() {
  std::vector<store_kind> all;
  for (const unsigned files : {1U, 2U}) {
    for (const ended how : {ended::closed, ended::killed}) {
      for (const index_kind index : {index_kind::btree, index_kind::skip_list, index_kind::persistent}) {
        all.push_back({index, how, files});
      }
    }
  }
  return all;
}

void subject::put(const crash::left_files& bytes) const {
  machine& m = machine::get();
  m.set_device(on);
  m.set_boot(boot);
  m.assign(machine::checked, bytes);
  m.file(machine::recorded).remove();
}

namespace {

/// Finds the records that each operation has written, by reading on in each segment where the last one ended.
class record_finder {
 public:
  explicit record_finder(unsigned files) : files_(files) {}

  /// The records that came since the last call.
  std::vector<place> find_new() {
    std::vector<place> found;
    for (unsigned n = 0; n < files_; ++n) {
      const auto bytes = machine::get().file(machine::checked, n).bytes();
      std::uint64_t at = format::first_segment_offset;
      while (at + sizeof(format::segment_header) <= bytes.size()) {
        const auto& h = *reinterpret_cast<const format::segment_header*>(bytes.data() + at);
        if (h.magic != format::segment_magic && h.magic != format::index_segment_magic) break;
        const std::uint64_t end = at + h.granules * format::granule_size;
        if (h.magic == format::segment_magic) read_on(n, at, std::min<std::uint64_t>(end, bytes.size()), found);
        at = end;
      }
    }
    return found;
  }

  [[nodiscard]] const std::map<std::string, place>& entries() const { return entries_; }

 private:
  void read_on(unsigned file, std::uint64_t segment, std::uint64_t end, std::vector<place>& found) {
    std::byte* base = machine::get().file(machine::checked, file).base();
    auto& position = ends_[{file, segment}];
    if (position == 0) position = segment + sizeof(format::segment_header);
    for (std::uint64_t next = position; next + sizeof(format::record_header) <= end;) {
      if (std::memcmp(base + next, "\0\0\0\0\0\0\0\0", 8) == 0) {
        if ((next += 8) > position + format::record_padding_max) break;
        continue;
      }
      const record r(base + next);
      place p{file, next, r.layout().size(), segment, {}, r.is_update()};
      if (r.is_entry()) {
        p.key = std::string(r.key());
        keys_[make_link(static_cast<std::uint16_t>(file), next)] = p.key;
        entries_[p.key] = {file, next + offsetof(format::entry_header, head), 2 * sizeof(std::uint64_t), segment, p.key,
                           false};
      } else if (r.is_update()) {
        p.key = keys_.at(r.as_update().entry);
      }
      found.push_back(p);
      next = position = next + p.size;
    }
  }

  unsigned files_;
  std::map<std::pair<unsigned, std::uint64_t>, std::uint64_t> ends_;  // of what was read of each segment
  std::map<link, std::string> keys_;
  std::map<std::string, place> entries_;
};

/// Operations drawn from a seed.
class teller {
 public:
  teller(std::uint64_t seed, const options& opening, unsigned files)
      : random_(seed), opening_(opening), files_(files), finder_(files) {}

  /// So many operations; the last ones are plain writes if `ends_plainly`.
  void session(store& s, unsigned number, unsigned count, bool ends_plainly) {
    for (unsigned i = 0; i < count; ++i) {
      const auto writer = static_cast<unsigned>(draw(files_));
      icecore::detail::own_thread_number = writer;
      const bool plainly = ends_plainly && i + 6 >= count;
      operation o = one(s, number, writer, plainly ? 0 : draw(20));
      o.records = finder_.find_new();
      known_.add(o);
      done_.push_back(std::move(o));
    }
    icecore::detail::own_thread_number = 0;
  }

  [[nodiscard]] std::uint64_t draw(std::uint64_t below) { return random_() % below; }
  [[nodiscard]] std::vector<operation>& done() { return done_; }
  [[nodiscard]] const record_finder& finder() const { return finder_; }

 private:
  operation one(store& s, unsigned session, unsigned writer, std::uint64_t dice) {
    operation o{operation::kind::write, session, writer};
    if (dice < 11) {
      const std::string k = key();
      const std::string v = value();
      o.belongs_to = s.insert(k, v);
      o.changes.push_back({k, v});
    } else if (dice < 14) {
      const std::string k = key();
      if (const auto removed = s.remove(k)) {
        o.belongs_to = *removed;
        o.changes.push_back({k, std::nullopt});
      } else {
        o.belongs_to = s.clock();
      }
    } else if (dice < 16) {
      o.what = operation::kind::batch;
      batch together;
      items there = known_.now;
      for (std::uint64_t i = 2 + draw(3); i > 0; --i) {
        const std::string k = "key/" + std::to_string(i * 5 + draw(5));
        if (draw(4) == 0) {
          together.remove(k);
          if (there.erase(k) > 0) o.changes.push_back({k, std::nullopt});
        } else {
          const std::string v = text(draw(30));
          together.insert(k, v);
          there[k] = v;
          o.changes.push_back({k, v});
        }
      }
      o.belongs_to = s.apply(together);
    } else if (dice < 18) {
      o.what = operation::kind::tick;
      o.belongs_to = s.tag();
    } else {
      o.what = operation::kind::tag;
      o.name = "tag-" + std::to_string(done_.size());
      o.belongs_to = s.tag({.name = o.name, .note = "note", .time_ns = static_cast<std::int64_t>(done_.size())});
    }
    return o;
  }

  std::string text(std::uint64_t size) {
    std::string s(size, ' ');
    for (char& c : s) c = static_cast<char>('a' + draw(16));
    return s;
  }
  std::string key() { return draw(12) == 0 ? "other/" + text(draw(40)) : "key/" + std::to_string(draw(24)); }
  std::string value() {
    const std::uint64_t dice = draw(24);
    return text(dice == 0 ? 4096 + draw(1500) : dice < 3 ? draw(300) : draw(20));
  }

  std::mt19937_64 random_;
  options opening_;
  unsigned files_;
  record_finder finder_;
  truth known_;
  std::vector<operation> done_;
};

options opening_of(const store_kind& kind, durability mode) {
  options o;
  o.durability = mode;
  o.index = kind.index;
  o.huge_pages = false;
  o.recovery_threads = 1;
  o.lookup_cache_bytes = 0;
  for (unsigned n = 1; n < kind.files; ++n) o.placements.push_back({machine::path(machine::checked, n), -1});
  return o;
}

}  // namespace

subject make_subject(const store_kind& kind, std::uint64_t seed) {
  machine& m = machine::get();
  std::mt19937_64 random(seed);
  m.seed(random());
  m.set_boot(1);
  constexpr durability modes[] = {durability::none, durability::tag, durability::operation};
  const durability mode = modes[random() % 3];
  subject s{kind, opening_of(kind, mode), device::disk, 1, {}, {}, {}, {}, {}};
  s.on = mode == durability::operation || (mode == durability::none && random() % 2 == 0) ? device::persistent_memory
                                                                                          : device::disk;
  m.set_device(s.on);
  const std::string path = machine::path(machine::checked);
  const auto left = [&] { return kept_files(m.left(machine::checked)); };
  m.assign(machine::checked, {});
  {
    teller other(random(), s.opening, kind.files);
    store o(path, s.opening);
    other.session(o, 0, 60, false);
  }
  s.foreign = left();
  m.assign(machine::checked, {});
  teller tells(random(), s.opening, kind.files);
  const auto sessions = static_cast<unsigned>(2 + random() % 2);
  for (unsigned i = 0; i < sessions; ++i) {
    const bool last = i + 1 == sessions;
    store o(path, s.opening);
    tells.session(o, i, static_cast<unsigned>(20 + tells.draw(40)), last && kind.how == ended::killed);
    if (last && kind.how == ended::killed) {
      s.files = left();
    } else {
      o.close();
      (last ? s.files : s.older.emplace_back()) = left();
    }
  }
  // of what is durable by itself a power cut leaves as much as a kill
  if (kind.how == ended::killed && mode == durability::operation && random() % 2 == 0) s.boot = 2;
  s.done = std::move(tells.done());
  s.entries = tells.finder().entries();
  return s;
}

bool changed_bytes::none() const {
  for (unsigned n = 0; n < crash::files_max; ++n) {
    const auto& a = before_[n].bytes;
    const auto& b = after_[n].bytes;
    if (a.size() != b.size() || (!a.empty() && std::memcmp(a.data(), b.data(), a.size()) != 0)) return false;
  }
  return true;
}

bool changed_bytes::touch(const place& p) const {
  const auto& a = before_[p.file].bytes;
  const auto& b = after_[p.file].bytes;
  if (p.offset + p.size > b.size()) return true;
  return std::memcmp(a.data() + p.offset, b.data() + p.offset, p.size) != 0;
}

bool changed_bytes::restore(const place& p, const crash::left_files& earlier) const {
  if (!touch(p)) return false;
  const auto& now = after_[p.file].bytes;
  const auto& then = earlier[p.file].bytes;
  for (std::uint64_t at = p.offset; at < p.offset + p.size; ++at) {
    if (at >= now.size() || now[at] != (at < then.size() ? then[at] : std::byte{0})) return false;
  }
  return true;
}

namespace {

/// Of one writer of a killed store: for each number of its last operations that may be missing together, which.
std::vector<std::set<std::size_t>> losses_of(const subject& s, unsigned writer, const changed_bytes& changed) {
  std::vector<std::set<std::size_t>> all = {{}};
  const unsigned session = s.done.back().session;
  std::set<std::size_t> lost;
  std::optional<std::uint64_t> segment;
  bool unbroken = true;
  bool update_seen = false;
  for (std::size_t i = s.done.size(); i-- > 0 && s.done[i].session == session;) {
    const operation& o = s.done[i];
    if (o.writer != writer || o.records.empty()) continue;
    const bool is_last = !segment;
    if (is_last) segment = o.records.back().segment;
    unbroken = unbroken && o.records.back().segment == *segment && changed.touch(o.records.back());
    if (unbroken) {
      lost.insert(i);
      all.push_back(lost);
    }
    for (const place& p : o.records) unbroken = unbroken && changed.touch(p);
    // opened at once, a store with the persistent index does not miss the last update before the last record
    const bool updates = std::ranges::any_of(o.records, &place::is_update);
    if (s.kind.index == index_kind::persistent && updates && !update_seen && !is_last) {
      update_seen = true;
      const bool touched = std::ranges::any_of(o.records, [&](const place& p) { return changed.touch(p); });
      const std::size_t known = all.size();
      for (std::size_t k = 0; touched && k < known; ++k) {
        all.push_back(all[k]);
        all.back().insert(i);
      }
    }
    if (!unbroken && (update_seen || s.kind.index != index_kind::persistent)) break;
  }
  return all;
}

/// Operations of the last session whose one record is zeros now that nothing tells from padding: it was the last of its
/// cache line, what lies before it there is as it was, and the record behind it begins on the next line either way.
std::set<std::size_t> taken_for_padding(const subject& s, const changed_bytes& changed) {
  const auto view = s.files.view();
  const auto begins_there_anyway = [&](const place& p, std::uint64_t line_end) {
    for (const operation& o : s.done) {
      for (const place& next : o.records) {
        if (next.file != p.file || next.offset != line_end) continue;
        const auto& h = *reinterpret_cast<const format::record_header*>(view[p.file].bytes.data() + line_end);
        return record_layout{h.kind, h.flags, h.key_size, h.value_size}.place(p.offset) == line_end;
      }
    }
    return false;
  };
  std::set<std::size_t> all;
  for (std::size_t i = s.done.size(); i-- > 0 && s.done[i].session == s.done.back().session;) {
    if (s.done[i].records.size() != 1) continue;
    const place& p = s.done[i].records.front();
    const std::uint64_t line = p.offset / format::cache_line_size * format::cache_line_size;
    const std::uint64_t line_end = line + format::cache_line_size;
    const place before{p.file, line, p.offset - line, p.segment, {}, false};
    if (line == p.offset || p.offset + p.size > line_end || !changed.restore(p, {}) || changed.touch(before)) continue;
    if (begins_there_anyway(p, line_end)) all.insert(i);
  }
  return all;
}

}  // namespace

std::vector<truth> allowed_truths(const subject& s, const changed_bytes& changed) {
  std::vector<std::set<std::size_t>> losses = {{}};
  if (s.kind.how == ended::killed) {
    for (unsigned writer = 0; writer < s.kind.files; ++writer) {
      std::vector<std::set<std::size_t>> together;
      for (const auto& of_this : losses_of(s, writer, changed)) {
        for (auto both : losses) {
          both.insert(of_this.begin(), of_this.end());
          together.push_back(std::move(both));
        }
      }
      losses = std::move(together);
    }
  }
  if (s.kind.how == ended::killed) {
    for (const std::size_t i : taken_for_padding(s, changed)) {
      for (std::size_t k = losses.size(); k-- > 0;) {
        losses.push_back(losses[k]);
        losses.back().insert(i);
      }
    }
  }
  std::vector<truth> all;
  for (const auto& lost : losses) all.push_back(truth_of(s.done, lost));
  return all;
}

allowance allowed_to_accept(const subject& s, const changed_bytes& changed) {
  std::map<std::string, const place*> newest;
  for (const operation& o : s.done) {
    for (const place& p : o.records) {
      if (!p.key.empty()) newest[p.key] = &p;
    }
  }
  allowance allowed{.missing = true};
  const auto touch_root = [&](unsigned file, std::uint64_t offset) {
    return changed.touch(place{file, offset, format::page_size, 0, {}, false});
  };
  // a secondary file whose newest root is damaged may be taken for one of another time: then all of it is lost
  const auto is_lost_with_its_file = [&](const place& p) {
    return p.file != 0 && (touch_root(p.file, format::root_a_offset) || touch_root(p.file, format::root_b_offset));
  };
  for (const auto& [key, record] : newest) {
    const bool is_lost = changed.touch(*record) || is_lost_with_its_file(*record);
    if (is_lost && changed.touch(s.entries.at(key))) allowed.any_value.insert(key);
  }
  allowed.clock_behind = touch_root(0, format::root_a_offset) && touch_root(0, format::root_b_offset);
  return allowed;
}

namespace {

/// What is looked at at once where it is in an index: nodes and blocks of tags.
std::vector<place> lines_of_index(const subject& s) {
  std::vector<place> all;
  const auto view = s.files.view();
  for (unsigned n = 0; n < s.kind.files; ++n) {
    for (std::uint64_t at = format::first_segment_offset; at + format::granule_size <= view[n].bytes.size();
         at += format::granule_size) {
      const auto& h = *reinterpret_cast<const format::segment_header*>(view[n].bytes.data() + at);
      if (h.magic != format::index_segment_magic) continue;
      const std::uint64_t end = std::min<std::uint64_t>(at + h.granules * format::granule_size, view[n].bytes.size());
      for (std::uint64_t line = at; line < end; line += sizeof(std::uint64_t))
        all.push_back({n, line, sizeof(std::uint64_t), at, {}, false});
    }
  }
  return all;
}

}  // namespace

std::optional<allowance> allowed_at_once(const subject& s, const changed_bytes& changed) {
  if (s.kind.index != index_kind::persistent || s.kind.how == ended::closed) return std::nullopt;
  std::vector<crash::left_files> earlier;
  for (const auto& files : s.older) earlier.push_back(files.view());
  earlier.emplace_back();  // before anything was there
  const auto is_earlier = [&](const place& p) {
    return std::ranges::any_of(earlier, [&](const auto& files) { return changed.restore(p, files); });
  };
  allowance allowed;
  for (const auto& [key, head] : s.entries) {
    if (is_earlier(head)) allowed.any_value.insert(key);
  }
  // Of what a crash left, a stamp that is as it was before the record was stamped.
  for (const operation& o : s.done) {
    for (const place& p : o.records) {
      const place stamp{p.file, p.offset + offsetof(format::record_header, stamp), sizeof(std::uint64_t), 0, {}, false};
      const bool of_last = o.session == s.done.back().session && !p.key.empty();
      if (of_last && changed.restore(stamp, {})) allowed.any_value.insert(p.key);
    }
  }
  allowed.missing = std::ranges::any_of(lines_of_index(s), is_earlier);
  if (!allowed.missing && allowed.any_value.empty()) return std::nullopt;
  return allowed;
}

std::set<std::string> lost_last(const subject& s, const changed_bytes& changed) {
  std::set<std::string> keys;
  if (s.kind.index != index_kind::persistent || s.kind.how != ended::killed) return keys;
  std::set<std::uint64_t> ended;  // segments in which a record is as it was, and so are all before it
  for (auto o = s.done.rbegin(); o != s.done.rend() && o->session == s.done.back().session; ++o) {
    for (auto p = o->records.rbegin(); p != o->records.rend(); ++p) {
      if (!changed.touch(*p)) ended.insert(make_link(static_cast<std::uint16_t>(p->file), p->segment));
      const bool lost = !ended.contains(make_link(static_cast<std::uint16_t>(p->file), p->segment));
      if (lost && !p->is_update && !p->key.empty()) keys.insert(p->key);
    }
  }
  return keys;
}

}  // namespace icecore::damaging
