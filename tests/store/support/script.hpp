// Random sequences of all operations, run on a store and on the model in step.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "support/model.hpp"
#include "support/scratch.hpp"

namespace icecore::testing {

/// One operation. Every number has a meaning in every state, so any part of a script is a script.
struct step {
  enum class kind : std::uint8_t {
    insert,
    remove,
    batch,
    tag,
    label,  // a tag with name, note or time
    sync,
    latest,
    find,
    seek,
    walk,
    range,
    columns,
    history,
    diff,
    tags,
    misuse,
    compare,
    reopen,
    reopen_read_only,
    keep,       // a snapshot and a cursor in it, to be read much later
    look_back,  // at what `keep` kept
    crash,      // opens the file as a killed process leaves it
    pack,       // closes the store and compacts it
    retain,     // says which versions it keeps from the next time on
  };
  kind what;
  unsigned key;
  unsigned other;
  unsigned size;
  unsigned seed;
};
using script = std::vector<step>;

inline constexpr unsigned kinds_of_step = static_cast<unsigned>(step::kind::retain) + 1;

std::ostream& operator<<(std::ostream& out, const step& one);

/// The keys that scripts use: empty, binary, prefixes of each other, equal in their first eight bytes, very long.
[[nodiscard]] const std::vector<std::string>& script_keys();

/// How a script changes its store's file without the store, as a killed process would leave it.
struct file_access {
  std::function<std::string(const std::filesystem::path&)> read;
  std::function<void(const std::filesystem::path&, std::string_view)> replace;
};
[[nodiscard]] file_access file_system_access();

/// Runs a script on a store at `path`; throws broken_promise where store and model differ.
class lockstep {
 public:
  lockstep(std::filesystem::path path, setting how, file_access files = file_system_access());
  void run(const script& steps);
  /// Compares what everything else follows from: keys, histories, tags and the clock.
  void compare_histories() const;
  /// Compares everything, closes, checks the file, reopens for reading, compares everything again.
  void finish();

 private:
  void run(const step& one);
  void write(const step& one);
  void label(const step& one);
  void find(const step& one);
  void seek(const step& one);
  void walk(const step& one);
  void range(const step& one);
  void columns(const step& one);
  void history(const step& one);
  void diff(const step& one);
  void tags(const step& one);
  void misuse(const step& one);
  void reopen(const step& one, bool read_only_between);
  void keep(const step& one);
  void look_back();
  void crash(const step& one);
  void pack(const step& one);
  void retain(const step& one);
  void settle();

  /// One that can be read.
  [[nodiscard]] version some_version(unsigned number) const {
    version v = number % model_.clock;
    while (model_.is_expired(v)) ++v;
    return v;
  }
  [[nodiscard]] key_bounds some_bounds(const step& one) const;
  [[nodiscard]] options writing(unsigned number) const;
  [[nodiscard]] bool keeps_each_write() const noexcept {
    return options_.durability == durability::operation && !options_.deferred_durability;
  }

  std::filesystem::path path_;
  setting how_;
  file_access files_;
  options options_;
  std::unique_ptr<store> store_;
  model model_;

  struct kept_snapshot {
    snapshot then;
    cursor place;
  };
  std::vector<kept_snapshot> kept_;  // views of store_: destroyed before it
};

}  // namespace icecore::testing
