#include "support/sound_store.hpp"

namespace icecore::testing {

store fill_small_store(const std::filesystem::path& path, const options& opening, model& holds) {
  store s(path, opening);
  const auto both_insert = [&](const std::string& key, const std::string& value) {
    s.insert(key, value);
    holds.insert(key, value);
  };
  const auto both_tag = [&](const std::string& name, const std::string& note, std::int64_t time_ns) {
    s.tag({.name = name, .note = note, .time_ns = time_ns});
    const version closed = holds.close_version();
    holds.tags.push_back({closed, time_ns, name, note});
  };
  for (int i = 0; i < 10; ++i)
    both_insert("key-" + std::to_string(i), std::string(static_cast<std::size_t>(i * 5), 'v'));
  both_insert("", "of the empty key");
  both_tag("first", "a note", 1'000);
  for (int i = 0; i < 5; ++i) both_insert("key-" + std::to_string(i * 2), "changed");
  s.remove("key-3");
  holds.remove("key-3");
  both_insert("large", std::string(5'000, 'L'));
  s.tag();
  holds.close_version();
  batch together;
  together.insert("key-1", "batched");
  together.insert("new in the batch", "batched");
  together.remove("key-2");
  s.apply(together);
  holds.apply(together);
  for (int i = 0; i < 12; ++i) {
    both_insert("deep", std::to_string(i));
    if (i % 4 == 3) both_tag("deep-" + std::to_string(i), "", 2'000 + i);
  }
  both_insert("open", "in the version left open");
  return s;
}

void read_everything(const store& opened, const model& holds) {
  promise(opened.clock() >= holds.clock, [] { return std::string("the clock went back"); });
  for (version at = 0; at < holds.clock; ++at) {
    const snapshot then = opened.at(at);
    const auto wanted = holds.items_at(at);
    auto place = wanted.begin();
    for (const auto& [key, value] : then.range()) {
      promise(place != wanted.end() && place->first == key && place->second == value,
              [&] { return "a scan of version " + std::to_string(at) + " shows " + show(key) + " = " + show(value); });
      ++place;
    }
    promise(place == wanted.end(), [&] { return "a scan of version " + std::to_string(at) + " misses keys"; });
    for (const auto& [key, history] : holds.records) {
      const auto found = then.find(key);
      promise(found == holds.find(key, at), [&] {
        return "find(" + show(key) + ") in version " + std::to_string(at) + " gives " + show_found(found);
      });
    }
  }
  for (const auto& [key, history] : holds.records) {
    promise(opened.find(key) == holds.find(key), [&] { return "find(" + show(key) + ") now"; });
    const auto found = opened.history(key).oldest_first();
    promise(std::equal(
                found.begin(), found.end(), history.begin(), history.end(),
                [](const change& f, const model::record& w) { return f.version == w.version && f.value == w.value; }),
            [&] { return "the history of " + show(key); });
  }
  const auto tags = opened.tags();
  promise(std::equal(tags.begin(), tags.end(), holds.tags.begin(), holds.tags.end(),
                     [](const tag_info& f, const tag_info& w) {
                       return f.version == w.version && f.name == w.name && f.note == w.note && f.time_ns == w.time_ns;
                     }),
          [] { return std::string("the tags"); });
}

}  // namespace icecore::testing
