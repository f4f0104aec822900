// Threads that read an extent for the first time at once: blocks are checked and frames inflated once, and found whole.
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "packed_model.hpp"

namespace icecore::stratum {
namespace {

TEST(ExtentsAmongThreads, show_all_of_them_what_was_packed_while_blocks_are_read_for_the_first_time) {
  for (const shape& each : shapes()) {
    for (const form packing : {form::plain, form::compressed}) {
      for (const std::uint64_t block_bytes : {std::uint64_t{300}, block_bytes_usual}) {
        SCOPED_TRACE(each.name);
        const histories_model model = each.make();
        packed p = pack_as(packing, model, block_bytes);
        const extent e = p.open();
        std::atomic<int> wrong{0};
        std::vector<std::jthread> threads;
        for (int t = 0; t < 4; ++t) {
          threads.emplace_back([&] {
            for (const auto& [key, history] : model) {
              const auto found = e.find(key, version_max);
              if (!found || as_seen(*found) != seen{history.front().first, history.front().second}) ++wrong;
            }
          });
        }
        threads.clear();
        EXPECT_EQ(wrong, 0);
      }
    }
  }
}

}  // namespace
}  // namespace icecore::stratum
