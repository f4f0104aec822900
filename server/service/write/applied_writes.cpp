#include "service/write/applied_writes.hpp"

#include <algorithm>
#include <exception>
#include <future>
#include <optional>

#include "icecore/history.hpp"
#include "service/read/hidden_keys.hpp"

namespace icecore::service {

applied_writes::applied_writes(const write_parts& parts)
    : parts_(parts),
      base_(parts.store->latest().version()),
      visible_(base_),
      applier_(*parts.pool),
      answers_(*parts.pool, {.sync = [this] { parts_.store->sync(); },
                             .durable = [this](icecore::version v) { show(v); },
                             .failed = [this](const failure& why) { parts_.poisoned(why); }}) {
  // What is there is shown at once, so it has to be durable (V1).
  if (parts_.promises_operations) parts_.store->sync();
  parts_.tellable(base_);
}

applied_writes::~applied_writes() { finish(); }

void applied_writes::finish() {
  applier_.drain();
  answers_.drain();
}

void applied_writes::write(transaction what, completion done) {
  bool first = false;
  {
    const std::lock_guard lock(queue_mutex_);
    queue_.push_back({.what = std::move(what), .done = std::move(done)});
    queued_.store(queue_.size(), std::memory_order_relaxed);
    first = !std::exchange(scheduled_, true);
  }
  if (first) applier_.post([this] { apply_group(); });
}

std::uint64_t applied_writes::waiting() const noexcept {
  return queued_.load(std::memory_order_relaxed) + answers_.waiting();
}

void applied_writes::apply_group() {
  std::vector<asked> group;
  {
    const std::lock_guard lock(queue_mutex_);
    std::size_t bytes = 0;
    while (!queue_.empty() && group.size() < group_most && bytes < group_bytes_most) {
      bytes += queue_.front().what.bytes();
      group.push_back(std::move(queue_.front()));
      queue_.pop_front();
    }
    queued_.store(queue_.size(), std::memory_order_relaxed);
    scheduled_ = !queue_.empty();
    if (scheduled_) applier_.post([this] { apply_group(); });
  }
  std::vector<durable_answers::answer> answers;
  answers.reserve(group.size());
  icecore::version newest = 0;
  {
    const std::lock_guard lock(mutex_);
    forget_durable();
    for (asked& next : group) {
      result<outcome> came = apply(next.what);
      if (const auto* failed = std::get_if<failure>(&came)) {
        next.done(*failed);
        continue;
      }
      outcome& answer = std::get<outcome>(came);
      newest = std::max(newest, answer.version);
      if (!parts_.promises_operations) show(answer.version);
      answers.push_back({.what = std::move(answer), .done = std::move(next.done)});
    }
  }
  if (parts_.promises_operations) {
    answers_.add(std::move(answers), newest);
    return;
  }
  for (durable_answers::answer& next : answers) next.done(std::move(next.what));
}

template <typename Use>
auto applied_writes::with_present(Use use) {
  durable_present now(parts_.store->at(base_), undurable_, *parts_.codec, *parts_.leases);
  return use(now);
}

result<outcome> applied_writes::apply(const transaction& what) {
  try {
    if (is_blind(what) && what.then.size() == 1 && !parts_.leases->any()) return put(what.then.front());
    return with_present([&](present& now) -> outcome {
      executed done = execute(what, now, *parts_.leases, *parts_.codec);
      if (done.writes.empty()) {  // it read up to the newest version
        done.answer.version = newest_applied();
        return std::move(done.answer);
      }
      done.answer.version = parts_.store->apply(done.writes);
      close_written();
      done.leases.commit(done.answer.version);
      if (done.compacted) parts_.compacted(*done.compacted);
      for (const icecore::batch::operation& hidden : done.writes.operations()) {
        if (is_hidden(hidden.key)) changed(hidden.key, hidden.value, done.answer.version);
      }
      for (auto& [key, value] : done.changed) changed(key, std::move(value), done.answer.version);
      return std::move(done.answer);
    });
  } catch (...) {
    return failure_of(std::current_exception());
  }
}

// What was just written is a version of its own: nobody else writes, since `mutex_` is held. The sync of the answers
// before may have closed that version already; then what is closed here is another one, perhaps an empty one. So the
// version of a write is the one that writing it returned, never the one that is closed here.
void applied_writes::close_written() { static_cast<void>(parts_.store->latest()); }

// The most frequent transaction: one value, and nothing asked.
outcome applied_writes::put(const operation& only) {
  require_client_key(only.key);
  std::string room;
  outcome answer;
  answer.version = parts_.store->insert(only.key, parts_.codec->encode(only.value, room));
  close_written();
  answer.results.resize(1);
  answer.results[0].size = only.value.size();
  changed(only.key, only.value, answer.version);
  return answer;
}

void applied_writes::changed(std::string key, std::optional<std::string> value, icecore::version at) {
  if (!parts_.promises_operations) {  // durable_present reads at the version itself
    base_ = at;
    return;
  }
  undurable_.insert_or_assign(key, undurable_value{.value = std::move(value), .version = at});
  undurable_keys_.emplace_back(std::move(key), at);
}

// V2: the base moves to the visible version, and what it shows is forgotten.
void applied_writes::forget_durable() {
  const icecore::version durable = visible_.load(std::memory_order_acquire);
  while (!undurable_keys_.empty() && undurable_keys_.front().second <= durable) {
    const auto found = undurable_.find(undurable_keys_.front().first);
    if (found != undurable_.end() && found->second.version <= durable) undurable_.erase(found);
    undurable_keys_.pop_front();
  }
  base_ = std::max(base_, durable);
}

// Only one thread shows at a time: the strand of the answers, or the holder of `mutex_`.
void applied_writes::show(icecore::version durable) {
  if (durable > visible_.load(std::memory_order_relaxed)) visible_.store(durable, std::memory_order_release);
  parts_.leases->shown(durable);
  parts_.tellable(durable);
}

// The store gets the rows one after the other, since a load promises no instant for all: a batch or a transaction of so
// many rows would take several times their memory and time. They are one version, or two if the sync of the answers
// before closes one meanwhile.
std::uint64_t applied_writes::load(const row_block& rows, bool keep) {
  for (std::size_t i = 0; i < rows.size(); ++i) require_client_key(rows.keys[i]);
  loaded done;
  {
    const std::lock_guard lock(mutex_);
    if (!parts_.leases->any()) done = load_without_leases(rows, keep);
  }
  if (done.at == 0) return load_as_transaction(rows, keep);
  if (done.failed) std::rethrow_exception(done.failed);
  if (parts_.promises_operations) wait_until_durable(done.at);
  return done.rows;
}

// If a row fails, those before it stay, as in a store, and are told as changes like all others (V2).
applied_writes::loaded applied_writes::load_without_leases(const row_block& rows, bool keep) {
  forget_durable();
  loaded done{.at = newest_applied()};                 // there was read what is kept
  std::vector<icecore::version> written(rows.size());  // 0: it was not
  try {
    std::string room;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const std::string_view value = parts_.codec->encode(rows.values[i], room);
      written[i] =
          keep ? parts_.store->insert_new(rows.keys[i], value).value_or(0) : parts_.store->insert(rows.keys[i], value);
      if (written[i] == 0) continue;
      ++done.rows;
      done.at = written[i];
    }
  } catch (...) {
    done.failed = std::current_exception();
  }
  if (done.rows > 0) close_written();
  if (!parts_.promises_operations) {
    base_ = done.at;
    show(done.at);
    return done;
  }
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (written[i] != 0) changed(std::string(rows.keys[i]), std::string(rows.values[i]), written[i]);
  }
  return done;
}

// Leases are kept with the writes of their keys, in one batch.
std::uint64_t applied_writes::load_as_transaction(const row_block& rows, bool keep) {
  transaction all;
  all.then.reserve(rows.size());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    all.then.push_back(operation::put(std::string(rows.keys[i]), std::string(rows.values[i])));
    if (keep) all.then.back().what = operation::kind::put_new;
  }
  std::promise<result<outcome>> promised;
  write(std::move(all), [&](result<outcome> came) { promised.set_value(std::move(came)); });
  const result<outcome> came = promised.get_future().get();
  if (const auto* failed = std::get_if<failure>(&came)) raise(*failed);
  const auto& results = std::get<outcome>(came).results;
  return static_cast<std::uint64_t>(
      std::ranges::count_if(results, [](const operation_result& r) { return r.is == operation_result::state::done; }));
}

void applied_writes::wait_until_durable(icecore::version at) {
  std::promise<result<outcome>> promised;
  outcome answer;
  answer.version = at;
  answers_.add({.what = std::move(answer), .done = [&](result<outcome> came) { promised.set_value(std::move(came)); }});
  const result<outcome> came = promised.get_future().get();
  if (const auto* failed = std::get_if<failure>(&came)) raise(*failed);
}

icecore::version applied_writes::newest_applied() const {
  return std::max(base_, undurable_keys_.empty() ? 0 : undurable_keys_.back().second);
}

// A named tag is a version without changes, behind all that were applied before.
icecore::version applied_writes::tag(const icecore::tag_options& label) {
  icecore::version tagged = 0;
  {
    const std::lock_guard lock(mutex_);
    tagged = parts_.store->tag(label);
    if (!parts_.promises_operations) {
      base_ = tagged;
      show(tagged);
      return tagged;
    }
  }
  wait_until_durable(tagged);
  return tagged;
}

icecore::snapshot applied_writes::newest() { return parts_.store->at(visible_.load(std::memory_order_acquire)); }

std::optional<found> applied_writes::find_newest(std::string_view key) {
  const icecore::snapshot now = newest();
  return found_in(icecore::key_history(now.holds(), key, now.version()), now.holds(), *parts_.codec);
}

write_path::held applied_writes::hold() {
  held all;
  all.emplace_back(mutex_);
  return all;
}

}  // namespace icecore::service
