#include "support/damaging.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>

#include "support/process.hpp"

namespace icecore::testing {

std::string flipped(std::string bytes, std::size_t offset, unsigned bit) {
  bytes[offset] = static_cast<char>(bytes[offset] ^ (1 << bit));
  return bytes;
}

bool is_said_clearly(const error& failure) {
  const auto code = static_cast<errc>(failure.code().value());
  return code == errc::damaged || code == errc::not_a_store || code == errc::truncated ||
         code == errc::unsupported_format || code == errc::copied;
}

std::vector<std::size_t> offsets_to_flip(const std::string& bytes, bool every) {
  std::vector<std::size_t> offsets;
  std::size_t last_used = 0;
  std::vector<bool> used(bytes.size());
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    if (bytes[i] != 0) last_used = i;
    used[i] = bytes[i] != 0 || i - last_used <= 8 || (i + 8 < bytes.size() && bytes[i + 8] != 0);
  }
  std::size_t run = 0;  // of equal bytes: not each byte of a large value needs a flip
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    run = i > 0 && bytes[i] == bytes[i - 1] ? run + 1 : 0;
    if (every || (used[i] ? run < 64 || run % 61 == 0 : i % 1021 == 0)) offsets.push_back(i);
  }
  return offsets;
}

void for_each_place(const std::vector<std::size_t>& places, const std::function<void(std::size_t)>& one) {
  struct progress_log {
    std::atomic<std::size_t> next;
    std::atomic<unsigned> wrong;
  };
  const shared<progress_log> log;
  unsigned deaths = 0;
  while (log->next < places.size() && deaths + log->wrong < 20) {
    child reader([&] {
      for (std::size_t i = log->next; i < places.size() && log->wrong < 20; i = ++log->next) {
        alarm(60);
        try {
          one(places[i]);
        } catch (const std::exception& failure) {
          std::fprintf(stderr, "damaged at byte %zu: %s\n", places[i], failure.what());
          ++log->wrong;
        }
      }
      return 0;
    });
    const int end = reader.wait(std::chrono::hours(5));
    if (end != 0) {
      ADD_FAILURE() << "damaged at byte " << places[log->next] << ": "
                    << (end == -SIGALRM ? "a hang" : "a crash, signal " + std::to_string(-end));
      ++deaths;
      ++log->next;
    }
  }
  EXPECT_EQ(log->wrong, 0U);
  EXPECT_FALSE(places.empty());
}

}  // namespace icecore::testing
