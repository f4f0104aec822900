#include "cluster/partitions/store_partition.hpp"

#include <algorithm>
#include <exception>

#include "cluster/read/mapped_stream.hpp"

namespace icecore::mpi {

// A crash may have closed a read-only store below the version that the other ranks reached.
version store_partition::readable(version at) const { return store_.read_only() ? std::min(at, store_.clock()) : at; }

std::optional<value> store_partition::view(std::string_view key, read_at at) const {
  return at ? store_.find(key, readable(*at)) : store_.find(key);
}

pin store_partition::views(std::span<const std::string_view> keys, read_at at,
                           std::span<std::optional<std::string_view>> out) const {
  if (at) return store_.find_many(keys, readable(*at), out);
  pin holds = store_.hold();
  std::ranges::transform(keys, out.begin(), [this](std::string_view key) -> std::optional<std::string_view> {
    const auto found = store_.find(key);
    return found ? std::optional(found->bytes()) : std::nullopt;
  });
  return holds;
}

std::optional<std::string> store_partition::find(std::string_view key, read_at at) {
  const auto found = view(key, at);
  if (!found) return std::nullopt;
  return std::string(*found);
}

held_value store_partition::hold(std::string_view key) {
  auto found = store_.find(key);
  if (!found) return {};
  const std::string_view bytes = found->bytes();
  return {bytes, nullptr, std::move(*found).take_pin()};
}

bool store_partition::contains(std::string_view key, read_at at) { return view(key, at).has_value(); }

answer<found_values> store_partition::find_many(std::vector<std::string_view> keys, read_at at) {
  return answer<found_values>([this, keys = std::move(keys), at] {
    std::vector<std::optional<std::string_view>> found(keys.size());
    const pin holds = views(keys, at, found);
    return found_values(found.begin(), found.end());
  });
}

std::vector<versioned_value> store_partition::history(std::string_view key) {
  std::vector<versioned_value> past;
  for (const change& record : records(key)) past.push_back({record.version, std::optional<std::string>(record.value)});
  return past;
}

std::unique_ptr<item_stream> store_partition::scan(const scan_request& wanted) {
  return std::make_unique<mapped_stream>(at(wanted.at), wanted);
}

answer<std::uint64_t> store_partition::count(version at) {
  return answer<std::uint64_t>([this, at] { return std::uint64_t{this->at(at).size(1)}; });
}

answer<std::uint64_t> store_partition::count(version at, const filter& condition) {
  return answer<std::uint64_t>([this, at, condition] { return this->at(at).count(condition); });
}

cluster_page store_partition::page(version at, const filter& condition, const page_limits& limits,
                                   std::string_view token) {
  const icecore::page found = this->at(at).page(condition, limits, token);
  cluster_page copy{{}, found.token, found.examined, found.end};
  copy.items.reserve(found.items.size());
  for (const item& i : found.items) copy.items.emplace_back(i.key, i.value);
  return copy;
}

/// The one that stands there, or a new one.
feed store_partition::feed_at(const feed_part_request& wanted) {
  {
    const std::scoped_lock lock(feeds_mutex_);
    const auto there = std::ranges::find_if(feeds_, [&wanted](const open_feed& each) {
      return !wanted.token.empty() && each.token == wanted.token && each.unsynced == wanted.unsynced;
    });
    if (there != feeds_.end()) {
      icecore::feed found = std::move(there->feed);
      feeds_.erase(there);
      return found;
    }
  }
  // of a store that a crash closed below the version that the others reached
  const version after = store_.read_only() ? std::min(wanted.after, store_.clock() - 1) : wanted.after;
  return store_.feed({.after = after,
                      .where = wanted.where,
                      .snapshot = wanted.snapshot,
                      .behind_key = wanted.behind_key,
                      .unsynced = wanted.unsynced,
                      .token = wanted.token});
}

void store_partition::keep(open_feed&& one) {
  const std::scoped_lock lock(feeds_mutex_);
  feeds_.push_front(std::move(one));
  if (feeds_.size() > open_feeds_max) feeds_.pop_back();
}

/// A feed that stands within a version goes on where it is: packing may leave fewer changes of that version to count.
void store_partition::follow() {
  {
    const std::scoped_lock lock(feeds_mutex_);
    std::erase_if(feeds_, [](const open_feed& each) { return each.is_between_versions; });
  }
  static_cast<void>(store_.hold());  // a store that is attached looks at what the owner has now
}

feed_part store_partition::read_feed(const feed_part_request& wanted, std::size_t bytes_max) {
  std::size_t max = wanted.max;
  for (;;) {
    icecore::feed from = feed_at(wanted);
    const feed_batch batch = from.next(max);
    std::size_t bytes = 0;
    std::size_t fit = 0;
    for (const key_change& c : batch.changes) {
      bytes += c.key.size() + (c.value ? c.value->size() : 0) + (c.before ? c.before->size() : 0);
      if (fit > 0 && bytes > bytes_max) break;
      ++fit;
    }
    if (fit < batch.changes.size()) {  // a feed cannot go back: another one reads as many as fit
      max = fit;
      continue;
    }
    feed_part part{{}, batch.told, batch.is_snapshot, batch.token};
    part.changes.reserve(fit);
    for (const key_change& c : batch.changes) {
      part.changes.push_back({std::string(c.key), c.version, std::optional<std::string>(c.value),
                              std::optional<std::string>(c.before), c.first});
    }
    keep({batch.token, wanted.unsynced, batch.changes.size() < max, std::move(from)});
    return part;
  }
}

answer<feed_part> store_partition::feed(const feed_part_request& wanted) {
  constexpr std::size_t bytes_max = 64 * 1024 * 1024;  // as in messages
  return answer<feed_part>([this, wanted] { return read_feed(wanted, bytes_max); });
}

std::vector<tag_info> store_partition::tags(std::optional<std::string_view> name) {
  if (!name) return store_.tags();
  std::vector<tag_info> found;
  if (auto tag = store_.find_tag(*name)) found.push_back(std::move(*tag));
  return found;
}

void store_partition::check_update(std::string_view key, bool inserts) const {
  // relaxed: it changes only in a collective call, which ends before any later write is sent
  if (allowed_.load(std::memory_order_relaxed) != protection::update_only) return;
  if (!inserts)
    throw error(errc::protection,
                "a remove is not allowed under update-only protection, which keeps the set of keys as it is");
  if (!store_.contains(key)) {
    throw error(
        errc::protection,
        "an insert of a new key is not allowed under update-only protection, which keeps the set of keys as it is");
  }
}

version store_partition::write(const write_view& one) {
  check_update(one.key, one.value.has_value());
  if (one.value) return store_.insert(one.key, *one.value);
  return store_.remove(one.key).value_or(store_.clock());
}

void store_partition::write_into(const write_view& one, written& total) {
  try {
    total.at = write(one);
  } catch (...) {
    total.refuse(ranks::failure::of(std::current_exception()));
  }
}

answer<written> store_partition::write_many(std::span<const write_view> many) {
  written total;
  total.at = store_.clock();
  for (const write_view& one : many) write_into(one, total);
  return answer<written>([total] { return total; });
}

std::string store_partition::update(std::string_view key, int number, std::string_view input) {
  const auto running = updates_.running();
  std::string output;
  std::optional<std::string> value = find(key, std::nullopt);
  if (running.function(number)(key, value, input, output)) {
    static_cast<void>(write({key, value ? std::optional<std::string_view>(*value) : std::nullopt}));
  }
  return output;
}

answer<version> store_partition::sync() {
  return answer<version>([this] {
    if (!store_.read_only()) store_.sync();
    return store_.clock();
  });
}

version store_partition::apply(const batch& operations) {
  for (const auto& one : operations.operations()) check_update(one.key, one.value.has_value());
  return store_.apply(operations);
}

std::optional<version> store_partition::apply_if(const batch& operations) {
  for (const auto& one : operations.operations()) check_update(one.key, one.value.has_value());
  return store_.apply_if(operations);
}

}  // namespace icecore::mpi
