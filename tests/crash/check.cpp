#include "check.hpp"

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <optional>
#include <random>

#include "../store/support/inside.hpp"
#include "base/bytes.hpp"
#include "feed_check.hpp"
#include "index/persistent/persistent_index.hpp"
#include "kept_check.hpp"
#include "pool/manifest/manifest.hpp"
#include "store/engine.hpp"
#include "store/packed/retention/forgetting.hpp"

namespace icecore::crash {
namespace {

std::string read_all_versions(const store& s) {
  std::vector<version> versions;
  std::map<std::string, std::vector<change>> histories;
  for (const std::string_view key : s.keys()) {
    auto& history = histories[std::string(key)];
    for (const change& c : s.history(key).oldest_first()) {
      history.push_back(c);
      for (const version v : {c.version - 1, c.version}) {
        if (v < s.clock() && !s.lost_versions().contains(v) && !s.is_expired(v)) versions.push_back(v);
      }
    }
  }
  std::ranges::sort(versions);
  versions.erase(std::ranges::unique(versions).begin(), versions.end());
  for (const version v : versions) {
    const snapshot then = s.at(v);
    std::map<std::string, std::string> wanted;
    for (const auto& [key, history] : histories) {
      std::optional<std::string_view> shown;
      for (const change& c : history) {
        if (c.version <= v) shown = c.value;
      }
      if (then.find(key) != shown) return "find(" + key + ") in version " + std::to_string(v) + " is not its history's";
      if (shown) wanted.emplace(key, *shown);
    }
    auto place = wanted.begin();
    for (const auto& [key, value] : then.range()) {
      if (place == wanted.end() || place->first != key || place->second != value) {
        return "a scan of version " + std::to_string(v) + " shows " + std::string(key);
      }
      ++place;
    }
    if (place != wanted.end()) return "a scan of version " + std::to_string(v) + " misses " + place->first;
  }
  for (const auto& [key, history] : histories) {
    std::optional<std::string_view> newest;
    if (!history.empty()) newest = history.back().value;
    if (s.find(key) != newest) return "find(" + key + ") now is not its history's newest";
  }
  return {};
}

std::string verified(const store& s) {
  // nobody writes
  for (const auto& wrong : s.core().index().check()) return "index: " + wrong;
  if (const auto* lasting = dynamic_cast<const index::persistent_index*>(&s.core().index())) {
    for (const auto& lost : lasting->lost_nodes()) return "index: " + lost;
    for (const auto& shared : testing::segments_of(s).check()) return "space: " + shared;
  }
  if (const auto& core = s.core(); !outdated_segments(core.the_pool(), core.packing()).empty())
    return "space: segments that no manifest names were not given back";
  const auto report = s.verify();
  if (report.ok()) return {};
  const damage& d = report.damages.front();
  return "verify: byte " + std::to_string(d.offset) + ", " + d.structure + ": " + d.what;
}

/// That it is lost, or has expired.
std::optional<errc> refusal_of(const std::function<void()>& read) {
  try {
    read();
    return std::nullopt;
  } catch (const error& e) {
    if (e.code() != errc::version_lost && e.code() != errc::version_expired) throw;
    return static_cast<errc>(e.code().value());
  }
}

bool is_right(const closed_version& then, std::optional<errc> refused, std::uint64_t sum) {
  if (refused == errc::version_lost) return then.may_be_lost;
  if (refused == errc::version_expired) return then.expired || (then.or_else && then.or_else->expired);
  return (!then.expired && sum == then.sum) || (then.or_else && !then.or_else->expired && sum == then.or_else->sum);
}

/// Each shows what it did when it was closed, or is lost or expired to every way of reading it.
std::string read_closed_versions(const store& s, const std::vector<closed_version>& closed) {
  for (const closed_version& then : closed) {
    std::uint64_t sum = then.sum;
    const auto refused = refusal_of([&] { sum = state_sum(s.at(then.at)); });
    const std::string named = "version " + std::to_string(then.at);
    if (!is_right(then, refused, sum)) {
      if (refused == errc::version_lost) return named + " was durable and is lost";
      if (refused == errc::version_expired) return named + " was to stay and has expired";
      return named + " shows another state than when it was closed, or was to expire:\n" + content_text(s);
    }
    if (refusal_of([&] { static_cast<void>(s.find("shared-1", then.at)); }) != refused)
      return named + " is refused only to some";
    if (refusal_of([&] { static_cast<void>(s.diff(0, then.at)); }) != refused)
      return named + " is refused only to some";
  }
  return {};
}

/// The queries and feeds are as they must be; empty if so.
std::string judge_kept(const store& s, const judged_by& by, const std::string& when) {
  if (auto wrong = judge_queries(s, by.queries); !wrong.empty()) return when + wrong;
  if (auto wrong = judge_feeds(s, by.feeds); !wrong.empty()) return when + wrong;
  return {};
}

/// Ten operations; what they return must fit, and the content then is all there after opening again.
std::string use(const std::string& path, const options& opening, store&& opened, judged_by& by, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::uint64_t sum = 0;
  version closed = 0;
  version_ranges lost;
  {
    store s = std::move(opened);
    for (unsigned i = 0; i < 8; ++i) {
      const std::string key = "shared-" + std::to_string(random() % 6);
      const version open = s.clock();
      if (random() % 4 == 0) {
        const bool there = s.contains(key);
        if (s.remove(key).has_value() != there) return "remove(" + key + ") does not agree with contains";
        if (s.contains(key)) return key + " is there after it was removed";
      } else {
        const std::string value = "after " + std::to_string(i);
        if (const version got = s.insert(key, value); got != open)
          return "an insert of " + key + " fell into version " + std::to_string(got) + " while " +
                 std::to_string(open) + " was open";
        if (s.find(key) != value) return key + " does not have the value just inserted";
      }
    }
    batch both;
    both.insert("after-a", "x");
    both.insert("after-b", std::string(5000, 'y'));
    s.apply(both);
    closed = s.tag({.name = "after", .time_ns = 5});
    if (auto wrong = read_all_versions(s); !wrong.empty()) return "after ten operations: " + wrong;
    if (!by.queries.empty() || !by.feeds.empty()) {
      if (auto wrong = judge_kept(s, by, "after ten operations: "); !wrong.empty()) return wrong;
      if (auto wrong = read_feeds(s, by.feeds, seed); !wrong.empty()) return "after ten operations: " + wrong;
    }
    sum = content_sum(s);
    lost = s.lost_versions();
    s.close();
  }
  const store again(path, opening);
  if (content_sum(again) != sum) return "after closing and opening the content is another one:\n" + content_text(again);
  if (!std::ranges::equal(again.lost_versions().ranges(), lost.ranges()))
    return "after closing and opening other versions are lost";
  if (again.clock() <= closed) return "after closing and opening the clock went back";
  if (auto wrong = judge_kept(again, by, "after closing and opening: "); !wrong.empty()) return wrong;
  if (auto wrong = read_feeds(again, by.feeds, seed); !wrong.empty()) return "after closing and opening: " + wrong;
  if (auto wrong = check_space_of_queries(again); !wrong.empty()) return "after closing and opening: " + wrong;
  return verified(again);
}

/// The first byte of a file that has this key; empty if none has.
std::string found_in_files(const left_files& files, std::string_view key) {
  for (const left_file& file : files) {
    const std::string_view bytes(reinterpret_cast<const char*>(file.bytes.data()), file.bytes.size());
    if (const auto found = bytes.find(key); found != std::string_view::npos)
      return "byte " + std::to_string(found) + " of a file has " + std::string(key) + ", which was forgotten";
  }
  return {};
}

std::string found_in_files(const left_files& files, const std::vector<std::string>& keys) {
  for (const std::string& key : keys) {
    if (auto wrong = found_in_files(files, key); !wrong.empty()) return wrong;
  }
  return {};
}

/// What no segment takes, or a free one, is zero.
std::string check_free_space(const store& s) {
  const pool_set& pools = s.core().the_pool();
  std::string wrong;
  const auto require_zeros = [&](link from, link end) {
    if (from < end && !all_zero(pools.at(from), end - from))
      wrong = "free space at byte " + std::to_string(link_offset(from)) + " is not zero";
  };
  std::array<link, format::files_max> ends{};
  for (const pool* p : pools.files()) ends[p->number()] = make_link(p->number(), format::first_segment_offset);
  for_each_segment(pools, [&](const segment& each, const format::segment_header& h) {
    link& end = ends[link_pool(each.offset)];
    require_zeros(end, each.offset);
    if (h.magic == format::free_segment_magic) require_zeros(each.first_record(), each.end());
    end = each.end();
  });
  for (const pool* p : pools.files()) require_zeros(ends[p->number()], make_link(p->number(), p->size()));
  return wrong;
}

/// How an image of a story with retention is packed at last.
struct last_compaction {
  bool asks_again;      ///< to forget all secrets; else what was asked for before the crash is to go alone
  bool while_open;      ///< packs the open store
  bool is_used_before;  ///< else there may be nothing to pack

  explicit last_compaction(std::uint64_t seed) {
    const std::uint64_t draw = std::mt19937_64(seed)();  // deep images have numbers of a kind
    asks_again = draw % 2 == 0;
    while_open = draw / 2 % 2 == 0;
    is_used_before = asks_again || draw / 4 % 2 == 0;
  }
};

/// Packs all: nothing is left of what was to be forgotten.
std::string forget_and_compact(const std::string& path, const options& opening, const judged_by& by) {
  const last_compaction how(by.seed);
  const compaction_options whole{.whole = true, .threads = 1, .on_progress = {}};
  compaction_report report;
  if (how.asks_again || how.while_open) {
    store s(path, opening);
    if (how.asks_again) static_cast<void>(s.forget({.prefixes = {std::string(secret_prefix)}}));
    if (how.while_open) report = s.compact(whole);
  }
  if (!how.while_open) report = compact(path, opening, whole);
  if (!report.erased) return "a compaction that nobody is beside has erased nothing";
  std::vector<std::string> gone;
  {
    const store s(path, opening);
    const auto keys = s.keys();
    const auto is_there = [&](std::string_view key) { return std::ranges::find(keys, key) != keys.end(); };
    for (const std::string& key : secrets()) {
      const bool named = std::ranges::any_of(by.requests, [&](const asked_to_forget& r) { return r.names(key); });
      if (how.asks_again && is_there(key)) return key + " is there after it was forgotten";
      if ((named || how.asks_again) && !is_there(key)) gone.push_back(key);
    }
    const detail::forgotten_keys noted(s.core().the_pool());
    if (!noted.empty() || !noted.segments().empty()) return "a request is there after it was carried out";
    if (auto wrong = check_free_space(s); !wrong.empty()) return "after compacting: " + wrong;
    if (auto wrong = judge_requests(s, by.requests); !wrong.empty()) return "after compacting: " + wrong;
    if (auto wrong = judge_holds(s); !wrong.empty()) return "after compacting: " + wrong;
    if (auto wrong = read_all_versions(s); !wrong.empty()) return "after compacting: " + wrong;
    if (auto wrong = verified(s); !wrong.empty()) return "after compacting: " + wrong;
  }
  if (how.asks_again) gone.emplace_back(secret_prefix);
  return found_in_files(machine::get().left(machine::checked), gone);
}

/// What has expired in a story that mixes is what had, and at most what a compaction in flight lets expire.
std::string judge_expired(const store& s, const judged_by& by) {
  const auto are_in = [](const std::vector<version_range>& some, const std::vector<version_range>& all) {
    for (const version_range& r : some) {
      for (version v = r.first; v < r.end; ++v) {
        const auto has = [v](const version_range& e) { return e.first <= v && v < e.end; };
        if (!std::ranges::any_of(all, has)) return std::optional(v);
      }
    }
    return std::optional<version>();
  };
  const auto now = s.expired_versions();
  if (const auto v = are_in(by.expired_min, now)) return "version " + std::to_string(*v) + " had expired and is back";
  if (const auto v = are_in(now, by.expired_max)) return "version " + std::to_string(*v) + " has expired";
  return {};
}

/// Of a story that mixes: queries and feeds are as they were, behind one more compaction, too.
std::string compact_all(store& s, judged_by& by) {
  const std::uint64_t draw = std::mt19937_64(by.seed)();
  static_cast<void>(s.compact({.whole = draw % 2 == 0,
                               .threads = 1,
                               .bytes_at_once = draw / 2 % 2 == 0 ? 1 + draw % 512 : 0,
                               .on_progress = {}}));
  if (auto wrong = judge_kept(s, by, ""); !wrong.empty()) return wrong;
  if (auto wrong = read_feeds(s, by.feeds, by.seed); !wrong.empty()) return wrong;
  if (auto wrong = judge_holds(s); !wrong.empty()) return wrong;
  if (auto wrong = read_all_versions(s); !wrong.empty()) return wrong;
  return verified(s);
}

/// Opens it; on another host it may be asked what the crash was, and is told.
store opened(const std::string& path, options& opening, judged_by& by) {
  if (!by.elsewhere) return store(path, opening);
  try {
    store s(path, opening);
    for (closed_version& then : by.closed) then.may_be_lost = true;  // nothing is behind them
    return s;
  } catch (const error& e) {
    if (e.code() != errc::crash_unknown) throw;
  }
  opening.crash = *by.elsewhere;
  return store(path, opening);
}

}  // namespace

std::string judge(const story_options& how, const left_files& left, judged_by by, bool deeply) {
  constexpr std::uint64_t searched_one_in = 8;
  if (deeply || by.seed % searched_one_in == 0) {
    if (auto wrong = found_in_files(left, by.gone); !wrong.empty()) return wrong;
  }
  machine::get().assign(machine::checked, left);
  const std::string path = machine::path(machine::checked);
  options opening = opening_options(how, machine::checked);
  opening.check_values = false;  // who comes after one that read all may not
  try {
    store s = opened(path, opening, by);
    const std::uint64_t sum = content_sum(s);
    if (how.mixes) {
      if (auto wrong = judge_writes(s, *by.writes, by.allowed); !wrong.empty())
        return wrong + ":\n" + content_text(s) + verified(s);
      if (auto wrong = judge_expired(s, by); !wrong.empty()) return wrong;
    } else if (std::ranges::find(by.allowed, sum) == by.allowed.end()) {
      return "the content is none of the " + std::to_string(by.allowed.size()) + " that it may be:\n" +
             content_text(s) + verified(s);
    }
    if (s.clock() < by.clock_min) {
      return "the clock is " + std::to_string(s.clock()) + " but was " + std::to_string(by.clock_min);
    }
    if (how.expires || how.mixes) {
      const std::uint64_t kept = retention_sum(s);
      if (std::ranges::find(by.retentions, kept) == by.retentions.end()) {
        return "the retention, or what is held, is another one";
      }
      if (auto wrong = judge_holds(s); !wrong.empty()) return wrong;
      if (auto wrong = judge_requests(s, by.requests); !wrong.empty()) return wrong;
    }
    if (auto wrong = judge_kept(s, by, ""); !wrong.empty()) return wrong;
    const bool has_queries = !by.queries.empty();
    const bool has_feeds = !by.feeds.empty();
    if (has_queries || has_feeds || how.expires) {
      if (auto wrong = check_space_of_queries(s); !wrong.empty()) return wrong;
    }
    constexpr std::uint64_t runs_one_in = 4;
    const bool uses = deeply || by.seed % runs_one_in == 0;
    if (uses && has_feeds) {
      if (auto wrong = use_feeds(s, by.feeds, by.seed, how.mixes); !wrong.empty()) return wrong;
    }
    if (uses && has_queries) {
      if (auto wrong = use_queries(s, by.queries, by.seed); !wrong.empty()) return wrong;
    }
    if (uses && content_sum(s) != sum) return "queries or feeds changed the content";
    if (!deeply) return {};
    if (auto wrong = read_closed_versions(s, by.closed); !wrong.empty()) return wrong;
    if (auto wrong = read_all_versions(s); !wrong.empty()) return wrong;
    if (auto wrong = verified(s); !wrong.empty()) return wrong;
    if (how.mixes) {
      if (auto wrong = compact_all(s, by); !wrong.empty()) return "after compacting: " + wrong;
    }
    if (!how.expires || last_compaction(by.seed).is_used_before) {
      if (auto wrong = use(path, opening, std::move(s), by, sum); !wrong.empty() || !how.expires) return wrong;
    } else {
      s.close();
    }
    return forget_and_compact(path, opening, by);
  } catch (const error& e) {
    return std::string("an error: ") + e.what();
  }
}

}  // namespace icecore::crash
