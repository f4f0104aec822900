#include "support/script.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <fstream>

#include "support/file.hpp"
#include "support/promises.hpp"

namespace icecore::testing {
namespace {

constexpr std::array<const char*, kinds_of_step> kind_names = {
    "insert",           "remove", "batch",     "tag",    "label",   "sync",
    "latest",           "find",   "seek",      "walk",   "range",   "columns",
    "history",          "diff",   "tags",      "misuse", "compare", "reopen",
    "reopen_read_only", "keep",   "look_back", "crash",  "pack",    "retain"};

[[nodiscard]] const std::string& key_of(unsigned number) { return script_keys()[number % script_keys().size()]; }

/// Sizes around everything that has a size: words, cache lines, pages, segments.
[[nodiscard]] std::string value_of(unsigned size, unsigned seed) {
  static constexpr std::array<std::size_t, 32> sizes = {
      0,  1,  2,  3,   7,   8,   8,   8,   8,   8,    9,    15,   16,   17,   31,     40,
      63, 64, 65, 100, 127, 129, 200, 255, 500, 1000, 4040, 4095, 4096, 4097, 65'500, 140'000};
  std::string value(sizes[size % sizes.size()], '\0');
  std::uint64_t state = seed + 1;
  for (std::size_t at = 0; at < value.size(); at += sizeof state) {
    state = state * 6'364'136'223'846'793'005U + 1'442'695'040'888'963'407U;
    const std::uint64_t word = state ^ state >> 29U;
    std::memcpy(value.data() + at, &word, std::min(sizeof word, value.size() - at));
  }
  return value;
}

/// Writes this content to the file again, without the pages of zeros, as the file system would.
void replace_file(const std::filesystem::path& path, std::string_view content) {
  std::filesystem::resize_file(path, 0);
  std::filesystem::resize_file(path, content.size());
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  constexpr std::size_t page_bytes = 4096;
  for (std::size_t at = 0; at < content.size(); at += page_bytes) {
    const std::string_view page = std::string_view(content).substr(at, page_bytes);
    if (page.find_first_not_of('\0') == std::string_view::npos) continue;
    file.seekp(static_cast<std::streamoff>(at));
    file.write(page.data(), static_cast<std::streamsize>(page.size()));
  }
  file.close();
  promise(file.good(), [] { return std::string("the file could not be written back"); });
}

using shown_item = std::pair<std::string, std::string>;

[[nodiscard]] std::optional<shown_item> shown(const std::optional<item>& from) {
  if (!from) return std::nullopt;
  return shown_item(from->key, from->value);
}

}  // namespace

std::ostream& operator<<(std::ostream& out, const step& one) {
  return out << kind_names[static_cast<std::size_t>(one.what)] << '(' << one.key << ", " << one.other << ", "
             << one.size << ", " << one.seed << ')';
}

const std::vector<std::string>& script_keys() {
  static const std::vector<std::string> keys = [] {
    using namespace std::string_literals;
    std::vector<std::string> some = {""s,
                                     "\0"s,
                                     "\0\0"s,
                                     "a"s,
                                     "a\0"s,
                                     "a\0\0\0\0\0\0\0"s,
                                     "a\0\0\0\0\0\0\0\0"s,
                                     "ab"s,
                                     "abcdefgh"s,
                                     "abcdefgh\0"s,
                                     "abcdefghi"s,
                                     "abcdefghij"s,
                                     "abcdefgi"s,
                                     "b"s,
                                     "layer1/bias"s,
                                     "layer1/weight"s,
                                     "layer10/bias"s,
                                     "layer2/bias"s,
                                     "\x7f"s,
                                     "\x80"s,
                                     "\xff"s,
                                     "\xff\xff\xff\xff\xff\xff\xff\xff"s,
                                     "\xff\xff\xff\xff\xff\xff\xff\xff\xff"s,
                                     std::string(300, 'p'),
                                     std::string(300, 'p') + "q",
                                     std::string(5'000, 'p'),
                                     std::string(key_size_max, 'z')};
    for (char c = '0'; c <= '9'; ++c) some.push_back("counter-"s + c);
    return some;
  }();
  return keys;
}

file_access file_system_access() { return {read_file, replace_file}; }

lockstep::lockstep(std::filesystem::path path, setting how, file_access files)
    : path_(std::move(path)),
      how_(how),
      files_(std::move(files)),
      options_(how.options()),
      store_(std::make_unique<store>(path_, options_)) {
  model_.clock = store_->clock();
  promise_version("the clock of a new store", model_.clock, 1);
}

void lockstep::run(const script& steps) {
  for (const step& one : steps) {
    run(one);
    settle();
  }
}

/// Whoever reads what no sync covers closes the open version: what the next step reads is covered.
void lockstep::settle() {
  if (!options_.deferred_durability) return;
  store_->sync();
  if (model_.touched()) model_.close_version();
  promise_version("clock() after sync()", store_->clock(), model_.clock);
}

void lockstep::run(const step& one) {
  switch (one.what) {
    case step::kind::insert:
    case step::kind::remove:
    case step::kind::batch:
      return write(one);
    case step::kind::tag:
      return promise_version("tag()", store_->tag(), model_.close_version());
    case step::kind::label:
      return label(one);
    case step::kind::sync:
      store_->sync();
      if (!keeps_each_write() && model_.touched()) model_.close_version();
      return promise_version("clock() after sync()", store_->clock(), model_.clock);
    case step::kind::latest: {
      const snapshot now = store_->latest();
      if (model_.touched()) model_.close_version();
      promise_version("clock() after latest()", store_->clock(), model_.clock);
      return compare_version(now, model_, model_.clock - 1);
    }
    case step::kind::find:
      return find(one);
    case step::kind::seek:
      return seek(one);
    case step::kind::walk:
      return walk(one);
    case step::kind::range:
      return range(one);
    case step::kind::columns:
      return columns(one);
    case step::kind::history:
      return history(one);
    case step::kind::diff:
      return diff(one);
    case step::kind::tags:
      return tags(one);
    case step::kind::misuse:
      return misuse(one);
    case step::kind::compare:
      return compare_everything(*store_, model_, 3);
    case step::kind::reopen:
      return reopen(one, false);
    case step::kind::reopen_read_only:
      return reopen(one, true);
    case step::kind::keep:
      return keep(one);
    case step::kind::look_back:
      return look_back();
    case step::kind::crash:
      return crash(one);
    case step::kind::pack:
      return pack(one);
    case step::kind::retain:
      return retain(one);
  }
}

void lockstep::write(const step& one) {
  const std::string& key = key_of(one.key);
  if (one.what == step::kind::insert) {
    std::string value = value_of(one.size, one.seed);
    return promise_version("insert", store_->insert(key, value), model_.insert(key, value));
  }
  if (one.what == step::kind::remove) {
    const auto removed = store_->remove(key);
    const auto wanted = model_.remove(key);
    return promise(removed == wanted, [&] {
      return "remove(" + show(key) + ") returned " + (removed ? std::to_string(*removed) : "nothing") + " instead of " +
             (wanted ? std::to_string(*wanted) : "nothing");
    });
  }
  batch together;
  for (unsigned i = 0; i < one.size % 12; ++i) {
    const std::string& next = key_of(one.key + i * (one.other % 7));
    if ((one.seed >> (i % 16) & 3) == 0) {
      together.remove(next);
    } else {
      together.insert(next, value_of(one.seed + i, one.seed + i));
    }
  }
  promise_version("apply", store_->apply(together), model_.apply(together));
}

void lockstep::label(const step& one) {
  const std::string name = (one.key & 1) != 0 ? "tag-" + std::to_string(one.key % 40) : "";
  const std::string note = one.size % 3 == 0 ? value_of(one.size, one.seed).substr(0, key_size_max) : "";
  tag_options wanted;
  wanted.name = name;
  wanted.note = note;
  if (name.empty() || one.other % 2 == 0) wanted.time_ns = static_cast<std::int64_t>(one.seed % 50) - 10;
  if (model_.find_tag(name) != nullptr) {
    promise_error("tag() with a name that is taken", errc::tag_exists, [&] { store_->tag(wanted); });
    return promise_version("clock() after a refused tag", store_->clock(), model_.clock);
  }
  const std::int64_t before = now_ns();
  promise_version("tag() with a label", store_->tag(wanted), model_.clock);
  const auto kept = store_->find_tag(model_.clock);
  promise(kept.has_value(), [] { return std::string("a labelled tag is not found by its version"); });
  promise(wanted.time_ns ? kept->time_ns == *wanted.time_ns : before <= kept->time_ns && kept->time_ns <= now_ns(),
          [] { return std::string("a tag has another time than it was given"); });
  model_.tags.push_back({model_.close_version(), kept->time_ns, name, note});
}

void lockstep::find(const step& one) {
  const version at = some_version(one.seed);
  std::vector<std::string_view> keys;
  std::vector<version> versions;
  for (unsigned i = 0; i < one.size % 100; ++i) {
    keys.push_back(key_of(one.key + i * one.other));
    versions.push_back(some_version(one.seed + i * one.other));
  }
  std::vector<std::optional<std::string_view>> answers(keys.size());
  const auto compare = [&](const char* what, bool each_its_own) {
    for (std::size_t i = 0; i < keys.size(); ++i) {
      const auto wanted = model_.find(std::string(keys[i]), each_its_own ? versions[i] : at);
      promise(answers[i] == wanted, [&] {
        return std::string(what) + "[" + std::to_string(i) + "]: " + show_found(answers[i]) + " instead of " +
               show_found(wanted);
      });
    }
  };
  pin holds = store_->find_many(keys, at, answers);
  compare("find_many at one version", false);
  holds = store_->find_many(keys, versions, answers);
  compare("find_many at several versions", true);
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const auto found = store_->find(keys[i], versions[i]);  // `holds` keeps its bytes valid
    answers[i] = found ? std::optional(found->bytes()) : std::nullopt;
  }
  compare("find", true);
}

void lockstep::seek(const step& one) {
  const version at = some_version(one.seed);
  const snapshot then = store_->at(at);
  const auto wanted = model_.items_at(at);
  const std::string key = (one.size & 1) != 0 ? key_of(one.key) : key_of(one.key).substr(0, one.size % 12) + "m";
  const auto item_at = [&](auto place) {
    return place == wanted.end() ? std::nullopt : std::optional<shown_item>(*place);
  };
  const auto before = [&](auto place) { return place == wanted.begin() ? wanted.end() : std::prev(place); };
  const auto same = [&](const char* what, const std::optional<shown_item>& found, auto place) {
    const auto right = item_at(place);
    promise(found == right, [&] {
      return std::string(what) + "(" + show(key) + ") in version " + std::to_string(at) + ": " +
             (found ? show(found->first) : "nothing") + " instead of " + (right ? show(right->first) : "nothing");
    });
  };
  same("lower_bound", shown(then.lower_bound(key)), wanted.lower_bound(key));
  same("upper_bound", shown(then.upper_bound(key)), wanted.upper_bound(key));
  same("first", shown(then.first()), wanted.begin());
  same("last", shown(then.last()), before(wanted.end()));
  auto cursor = then.cursor();
  const auto here = [&] { return cursor.valid() ? shown(*cursor) : std::nullopt; };
  cursor.seek(key);
  same("seek", here(), wanted.lower_bound(key));
  cursor.seek_after(key);
  same("seek_after", here(), wanted.upper_bound(key));
  cursor.seek_before(key);
  same("seek_before", here(), before(wanted.lower_bound(key)));
}

void lockstep::walk(const step& one) {
  const version at = some_version(one.seed);
  const auto items = model_.items_at(at);
  const std::vector<shown_item> wanted(items.begin(), items.end());
  auto cursor = store_->at(at).cursor();
  cursor.seek(key_of(one.key));
  auto place = std::ranges::lower_bound(wanted, key_of(one.key), {}, &shown_item::first) - wanted.begin();
  std::uint32_t turns = one.seed | 1;
  for (unsigned i = 0; i < 10 + one.size % 60; ++i) {
    const bool inside = place >= 0 && place < std::ssize(wanted);
    promise(cursor.valid() == inside, [&] { return "a cursor is " + std::string(inside ? "invalid" : "valid"); });
    if (!inside) return;
    promise(shown(*cursor) == wanted[static_cast<std::size_t>(place)], [&] {
      return "a cursor is at " + show(cursor->key) + " instead of " +
             show(wanted[static_cast<std::size_t>(place)].first);
    });
    turns = turns * 1'664'525U + 1'013'904'223U;
    if ((turns >> 16 & 7) < one.other % 8) {
      cursor.next();
      ++place;
    } else {
      cursor.previous();
      --place;
    }
  }
}

key_bounds lockstep::some_bounds(const step& one) const {
  key_bounds bounds;
  if (one.size % 5 == 0) return key_bounds::of_prefix(key_of(one.key).substr(0, one.other % 10));
  if (one.size % 3 != 0) bounds.from = key_of(one.key);
  if (one.size % 4 != 0) bounds.to = key_of(one.other);
  return bounds;
}

void lockstep::range(const step& one) {
  const version at = some_version(one.seed);
  const key_bounds bounds = some_bounds(one);
  const auto items = model_.items_at(at, bounds);
  std::vector<shown_item> wanted(items.begin(), items.end());
  item_range range = store_->at(at).range(bounds);
  for (int direction = 0; direction < 2; ++direction) {
    for (int again = 0; again < 2; ++again) {  // begin() starts again
      std::vector<shown_item> found;
      for (const auto& [key, value] : range) found.emplace_back(key, value);
      promise(found == wanted, [&] {
        return std::string(direction == 0 ? "range: " : "range, reversed: ") + std::to_string(found.size()) +
               " items instead of " + std::to_string(wanted.size()) + ", or other ones";
      });
    }
    std::ranges::reverse(wanted);
    range = range.reversed();
  }
  const std::string prefix = key_of(one.key).substr(0, one.other % 10);
  std::size_t with_prefix = 0;
  for (const auto& [key, value] : store_->at(at).prefix(prefix)) with_prefix += key.starts_with(prefix) ? 1 : 1'000'000;
  const auto starting =
      std::ranges::count_if(model_.items_at(at), [&](const auto& i) { return i.first.starts_with(prefix); });
  promise(with_prefix == static_cast<std::size_t>(starting), [&] { return "prefix(" + show(prefix) + ")"; });
}

void lockstep::columns(const step& one) {
  const version at = some_version(one.seed);
  const key_bounds bounds = some_bounds(one);
  const auto wanted = model_.items_at(at, bounds);
  const auto found = store_->at(at).extract(one.other % 4, bounds);
  std::size_t i = 0;
  promise(found.keys.offsets.size() == wanted.size() + 1 && found.values.offsets.size() == wanted.size() + 1, [&] {
    return "extract: " + std::to_string(found.keys.offsets.size()) + " offsets for " + std::to_string(wanted.size()) +
           " items";
  });
  const auto part = [&](const byte_column& column) {
    return std::string_view(column.bytes.data() + column.offsets[i], column.offsets[i + 1] - column.offsets[i]);
  };
  for (const auto& [key, value] : wanted) {
    promise(part(found.keys) == key && part(found.values) == value, [&] { return "extract at " + show(key); });
    ++i;
  }
  const auto views = store_->at(at).items(one.other % 4, bounds);
  promise(std::ranges::equal(views, wanted,
                             [](const item& f, const auto& w) { return f.key == w.first && f.value == w.second; }),
          [] { return std::string("items() between bounds"); });
}

void lockstep::history(const step& one) {
  const std::string& key = key_of(one.key);
  const auto own = [](const pinned_list<change>& views) {
    std::vector<model::record> records;
    for (const auto& [version, value] : views) {
      records.push_back({version, value ? std::optional<std::string>(*value) : std::nullopt});
    }
    return records;
  };
  const auto check = [&](const char* what, const std::vector<model::record>& found, version up_to) {
    promise(model_.may_show(key, found, up_to), [&] { return std::string(what) + " of the history of " + show(key); });
  };
  check("newest_first()", own(store_->history(key).newest_first()), version_max);
  auto oldest_first = own(store_->history(key).oldest_first());
  std::ranges::reverse(oldest_first);
  check("oldest_first()", oldest_first, version_max);
  const version at = some_version(one.seed);
  check("the snapshot's part", own(store_->at(at).history(key)), at);
  promise(store_->history(key).thinned() == model_.thinned(), [] { return std::string("thinned() of a history"); });
}

void lockstep::diff(const step& one) {
  const version before = some_version(one.seed);
  const version after = some_version(one.seed / 64 + one.size);
  const key_bounds bounds = some_bounds(one);
  std::vector<model::difference> found;
  for (const auto& [key, old_value, new_value] : store_->diff(before, after, bounds)) {
    const auto own = [](const std::optional<std::string_view>& view) {
      return view ? std::optional<std::string>(*view) : std::nullopt;
    };
    found.push_back({std::string(key), own(old_value), own(new_value)});
  }
  const auto wanted = model_.diff(before, after, bounds);
  promise(found == wanted, [&] {
    return "diff(" + std::to_string(before) + ", " + std::to_string(after) + "): " + std::to_string(found.size()) +
           " differences instead of " + std::to_string(wanted.size()) + ", or other ones";
  });
}

void lockstep::tags(const step& one) {
  const auto same = [](const char* what, const std::optional<tag_info>& found, const tag_info* wanted) {
    promise(found.has_value() == (wanted != nullptr) && (!found || found->version == wanted->version),
            [&] { return std::string("find_tag by ") + what; });
  };
  const std::string name = "tag-" + std::to_string(one.key % 40);
  same("name", store_->find_tag(name), model_.find_tag(name));
  same("no name", store_->find_tag(std::string_view()), nullptr);
  same("version", store_->find_tag(some_version(one.seed)), model_.find_tag(some_version(one.seed)));
  const auto time_ns = static_cast<std::int64_t>(one.other % 60) - 15;
  const tag_info* then = model_.find_tag_at_time(time_ns);
  same("time", store_->find_tag_at_time(time_ns), then);
  const auto time = std::chrono::system_clock::time_point(
      std::chrono::duration_cast<std::chrono::system_clock::duration>(std::chrono::nanoseconds(time_ns)));
  if (then != nullptr && model_.is_expired(then->version)) {
    promise_error("at(time of an expired version)", errc::version_expired, [&] { return store_->at(time); });
  } else if (then != nullptr) {
    promise_version("at(time)", store_->at(time).version(), then->version);
  } else {
    promise_error("at(time) before the first tag", errc::unknown_tag, [&] { return store_->at(time); });
  }
  if (const tag_info* named = model_.find_tag(name); named != nullptr && model_.is_expired(named->version)) {
    promise_error("at(name of an expired version)", errc::version_expired, [&] { return store_->at(name); });
  } else if (named != nullptr) {
    promise_version("at(name)", store_->at(name).version(), named->version);
  } else {
    promise_error("at(unknown name)", errc::unknown_tag, [&] { return store_->at(name); });
  }
}

void lockstep::misuse(const step& one) {
  const std::string& key = key_of(one.key);
  const version open = model_.clock + one.other % 3;
  promise_error("find at an open version", errc::version_not_closed, [&] { return store_->find(key, open); });
  promise_error("at an open version", errc::version_not_closed, [&] { return store_->at(open); });
  promise_error("diff from an open version", errc::version_not_closed, [&] { return store_->diff(open, 0); });
  promise_error("diff to an open version", errc::version_not_closed, [&] { return store_->diff(0, open); });
  const std::string long_key(key_size_max + 1 + one.size, 'k');
  promise_error("insert of a long key", errc::key_too_long, [&] { store_->insert(long_key, ""); });
  promise_error("remove of a long key", errc::key_too_long, [&] { store_->remove(long_key); });
  promise_error("tag() with a long name", errc::invalid_argument, [&] { store_->tag(long_key); });
  std::array<std::string_view, 2> keys = {key, key};
  std::array<std::optional<std::string_view>, 3> answers;
  promise_error("find_many into another number of answers", errc::invalid_argument,
                [&] { static_cast<void>(store_->find_many(keys, version{0}, answers)); });
}

void lockstep::keep(const step& one) {
  const snapshot then = store_->at(some_version(one.seed));
  kept_.push_back({then, then.cursor()});
  kept_.back().place.seek(key_of(one.key));
}

void lockstep::look_back() {
  for (auto& [then, place] : kept_) {
    const auto wanted = model_.items_at(then.version());
    std::vector<shown_item> found;
    for (const auto& [key, value] : then.range()) found.emplace_back(key, value);
    promise(std::ranges::equal(found, wanted, {}, {}, [](const auto& w) { return shown_item(w); }),
            [&] { return "a snapshot of version " + std::to_string(then.version()) + " that was kept has changed"; });
    if (!place.valid()) continue;
    const auto here = wanted.find(std::string(place->key));
    promise(here != wanted.end() && here->second == place->value,
            [&] { return "a cursor that was kept at " + show(place->key) + " shows something else"; });
    place.next();
    const auto after = std::next(here);
    promise(place.valid() ? after != wanted.end() && after->first == place->key : after == wanted.end(),
            [] { return std::string("a cursor that was kept goes on to another item"); });
  }
}

void lockstep::compare_histories() const { testing::compare_histories(*store_, model_); }

}  // namespace icecore::testing
