#include <algorithm>
#include <exception>
#include <random>

#include "conversions.hpp"
#include "reading.hpp"

namespace icecore::remote {

using detail::in;

store::store(std::shared_ptr<detail::database> of, std::chrono::milliseconds deadline) noexcept
    : of_(std::move(of)), deadline_(deadline) {}

const std::string& store::name() const noexcept { return of_->name; }

database_status store::status() const {
  auto told =
      of_->ask<wire::describe_database_answer>(0, wire::describe_database_request{}, in(deadline_), true).status;
  return {.info = detail::info_of(told.settings),
          .newest = told.newest,
          .durable = told.durable,
          .compacted = told.compacted,
          .keys = told.keys,
          .records = told.records,
          .tags = told.tags,
          .used_bytes = told.used_bytes,
          .file_bytes = told.file_bytes,
          .leases = told.leases,
          .watches = told.watches,
          .waiting = told.waiting,
          .medium = std::move(told.medium),
          .sick = std::move(told.sick)};
}

std::optional<value> store::find(std::string_view key) const {
  return detail::find(*of_, key, service::newest{}, deadline_);
}
std::optional<value> store::find(std::string_view key, version at) const {
  return detail::find(*of_, key, at, deadline_);
}
std::optional<value> store::find(std::string_view key, std::string_view tag) const {
  return detail::find(*of_, key, service::tag_name{std::string(tag)}, deadline_);
}

std::vector<std::optional<value>> store::find_many(std::span<const std::string_view> keys) const {
  const std::vector<service::point> at(of_->all->parts(), service::newest{});
  return detail::find_many(*of_, keys, at, deadline_);
}

snapshot store::at(version closed) const {
  static_cast<void>(of_->only_part("a version's number"));
  return detail::resolve(of_, closed, deadline_);
}
snapshot store::at(std::string_view tag) const {
  return detail::resolve(of_, service::tag_name{std::string(tag)}, deadline_);
}
snapshot store::at(std::chrono::system_clock::time_point time) const {
  return detail::resolve(of_, service::wall_time{time}, deadline_);
}
snapshot store::latest() const { return detail::resolve(of_, service::newest{}, deadline_); }

history_range store::history(std::string_view key) const {
  std::vector<std::unique_ptr<detail::row_source>> parts;
  parts.push_back(std::make_unique<detail::row_source>(of_, of_->all->server_of(key),
                                                       wire::open_history_request{.key = std::string(key)}, deadline_));
  return history_range(std::make_shared<detail::row_merge>(std::move(parts), false));
}

namespace {

/// The version of a part in a snapshot. errc::invalid_argument if it is one of another number of servers.
version version_of(const snapshot& at, std::size_t part, std::size_t parts) {
  if (at.versions().size() == parts) return at.versions()[part];
  throw icecore::error(errc::invalid_argument, "the snapshot is of a store with another number of servers");
}

using row_sources = std::vector<std::unique_ptr<detail::row_source>>;

}  // namespace

difference_range store::diff(version before, version after, const key_bounds& bounds) const {
  const std::size_t part = of_->only_part("differences between numbers of versions");
  row_sources parts;
  const wire::open_differences_request asked{.before = before, .after = after, .bounds = bounds};
  parts.push_back(std::make_unique<detail::row_source>(of_, part, asked, deadline_));
  return difference_range(std::make_shared<detail::row_merge>(std::move(parts), false));
}

difference_range store::diff(const snapshot& before, const snapshot& after, const key_bounds& bounds) const {
  row_sources parts;
  const std::size_t count = of_->all->parts();
  for (std::size_t part = 0; part < count; ++part) {
    const wire::open_differences_request asked{
        .before = version_of(before, part, count), .after = version_of(after, part, count), .bounds = bounds};
    parts.push_back(std::make_unique<detail::row_source>(of_, part, asked, deadline_));
  }
  return difference_range(std::make_shared<detail::row_merge>(std::move(parts), false));
}

change_range store::changes(version after, version up_to, const key_bounds& bounds) const {
  const std::size_t part = of_->only_part("changes between numbers of versions");
  row_sources parts;
  const wire::open_changes_request asked{.after = after, .up_to = up_to, .bounds = bounds};
  parts.push_back(std::make_unique<detail::row_source>(of_, part, asked, deadline_));
  return change_range(std::make_shared<detail::row_merge>(std::move(parts), false, true));
}

change_range store::changes(const snapshot& after, const snapshot& up_to, const key_bounds& bounds) const {
  row_sources parts;
  const std::size_t count = of_->all->parts();
  for (std::size_t part = 0; part < count; ++part) {
    const wire::open_changes_request asked{
        .after = version_of(after, part, count), .up_to = version_of(up_to, part, count), .bounds = bounds};
    parts.push_back(std::make_unique<detail::row_source>(of_, part, asked, deadline_));
  }
  return change_range(std::make_shared<detail::row_merge>(std::move(parts), false, true));
}

version store::tag(std::string_view name, std::string_view note) {
  const wire::tag_request asked{.name = std::string(name), .note = std::string(note)};
  version first = 0;
  for (std::size_t part = 0; part < of_->all->parts(); ++part) {
    const version closed = of_->ask<wire::version_answer>(part, asked, in(deadline_), false).version;
    if (part == 0) first = closed;
  }
  return first;
}

std::vector<tag_info> store::tags() const {
  return of_->ask<wire::list_tags_answer>(0, wire::list_tags_request{}, in(deadline_), true).tags;
}

std::optional<tag_info> store::find_tag(std::string_view name) const {
  const wire::find_tag_request asked{.at = service::tag_name{std::string(name)}};
  return of_->ask<wire::find_tag_answer>(0, asked, in(deadline_), true).tag;
}

void store::compact(version oldest_kept) {
  const std::size_t part = of_->only_part("compact() to a version's number");
  static_cast<void>(of_->ask<wire::bare_request<wire::operation_number::compact>>(
      part, wire::compact_request{.oldest_kept = oldest_kept}, in(deadline_), true));
}

void store::compact(const snapshot& oldest_kept) {
  const std::size_t count = of_->all->parts();
  for (std::size_t part = 0; part < count; ++part) {
    static_cast<void>(of_->ask<wire::bare_request<wire::operation_number::compact>>(
        part, wire::compact_request{.oldest_kept = version_of(oldest_kept, part, count)}, in(deadline_), true));
  }
}

// ---- Leases ----

namespace {

/// A number that nobody else takes: all servers are to have the same one.
lease_number any_number() {
  std::random_device source;
  return (std::uint64_t{source()} << 31 ^ source()) | 1;
}

void add(const lease_info& of_one, std::optional<lease_info>& to) {
  if (!to) {
    to = of_one;
    return;
  }
  to->granted = std::min(to->granted, of_one.granted);
  to->left = std::min(to->left, of_one.left);
  to->keys.insert(to->keys.end(), of_one.keys.begin(), of_one.keys.end());
}

/// Asks all parts, whatever one of them answers, and then throws the first failure.
template <class Ask>
void ask_all(std::size_t parts, const Ask& ask) {
  std::exception_ptr failed;
  for (std::size_t part = 0; part < parts; ++part) {
    try {
      ask(part);
    } catch (const icecore::error&) {
      if (!failed) failed = std::current_exception();
    }
  }
  if (failed) std::rethrow_exception(failed);
}

}  // namespace

lease_info store::grant_lease(std::chrono::milliseconds time, lease_number wanted) {
  const std::size_t parts = of_->all->parts();
  const lease_number number = parts > 1 && wanted == 0 ? any_number() : wanted;
  const wire::grant_lease_request asked{.time_ms = static_cast<std::uint64_t>(std::max<std::int64_t>(0, time.count())),
                                        .wanted = number};
  std::optional<lease_info> granted;
  for (std::size_t part = 0; part < parts; ++part) {
    try {
      add(detail::lease_of(of_->ask<wire::lease_answer>(part, asked, in(deadline_), false)), granted);
    } catch (...) {
      for (std::size_t before = 0; before < part; ++before) {
        try {
          const wire::revoke_lease_request back{.lease = number};
          static_cast<void>(of_->ask<wire::revoke_lease_answer>(before, back, in(deadline_), false));
        } catch (const icecore::error&) {  // it ends by itself
        }
      }
      throw;
    }
  }
  return std::move(*granted);
}

lease_info store::keep_lease(lease_number lease) {
  const wire::keep_lease_request asked{.lease = lease};
  std::optional<lease_info> kept;
  ask_all(of_->all->parts(), [&](std::size_t part) {
    add(detail::lease_of(of_->ask<wire::lease_answer>(part, asked, in(deadline_), true)), kept);
  });
  return std::move(*kept);
}

std::uint64_t store::revoke_lease(lease_number lease) {
  const wire::revoke_lease_request asked{.lease = lease};
  std::uint64_t removed = 0;
  ask_all(of_->all->parts(), [&](std::size_t part) {
    removed += of_->ask<wire::revoke_lease_answer>(part, asked, in(deadline_), false).removed;
  });
  return removed;
}

lease_info store::lease(lease_number lease, bool keys) const {
  const wire::describe_lease_request asked{.lease = lease, .keys = keys};
  std::optional<lease_info> told;
  ask_all(of_->all->parts(), [&](std::size_t part) {
    add(detail::lease_of(of_->ask<wire::lease_answer>(part, asked, in(deadline_), true)), told);
  });
  std::ranges::sort(told->keys);
  return std::move(*told);
}

std::vector<lease_number> store::leases() const {
  std::vector<lease_number> all;
  ask_all(of_->all->parts(), [&](std::size_t part) {
    const auto some = of_->ask<wire::list_leases_answer>(part, wire::list_leases_request{}, in(deadline_), true).leases;
    all.insert(all.end(), some.begin(), some.end());
  });
  std::ranges::sort(all);
  all.erase(std::ranges::unique(all).begin(), all.end());
  return all;
}

}  // namespace icecore::remote
