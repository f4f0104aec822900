#include "beside_story.hpp"

#include <set>
#include <stdexcept>

#include "machine.hpp"

namespace icecore::crash {
namespace {

[[noreturn]] void fail(version v, const std::string& what) {
  throw std::logic_error("beside the writer, version " + std::to_string(v) + " " + what);
}

/// Closed versions. Each other one shows what the one before it does, and can be read if that one can: behind a power
/// cut the clock goes on a million versions later.
std::set<version> versions_that_differ(const store& s) {
  std::set<version> all;
  const auto add_around = [&](version v) {
    for (const version each : {v - 1, v, v + 1}) {
      if (each != 0 && each < s.clock()) all.insert(each);
    }
  };
  add_around(1);
  add_around(s.clock() - 1);
  for (const std::string_view key : s.keys()) {
    for (const change& c : s.history(key)) add_around(c.version);
  }
  for (const tag_info& t : s.tags()) add_around(t.version);
  for (const auto& [first, end] : s.expired_versions()) {
    add_around(first);
    add_around(end);
  }
  for (const auto& [first, end] : s.lost_versions().ranges()) {
    add_around(first);
    add_around(end);
  }
  return all;
}

}  // namespace

std::string reader_beside::step(const store& writer, std::uint64_t draw) {
  if (!reader_) {
    options opening = opening_options(how_, machine::recorded);
    opening.access = access::read_only;
    try {
      reader_.emplace(path_, opening);
    } catch (const error& e) {
      if (e.code() != errc::locked) throw;  // nothing is published yet
      return "no reader beside yet";
    }
    is_packed_since_ = false;
    look(writer);
    take_snapshot();
    return "a reader beside opens";
  }
  look(writer);
  constexpr std::uint64_t of_all = 4;
  if (draw % of_all == 0) {
    close();
    return "the reader beside closes";
  }
  if (draw % of_all == 1) {
    const version before = reader_->clock();
    static_cast<void>(reader_->refresh());
    if (reader_->clock() < before) fail(before, "was the open one, and is not any more");
    if (is_packed_since_ && reader_->stats().strata != writer.stats().strata)
      fail(before, "is shown as before packing");
    is_packed_since_ = false;
    std::erase_if(shown_, [&](const auto& each) { return reader_->is_expired(each.first); });
    look(writer);
    // else the one that it has goes on to lead into what was replaced
    const bool lets_go = draw / of_all % 2 == 0;
    if (lets_go) take_snapshot();
    return lets_go ? "the reader beside refreshes, and lets go of what it had" : "the reader beside refreshes";
  }
  return "the reader beside looks";
}

void reader_beside::look(const store& writer) {
  if (snapshot_ && state_sum(*snapshot_) != held_->second) fail(held_->first, "changed under a snapshot");
  if (reader_->clock() > writer.clock()) fail(reader_->clock(), "is the open one, which the writer has not reached");
  std::set<version> looked_at = versions_that_differ(*reader_);
  for (const auto& [v, sum] : shown_) looked_at.insert(v);
  for (const version v : looked_at) {
    if (reader_->is_expired(v) || reader_->lost_versions().contains(v)) {
      if (shown_.contains(v)) fail(v, "was shown, and is not any more");
      if (reader_->is_expired(v) && !writer.is_expired(v)) fail(v, "has expired, and for the writer it has not");
      continue;
    }
    const std::uint64_t sum = state_sum(reader_->at(v));
    const auto [before, is_new] = shown_.try_emplace(v, sum);
    if (!is_new && before->second != sum) fail(v, "changed");
    const bool writer_has_it = !writer.is_expired(v) && !writer.lost_versions().contains(v);
    if (is_new && writer_has_it && state_sum(writer.at(v)) != sum) fail(v, "is not what the writer shows");
  }
}

void reader_beside::take_snapshot() {
  let_go();
  if (reader_->clock() <= 1) return;
  const version newest = reader_->clock() - 1;
  if (reader_->is_expired(newest) || reader_->lost_versions().contains(newest)) return;
  snapshot_.emplace(reader_->at(newest));
  held_ = {newest, state_sum(*snapshot_)};
}

void reader_beside::let_go() {
  snapshot_.reset();
  held_.reset();
}

void reader_beside::close() {
  let_go();
  shown_.clear();
  if (reader_) reader_->close();
  reader_.reset();
}

}  // namespace icecore::crash
