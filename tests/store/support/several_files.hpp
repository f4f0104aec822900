// Stores of several files: where their files are, and writers that write to all of them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "icecore/store.hpp"
#include "support/crew.hpp"
#include "support/file.hpp"
#include "support/model.hpp"
#include "support/scratch.hpp"

namespace icecore::testing {

/// A folder with a store of `count` files: first.ice, further-1.ice, ...
class files {
 public:
  files(const setting& how, unsigned count) : how_(how), folder_(how.where), count_(count) {}

  [[nodiscard]] std::filesystem::path path(unsigned number = 0) const { return path_in(folder_.path(), number); }
  [[nodiscard]] static std::filesystem::path path_in(const std::filesystem::path& folder, unsigned number) {
    return folder / (number == 0 ? "first.ice" : "further-" + std::to_string(number) + ".ice");
  }
  [[nodiscard]] std::filesystem::path folder() const { return folder_.path(); }
  [[nodiscard]] unsigned count() const noexcept { return count_; }
  [[nodiscard]] options plain() const { return how_.options(); }
  [[nodiscard]] options making() const {
    options o = plain();
    for (unsigned n = 1; n < count_; ++n) o.placements.push_back({path(n), -1});
    return o;
  }
  [[nodiscard]] static options reading() {
    options o;
    o.access = access::read_only;
    return o;
  }
  [[nodiscard]] std::vector<std::string> contents() const {
    std::vector<std::string> all;
    for (unsigned n = 0; n < count_; ++n) all.push_back(read_file(path(n)));
    return all;
  }

 private:
  setting how_;
  scratch folder_;
  unsigned count_;
};

/// Writes to a store and to a model; each operation is done by another thread of the crew.
class scribe {
 public:
  scribe(unsigned threads, std::uint64_t seed) : count_(threads), random_(seed) {}

  void write(store& s, model& m, int operations) {
    for (int i = 0; i < operations; ++i) threads().run(some(count_), [&] { one(s, m); });
  }
  /// The threads start when they are first needed.
  [[nodiscard]] crew& threads() {
    if (!crew_) crew_.emplace(count_);
    return *crew_;
  }

 private:
  [[nodiscard]] unsigned some(unsigned n) { return static_cast<unsigned>(random_() % n); }

  void one(store& s, model& m) {
    const std::string key = "key " + std::to_string(some(60));
    switch (some(12)) {
      case 0:
        s.tag();
        m.close_version();
        break;
      case 1: {
        const std::string name = "tag " + std::to_string(m.tags.size());
        const version v = s.tag({.name = name, .note = "note", .time_ns = 7});
        m.close_version();
        m.tags.push_back({v, 7, name, "note"});
        break;
      }
      case 2:
      case 3:
        s.remove(key);
        m.remove(key);
        break;
      case 4: {
        batch together;
        together.insert(key, "of a batch");
        together.remove("key " + std::to_string(some(60)));
        together.insert("beside " + key, std::string(some(200), 'b'));
        s.apply(together);
        m.apply(together);
        break;
      }
      case 5: {
        const std::string large(5000 + some(3000), static_cast<char>('a' + some(26)));
        s.insert(key, large);
        m.insert(key, large);
        break;
      }
      default: {
        const std::string value = "value " + std::to_string(random_());
        s.insert(key, value);
        m.insert(key, value);
      }
    }
  }

  unsigned count_;
  std::optional<crew> crew_;
  std::mt19937_64 random_;
};

}  // namespace icecore::testing
