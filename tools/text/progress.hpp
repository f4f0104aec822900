// A progress bar on standard error: work done, speed, remaining time.
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
  /// `unit` "B" shows sizes; other units show counts. `total` 0: not known, so there is no bar and no remaining time.
  progress_bar(std::string what, std::uint64_t total, std::string unit);
  ~progress_bar() { finish(); }
  progress_bar(const progress_bar&) = delete;
  progress_bar& operator=(const progress_bar&) = delete;

  /// The bar shows `more` after its other text.
  void update(std::uint64_t done, std::string_view more = {});
  /// For operations whose stages have different titles, totals and units.
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
  std::uint64_t first_ = 0;  // already done at the first update, so not counted for the speed
  bool started_ = false;
};

/// "1:02:03", "4:05", "7 s".
[[nodiscard]] std::string duration_text(double seconds);

}  // namespace icecore::cli
