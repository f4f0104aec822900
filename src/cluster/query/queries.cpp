// Kept queries of all ranks. A rank's part is a kept query of its store, which keeps the promises of one; here the
// ranks agree about names and versions.
//
// A crash amid start_query() leaves the parts of some ranks, which never ran. find_query() and start_query() compare
// what the ranks have, and drop such parts: nobody was told of the query. A part that ran is never dropped so.
#include "icecore/cluster_query.hpp"

#include <algorithm>
#include <vector>

#include "base/checksum.hpp"
#include "cluster/cluster_core.hpp"

namespace icecore {
namespace mpi {
namespace {

/// What a rank has of a query.
enum standing : std::int64_t { absent = 0, never_ran = 1, there = 2 };

std::int64_t standing_of(const std::optional<query>& part) {
  if (!part) return absent;
  return part->state() == query_state::ready ? never_ran : there;
}

std::optional<query> part_of(const store& own, std::string_view name, const function_resolver& functions) {
  try {
    return own.query(name, functions);
  } catch (const error& e) {
    if (e.code() != errc::no_such_query) throw;
    return std::nullopt;
  }
}

/// Equal if all ranks ask for the same.
std::int64_t digest_of(const query_request& what) {
  std::uint32_t crc = crc32c(0, what.name.data(), what.name.size());
  crc = crc32c(crc, what.at.value_or(~version{0}));
  crc = crc32c(crc, static_cast<std::uint64_t>(what.keep));
  const auto add = [&crc](std::string_view text) { crc = crc32c(crc32c(crc, text.size()), text.data(), text.size()); };
  for (const std::string& column : what.select) add(column);
  for (const aggregate_of& total : what.aggregates) {
    crc = crc32c(crc, static_cast<std::uint64_t>(total.how));
    add(total.expression);
  }
  const auto filter = what.where.fingerprint();
  return crc32c(crc, filter.data(), filter.size());
}

/// What a rank tells of its part, as bytes.
struct part_progress {
  std::uint8_t state;
  std::uint64_t examined, expected, rows, repeated, runs;
  std::int64_t worked_us;
  std::int64_t left_us;  ///< less than 0: not known
};

query_state state_of(const std::vector<part_progress>& parts) {
  const auto any = [&](query_state s) {
    return std::ranges::any_of(parts, [s](const auto& p) { return p.state == static_cast<std::uint8_t>(s); });
  };
  for (const query_state s : {query_state::cancelled, query_state::running, query_state::paused}) {
    if (any(s)) return s;
  }
  if (!any(query_state::ready)) return query_state::finished;
  return any(query_state::finished) ? query_state::paused : query_state::ready;
}

}  // namespace

/// Drops what a crash has left. Returns whether all ranks have the query.
bool cluster_core::agree_on_query(std::string_view name, std::optional<query>& part,
                                  const function_resolver& functions) {
  std::int64_t mine = absent;
  const auto failure = attempt([&] {
    part = part_of(*store_, name, functions);
    mine = standing_of(part);
  });
  const agreed found = agree_.on(step::query_found, failure, mine);
  if (found.least != absent) return true;
  if (found.greatest == there) {
    agree_.refuse(errc::no_such_query, fmt::format("query '{}' is not on all ranks, perhaps because it is damaged on "
                                                   "some; cluster::drop_query() takes it away",
                                                   name));
  }
  const auto dropped = attempt([&] {
    if (part && !store_->read_only()) part->drop();
  });
  part.reset();
  agree_.on(step::query_cleared, dropped);
  return false;
}

query cluster_core::find_query(std::string_view name, const function_resolver& functions) {
  begin_collective();
  return agree_.all([&] {
    const agreed same =
        agree_.on(step::query_asked, nullptr, static_cast<std::int64_t>(crc32c(0, name.data(), name.size())));
    if (same.least != same.greatest) agree_.refuse(errc::invalid_argument, "the ranks ask for different queries");
    std::optional<query> part;
    if (!agree_on_query(name, part, functions)) {
      agree_.refuse(errc::no_such_query, fmt::format("no query is named '{}'", name));
    }
    return std::move(*part);
  });
}

query cluster_core::start_query(const query_request& what) {
  begin_collective();
  return agree_.all([&] { return start_query_of_all(what); });
}

query cluster_core::start_query_of_all(const query_request& what) {
  const auto bad = attempt([&] {
    if (store_->read_only()) throw error(errc::read_only, "the cluster was opened for reading only");
    if (what.at) check_closed(*what.at);
  });
  const agreed same = agree_.on(step::query_asked, bad, digest_of(what));
  if (same.least != same.greatest) agree_.refuse(errc::invalid_argument, "the ranks start different queries");
  std::optional<query> part;
  if (agree_on_query(what.name, part, {})) {
    agree_.refuse(errc::query_exists, fmt::format("a query is named '{}' already", what.name));
  }

  // starting makes the version durable, which may close the open version: that must be one instant for all ranks (C2)
  const write_gate::hold held = hold_writes();
  const auto fenced = attempt([&] { fence_all(); });
  const auto open =
      static_cast<version>(agree_.on(step::query_held, fenced, static_cast<std::int64_t>(store_->clock())).greatest);
  query_request own = what;
  if (!own.at) own.at = open;
  const auto failure = attempt([&] {
    if (!what.at) {
      store_->skip_to(open);
      static_cast<void>(store_->tag());
    }
    part = store_->start(own);
  });
  try {
    agree_.on(step::query_started, failure);
  } catch (...) {
    if (part) static_cast<void>(attempt([&] { part->drop(); }));
    align_after_failure(step::query_clock, step::query_aligned);
    throw;
  }
  align_clocks(step::query_clock, step::query_aligned);
  return std::move(*part);
}

void cluster_core::change_query(query& part, const std::function<void(query&)>& change) {
  begin_collective();
  agree_.all([&] { agree_.on(step::query_changed, attempt([&] { change(part); })); });
}

void cluster_core::drop_query(std::string_view name) {
  begin_collective();
  agree_.all([&] {
    agree_.on(step::query_changed, attempt([&] {
                if (auto part = part_of(*store_, name, {})) part->drop();
              }));
  });
}

query_progress cluster_core::progress_of_query(const query& part) {
  begin_collective();
  return agree_.all([&] {
    part_progress mine{};
    agree_.on(
        step::query_told, attempt([&] {
          const query_progress p = part.progress();
          mine = {
              static_cast<std::uint8_t>(p.state), p.examined, p.expected, p.rows, p.repeated, p.runs, p.worked.count(),
              p.left ? p.left->count() : -1};
        }));
    std::vector<part_progress> all(static_cast<std::size_t>(ranks_));
    agree_.gather(&mine, sizeof mine, all.data());
    query_progress sum{};
    std::int64_t left_us = -1;
    for (const part_progress& p : all) {
      sum.examined += p.examined;
      sum.expected += p.expected;
      sum.rows += p.rows;
      sum.repeated += p.repeated;
      sum.runs = std::max(sum.runs, p.runs);
      sum.worked += std::chrono::microseconds(p.worked_us);
      left_us = std::max(left_us, p.left_us);
    }
    sum.state = state_of(all);
    if (left_us >= 0) sum.left = std::chrono::microseconds(left_us);
    return sum;
  });
}

query_progress cluster_core::run_query(query& part, const run_options& how) {
  run_options own = how;
  own.on_progress = [this, &how](const query_progress& p) {
    running_.step_now_and_then();  // other ranks are answered meanwhile, now and then
    if (how.on_progress) how.on_progress(p);
  };
  change_query(part, [&](query& q) { q.run(own); });
  return progress_of_query(part);
}

}  // namespace mpi

query_progress cluster_query::run(const run_options& how) { return core_->run_query(part_, how); }
query_progress cluster_query::progress() const { return core_->progress_of_query(part_); }
void cluster_query::cancel() {
  core_->change_query(part_, [](query& q) { q.cancel(); });
}
void cluster_query::drop() { core_->drop_query(name()); }

}  // namespace icecore
