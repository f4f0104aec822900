#include "going_model.hpp"

#include <algorithm>
#include <set>
#include <stdexcept>

#include "content.hpp"
#include "store/engine.hpp"
#include "store/packed/retention/forgetting.hpp"

namespace icecore::crash {
namespace {

bool is_in(const std::vector<version_range>& ranges, version v) {
  return std::ranges::any_of(ranges, [v](const version_range& r) { return r.first <= v && v < r.end; });
}

/// Whether they have all versions of [from, end). They are in order, with gaps between them.
bool has_all(const std::vector<version_range>& ranges, version from, version end) {
  return from == end ||
         std::ranges::any_of(ranges, [&](const version_range& r) { return r.first <= from && end <= r.end; });
}

[[noreturn]] void fail(const std::string& what) { throw std::logic_error("a compaction: " + what); }

}  // namespace

bool asked_to_forget::names(std::string_view key) const noexcept {
  return std::ranges::find(keys, key) != keys.end() ||
         std::ranges::any_of(prefixes, [key](const std::string& prefix) { return key.starts_with(prefix); });
}

std::vector<std::string> secrets() {
  std::vector<std::string> all;
  for (const char number : {'0', '1', '2', '3'}) all.push_back(std::string(secret_prefix) + number + "!");
  return all;
}

std::uint64_t retention_sum(const store& s) {
  std::uint64_t sum = 0;
  for (const held_version& h : s.held_versions()) sum += tag_sum({h.version, 0x686f6c64, h.name, {}});
  const retention which = s.retention();
  return sum + (which.tagged ? 1U : 0U) + 2 * which.newest +
         1000 * static_cast<std::uint64_t>(which.younger_than.count());
}

std::string judge_holds(const store& s) {
  for (const held_version& h : s.held_versions()) {
    try {
      static_cast<void>(s.at(h.version));
    } catch (const error& e) {
      return "version " + std::to_string(h.version) + " is held as '" + h.name + "': " + e.what();
    }
  }
  return {};
}

std::string judge_requests(const store& s, const std::vector<asked_to_forget>& requests) {
  const detail::forgotten_keys noted(s.core().the_pool());
  for (const asked_to_forget& asked : requests) {
    for (const std::string_view key : s.keys()) {
      if (!asked.names(key) || noted.up_to(key) >= asked.up_to) continue;
      for (const change& c : s.history(key)) {
        if (c.version <= asked.up_to) {
          return std::string(key) + " was to be forgotten up to version " + std::to_string(asked.up_to) +
                 ", has a record of version " + std::to_string(c.version) + ", and no request names it";
        }
      }
    }
  }
  return {};
}

before_compaction::before_compaction(const store& s)
    : all_(histories_of(s)),
      policy_(s.retention()),
      expired_(s.expired_versions()),
      content_(content_sum(s)),
      packed_up_to_(s.core().packing().greatest) {
  const detail::forgotten_keys noted(s.core().the_pool());
  forgets_ = !noted.empty();
  for (const auto& [key, records] : all_) forgotten_[key] = noted.up_to(key);
  for (const tag_info& t : s.tags()) tagged_.push_back(t.version);
  for (const held_version& h : s.held_versions()) held_.push_back(h.version);
  const manifest& now = s.core().packing();
  for (std::uint32_t i = 0; i < now.extents.size(); ++i) {
    if ((now.extents[i].flags & format::extent_awaits) == 0) continue;
    const std::string begins(s.core().packed()->extent_at(i).first_key());
    if (!awaits_from_ || begins < *awaits_from_) awaits_from_ = begins;
  }
}

before_compaction::histories before_compaction::histories_of(const store& s) {
  histories all;
  for (const std::string_view key : s.keys()) {
    auto& records = all[std::string(key)];
    for (const change& c : s.history(key).oldest_first()) {
      records.push_back({c.version, c.value ? std::optional<std::string>(*c.value) : std::nullopt});
    }
  }
  return all;
}

std::uint64_t before_compaction::state_at(version at) const {
  std::uint64_t sum = 0;
  for (const auto& [key, records] : all_) {
    const written* shown = nullptr;
    for (const written& w : records) {
      if (w.at <= at && w.at > forgotten_.find(key)->second) shown = &w;
    }
    if (shown != nullptr && shown->value) sum += record_sum(key, 0, {0, *shown->value});
  }
  return sum;
}

std::vector<version> before_compaction::kept_versions(const store& after, version up_to) const {
  std::vector<version> kept{up_to};
  kept.insert(kept.end(), held_.begin(), held_.end());
  if (policy_.tagged) kept.insert(kept.end(), tagged_.begin(), tagged_.end());
  std::uint64_t count = policy_.newest;
  for (version v = up_to; v > 0 && count > 0; --v) {
    if (after.lost_versions().contains(v)) {
      // at once over what a power cut has skipped
      for (const version_range& r : after.lost_versions().ranges()) {
        if (r.first <= v && v < r.end) v = r.first;
      }
    } else if (!is_in(expired_, v)) {
      kept.push_back(v);
      --count;
    }
  }
  std::erase_if(kept, [this](version v) { return is_in(expired_, v); });
  return kept;
}

void before_compaction::judge_expired(const store& after, const std::vector<version>& kept, version up_to) const {
  std::set<version> asked(tagged_.begin(), tagged_.end());
  for (const auto& [key, records] : all_) {
    for (const written& w : records) asked.insert({w.at - 1, w.at, w.at + 1});
  }
  asked.erase(0);
  for (const version v : asked) {
    if (v > up_to || after.lost_versions().contains(v)) continue;
    const bool goes = !policy_.keeps_all() && std::ranges::find(kept, v) == kept.end();
    if (after.is_expired(v) != (goes || is_in(expired_, v)))
      fail("version " + std::to_string(v) + (goes ? " has not expired" : " has expired"));
  }
}

void before_compaction::judge_records(const store& after, const std::vector<version>& kept, bool whole) const {
  for (const auto& [key, records] : histories_of(after)) {
    const auto before = all_.find(key);
    if (before == all_.end()) fail(key + " was not there");
    auto from = before->second.begin();
    for (const written& w : records) {
      from = std::find(from, before->second.end(), w);
      if (from == before->second.end()) fail(key + " has a record that it had not");
      ++from;
      if (w.at <= forgotten_.find(key)->second) fail(key + " was to be forgotten and is there");
      if (!whole || policy_.keeps_all() || !w.value) continue;
      const version next = &w == &records.back() ? version_max : (&w)[1].at;
      const bool is_shown =
          next == version_max || std::ranges::any_of(kept, [&](version v) { return w.at <= v && v < next; });
      if (!is_shown) fail(key + " has a record of version " + std::to_string(w.at) + " that nothing shows");
    }
  }
}

void before_compaction::judge(const store& after, const compaction_report& report, bool whole,
                              std::vector<closed_version>& known) const {
  if (!report.packed && content_sum(after) != content_) fail("it had nothing to pack, and the content is another one");
  if (report.packed) {
    const std::vector<version> kept = kept_versions(after, report.up_to);
    judge_expired(after, kept, report.up_to);
    judge_records(after, kept, whole);
    for (const auto& [key, up_to] : forgotten_) {
      if (report.erased && detail::forgotten_keys(after.core().the_pool()).up_to(key) != 0)
        fail("the request to forget " + key + " is there still");
    }
  }
  std::uint64_t now = 0;
  for (const auto& [key, records] : histories_of(after)) {
    if (!records.empty() && records.back().value) now += record_sum(key, 0, {0, *records.back().value});
  }
  if (report.packed && now != state_at(version_max)) fail("the present is another one");
  for (closed_version& then : known) {
    if (after.lost_versions().contains(then.at)) continue;
    then.expired = after.is_expired(then.at);
    if (then.expired) continue;
    const std::uint64_t shows = state_sum(after.at(then.at));
    if (shows != (report.packed ? state_at(then.at) : then.sum))
      fail("version " + std::to_string(then.at) + " shows another state");
    then.sum = shows;
  }
}

std::vector<std::uint64_t> before_compaction::contents_of_forgetting(const store& after) const {
  std::vector<std::uint64_t> contents;
  std::uint64_t sum = content_;
  for (const auto& [key, records] : histories_of(after)) {
    const std::size_t there = all_.contains(key) ? all_.find(key)->second.size() : 0;
    if (records.size() == there) continue;
    sum += record_sum(key, there, {records.back().at, std::nullopt});
    contents.push_back(sum);
  }
  return contents;
}

std::uint64_t before_compaction::thinned_sum(const std::string& key, const std::vector<written>& records, version up_to,
                                             const std::vector<version_range>& expired) {
  std::uint64_t sum = 0;
  std::size_t place = 0;
  for (std::size_t i = 0; i < records.size(); ++i) {
    const written& w = records[i];
    const bool is_newest = i + 1 == records.size();
    const bool shows = is_newest || !has_all(expired, w.at, records[i + 1].at);
    if (w.at <= up_to || shows) sum += record_sum(key, place++, {w.at, w.value});
  }
  return sum;
}

std::vector<std::uint64_t> before_compaction::contents_between_changes(const store& after) const {
  if (forgets_) return {};  // then all is done by one change
  const histories left = histories_of(after);
  const std::vector<version_range> expired = after.expired_versions();
  // Strata end with versions. Where a merge was cut off before, those of the keys that it had done end with others.
  std::set<version> ends{0};
  for (const auto& [key, records] : all_) {
    for (const written& w : records) {
      if (w.at <= packed_up_to_) ends.insert(w.at);
    }
  }
  const std::uint64_t content_after = content_sum(after);
  std::set<std::uint64_t> contents;
  const auto add_with = [&](version end, version end_of_done) {
    std::uint64_t sum = content_after;
    for (auto each = all_.rbegin(); each != all_.rend(); ++each) {  // the last ranges wait
      const auto& [key, records] = *each;
      const auto there = left.find(key);
      if (there != left.end()) sum -= thinned_sum(key, there->second, version_max, expired);
      const bool was_done = awaits_from_ && key < *awaits_from_;
      sum += thinned_sum(key, records, was_done ? end_of_done : end, expired);
      contents.insert(sum);
    }
  };
  const std::set<version> ends_of_done = awaits_from_ ? ends : std::set<version>{0};
  for (const version end : ends) {
    for (const version end_of_done : ends_of_done) add_with(end, end_of_done);
  }
  return {contents.begin(), contents.end()};
}

}  // namespace icecore::crash
