#include "kept_check.hpp"

#include <algorithm>
#include <map>
#include <random>

#include "query/kept/catalog.hpp"
#include "query/kept/kept_query.hpp"

namespace icecore::crash {
namespace {

/// Rows from one on are a part of the answer; returns the number behind the last.
std::string read_rows(const query& q, const query_answer& answer, std::uint64_t from, std::uint64_t& end) {
  if (q.keeps() == query_keeps::rows) {
    const auto rows = kept_rows_from(q, from);
    end = from + rows.size();
    const bool right = end <= std::max<std::uint64_t>(from, answer.rows.size()) &&
                       std::equal(rows.begin(), rows.end(),
                                  answer.rows.begin() + static_cast<std::ptrdiff_t>(rows.empty() ? 0 : from));
    return right ? "" : q.name() + " has other rows from row " + std::to_string(from) + " on";
  }
  std::uint64_t n = from;
  auto rows = q.results(from);
  for (const auto& row : rows) {
    const bool right = n < answer.rows.size() && row.number == n && row.key == answer.rows[n].first &&
                       row.value == answer.rows[n].second;
    if (!right) {
      return q.name() + " has as row " + std::to_string(row.number) + " " + std::string(row.key.substr(0, 40)) + " = " +
             std::string(row.value.value_or("(nothing)").substr(0, 40)) + ", where row " + std::to_string(n) + " is " +
             (n < answer.rows.size() ? answer.rows[n].first.substr(0, 40) + " = " + answer.rows[n].second.substr(0, 40)
                                     : "not there");
    }
    ++n;
  }
  end = n;
  return {};
}

std::vector<std::string> borders_of(const store& s, const query& q) {
  return detail::query_catalog::of(s.core()).find(q.name())->definition().borders;
}

std::string judge_one(const store& s, const query& q, const kept_query& wanted) {
  const std::string& name = wanted.name;
  if (q.version() != wanted.at) return name + " is of version " + std::to_string(q.version());
  if (q.keeps() != wanted.keeps || q.where().fingerprint() != filter_of_stories(wanted.filter).fingerprint())
    return name + " has another definition";
  const query_answer answer = answer_of(s.at(wanted.at), wanted.filter);
  if (wanted.answer_certain && answer != wanted.answer) return "the version of " + name + " has another answer";
  const query_progress p = q.progress();
  if (p.state == query_state::cancelled && !wanted.cancelled_possibly) return name + " is cancelled";
  if (p.state == query_state::running) return name + " runs";
  if (wanted.cancelled_surely && p.state != query_state::cancelled) return name + " is not cancelled any more";
  if (wanted.finished && p.state != query_state::finished) return name + " is not finished any more";
  const std::string numbers = " (" + std::to_string(p.rows) + " rows of " + std::to_string(p.examined) + " keys)";
  if (p.rows < wanted.rows_min || p.examined < wanted.examined_min) return name + " went back" + numbers;
  if (p.rows > answer.rows.size() || p.examined > answer.examined) return name + " is too far" + numbers;
  if (std::ranges::find(wanted.acknowledged, q.acknowledged()) == wanted.acknowledged.end())
    return std::to_string(q.acknowledged()) + " rows of " + name + " are acknowledged";
  if (q.keeps() != query_keeps::keys) {
    if (auto wrong = judge_totals(q, answer, borders_of(s, q)); !wrong.empty()) return wrong;
  }
  if (q.keeps() == query_keeps::count) return {};
  std::uint64_t end = 0;
  if (auto wrong = read_rows(q, answer, 0, end); !wrong.empty()) return wrong;
  if (end < wanted.numbered_min) return name + " has lost rows that were read: there are " + std::to_string(end);
  return {};
}

/// Runs it to its end.
std::string finish(const store& s, query& q, const kept_query& wanted, std::mt19937_64& random) {
  run_options how{.threads = random() % 4 == 0 ? 2U : 1U, .every = std::chrono::hours(1)};
  how.every_item = random() % 3 == 0;
  if (random() % 2 == 0) {
    how.keys = 1 + random() % 6;
    static_cast<void>(q.run(how));
    how.keys.reset();
  }
  const query_progress p = q.run(how);
  const query_answer answer = answer_of(s.at(wanted.at), wanted.filter);
  if (p.state != query_state::finished || p.rows != answer.rows.size() || p.examined != answer.examined) {
    return wanted.name + " ran to an end with " + std::to_string(p.rows) + " rows of " + std::to_string(p.examined) +
           " keys in state " + std::to_string(static_cast<int>(p.state)) + ", not " +
           std::to_string(answer.rows.size()) + " of " + std::to_string(answer.examined);
  }
  if (q.keeps() != query_keeps::keys) {
    if (auto wrong = judge_totals(q, answer, borders_of(s, q)); !wrong.empty()) return "at its end " + wrong;
  }
  if (q.keeps() == query_keeps::count) return {};
  for (const std::uint64_t from : {std::uint64_t{0}, random() % (answer.rows.size() + 1)}) {
    std::uint64_t end = 0;
    if (auto wrong = read_rows(q, answer, from, end); !wrong.empty()) return "at its end " + wrong;
    if (end != answer.rows.size()) return wanted.name + " lacks rows at its end: it has " + std::to_string(end);
  }
  return {};
}

}  // namespace

std::string judge_queries(const store& s, const std::vector<kept_query>& queries) {
  std::vector<std::string> there;
  for (const query& q : s.queries()) {
    const auto wanted = std::ranges::find(queries, q.name(), &kept_query::name);
    if (wanted == queries.end()) return q.name() + " is there, but was never started, or dropped";
    there.push_back(q.name());
    if (auto wrong = judge_one(s, s.query(q.name()), *wanted); !wrong.empty()) return wrong;
  }
  for (const kept_query& q : queries) {
    if (!q.surely || std::ranges::find(there, q.name) != there.end()) continue;
    try {
      static_cast<void>(s.query(q.name));
    } catch (const error& e) {
      return q.name + " is gone: " + e.what();
    }
  }
  return {};
}

std::string use_queries(store& s, std::vector<kept_query>& queries, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<kept_query> left;
  for (query& q : s.queries()) {
    kept_query now = *std::ranges::find(queries, q.name(), &kept_query::name);
    if (random() % 4 == 0) {
      q.drop();
      continue;
    }
    if (q.state() != query_state::cancelled) {
      if (auto wrong = finish(s, q, now, random); !wrong.empty()) return wrong;
      now.finished = true;
      now.rows_min = now.numbered_min = now.keeps == query_keeps::count ? 0 : now.answer.rows.size();
    }
    now.surely = true;
    now.acknowledged = {q.acknowledged()};
    if (!now.answer_certain) now.rows_min = now.numbered_min = 0;
    left.push_back(now);
  }
  for (const char* name : {"one after", "another after"}) {
    kept_query next{.name = name, .filter = static_cast<unsigned>(random() % filters_of_stories)};
    query q = s.start({.name = name, .where = filter_of_stories(next.filter)});
    next.at = q.version();
    if (auto wrong = finish(s, q, next, random); !wrong.empty()) return wrong;
    next.answer = answer_of(s.at(next.at), next.filter);
    next.surely = next.possibly = next.finished = true;
    left.push_back(next);
  }
  queries = std::move(left);
  if (auto wrong = judge_queries(s, queries); !wrong.empty()) return "after others were started: " + wrong;
  return check_space_of_queries(s);
}

std::string check_space_of_queries(const store& s) {
  auto& catalog = detail::query_catalog::of(s.core());
  const query_space& space = catalog.space();
  pool_set& pools = space.pools();
  // lists of free segments may be there without any query
  if (pools.roots().read().version_major < format::version_major_with_queries) return {};
  const auto& anchor =
      *reinterpret_cast<const format::query_anchor*>(pools.first().base() + format::query_anchor_offset);
  std::map<link, std::string> owners;
  std::string wrong;
  const auto follow = [&](const std::string& of, const std::atomic<std::uint64_t>& first, unsigned size_class) {
    std::optional<link> at = space.read_link(first);
    while (at && *at != null_link && wrong.empty()) {
      const std::string place = pools.place_of(*at);
      if (!pools.valid_header(*at, format::query_segment_magic))
        wrong = of + " leads to no segment at " + place;
      else if (pools.segment_at(*at).size != format::query_segment_sizes[size_class])
        wrong = of + ": size at " + place;
      else if (const auto [other, added] = owners.emplace(*at, of); !added)
        wrong = of + " and " + other->second + " both have the segment at " + place;
      if (!wrong.empty()) return;
      at = pools.codec().decode_link(pools.header_of(*at).next_free, *at + offsetof(format::segment_header, next_free));
    }
    if (!at && wrong.empty()) wrong = of + ": a link cannot be read";
  };
  for (unsigned c = 0; c < format::query_size_classes; ++c) follow("the free list", anchor.free[c], c);
  for (const link head : space.heads([&](link, const std::string& what) { wrong = what; })) {
    for (unsigned c = 0; c < format::query_size_classes; ++c) {
      follow("the query at " + pools.place_of(head), space.head_at(head).segments[c], c);
    }
    if (wrong.empty() && !owners.contains(head)) wrong = "a query does not have its head";
  }
  if (!wrong.empty()) return wrong;
  for (const pool* p : pools.files()) {
    for (std::uint64_t at = format::first_segment_offset; at < p->used_end();) {
      const link l = make_link(p->number(), at);
      std::uint64_t size = format::granule_size;
      for (const std::uint32_t magic :
           {format::segment_magic, format::index_segment_magic, format::query_segment_magic}) {
        if (!p->valid_header(l, magic)) continue;
        size = p->segment_at(l).size;
        if (magic == format::query_segment_magic && !owners.contains(l))
          return "the segment of a query at " + pools.place_of(l) + " is in no list";
      }
      at += size;
    }
  }
  return {};
}

}  // namespace icecore::crash
