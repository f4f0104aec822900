#include "exhaustive.hpp"

#include <algorithm>
#include <bit>
#include <cstdio>
#include <cstdlib>

namespace icecore::crash {
namespace {

std::uint64_t word_of(const step& s) noexcept { return reinterpret_cast<std::uint64_t>(s.at) / 8; }

}  // namespace

void exhaustive_schedule::begin_run() {
  begun_ = true;
  at_ = 0;
  words_.clear();
  made_ = {};
  knows_ = {};
  waits_ = {};
  waiting_ = {};
  asleep_ = 0;
  repeated_ = false;
}

unsigned exhaustive_schedule::choose(unsigned current, const std::vector<step>& next, const std::vector<bool>& ready) {
  if (!begun_) begin_run();
  std::uint8_t can = 0;
  for (unsigned w = 0; w < writers; ++w) {
    if (ready[w] && !waiting_[w]) can = static_cast<std::uint8_t>(can | 1U << w);
  }
  if (can == 0) {  // whoever waits may have read the same words for another reason
    for (unsigned w = 0; w < writers; ++w) {
      if (ready[w]) can = static_cast<std::uint8_t>(can | 1U << w);
    }
  }
  if (at_ > steps_max) {
    std::fprintf(stderr, "no end after %zu steps: the writers wait for each other\n", at_);
    std::abort();
  }
  const auto bit = [](unsigned w) { return static_cast<std::uint8_t>(1U << w); };
  unsigned chosen;
  if (at_ < path_.size()) {
    chosen = path_[at_].chosen;
  } else {
    const auto awake = static_cast<std::uint8_t>(can & ~asleep_);
    repeated_ = repeated_ || awake == 0;
    const std::uint8_t from = awake != 0 ? awake : can;
    chosen = (from & bit(current)) != 0 ? current : static_cast<unsigned>(std::countr_zero(from));
    path_.push_back({chosen, can, 0, 0, asleep_});
  }
  node& n = path_[at_];
  // whoever was tried here before sleeps until something touches what it would do next
  const auto tried = static_cast<std::uint8_t>((n.asleep | n.done) & ~bit(chosen));
  asleep_ = 0;
  const step& made_now = next[chosen];
  for (unsigned w = 0; w < writers; ++w) {
    const bool apart = made_now.at == nullptr || next[w].at == nullptr || word_of(made_now) != word_of(next[w]) ||
                       (!made_now.writes && !next[w].writes);
    if ((tried & bit(w)) != 0 && apart) asleep_ = static_cast<std::uint8_t>(asleep_ | bit(w));
  }
  n.done = static_cast<std::uint8_t>(n.done | bit(chosen));
  made(chosen, made_now, at_);
  ++at_;
  return chosen;
}

void exhaustive_schedule::made(unsigned writer, const step& s, std::size_t node_index) {
  const unsigned other = 1 - writer;
  const std::uint32_t index = ++made_[writer];
  waiting_[writer] = waits_[writer].repeats(s);
  if (s.writes) {
    waiting_[other] = false;
    waits_[other].reset();
  }
  if (s.at == nullptr) return;
  touched& t = words_[word_of(s)];
  // the other's last step that this one depends on
  std::uint32_t last = t.wrote[other];
  std::size_t last_at = t.wrote_at[other];
  if (s.writes && t.read[other] > last) {
    last = t.read[other];
    last_at = t.read_at[other];
  }
  if (last > knows_[writer] && !repeated_) {
    // nothing orders it before this one: to be run the other way round
    node& n = path_[last_at];
    const auto me = static_cast<std::uint8_t>(1U << writer);
    n.backtrack = static_cast<std::uint8_t>(n.backtrack | ((n.ready & me) != 0 ? me : n.ready));
  }
  knows_[writer] = std::max(knows_[writer], last);
  if (s.writes) {
    t.wrote[writer] = index;
    t.wrote_at[writer] = node_index;
  } else {
    t.read[writer] = index;
    t.read_at[writer] = node_index;
  }
}

bool exhaustive_schedule::next() {
  begun_ = false;
  path_.resize(at_);
  while (!path_.empty()) {
    node& n = path_.back();
    const auto left = static_cast<std::uint8_t>(n.backtrack & ~n.done & ~n.asleep);
    if (left != 0) {
      n.chosen = static_cast<unsigned>(std::countr_zero(left));
      ++runs_;
      return true;
    }
    path_.pop_back();
  }
  return false;
}

}  // namespace icecore::crash
