// A store that is packed because a process which is attached to it asks for that.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>

#include "icecore/icecore.hpp"
#include "store/core.hpp"
#include "support/process.hpp"
#include "support/shared_store.hpp"

namespace icecore::testing {

class AskedCompaction : public SharedStore {
 protected:
  /// How far the processes of a test are.
  struct signals {
    std::atomic<int> step;
    std::atomic<std::uint64_t> count;
    std::atomic<bool> ends;
    char text[2048];
  };
  /// So many that progress is told before the first extent is written.
  static constexpr unsigned keys = 3000;

  [[nodiscard]] static std::string key_of(unsigned i) { return "key-" + std::to_string(10'000 + i); }
  static void fill(store& s, const std::string& value) {
    for (unsigned i = 0; i < keys; ++i) s.insert(key_of(i), value + std::to_string(i));
  }
  static void require(bool holds, const char* what) {
    promise(holds, [&] { return std::string(what); });
  }
  static void require_all(const store& s, const std::string& value) {
    for (unsigned i = 0; i < keys; ++i)
      promise(s.find(key_of(i)) == value + std::to_string(i), [&] { return "not as written: " + key_of(i); });
  }
  /// It would take hours, since it writes an extent first.
  [[nodiscard]] static compaction_options slow(progress_function on_progress = {}) {
    return {.bytes_per_second = 1, .on_progress = std::move(on_progress)};
  }
  /// The number of the newest request.
  [[nodiscard]] static std::uint64_t asked(const store& s) { return s.opened().hold()->shared().compaction.asked; }

  const deadline soon_{"who asks for a compaction", std::chrono::seconds(120)};
  const shared<signals> log_;
};

}  // namespace icecore::testing
