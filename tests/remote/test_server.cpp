#include "test_server.hpp"

#include <unistd.h>

namespace wire = icecore::wire;
namespace service = icecore::service;
using icecore::errc;

namespace {

wire::database_settings message_of(const service::database_settings& from) {
  return {.name = from.name,
          .owner = from.owner,
          .rule = static_cast<wire::wire_rule>(static_cast<int>(from.rule) + 1),
          .interval_ms = static_cast<std::uint64_t>(from.interval.count()),
          .durability = static_cast<wire::wire_durability>(static_cast<int>(from.durability) + 1),
          .index = static_cast<wire::wire_index>(from.index),
          .compression = static_cast<wire::wire_compression>(static_cast<int>(from.compression) + 1),
          .quota_bytes = from.quota_bytes};
}

service::database_settings settings_of(const wire::database_settings& from, service::database_settings made) {
  made.name = from.name;
  if (from.rule != wire::wire_rule{}) made.rule = static_cast<service::version_rule>(static_cast<int>(from.rule) - 1);
  if (from.interval_ms != 0) made.interval = std::chrono::milliseconds(from.interval_ms);
  if (from.durability != wire::wire_durability{}) {
    made.durability = static_cast<icecore::durability>(static_cast<int>(from.durability) - 1);
  }
  if (from.index != wire::wire_index{}) made.index = static_cast<icecore::index_kind>(from.index);
  if (from.compression != wire::wire_compression{}) {
    made.compression = static_cast<service::value_compression>(static_cast<int>(from.compression) - 1);
  }
  made.quota_bytes = from.quota_bytes;
  return made;
}

void refuse(wire::request& asked, const service::failure& why) {
  asked.answer(static_cast<std::uint16_t>(why.code), wire::encoded(wire::failed_answer{.message = why.message}));
}

wire::lease_answer lease_of(const service::lease_info& told) {
  return {.lease = told.number,
          .granted_ms = static_cast<std::uint64_t>(told.granted.count()),
          .left_ms = static_cast<std::uint64_t>(told.left.count()),
          .keys = told.keys};
}

}  // namespace

struct test_server::session {
  std::mutex mutex;
  service::principal who = service::principal::anyone();
  std::uint32_t next = 1;
  std::map<std::uint32_t, std::shared_ptr<service::database>> databases;
  struct opened {
    std::unique_ptr<service::row_stream> rows;
    std::uint64_t next_block = 1;
    std::uint32_t block_bytes = 0;
  };
  std::map<std::uint32_t, opened> rows;
  struct watching {
    std::unique_ptr<service::watch> watch;
  };
  std::map<std::uint32_t, std::shared_ptr<watching>> watches;
};

/// Executes one request of each kind.
struct test_server::handler {
  test_server& server;
  session& of;
  const std::shared_ptr<wire::request>& waiting;

  service::database& database() const {
    const auto found = of.databases.find(waiting->database());
    if (found == of.databases.end()) throw icecore::error(errc::invalid_argument, "no such handle of a database");
    return *found->second;
  }
  template <class Answer>
  void answer(const Answer& told) const {
    waiting->answer(wire::status_ok, wire::encoded(told));
  }
  void write(service::transaction what, std::function<wire::byte_buffer(const service::outcome&)> told) const {
    what.allowed.memory = &server.service_->in_flight_bytes();
    database().write(std::move(what),
                     [waiting = waiting, told = std::move(told)](service::result<service::outcome> done) {
                       if (const auto* why = std::get_if<service::failure>(&done)) return refuse(*waiting, *why);
                       waiting->answer(wire::status_ok, told(std::get<service::outcome>(done)));
                     });
  }
  void rows_opened(std::unique_ptr<service::row_stream> rows, std::uint32_t block_bytes) const {
    const std::uint32_t number = of.next++;
    session::opened& made = of.rows[number];
    made.rows = std::move(rows);
    made.block_bytes = block_bytes;
    answer_rows(number, 0, made);
  }
  void answer_rows(std::uint32_t number, std::uint64_t block, session::opened& from) const {
    wire::rows_answer told{
        .rows = number, .block = block, .end = false, .version = from.rows->version(), .block_of_rows = {}};
    told.end = !from.rows->next(told.block_of_rows, {.rows = 4096, .bytes = from.block_bytes});
    if (told.end) of.rows.erase(number);
    answer(told);
  }

  void operator()(const wire::status_request&) const {
    answer(wire::status_answer{.identity = server.service_->identity()});
  }
  void operator()(const wire::group_request&) const {
    answer(wire::group_answer{.dependent = false,
                              .map_number = 1,
                              .place = {server.place_.name, server.place_.index, server.place_.size},
                              .members = {{.address = server.host_and_port(), .index = server.place_.index}}});
  }
  void operator()(const wire::snapshot_request& what) const {
    wire::snapshot_answer told;
    for (const auto& part : server.service_->write_snapshot(of.who, what.to).parts) {
      told.parts.push_back({part.database, part.version, part.bytes});
    }
    answer(told);
  }
  void operator()(const wire::create_database_request& what) const {
    service::database_settings made = server.service_->options().defaults;
    made.rule = service::version_rule::tag;
    const auto created = server.service_->create(of.who, settings_of(what.settings, made));
    answer(wire::database_answer{.settings = message_of(created->settings())});
  }
  void operator()(const wire::open_database_request& what) const {
    const auto found = server.service_->find_database(of.who, what.name);
    const std::uint32_t number = of.next++;
    of.databases[number] = found;
    const std::uint64_t identity = std::hash<std::string>()(what.name) & 0x7FFFFFFF;
    answer(wire::open_database_answer{.handle = number, .number = identity, .settings = message_of(found->settings())});
  }
  void operator()(const wire::close_database_request&) const {
    of.databases.erase(waiting->database());
    waiting->answer(wire::status_ok);
  }
  void operator()(const wire::drop_database_request& what) const {
    server.service_->drop(of.who, what.name);
    waiting->answer(wire::status_ok);
  }
  void operator()(const wire::list_databases_request&) const {
    wire::list_databases_answer told;
    for (const auto& each : server.service_->list(of.who)) told.databases.push_back(message_of(each));
    answer(told);
  }
  void operator()(const wire::describe_database_request&) const {
    const service::database_status is = database().status();
    answer(wire::describe_database_answer{.status = {.settings = message_of(is.settings),
                                                     .newest = is.newest,
                                                     .durable = is.durable,
                                                     .compacted = is.compacted,
                                                     .keys = is.statistics.keys,
                                                     .records = is.statistics.records}});
  }
  void operator()(const wire::copy_database_request& what) const {
    const auto made = server.service_->copy(of.who, what.from, what.at, settings_of(what.settings, {}));
    answer(wire::database_answer{.settings = message_of(made->settings())});
  }
  void operator()(const wire::alter_database_request&) const {
    throw icecore::error(errc::unavailable, "this server does not alter databases");
  }

  void operator()(const wire::get_request& what) const {
    const auto found = database().find(what.key, what.at);
    if (!found) return answer(wire::get_answer{});
    const std::string_view value = found->value();
    const std::string_view part =
        what.offset < value.size() ? value.substr(what.offset, what.length) : std::string_view();
    waiting->answer(wire::status_ok, wire::encoded_get_answer(found->version(), value.size(), part));
  }
  void operator()(const wire::put_request& what) const {
    using kind = service::operation::kind;
    service::transaction t;
    t.then.push_back(
        {.what = what.only_new ? kind::put_new : kind::put, .key = what.key, .value = what.value, .lease = what.lease});
    write(std::move(t), [](const service::outcome& done) {
      const bool written = done.results[0].is == service::operation_result::state::done;
      return wire::encoded(wire::put_answer{.written = written, .version = done.version});
    });
  }
  void operator()(const wire::remove_request& what) const {
    service::transaction t;
    t.then.push_back(service::operation::remove(what.key));
    if (what.end) {
      t.then[0].what = service::operation::kind::remove_range;
      t.then[0].end = *what.end;
    }
    write(std::move(t), [](const service::outcome& done) {
      const bool removed = done.results[0].is == service::operation_result::state::done;
      return wire::encoded(wire::remove_answer{
          .removed = removed ? std::max<std::uint64_t>(done.results[0].count, 1) : 0, .version = done.version});
    });
  }
  void update(service::operation what) const {
    service::transaction t;
    t.then.push_back(std::move(what));
    write(std::move(t), [](const service::outcome& done) {
      const service::operation_result& r = done.results[0];
      return wire::encoded(
          wire::update_answer{.is = r.is, .version = done.version, .size = r.size, .number = r.number});
    });
  }
  void operator()(const wire::update_request& what) const {
    using kind = service::operation::kind;
    update({.what = what.or_put ? kind::upsert : kind::update,
            .key = what.key,
            .value = what.part,
            .rule = what.rule,
            .offset = what.offset});
  }
  void operator()(const wire::increment_request& what) const {
    update({.what = service::operation::kind::increment, .key = what.key, .number = what.by});
  }
  void operator()(const wire::write_request& what) const {
    write(what.what, [](const service::outcome& done) { return wire::encoded(wire::write_answer{.done = done}); });
  }
  void operator()(const wire::get_many_request& what) const {
    wire::get_many_answer told;
    told.version = database().resolve(what.at);
    for (std::size_t i = 0; i < what.keys.size(); ++i) {
      const auto found = database().find(what.keys[i], told.version);
      told.values.add(found ? found->value() : std::string_view());
      told.found.push_back(found ? 1 : 0);
    }
    answer(told);
  }
  void operator()(const wire::load_request& what) const {
    answer(wire::load_answer{.written = database().load(what.rows, what.keep)});
  }
  void operator()(const wire::count_request& what) const {
    const icecore::version at = database().resolve(what.at);
    answer(wire::count_answer{.count = database().count(what.bounds, at), .version = at});
  }
  void operator()(const wire::open_scan_request& what) const {
    rows_opened(database().scan({.bounds = what.bounds,
                                 .at = what.at,
                                 .reverse = what.reverse,
                                 .limit = what.limit,
                                 .values = what.values,
                                 .versions = what.versions}),
                what.block_bytes);
  }
  void operator()(const wire::open_history_request& what) const {
    rows_opened(database().history(what.key, what.up_to), what.block_bytes);
  }
  void operator()(const wire::open_differences_request& what) const {
    rows_opened(database().differences({.before = what.before, .after = what.after, .bounds = what.bounds}),
                what.block_bytes);
  }
  void operator()(const wire::open_changes_request& what) const {
    rows_opened(
        database().changes({.after = what.after, .up_to = what.up_to, .bounds = what.bounds, .before = what.before}),
        what.block_bytes);
  }
  void operator()(const wire::next_rows_request& what) const {
    const auto found = of.rows.find(what.rows);
    if (found == of.rows.end())
      return answer(
          wire::rows_answer{.rows = what.rows, .block = what.block, .end = true, .version = 0, .block_of_rows = {}});
    if (what.block != found->second.next_block++)
      throw icecore::error(errc::invalid_argument, "a block out of its order");
    answer_rows(what.rows, what.block, found->second);
  }
  void operator()(const wire::close_rows_request& what) const {
    of.rows.erase(what.rows);
    waiting->answer(wire::status_ok);
  }
  void operator()(const wire::open_watch_request& what) const {
    auto made = std::make_shared<session::watching>();
    made->watch = database().watch_changes({.after = what.after, .bounds = what.bounds, .before = what.before});
    const std::uint32_t number = of.next++;
    of.watches[number] = made;
    answer(wire::changes_answer{
        .watch = number, .told = what.after ? *what.after : made->watch->next({}).told, .changes = {}});
  }
  void operator()(const wire::next_changes_request& what) const {
    const auto found = of.watches.find(what.watch);
    if (found == of.watches.end()) throw icecore::error(errc::invalid_argument, "no such watch");
    // It polls: a test's server may.
    const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(std::min(what.wait_ms, 50U));
    service::watched some = found->second->watch->next({.rows = 4096, .bytes = what.block_bytes});
    while (some.changes.empty() && std::chrono::steady_clock::now() < until) {
      some = found->second->watch->next({.rows = 4096, .bytes = what.block_bytes});
    }
    answer(wire::changes_answer{.watch = what.watch, .told = some.told, .changes = std::move(some.changes)});
  }
  void operator()(const wire::close_watch_request& what) const {
    of.watches.erase(what.watch);
    waiting->answer(wire::status_ok);
  }
  void operator()(const wire::tag_request& what) const {
    answer(wire::version_answer{.version =
                                    database().tag({.name = what.name, .note = what.note, .time_ns = what.time_ns})});
  }
  void operator()(const wire::list_tags_request&) const { answer(wire::list_tags_answer{.tags = database().tags()}); }
  void operator()(const wire::find_tag_request& what) const {
    answer(wire::find_tag_answer{.tag = database().find_tag(what.at)});
  }
  void operator()(const wire::resolve_request& what) const {
    answer(wire::version_answer{.version = database().resolve(what.at)});
  }
  void operator()(const wire::sync_request&) const {
    database().sync();
    waiting->answer(wire::status_ok);
  }
  void operator()(const wire::compact_request& what) const {
    database().compact(what.oldest_kept);
    waiting->answer(wire::status_ok);
  }
  void operator()(const wire::grant_lease_request& what) const {
    answer(lease_of(database().grant(std::chrono::milliseconds(what.time_ms), what.wanted)));
  }
  void operator()(const wire::keep_lease_request& what) const { answer(lease_of(database().keep_alive(what.lease))); }
  void operator()(const wire::revoke_lease_request& what) const {
    database().revoke(what.lease, {}, [waiting = waiting](service::result<service::outcome> done) {
      if (const auto* why = std::get_if<service::failure>(&done)) return refuse(*waiting, *why);
      const auto& out = std::get<service::outcome>(done);
      std::uint64_t removed = 0;
      for (const auto& each : out.results) removed += each.count;
      waiting->answer(wire::status_ok,
                      wire::encoded(wire::revoke_lease_answer{.removed = removed, .version = out.version}));
    });
  }
  void operator()(const wire::describe_lease_request& what) const {
    answer(lease_of(database().lease(what.lease, what.keys)));
  }
  void operator()(const wire::list_leases_request&) const {
    answer(wire::list_leases_answer{.leases = database().leases()});
  }
};

test_server::test_server(service::group_place place, std::uint16_t port) : place_(std::move(place)) {
  std::string name = "/dev/shm/icecore-remote-test-XXXXXX";
  if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("no folder in /dev/shm");
  folder_ = name;
  service_ = std::make_unique<service::service>(service::service_options{.data = folder_ / "data", .group = place_});
  wire::server_settings settings;
  settings.listen.port = port;
  settings.token = token;
  endpoint_ = std::make_unique<wire::server_endpoint>(std::move(settings), *this);
}

test_server::~test_server() {
  endpoint_->stop(std::chrono::milliseconds(500));
  service_->stop();
  {
    const std::lock_guard held(mutex_);
    open_.clear();
  }
  endpoint_.reset();
  service_.reset();
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
}

std::string test_server::host_and_port() const {
  return endpoint_->address().host + ":" + std::to_string(endpoint_->address().port);
}

wire::admission test_server::admit(const wire::hello& /*said*/, const std::string& /*peer*/) {
  return {.accepted = true, .session = std::make_shared<session>()};
}

void test_server::on_open(const std::shared_ptr<wire::connection>& opened) {
  const std::lock_guard held(mutex_);
  open_[opened->handle()] = opened;
}

void test_server::on_close(wire::connection& closed, wire::close_reason /*reason*/) {
  const std::lock_guard held(mutex_);
  open_.erase(closed.handle());
}

void test_server::break_connections() {
  const std::lock_guard held(mutex_);
  for (const auto& [handle, each] : open_) each->close(wire::close_reason::stopping, "a test ends it");
}

void test_server::break_at(wire::operation_number operation, bool executed) {
  const std::lock_guard held(mutex_);
  break_at_ = {operation, executed};
}

void test_server::drop_at(wire::operation_number operation) {
  const std::lock_guard held(mutex_);
  drop_at_ = operation;
}

std::uint64_t test_server::count(wire::operation_number operation) {
  const std::lock_guard held(mutex_);
  return counts_[operation];
}

void test_server::on_request(wire::request&& asked) {
  const auto number = static_cast<wire::operation_number>(asked.operation());
  bool breaks = false;
  bool executed = true;
  {
    const std::lock_guard held(mutex_);
    ++counts_[number];
    if (drop_at_ == number) {
      drop_at_.reset();
      return asked.answer(wire::status_dropped, {});
    }
    if (break_at_ && break_at_->first == number) {
      breaks = true;
      executed = break_at_->second;
      break_at_.reset();
    }
  }
  const std::optional<wire::any_request> what = wire::decode_request(asked.operation(), asked.payload());
  if (!what) return asked.from().close(wire::close_reason::malformed, "no request");
  auto& of = *static_cast<session*>(asked.from().session().get());
  const auto connection = asked.from().shared_from_this();
  if (breaks) {
    // What is executed is what a put does; tests use nothing else here.
    if (executed) {
      const auto* put = std::get_if<wire::put_request>(&*what);
      const auto* add = std::get_if<wire::increment_request>(&*what);
      service::transaction t;
      if (put != nullptr) t.then.push_back(service::operation::put(put->key, put->value));
      if (add != nullptr)
        t.then.push_back({.what = service::operation::kind::increment, .key = add->key, .number = add->by});
      of.databases.at(asked.database())->write(std::move(t), [](const auto&) {});
    }
    return connection->close(wire::close_reason::stopping, "a test ends it");
  }
  const std::lock_guard one(of.mutex);
  const auto waiting = std::make_shared<wire::request>(std::move(asked));
  try {
    std::visit(handler{*this, of, waiting}, *what);
  } catch (const std::exception&) {
    refuse(*waiting, service::failure_of(std::current_exception()));
  }
}
