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

difference_range store::diff(version before, version after, const key_bounds& bounds) const {
  const std::size_t part = of_->only_part("differences");
  std::vector<std::unique_ptr<detail::row_source>> parts;
  const wire::open_differences_request asked{.before = before, .after = after, .bounds = bounds};
  parts.push_back(std::make_unique<detail::row_source>(of_, part, asked, deadline_));
  return difference_range(std::make_shared<detail::row_merge>(std::move(parts), false));
}

change_range store::changes(version after, version up_to, const key_bounds& bounds) const {
  const std::size_t part = of_->only_part("changes");
  std::vector<std::unique_ptr<detail::row_source>> parts;
  const wire::open_changes_request asked{.after = after, .up_to = up_to, .bounds = bounds};
  parts.push_back(std::make_unique<detail::row_source>(of_, part, asked, deadline_));
  return change_range(std::make_shared<detail::row_merge>(std::move(parts), false));
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
  const std::size_t part = of_->only_part("compact()");
  static_cast<void>(of_->ask<wire::bare_request<wire::operation_number::compact>>(
      part, wire::compact_request{.oldest_kept = oldest_kept}, in(deadline_), true));
}

lease_info store::grant_lease(std::chrono::milliseconds time, lease_number wanted) {
  const wire::grant_lease_request asked{.time_ms = static_cast<std::uint64_t>(std::max<std::int64_t>(0, time.count())),
                                        .wanted = wanted};
  return detail::lease_of(of_->ask<wire::lease_answer>(of_->only_part("leases"), asked, in(deadline_), false));
}
lease_info store::keep_lease(lease_number lease) {
  const wire::keep_lease_request asked{.lease = lease};
  return detail::lease_of(of_->ask<wire::lease_answer>(of_->only_part("leases"), asked, in(deadline_), true));
}
std::uint64_t store::revoke_lease(lease_number lease) {
  const wire::revoke_lease_request asked{.lease = lease};
  return of_->ask<wire::revoke_lease_answer>(of_->only_part("leases"), asked, in(deadline_), false).removed;
}
lease_info store::lease(lease_number lease, bool keys) const {
  const wire::describe_lease_request asked{.lease = lease, .keys = keys};
  return detail::lease_of(of_->ask<wire::lease_answer>(of_->only_part("leases"), asked, in(deadline_), true));
}
std::vector<lease_number> store::leases() const {
  return of_->ask<wire::list_leases_answer>(of_->only_part("leases"), wire::list_leases_request{}, in(deadline_), true)
      .leases;
}

}  // namespace icecore::remote
