#include "text/progress.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "text/output.hpp"
#include "text/text.hpp"

namespace icecore::cli {
namespace {

constexpr auto first_look = std::chrono::seconds(1);
constexpr auto between_looks = std::chrono::milliseconds(100);
constexpr std::size_t bar_columns = 24;

std::string amount(double number, std::string_view unit) {
  if (unit == "B") return human_bytes(number);
  return fmt::format("{} {}", grouped(static_cast<std::uint64_t>(number)), unit);
}

}  // namespace

std::string duration_text(double seconds) {
  const auto whole = static_cast<std::uint64_t>(std::llround(std::max(0.0, seconds)));
  if (whole < 60) return fmt::format("{} s", whole);
  if (whole < 3600) return fmt::format("{}:{:02}", whole / 60, whole % 60);
  return fmt::format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60);
}

progress_bar::progress_bar(std::string what, std::uint64_t total, std::string unit)
    : what_(std::move(what)),
      total_(total),
      unit_(std::move(unit)),
      enabled_(stderr_is_terminal()),
      start_(clock::now()),
      next_(start_ + first_look) {}

void progress_bar::retitle(std::string_view what, std::uint64_t total, std::string_view unit) {
  if (what == what_ && total == total_) return;
  what_ = what;
  total_ = total;
  unit_ = unit;
  start_ = clock::now();
  started_ = false;
}

void progress_bar::update(std::uint64_t done, std::string_view more) {
  if (!enabled_) return;
  if (!started_) {
    started_ = true;
    first_ = done;
  }
  const auto now = clock::now();
  if (now < next_) return;
  next_ = now + between_looks;
  draw(done, std::chrono::duration<double>(now - start_).count(), more);
}

void progress_bar::draw(std::uint64_t done, double seconds, std::string_view more) {
  const double rate = done > first_ && seconds > 0 ? static_cast<double>(done - first_) / seconds : 0;
  std::string line = what_ + ' ';
  if (total_ > 0) {
    const double part = std::min(1.0, static_cast<double>(done) / static_cast<double>(total_));
    const auto filled = static_cast<std::size_t>(part * bar_columns);
    line +=
        fmt::format("[{}{}] {:3.0f} %  ", std::string(filled, '#'), std::string(bar_columns - filled, '.'), part * 100);
  }
  line += fmt::format("{}  {}/s", amount(static_cast<double>(done), unit_), amount(rate, unit_));
  if (total_ > done && rate > 0) {
    line += fmt::format("  {} left", duration_text(static_cast<double>(total_ - done) / rate));
  }
  if (!more.empty()) line += fmt::format("  {}", more);
  // A line as wide as the terminal would wrap, and the next one could not overwrite it.
  line.resize(std::min(line.size(), terminal_columns() - 1));
  std::fputs(fmt::format("\r{}\x1b[K", line).c_str(), stderr);
  std::fflush(stderr);
  drawn_ = true;
}

void progress_bar::finish() noexcept {
  if (drawn_) {
    std::fputs("\r\x1b[K", stderr);
    std::fflush(stderr);
  }
  drawn_ = false;
}

}  // namespace icecore::cli
