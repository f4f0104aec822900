#include "run/log/log.hpp"

#include <algorithm>
#include <utility>

#include "icecore/error.hpp"

namespace icecore::server {

namespace {

using std::chrono::steady_clock;

constexpr std::chrono::seconds rate_window{1};
constexpr std::chrono::seconds last_lines_limit{2};
/// Names of events come from our code; should one be made of data after all, the table does not grow for ever.
constexpr std::size_t rates_max = 1024;

}  // namespace

log::log(log_options options) : options_(std::move(options)), file_(options_.file), writer_([this] { run(); }) {}

log::~log() {
  tell_suppressed(steady_clock::now() + rate_window);
  {
    const std::lock_guard held(mutex_);
    stop_ = true;
    give_up_at_ = steady_clock::now() + last_lines_limit;
  }
  work_.notify_one();
  writer_.join();
}

void log::write(log_level level, std::string_view event, std::initializer_list<log_field> fields) {
  if (wants(level)) append(level, event, std::span(fields.begin(), fields.size()), 0);
}

void log::write_limited(log_level level, std::string_view event, std::initializer_list<log_field> fields,
                        unsigned per_second) {
  if (!wants(level)) return;
  std::uint64_t suppressed = 0;
  {
    const std::lock_guard held(rates_mutex_);
    auto of = rates_.find(event);
    if (of == rates_.end()) of = rates_.try_emplace(std::string(rates_.size() < rates_max ? event : "other")).first;
    rate& known = of->second;
    known.level = level;
    if (const auto now = steady_clock::now(); now - known.begin >= rate_window) {
      known.begin = now;
      known.written = 0;
    }
    if (known.written >= per_second) {
      ++known.suppressed;
      return;
    }
    ++known.written;
    suppressed = std::exchange(known.suppressed, 0);
  }
  append(level, event, std::span(fields.begin(), fields.size()), suppressed);
}

void log::append(log_level level, std::string_view event, std::span<const log_field> fields, std::uint64_t suppressed) {
  enqueue(event_line(options_.format, {std::chrono::system_clock::now(), level, event, options_.server, suppressed},
                     fields));
}

void log::enqueue(std::string_view line) {
  {
    const std::lock_guard held(mutex_);
    if (queue_.size() + line.size() > options_.queue_bytes_max) {
      ++lost_;
      return;
    }
    queue_ += line;
    ++queued_lines_;
    ++enqueued_total_;
  }
  work_.notify_one();
}

void log::reopen() {
  {
    const std::lock_guard held(mutex_);
    reopen_ = true;
  }
  work_.notify_one();
}

bool log::flush(std::chrono::milliseconds limit) {
  std::unique_lock lock(mutex_);
  const std::uint64_t all = enqueued_total_;
  return written_.wait_for(lock, limit, [&] { return finished_total_ >= all && !reopen_; });
}

log::counts log::count() const {
  const std::lock_guard held(mutex_);
  return {enqueued_total_, lost_};
}

std::string log::own_line(std::string_view event, std::initializer_list<log_field> fields) const {
  return event_line(options_.format, {std::chrono::system_clock::now(), log_level::warning, event, options_.server},
                    std::span(fields.begin(), fields.size()));
}

/// Writes lines for the events that were suppressed in windows that have ended, since no later event has told them.
void log::tell_suppressed(steady_clock::time_point now) {
  const std::lock_guard held(rates_mutex_);
  for (auto& [event, known] : rates_) {
    if (known.suppressed == 0 || now - known.begin < rate_window) continue;
    append(known.level, event, {}, std::exchange(known.suppressed, 0));
  }
}

void log::run() {
  std::unique_lock lock(mutex_);
  auto next_telling = steady_clock::now() + rate_window;
  for (;;) {
    work_.wait_until(lock, next_telling, [&] { return stop_ || reopen_ || !queue_.empty(); });
    if (const auto now = steady_clock::now(); now >= next_telling) {
      next_telling = now + rate_window;
      lock.unlock();
      tell_suppressed(now);
      lock.lock();
    }
    if (reopen_ || !queue_.empty() || lost_ != lost_told_) write_queued(lock);
    if (stop_ && queue_.empty() && !reopen_) return;
  }
}

/// Takes the queue and writes it without the mutex, so that other threads go on to append.
void log::write_queued(std::unique_lock<std::mutex>& lock) {
  const std::string lines = std::exchange(queue_, {});
  const std::uint64_t line_count = std::exchange(queued_lines_, 0);
  const std::uint64_t lost_before = lost_;
  const std::uint64_t untold = lost_before - lost_told_;
  const bool anew = reopen_;
  lock.unlock();

  std::string told;
  if (untold > 0) told += own_line("log.lines_lost", {{"lines", untold}});
  if (anew) {
    try {
      file_.reopen();
    } catch (const error& failed) {
      told += own_line("log.not_reopened", {{"reason", failed.message()}});
    }
  }
  const auto give_up = [&] {
    const std::lock_guard held(mutex_);
    return stop_ && steady_clock::now() >= give_up_at_;
  };
  const bool told_written = file_.write(told, give_up).empty();
  const std::string_view unwritten = told_written ? file_.write(lines, give_up) : std::string_view(lines);

  lock.lock();
  if (told_written) lost_told_ = lost_before;
  lost_ += static_cast<std::uint64_t>(std::ranges::count(unwritten, '\n'));
  finished_total_ += line_count;
  if (anew) reopen_ = false;
  lock.unlock();
  written_.notify_all();
  lock.lock();
}

}  // namespace icecore::server
