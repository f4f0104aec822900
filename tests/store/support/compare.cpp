// Reads all of a store in all ways, and compares it with the model.
#include <algorithm>
#include <mutex>
#include <set>

#include "support/model.hpp"

namespace icecore::testing {
namespace {

using shown_items = std::vector<std::pair<std::string, std::string>>;

[[nodiscard]] std::string in_version(version at) { return " in version " + std::to_string(at); }

void promise_same_items(const shown_items& found, const shown_items& wanted, const std::string& how) {
  if (found == wanted) return;
  const auto [f, w] = std::ranges::mismatch(found, wanted);
  std::string message = how + ": " + std::to_string(found.size()) + " items instead of " +
                        std::to_string(wanted.size()) + "; first difference at item " +
                        std::to_string(f - found.begin()) + ": ";
  message += f == found.end() ? "the end" : show(f->first) + " = " + show(f->second);
  message += " instead of ";
  message += w == wanted.end() ? "the end" : show(w->first) + " = " + show(w->second);
  throw broken_promise(message);
}

template <class Range>
[[nodiscard]] shown_items collect(Range&& range) {
  shown_items all;
  for (const auto& [key, value] : range) all.emplace_back(key, value);
  return all;
}

[[nodiscard]] shown_items collect_columns(const columns& from) {
  promise(from.keys.offsets.size() == from.values.offsets.size() && !from.keys.offsets.empty(),
          [] { return std::string("extracted columns have other numbers of keys than of values"); });
  shown_items all;
  for (std::size_t i = 0; i + 1 < from.keys.offsets.size(); ++i) {
    const auto part = [i](const byte_column& column) {
      return std::string(column.bytes.data() + column.offsets[i], column.offsets[i + 1] - column.offsets[i]);
    };
    all.emplace_back(part(from.keys), part(from.values));
  }
  return all;
}

void compare_finds(const snapshot& snapshot, const model& expected, version at) {
  std::vector<std::string_view> keys;
  for (const auto& [key, history] : expected.records) keys.push_back(key);
  static constexpr std::string_view never = "a key that was never inserted";
  keys.push_back(never);
  std::vector<std::optional<std::string_view>> many(keys.size());
  snapshot.find_many(keys, many);
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const auto wanted = expected.find(std::string(keys[i]), at);
    const auto found = snapshot.find(keys[i]);
    promise(found == wanted, [&] {
      return "find(" + show(keys[i]) + ")" + in_version(at) + ": " + show_found(found) + " instead of " +
             show_found(wanted);
    });
    promise(many[i] == wanted, [&] {
      return "find_many(" + show(keys[i]) + ")" + in_version(at) + ": " + show_found(many[i]) + " instead of " +
             show_found(wanted);
    });
    promise(snapshot.contains(keys[i]) == wanted.has_value(),
            [&] { return "contains(" + show(keys[i]) + ")" + in_version(at); });
  }
}

void compare_cursor(const snapshot& snapshot, const shown_items& wanted, version at) {
  shown_items forward;
  auto cursor = snapshot.cursor();
  for (cursor.seek_first(); cursor.valid(); cursor.next()) forward.emplace_back(cursor->key, cursor->value);
  promise_same_items(forward, wanted, "cursor, forward" + in_version(at));
  shown_items backward;
  for (cursor.seek_last(); cursor.valid(); cursor.previous()) backward.emplace_back(cursor->key, cursor->value);
  std::ranges::reverse(backward);
  promise_same_items(backward, wanted, "cursor, backward" + in_version(at));
}

void compare_history(const icecore::store& store, const model& expected) {
  for (const auto& [key, history] : expected.records) {
    std::vector<model::record> found;
    for (const auto& [version, value] : store.history(key)) {
      found.push_back({version, value ? std::optional<std::string>(*value) : std::nullopt});
    }
    const auto wanted = expected.newest_first(key);
    promise(expected.may_show(key, found), [&] {
      return "history of " + show(key) + ": " + std::to_string(found.size()) + " records instead of " +
             std::to_string(wanted.size()) + ", or other ones";
    });
  }
}

void compare_keys(const icecore::store& store, const model& expected) {
  const auto found = store.keys();
  if (expected.thinned()) {
    std::set<std::string> listed(found.begin(), found.end());
    promise(listed.size() == found.size(), [] { return std::string("keys() lists a key twice"); });
    for (const auto& [key, history] : expected.records) {
      const bool is_listed = listed.erase(key) > 0;
      promise(is_listed || !expected.must_list(key), [&] { return "keys() does not list " + show(key); });
    }
    promise(listed.empty(), [&] { return "keys() lists " + show(*listed.begin()) + ", which was never written"; });
    return;
  }
  const bool same =
      std::ranges::equal(found, expected.records, {}, {}, [](const auto& e) { return std::string_view(e.first); });
  promise(same, [&] {
    return "keys(): " + std::to_string(found.size()) + " instead of " + std::to_string(expected.records.size()) +
           ", or other ones";
  });
}

void compare_tags(const icecore::store& store, const model& expected) {
  const auto found = store.tags();
  promise(found.size() == expected.tags.size(),
          [&] { return std::to_string(found.size()) + " tags instead of " + std::to_string(expected.tags.size()); });
  for (std::size_t i = 0; i < found.size(); ++i) {
    const auto& f = found[i];
    const auto& w = expected.tags[i];
    promise(f.version == w.version && f.name == w.name && f.note == w.note && f.time_ns == w.time_ns, [&] {
      return "tag " + show(f.name) + " of version " + std::to_string(f.version) + " instead of " + show(w.name) +
             " of version " + std::to_string(w.version) + ", or another note or time";
    });
  }
}

void compare_statistics(const icecore::store& store, const model& expected) {
  const auto found = store.stats();
  if (expected.thinned()) {  // how much is dropped is the compaction's choice
    promise(found.clock == expected.clock && found.tags == expected.tags.size(),
            [] { return std::string("stats() of a thinned store"); });
    return;
  }
  statistics wanted{};
  wanted.records = wanted.removes = expected.idle_removes;
  for (const auto& [key, history] : expected.records) {
    ++wanted.keys;
    wanted.key_bytes += key.size();
    for (const auto& record : history) {
      ++wanted.records;
      wanted.removes += record.value ? 0 : 1;
      wanted.value_bytes += record.value ? record.value->size() : 0;
    }
  }
  const auto same = [](const char* what, std::uint64_t f, std::uint64_t w) {
    promise(f == w, [&] {
      return std::string("stats().") + what + " is " + std::to_string(f) + " instead of " + std::to_string(w);
    });
  };
  // a key counts once in each stratum that has it, and in what was written since
  const bool is_one_layer = found.strata + (found.keys > found.packed_keys ? 1 : 0) <= 1;
  promise(found.keys >= wanted.keys && found.keys <= (is_one_layer ? 1 : found.strata + 1) * wanted.keys, [&] {
    return "stats().keys is " + std::to_string(found.keys) + " instead of " + std::to_string(wanted.keys);
  });
  same("records", found.records, wanted.records);
  same("removes", found.removes, wanted.removes);
  if (found.keys == wanted.keys) same("key_bytes", found.key_bytes, wanted.key_bytes);
  same("value_bytes", found.value_bytes, wanted.value_bytes);
  same("tags", found.tags, expected.tags.size());
  same("clock", found.clock, expected.clock);
  promise(found.used_bytes >= wanted.key_bytes + wanted.value_bytes && found.used_bytes <= found.file_bytes, [&] {
    return "stats().used_bytes is " + std::to_string(found.used_bytes) + " in a file of " +
           std::to_string(found.file_bytes) + " bytes";
  });
}

void promise_expired(const icecore::store& store, version at) {
  try {
    static_cast<void>(store.at(at));
  } catch (const error& failure) {
    promise(failure.code() == errc::version_expired, [&] { return std::string(failure.what()) + in_version(at); });
    return;
  }
  throw broken_promise("an expired version is shown" + in_version(at));
}

[[nodiscard]] std::set<version> chosen_versions(version clock, std::size_t versions_max) {
  std::set<version> chosen;
  const version step = std::max<version>(1, clock / versions_max);
  for (version v = 0; v < clock; v += step) chosen.insert(v);
  chosen.insert(clock - 1);
  return chosen;
}

}  // namespace

void compare_version(const snapshot& snapshot, const model& expected, version at) {
  promise(snapshot.version() == at || at == version_max, [&] { return "at(v).version() is not v" + in_version(at); });
  const shown_items wanted = collect(expected.items_at(at));
  compare_finds(snapshot, expected, at);
  compare_cursor(snapshot, wanted, at);
  promise_same_items(collect(snapshot.range()), wanted, "range()" + in_version(at));
  shown_items backward = collect(snapshot.range().reversed());
  std::ranges::reverse(backward);
  promise_same_items(backward, wanted, "range().reversed()" + in_version(at));
  for (const unsigned threads : std::set{1U, comparing_threads}) {
    promise_same_items(collect_columns(snapshot.extract(threads)), wanted, "extract()" + in_version(at));
    promise_same_items(collect(snapshot.items(threads)), wanted, "items()" + in_version(at));
    const std::size_t size = snapshot.size(threads);
    promise(size == wanted.size(), [&] { return "size() is " + std::to_string(size) + in_version(at); });
    std::mutex together;
    shown_items visited;
    snapshot.for_each(
        [&](const item& one) {
          const std::lock_guard lock(together);
          visited.emplace_back(one.key, one.value);
        },
        threads);
    std::ranges::sort(visited);
    promise_same_items(visited, wanted, "for_each()" + in_version(at));
  }
  promise(snapshot.size_bound() >= wanted.size(), [&] { return "size_bound() < size()" + in_version(at); });
}

void compare_histories(const icecore::store& store, const model& expected) {
  promise(store.clock() == expected.clock, [&] {
    return "the clock is " + std::to_string(store.clock()) + " instead of " + std::to_string(expected.clock);
  });
  compare_history(store, expected);
  compare_keys(store, expected);
  compare_tags(store, expected);
}

void compare_everything(const icecore::store& store, const model& expected, std::size_t versions_max) {
  compare_histories(store, expected);
  for (const version at : chosen_versions(expected.clock, versions_max)) {
    promise(store.is_expired(at) == expected.is_expired(at), [&] { return "is_expired()" + in_version(at); });
    if (expected.is_expired(at)) {
      promise_expired(store, at);
    } else {
      compare_version(store.at(at), expected, at);
    }
  }
  for (const auto& [key, history] : expected.records) {
    const auto found = store.find(key);
    const auto wanted = expected.find(key);
    promise(found == wanted,
            [&] { return "find(" + show(key) + ") now: " + show_found(found) + " instead of " + show_found(wanted); });
  }
  compare_statistics(store, expected);
  const auto report = store.verify();
  promise(report.ok(), [&] {
    return "verify() of a sound store: " + report.damages.front().structure + ": " + report.damages.front().what;
  });
}

}  // namespace icecore::testing
