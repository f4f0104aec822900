// Histories as a test knows them, and extents made of them.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "stratum/extent.hpp"
#include "stratum/extent_builder.hpp"
#include "stratum/frames/frame_writer.hpp"

namespace icecore::stratum {

/// Of one key, newest first: version, and the value or nothing for a removal.
using history_model = std::vector<std::pair<version, std::optional<std::string>>>;
using histories_model = std::map<std::string, history_model, std::less<>>;

[[nodiscard]] inline packed_record as_record(const std::pair<version, std::optional<std::string>>& one) {
  return {one.first, one.second ? format::packed_kind::value : format::packed_kind::removal,
          one.second ? std::string_view(*one.second) : std::string_view()};
}

/// What a reader must find.
struct seen {
  version stamped;
  std::optional<std::string> value;
  bool operator==(const seen&) const = default;
  friend void PrintTo(const seen& s, std::ostream* out) {
    *out << s.stamped << (s.value ? " value of " + std::to_string(s.value->size()) : std::string(" removal"));
  }
};

[[nodiscard]] inline seen as_seen(const packed_record& r) {
  return {r.stamped, r.is_removal() ? std::nullopt : std::optional<std::string>(r.value)};
}

[[nodiscard]] inline std::optional<seen> find_in(const histories_model& model, std::string_view key, version v) {
  const auto it = model.find(key);
  if (it == model.end()) return std::nullopt;
  for (const auto& [stamped, value] : it->second) {
    if (stamped <= v) return seen{stamped, value};
  }
  return std::nullopt;
}

/// Bytes that begin at a multiple of 64, as a pool's segments do.
class aligned_bytes {
 public:
  explicit aligned_bytes(std::size_t size) : size_(size), all_(size + 64) {}
  [[nodiscard]] std::span<std::byte> get() {
    const auto address = reinterpret_cast<std::uintptr_t>(all_.data());
    return {all_.data() + (64 - address % 64) % 64, size_};
  }

 private:
  std::size_t size_;
  std::vector<std::byte> all_;
};

struct packed {
  aligned_bytes memory;
  std::span<std::byte> bytes;
  std::uint32_t seed = 0;

  /// Frames of a compressed one are inflated into `frames`.
  [[nodiscard]] extent open(std::shared_ptr<frame_cache> frames = nullptr) const {
    return extent::open(bytes, {.file = "packed.pool", .offset = 4096, .seed = seed}, std::move(frames));
  }
};

[[nodiscard]] inline packed pack(const histories_model& model, std::uint64_t block_bytes = block_bytes_usual,
                                 std::uint32_t seed = 77, std::optional<std::uint64_t> in_page = std::nullopt) {
  std::size_t room = 4096;
  for (const auto& [key, history] : model) {
    for (const auto& one : history) room += key.size() * 4 + 400 + (one.second ? one.second->size() : 0);
  }
  packed p{aligned_bytes(room), {}, seed};
  extent_builder b(p.memory.get(), seed, block_bytes, in_page);
  for (const auto& [key, history] : model) {
    for (const auto& one : history) EXPECT_TRUE(b.add(key, as_record(one)));
  }
  p.bytes = p.memory.get().first(b.finish());
  return p;
}

/// The same, compressed.
[[nodiscard]] inline packed compressed(const packed& plain, int level = 3) {
  std::vector<std::byte> media;
  frame_writer(level).write(plain.bytes, plain.seed, media);
  packed p{aligned_bytes(media.size()), {}, plain.seed};
  p.bytes = p.memory.get();
  std::ranges::copy(media, p.bytes.begin());
  return p;
}

/// How an extent is stored.
enum class form : std::uint8_t { plain, compressed, in_pages };

[[nodiscard]] inline packed pack_as(form how, const histories_model& model, std::uint64_t block_bytes) {
  if (how == form::in_pages) return pack(model, block_bytes, 77, 64);
  packed p = pack(model, block_bytes);
  return how == form::plain ? std::move(p) : compressed(p);
}

/// Keys and histories of several shapes, by name.
struct shape {
  std::string name;
  std::function<histories_model()> make;
  friend void PrintTo(const shape& s, std::ostream* out) { *out << s.name; }
};

[[nodiscard]] inline std::string random_bytes(std::mt19937_64& random, std::size_t size) {
  std::string bytes(size, '\0');
  for (char& c : bytes) c = static_cast<char>(random());
  return bytes;
}

/// Between one and `most` versions, a quarter of them removals if asked for.
[[nodiscard]] inline history_model random_history(std::mt19937_64& random, std::size_t most, std::size_t value_size,
                                                  bool values_vary, bool removals) {
  history_model history;
  const std::size_t count = 1 + random() % most;
  version v = 1 + random() % 1000 + 40 * count;
  for (std::size_t i = 0; i < count; ++i, v -= 1 + random() % 30) {
    if (removals && random() % 4 == 0) {
      history.emplace_back(v, std::nullopt);
    } else {
      history.emplace_back(v, random_bytes(random, values_vary ? random() % (value_size + 1) : value_size));
    }
  }
  return history;
}

[[nodiscard]] inline std::vector<shape> shapes() {
  const auto of = [](std::size_t keys, std::function<std::string(std::mt19937_64&)> key, std::size_t versions,
                     std::size_t value_size, bool values_vary, bool removals) {
    return [=] {
      std::mt19937_64 random(keys + versions + value_size);
      histories_model model;
      while (model.size() < keys) {
        model[key(random)] = random_history(random, versions, value_size, values_vary, removals);
      }
      return model;
    };
  };
  const auto word = [](std::mt19937_64& r) { return random_bytes(r, 8); };
  const auto small = [](std::mt19937_64& r) { return random_bytes(r, 3); };
  const auto kmer = [](std::mt19937_64& r) {
    std::string key(21, 'A');
    for (char& c : key) c = "ACGT"[r() % 4];
    return key;
  };
  const auto path = [](std::mt19937_64& r) {
    return "model/encoder/layer/" + std::to_string(r() % 30) + (r() % 2 != 0 ? "/weights/" : "/bias/") +
           std::to_string(r() % 1000);
  };
  const auto binary = [](std::mt19937_64& r) {
    std::string key = "a";
    for (std::size_t i = r() % 12; i > 0; --i) key += r() % 3 == 0 ? '\0' : static_cast<char>(r() % 2 * 255);
    return r() % 50 == 0 ? std::string() : key;
  };
  const auto tied = [](std::mt19937_64& r) { return std::string(9 + r() % 9, 'x') + random_bytes(r, 1 + r() % 2); };
  return {
      {"words_with_one_version", of(700, word, 1, 8, false, false)},
      {"words_with_removals", of(500, word, 3, 8, false, true)},
      {"words_with_long_values", of(120, word, 2, 700, true, true)},
      {"three_bytes", of(900, small, 2, 4, true, true)},
      {"kmers", of(600, kmer, 1, 4, false, false)},
      {"paths", of(500, path, 5, 60, true, true)},
      {"zeros_in_keys", of(300, binary, 4, 9, true, true)},
      {"heads_that_tie", of(400, tied, 3, 8, false, true)},
      {"deep_histories", of(9, path, 1500, 20, true, true)},
      {"texts_that_change",
       [] {
         std::mt19937_64 random(5);
         histories_model model;
         for (const char* const name : {"ls.c", "cat.c", "long/history.c", "zero.c"}) {
           std::string text;
           for (int line = 0; line < 30; ++line) text += "line " + std::to_string(random() % 100) + "\n";
           history_model& history = model[name];
           const version most = std::string_view(name) == "long/history.c" ? 500 : 40;
           for (version v = most; v > 0; --v) {
             text.replace(random() % text.size(), 1 + random() % 9, std::to_string(random() % 1000));
             history.emplace_back(v * 3, random() % 20 == 0 ? std::nullopt : std::optional(text));
           }
         }
         return model;
       }},
      {"one_empty_key",
       [] {
         return histories_model{{"", {{3, "x"}}}};
       }},
      {"one_removal",
       [] {
         return histories_model{{"gone", {{version_max, std::nullopt}}}};
       }},
      {"the_longest_keys",
       [] {
         histories_model model;
         for (const char c : {'a', 'b', 'c'}) {
           model[std::string(key_size_max, c)] = {{9, std::string(9000, c)}, {4, std::nullopt}, {1, ""}};
           model[std::string(key_size_max - 1, c) + 'z'] = {{version_max, "y"}, {1, "x"}};
         }
         return model;
       }},
  };
}

}  // namespace icecore::stratum
