#include <algorithm>

#include "conversions.hpp"
#include "reading.hpp"

namespace icecore::remote {

namespace detail {

std::optional<value> find(const database& of, std::string_view key, const service::point& at,
                          std::chrono::milliseconds deadline) {
  const wire::get_request_view asked{.key = key, .at = at};
  const std::size_t part = of.all->server_of(key);
  const wire::answer got = of.all->call(
      {.server = part, .database = of.name, .repeatable = true}, asked.number, [&] { return wire::encoded(asked); },
      in(deadline));
  if (got.status != wire::status_ok) throw_answer(got, of.all->link_of(part).name());
  return read_get(got.payload.view());
}

std::vector<std::optional<value>> find_many(const database& of, std::span<const std::string_view> keys,
                                            std::span<const service::point> at, std::chrono::milliseconds deadline) {
  std::vector<std::optional<value>> values(keys.size());
  for (std::size_t part = 0; part < at.size(); ++part) {
    wire::get_many_request asked;
    asked.at = at[part];
    std::vector<std::size_t> places;
    for (std::size_t i = 0; i < keys.size(); ++i) {
      if (of.all->part_of(keys[i]) != part) continue;
      asked.keys.add(keys[i]);
      places.push_back(i);
    }
    if (places.empty()) continue;
    const auto told = of.ask<wire::get_many_answer>(part, asked, in(deadline), true);
    if (told.found.size() != places.size() || told.values.size() != places.size()) throw_not_understood();
    for (std::size_t i = 0; i < places.size(); ++i) {
      if (told.found[i] != 0) values[places[i]].emplace(std::string(told.values[i]), told.version);
    }
  }
  return values;
}

snapshot resolve(const std::shared_ptr<database>& of, const service::point& at, std::chrono::milliseconds deadline) {
  std::vector<version> versions;
  for (std::size_t part = 0; part < of->all->parts(); ++part) {
    const wire::resolve_request asked{.at = at};
    versions.push_back(of->ask<wire::version_answer>(part, asked, in(deadline), true).version);
  }
  return {of, std::move(versions), deadline};
}

}  // namespace detail

namespace {

item_range scan(const std::shared_ptr<detail::database>& of, std::span<const version> versions,
                const key_bounds& bounds, bool reverse, std::chrono::milliseconds deadline) {
  std::vector<std::unique_ptr<detail::row_source>> parts;
  for (std::size_t part = 0; part < versions.size(); ++part) {
    const wire::open_scan_request asked{.bounds = bounds, .at = versions[part], .reverse = reverse};
    parts.push_back(std::make_unique<detail::row_source>(of, part, asked, deadline));
  }
  return item_range(std::make_shared<detail::row_merge>(std::move(parts), reverse));
}

}  // namespace

snapshot::snapshot(std::shared_ptr<detail::database> of, std::vector<icecore::version> versions,
                   std::chrono::milliseconds deadline) noexcept
    : of_(std::move(of)), versions_(std::move(versions)), deadline_(deadline) {}

std::optional<value> snapshot::find(std::string_view key) const {
  return detail::find(*of_, key, versions_[of_->all->part_of(key)], deadline_);
}

std::vector<std::optional<value>> snapshot::find_many(std::span<const std::string_view> keys) const {
  const std::vector<service::point> at(versions_.begin(), versions_.end());
  return detail::find_many(*of_, keys, at, deadline_);
}

item_range snapshot::range(const key_bounds& bounds) const { return scan(of_, versions_, bounds, false, deadline_); }

item_range snapshot::reversed(const key_bounds& bounds) const { return scan(of_, versions_, bounds, true, deadline_); }

std::uint64_t snapshot::count(const key_bounds& bounds) const {
  std::uint64_t sum = 0;
  for (std::size_t part = 0; part < versions_.size(); ++part) {
    const wire::count_request asked{.bounds = bounds, .at = versions_[part]};
    sum += of_->ask<wire::count_answer>(part, asked, detail::in(deadline_), true).count;
  }
  return sum;
}

version snapshot::version() const { return versions_[of_->only_part("a version's number")]; }

}  // namespace icecore::remote
