// Keys and values.
#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "doors/ucx/call.hpp"

namespace icecore::doors {

using service::operation;
using service::right;

namespace {

constexpr std::size_t keys_most = 65'536;
constexpr std::size_t keys_at_once = 64;              ///< so many finds an I/O thread does
constexpr std::uint64_t copied_at_once = 256U << 10;  ///< larger values an I/O thread does not copy
constexpr std::uint64_t rows_most = 10'000;           ///< of one read in a transaction
constexpr std::uint64_t held_from = 4096;             ///< smaller ones are within what the wire has counted
constexpr std::uint64_t answer_extra_bytes = 64;      ///< beside the value
using make_answer = wire::byte_buffer (*)(const service::outcome&);

key_bounds bounds_of(const operation& o) {
  key_bounds bounds{.from = o.key, .to = std::nullopt};
  if (!o.end.empty()) bounds.to = o.end;
  return bounds;
}

void require(call& c, const std::vector<operation>& list) {
  for (const operation& o : list) {
    const auto need = [&](right what) {
      if (o.names_range()) {
        c.require(bounds_of(o), what);
      } else {
        c.require(o.key, what);
      }
    };
    if (!c.who().is_root()) {
      if (o.writes()) need(right::write);
      if (!o.writes() || o.previous || o.what == operation::kind::increment) need(right::read);
    }
    if (!o.names_range()) c.require_owner(o.key);
  }
}

/// Nothing is read or written before all rights are there.
void require(call& c, const service::transaction& what) {
  for (const service::condition& condition : what.conditions) {
    c.require(condition.key, right::read);
    c.require_owner(condition.key);
  }
  require(c, what.then);
  require(c, what.otherwise);
}

/// Of values that are read by one request.
std::uint64_t answer_bytes_most(const call& c) {
  const service::limits& limits = c.door().all.options().limits;
  return std::min<std::uint64_t>(std::max(limits.output_bytes, limits.request_bytes),
                                 std::numeric_limits<std::uint32_t>::max() / 2);
}

/// Gives the transaction to the database; `made` makes the answer's payload from its outcome, on any thread.
void give(std::unique_ptr<call> kept, service::transaction what, make_answer made) {
  call* const mine = kept.get();
  const std::shared_ptr<service::database> database = mine->shared_database();
  database->write(std::move(what), [mine, made](service::result<service::outcome> done) {
    const std::unique_ptr<call> ends(mine);
    if (const auto* const failed = std::get_if<service::failure>(&done)) return mine->fail(*failed);
    mine->attempt([&] { mine->answer(made(std::get<service::outcome>(done))); });
  });
  static_cast<void>(kept.release());  // the completion has it, and may have ended it already
}

/// The same, wherever that may wait. The rights were asked for already.
void hand_over(call& c, service::transaction what, make_answer made) {
  what.allowed = {.read_bytes_max = answer_bytes_most(c), .memory = &c.door().all.in_flight_bytes()};
  if (c.request_bytes() > held_from) c.hold(what.bytes());
  const std::string_view key = what.then.empty() ? std::string_view() : std::string_view(what.then.front().key);
  if (c.database().writes_at_once(key)) return give(c.keep(), std::move(what), made);
  // Another server of the group has the key: its answer is waited for.
  auto held = std::make_shared<service::transaction>(std::move(what));
  std::unique_ptr<call> kept = c.keep();
  call* const mine = kept.get();
  mine->door().all.threads().post([mine, held, made] {
    std::unique_ptr<call> waits(mine);
    if (!mine->is_connected()) return mine->fail({errc::cancelled, "the client is gone"});
    give(std::move(waits), std::move(*held), made);
  });
  static_cast<void>(kept.release());
}

void write(call& c, service::transaction what, make_answer made) {
  require(c, what);
  hand_over(c, std::move(what), made);
}

void write_one(call& c, operation what, make_answer made) {
  service::transaction one;
  one.then.push_back(std::move(what));
  write(c, std::move(one), made);
}

const service::operation_result& only_result(const service::outcome& done) {
  if (done.results.size() == 1) return done.results.front();
  throw error(errc::io, "a database has answered an operation without a result; this is a mistake of the server");
}

wire::byte_buffer answer_of_update(const service::outcome& done) {
  const service::operation_result& is = only_result(done);
  return wire::encoded(wire::update_answer{.is = is.is, .version = done.version, .size = is.size, .number = is.number});
}

void answer_found(call& c, const service::found& found, std::uint64_t offset, std::uint64_t length) {
  const std::string_view value = found.value();
  const std::string_view part = value.substr(std::min<std::uint64_t>(offset, value.size()), length);
  if (part.size() > std::numeric_limits<std::uint32_t>::max() - answer_extra_bytes) {
    throw error(errc::limit_reached, fmt::format("{} bytes of a value are more than one answer can have (4 GiB); "
                                                 "ask for it in parts",
                                                 part.size()));
  }
  if (part.size() > held_from) c.hold(part.size());
  c.answer(wire::encoded_get_answer(found.version(), value.size(), part));
}

void get_many(call& c, const wire::get_many_request& asked) {
  const std::uint64_t bytes_most = answer_bytes_most(c);
  wire::get_many_answer told;
  told.version = c.database().resolve(asked.at);
  told.found.reserve(asked.keys.size());
  for (std::size_t i = 0; i < asked.keys.size(); ++i) {
    const auto found = c.database().find(asked.keys[i], told.version);
    const std::string_view value = found ? found->value() : std::string_view();
    if (told.values.bytes.size() + value.size() > bytes_most) {
      throw error(errc::limit_reached, fmt::format("the values of {} keys have more than {} bytes; ask for fewer at "
                                                   "once, or scan",
                                                   asked.keys.size(), bytes_most));
    }
    told.values.add(value);
    told.found.push_back(found ? 1 : 0);
  }
  c.hold(told.values.bytes.size());
  c.answer(wire::encoded(told));
}

void limit_reads(std::vector<operation>& list) {
  for (operation& o : list) {
    if (o.what == operation::kind::get_range && (o.limit == 0 || o.limit > rows_most)) o.limit = rows_most;
  }
}

void require_few(const call& c, std::size_t count, const char* what) {
  const std::uint64_t most = c.door().all.options().limits.transaction_operations;
  if (most == 0 || count <= most) return;
  c.door().all.refused().count(service::kept_limit::transaction_operations);
  throw error(errc::invalid_argument,
              fmt::format("the transaction has {} {}; limits.transaction_operations is {}", count, what, most));
}

/// The rights were asked for already.
void put(call& c, operation what) {
  service::transaction one;
  one.then.push_back(std::move(what));
  hand_over(c, std::move(one), [](const service::outcome& done) {
    const bool written = only_result(done).is == service::operation_result::state::done;
    return wire::encoded(wire::put_answer{.written = written, .version = done.version});
  });
}

}  // namespace

void execute(call& c, wire::get_request&& asked) {
  c.require(asked.key, right::read);
  c.require_owner(asked.key);
  const auto read = [](call& on, const wire::get_request& what) {
    const auto found = on.database().find(what.key, what.at);
    if (!found) return on.answer(wire::encoded(wire::get_answer{}));
    answer_found(on, *found, what.offset, what.length);
  };
  if (!c.database().finds_at_once(asked.key, asked.at)) {
    return go_on(c.door().all.threads(), c, [read, asked = std::move(asked)](call& on) { read(on, asked); });
  }
  const auto found = c.database().find(asked.key, asked.at);
  if (!found) return c.answer(wire::encoded(wire::get_answer{}));
  if (found->value().size() <= copied_at_once) return answer_found(c, *found, asked.offset, asked.length);
  go_on(c.door().all.threads(), c, [found = *found, offset = asked.offset, length = asked.length](call& on) {
    answer_found(on, found, offset, length);
  });
}

/// The most frequent request, so its key and value are used where they lie.
bool execute_put(call& c) {
  wire::field_reader fields(c.payload());
  std::string_view key;
  std::string_view value;
  std::uint8_t only_new = 0;
  service::lease_number lease = 0;
  const bool good = fields.text(key) && fields.text(value) && fields.u8(only_new) && fields.u64(lease);
  if (!good || !fields.finished() || only_new > 1) return false;
  c.attempt([&] {
    c.find_database();
    c.require(key, right::write);
    c.require_owner(key);
    if (only_new == 0 && lease == 0) {
      if (const auto version = c.database().put_at_once(key, value)) {
        return c.answer(wire::encoded(wire::put_answer{.written = true, .version = *version}));
      }
    }
    put(c, {.what = only_new == 1 ? operation::kind::put_new : operation::kind::put,
            .key = std::string(key),
            .value = std::string(value),
            .lease = lease});
  });
  return true;
}

void execute(call& c, wire::remove_request&& asked) {
  operation what = operation::remove(std::move(asked.key));
  if (asked.end) {
    what.what = operation::kind::remove_range;
    what.end = std::move(*asked.end);
  }
  write_one(c, std::move(what), [](const service::outcome& done) {
    return wire::encoded(wire::remove_answer{.removed = only_result(done).count, .version = done.version});
  });
}

void execute(call& c, wire::update_request&& asked) {
  write_one(c,
            {.what = asked.or_put ? operation::kind::upsert : operation::kind::update,
             .key = std::move(asked.key),
             .value = std::move(asked.part),
             .rule = asked.rule,
             .offset = asked.offset},
            answer_of_update);
}

void execute(call& c, wire::increment_request&& asked) {
  write_one(c, {.what = operation::kind::increment, .key = std::move(asked.key), .number = asked.by}, answer_of_update);
}

void execute(call& c, wire::write_request&& asked) {
  require_few(c, asked.what.conditions.size(), "conditions");
  require_few(c, asked.what.then.size(), "operations");
  require_few(c, asked.what.otherwise.size(), "operations in its other list");
  limit_reads(asked.what.then);
  limit_reads(asked.what.otherwise);
  write(c, std::move(asked.what),
        [](const service::outcome& done) { return wire::encoded(wire::write_answer{.done = done}); });
}

void execute(call& c, wire::get_many_request&& asked) {
  if (asked.keys.size() > keys_most) {
    throw error(errc::invalid_argument,
                fmt::format("{} keys; one request gets at most {}", asked.keys.size(), keys_most));
  }
  bool at_once = asked.keys.size() <= keys_at_once && !std::holds_alternative<service::newest>(asked.at);
  for (std::size_t i = 0; i < asked.keys.size(); ++i) {
    c.require(asked.keys[i], right::read);
    c.require_owner(asked.keys[i]);
    at_once = at_once && c.database().finds_at_once(asked.keys[i], asked.at);
  }
  if (at_once) return get_many(c, asked);
  go_on(c.door().all.threads(), c, [asked = std::move(asked)](call& on) { get_many(on, asked); });
}

void execute(call& c, wire::load_request&& asked) {
  const bool all = c.who().is_root();
  for (std::size_t i = 0; i < asked.rows.size(); ++i) {
    if (!all) c.require(asked.rows.keys[i], right::write);
    c.require_owner(asked.rows.keys[i]);
  }
  c.hold(asked.rows.bytes());
  go_on(c.door().all.threads(), c, [rows = std::move(asked.rows), keep = asked.keep](call& on) {
    const std::uint64_t written = rows.empty() ? 0 : on.database().load(rows, keep);
    on.answer(wire::encoded(wire::load_answer{.written = written}));
  });
}

void execute(call& c, wire::count_request&& asked) {
  c.require(asked.bounds, right::read);
  go_on(c.door().lengthy, c, [asked = std::move(asked)](call& on) {
    const version at = on.database().resolve(asked.at);
    on.answer(wire::encoded(wire::count_answer{.count = on.database().count(asked.bounds, at), .version = at}));
  });
}

}  // namespace icecore::doors
