// Steps of scripts that close the store and open it again, and its end.
#include "icecore/compaction.hpp"
#include "support/promises.hpp"
#include "support/script.hpp"

namespace icecore::testing {

options lockstep::writing(unsigned number) const {
  options opening = options_;
  const auto& same_place = how_.where == place::tmpfs ? tmpfs_settings() : all_settings();
  const setting& next = same_place[number % same_place.size()];
  if (next.where == how_.where) {
    opening.durability = next.durability;
    opening.deferred_durability = next.deferred;
    opening.emulate_durability = next.options().emulate_durability;
  }
  opening.recovery_threads = number % 4;
  return opening;
}

void lockstep::reopen(const step& one, bool read_only_between) {
  kept_.clear();
  store_->close();
  if (read_only_between) {
    options reading = options_;
    reading.access = access::read_only;
    store_ = std::make_unique<store>(path_, reading);
    promise(store_->read_only(), [] { return std::string("read_only() is false"); });
    promise(store_->clock() >= model_.clock, [] { return std::string("the clock went back at reopening"); });
    model_.clock = store_->clock();
    promise_error("insert into a store opened for reading", errc::read_only, [&] { store_->insert("a", "b"); });
    promise_error("tag() of a store opened for reading", errc::read_only, [&] { store_->tag(); });
    compare_version(store_->latest(), model_, version_max);
    compare_everything(*store_, model_, 3);
    store_->close();
  }
  options_ = writing(one.seed);
  store_ = std::make_unique<store>(path_, options_);
  promise(store_->clock() >= model_.clock, [] { return std::string("the clock went back at reopening"); });
  promise(!store_->stats().recovered_from_crash, [] { return std::string("a clean close counts as a crash"); });
  model_.clock = store_->clock();
}

void lockstep::crash(const step& one) {
  kept_.clear();
  const std::string left = files_.read(path_);
  store_->close();
  files_.replace(path_, left);
  options_ = writing(one.seed);
  store_ = std::make_unique<store>(path_, options_);
  promise(store_->stats().recovered_from_crash, [] { return std::string("a crash counts as a clean close"); });
  // instant recovery closes the version that was left open
  if (store_->stats().recovered_instantly && store_->clock() == model_.clock + 1) ++model_.clock;
  promise_version("clock() after a crash of the process", store_->clock(), model_.clock);
}

void lockstep::pack(const step& one) {
  kept_.clear();
  store_->close();
  compaction_options how;
  how.whole = one.other % 3 == 0;
  how.threads = 1 + one.key % 3;
  if (one.key % 2 == 0) how.bytes_at_once = 400 + one.size % 2000;
  how.compression = one.size % 2 == 0 ? compression::zstd : compression::none;
  const compaction_report done = compact(path_, writing(one.seed), how);
  if (model_.touched()) model_.close_version();
  if (done.packed) model_.pack();
  promise_version("compact()", done.up_to, model_.clock - 1);
  model_.now_ns = now_ns();
  const std::uint64_t expired = model_.expire();
  promise(done.versions_expired == expired, [&] {
    return std::to_string(done.versions_expired) + " versions expired instead of " + std::to_string(expired);
  });
  const auto report = verify_file(path_);
  promise(report.ok(), [&] {
    return "verify_file() of a packed store: " + report.damages.front().structure + ": " + report.damages.front().what;
  });
  options_ = writing(one.seed);
  store_ = std::make_unique<store>(path_, options_);
  promise(!store_->stats().recovered_from_crash, [] { return std::string("packing counts as a crash"); });
  promise_version("clock() of a store that was packed", store_->clock(), model_.clock);
}

void lockstep::retain(const step& one) {
  retention which;
  which.tagged = one.key % 2 == 0;
  if (one.other % 2 == 0) which.newest = 1 + one.size % 12;
  if (one.seed % 3 == 0) which.younger_than = std::chrono::hours(24);
  store_->set_retention(which);
  model_.kept = which;
  promise(store_->retention() == which, [] { return std::string("retention() is not what was set"); });
}

void lockstep::finish() {
  kept_.clear();
  compare_everything(*store_, model_);
  store_->close();
  const auto report = verify_file(path_);
  promise(report.ok(), [&] {
    return "verify_file() of a sound store: " + report.damages.front().structure + ": " + report.damages.front().what;
  });
  options reading;
  reading.access = access::read_only;
  store_ = std::make_unique<store>(path_, reading);
  model_.clock = store_->clock();
  compare_everything(*store_, model_);
}

}  // namespace icecore::testing
