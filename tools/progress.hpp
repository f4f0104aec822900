// A progress bar on standard error: what is done, how fast, how long it still takes.
//
//   progress_bar bar("loading", records, "records");
//   for (...) { ...; bar.update(++done); }
//   bar.finish();                               // the bar disappears
//
// Shown only on a terminal and only after a second. Threads: one at a time. Cost of update(): one clock read.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

namespace icecore::cli {

class progress_bar {
 public:
  /// `unit` "B" shows sizes; anything else is counted. `total` 0: not known, so no bar and no time left.
  progress_bar(std::string what, std::uint64_t total, std::string unit);
  ~progress_bar() { finish(); }
  progress_bar(const progress_bar&) = delete;
  progress_bar& operator=(const progress_bar&) = delete;

  /// `more` is shown behind the bar.
  void update(std::uint64_t done, std::string_view more = {});
  /// For work that learns on its way what it does.
  void retitle(std::string_view what, std::uint64_t total, std::string_view unit);
  void finish() noexcept;

 private:
  using clock = std::chrono::steady_clock;
  void draw(std::uint64_t done, double seconds, std::string_view more);

  std::string what_;
  std::uint64_t total_;
  std::string unit_;
  bool enabled_;
  bool drawn_ = false;
  clock::time_point start_;
  clock::time_point next_;
  std::uint64_t first_ = 0;  // what was already done at the first update: no work of ours
  bool started_ = false;
};

/// "1:02:03", "4:05", "7 s".
[[nodiscard]] std::string duration_text(double seconds);

}  // namespace icecore::cli
