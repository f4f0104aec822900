#include "service/write/execution.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "service/read/hidden_keys.hpp"

namespace icecore::service {
namespace {

using state = operation_result::state;

std::optional<std::int64_t> number_of(std::string_view text) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

// One transaction being executed. What it has written already lies over what was there.
class run {
 public:
  run(present& now, lease_table& of, const allowance& allowed, executed& into)
      : now_(&now), of_(&of), allowed_(&allowed), into_(&into) {}

  [[nodiscard]] bool holds(const condition& what) {
    const auto is = find(what.key);
    const icecore::version version = is ? is->version : 0;
    switch (what.is) {
      case condition::kind::present:
        return is.has_value();
      case condition::kind::absent:
        return !is;
      case condition::kind::version_is:
        return version == what.version;
      case condition::kind::version_is_not:
        return version != what.version;
      case condition::kind::version_below:
        return version < what.version;
      case condition::kind::version_above:
        return version > what.version;
      case condition::kind::value_is:
        return is && is->value == what.value;
      case condition::kind::value_is_not:
        return is && is->value != what.value;
      case condition::kind::value_below:
        return is && is->value < what.value;
      case condition::kind::value_above:
        return is && is->value > what.value;
    }
    return false;
  }

  [[nodiscard]] operation_result execute(const operation& what) {
    switch (what.what) {
      case operation::kind::put:
      case operation::kind::put_new:
        return put(what);
      case operation::kind::remove:
        return remove(what);
      case operation::kind::remove_range:
        return remove_range(what);
      case operation::kind::update:
      case operation::kind::upsert:
        return update(what);
      case operation::kind::increment:
        return increment(what);
      case operation::kind::get:
        return get(what);
      case operation::kind::get_range:
        return get_range(what);
      case operation::kind::grant_lease:
        if (of_->is_known(what.lease)) {  // also one whose time is over, until its keys are removed
          throw icecore::error(errc::invalid_argument, fmt::format("a lease has the number {} already", what.lease));
        }
        into_->leases.grant(what.lease, std::chrono::milliseconds(what.number));
        return {};
      case operation::kind::end_lease:
        return end_lease(what);
      case operation::kind::expire_lease:
        return of_->is_known(what.lease) && !of_->contains(what.lease) ? end_lease(what) : operation_result{};
      case operation::kind::compact:
        into_->compacted = static_cast<icecore::version>(what.number);
        into_->writes.insert(compacted_key, bytes_of_number(static_cast<std::uint64_t>(what.number)));
        return {};
    }
    return {};
  }

 private:
  struct found_value {
    std::string_view value;
    icecore::version version;  // 0: this transaction wrote it
  };

  [[nodiscard]] std::optional<found_value> find(std::string_view key) {
    if (const auto own = into_->changed.find(key); own != into_->changed.end()) {
      if (!own->second) return std::nullopt;
      return found_value{.value = *own->second, .version = 0};
    }
    const auto was = now_->find(key);
    if (!was) return std::nullopt;
    return found_value{.value = was->value, .version = was->version};
  }

  /// Before so many bytes are copied for the answer.
  void take(std::size_t bytes) {
    read_bytes_ += bytes;
    if (allowed_->read_bytes_max != 0 && read_bytes_ > allowed_->read_bytes_max) {
      throw icecore::error(errc::limit_reached,
                           fmt::format("what one transaction reads has at most {} bytes, with the keys; read less at "
                                       "once, or scan",
                                       allowed_->read_bytes_max));
    }
    hold(bytes);
  }

  void hold(std::uint64_t bytes) {
    if (allowed_->memory == nullptr) return;
    if (!into_->answer.held) into_->answer.held = std::make_shared<gauge::share>();
    into_->answer.held->take_more(*allowed_->memory, bytes);
  }

  /// Before a value is made of which the request has brought only a part. It is there twice: as it is, and in the
  /// batch. Of a short one the request's own share is enough, and most updates then touch no number that others change.
  void hold_made(std::uint64_t bytes, std::uint64_t brought) {
    constexpr std::uint64_t short_value = std::uint64_t{64} << 10;
    if (bytes > brought + short_value) hold(2 * bytes);
  }

  [[nodiscard]] row row_of(std::string key, const found_value& is) {
    take(sizeof(row) + is.value.size());
    return {.key = std::move(key), .value = std::string(is.value), .version = is.version};
  }

  void set(std::string_view key, std::optional<std::string> value) {
    into_->changed.insert_or_assign(std::string(key), std::move(value));
  }

  void remember(const operation& what, const std::optional<found_value>& was, operation_result& into) {
    if (what.previous && was) into.previous = row_of(what.key, *was);
  }

  operation_result put(const operation& what) {
    operation_result result;
    require_client_key(what.key);
    if (what.lease != 0) into_->leases.require(what.lease);
    if (what.previous || what.what == operation::kind::put_new) {
      const auto was = find(what.key);
      remember(what, was, result);
      if (was && what.what == operation::kind::put_new) {
        result.is = state::exists;
        return result;
      }
    }
    into_->leases.attach(what.key, what.lease);
    set(what.key, what.value);
    result.size = what.value.size();
    return result;
  }

  operation_result remove(const operation& what) {
    operation_result result;
    require_client_key(what.key);
    const auto was = find(what.key);
    if (!was) {
      result.is = state::absent;
      return result;
    }
    remember(what, was, result);
    result.count = 1;
    into_->leases.attach(what.key, 0);
    set(what.key, std::nullopt);
    return result;
  }

  // The keys between the bounds as this transaction sees them.
  [[nodiscard]] std::vector<std::string> keys_of(const operation& what, std::uint64_t most) {
    icecore::key_bounds bounds{.from = what.key, .to = std::nullopt};
    if (!what.end.empty()) bounds.to = what.end;
    std::vector<std::string> keys;
    const auto add = [&](std::string_view key) {
      take(key.size());
      keys.emplace_back(key);
    };
    auto own = into_->changed.lower_bound(what.key);
    const auto own_end = bounds.to ? into_->changed.lower_bound(*bounds.to) : into_->changed.end();
    const auto own_before = [&](const std::optional<std::string_view>& next) {
      for (; own != own_end && (!next || own->first < *next) && keys.size() < most; ++own) {
        if (own->second) add(own->first);
      }
    };
    now_->for_each(bounds, [&](std::string_view key) {
      own_before(key);
      if (keys.size() >= most) return false;
      if (own != own_end && own->first == key) {
        if (own->second) add(key);
        ++own;
      } else {
        add(key);
      }
      return keys.size() < most;
    });
    own_before(std::nullopt);
    return keys;
  }

  operation_result remove_range(const operation& what) {
    operation_result result;
    const std::vector<std::string> keys = keys_of(what, transaction_rows_most + 1);
    if (keys.size() > transaction_rows_most) {
      throw icecore::error(
          errc::limit_reached,
          fmt::format("one transaction removes at most {} keys; remove smaller ranges", transaction_rows_most));
    }
    for (const std::string& key : keys) {
      if (what.previous) {
        const auto was = find(key);
        if (was) result.rows.push_back(row_of(key, *was));
      }
      into_->leases.attach(key, 0);
      set(key, std::nullopt);
    }
    result.count = keys.size();
    return result;
  }

  operation_result update(const operation& what) {
    operation_result result;
    require_client_key(what.key);
    if (what.lease != 0) into_->leases.require(what.lease);
    const auto was = find(what.key);
    if (!was && what.what == operation::kind::update && what.rule != update_rule::append) {
      result.is = state::absent;
      return result;
    }
    const std::uint64_t size = was ? was->value.size() : 0;
    const std::uint64_t length = what.value.size();
    const std::uint64_t offset = what.rule == update_rule::append ? size : what.offset;
    if (offset > icecore::value_size_max || length > icecore::value_size_max - offset) {
      throw icecore::error(errc::value_too_large,
                           fmt::format("a part of {} bytes at offset {}: values have at most {} bytes", length, offset,
                                       icecore::value_size_max));
    }
    const std::uint64_t end = offset + length;
    if (was) {  // a key that is not there is put, whatever the rule
      switch (what.rule) {
        case update_rule::in_place:
          if (end > size) result.is = state::too_large;
          break;
        case update_rule::expand:
          if (end > size && offset < size) result.is = state::overlap;
          break;
        case update_rule::replace_from:
          if (offset > size) result.is = state::too_large;
          break;
        case update_rule::expand_overlap:
        case update_rule::append:
          break;
      }
    }
    if (result.is != state::done) {
      result.size = size;
      return result;
    }
    hold_made(what.rule == update_rule::replace_from ? end : std::max(size, end), length);
    std::string value(was ? was->value : std::string_view());
    if (what.rule == update_rule::replace_from) {
      value.resize(end);
    } else if (value.size() < end) {
      value.resize(end, '\0');
    }
    value.replace(offset, length, what.value);
    result.size = value.size();
    // A key that is not there may still be that of a lease whose time is over, with which its value would end.
    into_->leases.attach(what.key, what.lease != 0 ? what.lease : was ? into_->leases.of(what.key) : 0);
    set(what.key, std::move(value));
    return result;
  }

  operation_result increment(const operation& what) {
    operation_result result;
    require_client_key(what.key);
    const auto was = find(what.key);
    const auto number = was ? number_of(was->value) : 0;
    if (!number || __builtin_add_overflow(*number, what.number, &result.number)) {
      result.is = state::no_number;
      result.number = 0;
      return result;
    }
    if (!was) into_->leases.attach(what.key, 0);  // as in update()
    std::string text = std::to_string(result.number);
    result.size = text.size();
    set(what.key, std::move(text));
    return result;
  }

  operation_result get(const operation& what) {
    operation_result result;
    const auto was = is_hidden(what.key) ? std::nullopt : find(what.key);
    if (!was) {
      result.is = state::absent;
      return result;
    }
    result.count = 1;
    result.rows.push_back(row_of(what.key, *was));
    return result;
  }

  operation_result get_range(const operation& what) {
    operation_result result;
    const std::uint64_t most = what.limit == 0 ? transaction_rows_most : std::min(what.limit, transaction_rows_most);
    std::vector<std::string> keys = keys_of(what, most + 1);
    result.more = keys.size() > most;
    if (result.more) keys.pop_back();
    for (std::string& key : keys) {
      const auto was = find(key);
      if (was) result.rows.push_back(row_of(std::move(key), *was));
    }
    result.count = result.rows.size();
    return result;
  }

  operation_result end_lease(const operation& what) {
    operation_result result;
    for (const std::string& key : of_->keys(what.lease)) {
      if (allowed_->may_remove) allowed_->may_remove(key);
      into_->leases.attach(key, 0);
      set(key, std::nullopt);
      ++result.count;
    }
    into_->leases.revoke(what.lease);
    return result;
  }

  present* now_;
  lease_table* of_;
  const allowance* allowed_;
  executed* into_;
  std::uint64_t read_bytes_ = 0;
};

}  // namespace

bool is_blind(const transaction& what) noexcept {
  return what.conditions.empty() && std::ranges::all_of(what.then, [](const operation& o) {
           return o.what == operation::kind::put && !o.previous && o.lease == 0;
         });
}

executed execute(const transaction& what, present& now, lease_table& of, const value_codec& codec) {
  executed done(of);
  run it(now, of, what.allowed, done);
  done.answer.succeeded = std::ranges::all_of(what.conditions, [&](const condition& c) { return it.holds(c); });
  const auto& operations = done.answer.succeeded ? what.then : what.otherwise;
  done.answer.results.reserve(operations.size());
  for (const operation& next : operations) done.answer.results.push_back(it.execute(next));
  std::string room;
  for (const auto& [key, value] : done.changed) {
    if (value) {
      done.writes.insert(key, codec.encode(*value, room));
    } else {
      done.writes.remove(key);
    }
  }
  done.leases.stage(done.writes);
  return done;
}

}  // namespace icecore::service
