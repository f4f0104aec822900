// Threads that find in, and write to, a store of which little is inflated at a time: frames come and go under them.
#include <gtest/gtest.h>

#include <atomic>
#include <random>
#include <thread>

#include "base/memory/sanitizer.hpp"
#include "compressed_texts.hpp"
#include "icecore/icecore.hpp"

namespace icecore::testing {
namespace {

TEST_F(Compression, lets_threads_find_while_frames_come_and_go_under_them) {
#if defined(ICECORE_UNDER_THREAD_SANITIZER)
  constexpr int rounds = 150;
#else
  constexpr int rounds = 1'500;
#endif
  fill();
  static_cast<void>(compact(path_, how_, compressing()));
  store s(path_, how_);
  std::atomic<int> wrong{0};
  std::vector<std::jthread> readers;
  for (unsigned t = 0; t < 4; ++t) {
    readers.emplace_back([&, t] {
      std::mt19937 random(t);
      struct kept_view {
        snapshot then;
        std::string_view text;
        unsigned key;
        version v;
      };
      std::vector<kept_view> kept;
      for (int i = 0; i < rounds; ++i) {
        const auto k = static_cast<unsigned>(random() % keys);
        const version v = 1 + random() % versions;
        const auto found = s.find(key_of(k), v);
        if (!found || found->bytes() != text_of(k, v)) ++wrong;
        if (t % 2 == 0) continue;
        const snapshot then = s.at(v);
        kept.push_back({then, *then.find(key_of(k)), k, v});
        if (kept.size() < 20) continue;
        for (const kept_view& each : kept) {
          if (each.text != text_of(each.key, each.v)) ++wrong;
        }
        kept.clear();
      }
      for (const kept_view& each : kept) {
        if (each.text != text_of(each.key, each.v)) ++wrong;
      }
    });
  }
  // writes look at what is packed, too
  for (int i = 0; i < rounds; ++i) {
    const unsigned k = static_cast<unsigned>(i) % keys;
    if (s.insert_new(key_of(k), "new")) ++wrong;
    if (!s.replace(key_of(k), text_of(k, versions), versions) && i < static_cast<int>(keys)) ++wrong;
  }
  readers.clear();
  EXPECT_EQ(wrong, 0);
  for (unsigned k = 0; k < keys; ++k) expect_text(s.find(key_of(k), 5)->bytes(), k, 5);
  EXPECT_GT(s.stats().block_cache_misses, 100U);
}

}  // namespace
}  // namespace icecore::testing
