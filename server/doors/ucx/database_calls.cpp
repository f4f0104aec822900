// Databases, and the server itself: making, opening, describing and dropping databases; status, group, snapshots.
#include "doors/ucx/call.hpp"
#include "doors/ucx/translation.hpp"
#include "icecore/version.hpp"

namespace icecore::doors {

using service::right;

namespace {

/// Who makes a database owns it, unless root gives it to somebody else.
service::database_settings wanted(const call& c, const wire::database_settings& asked,
                                  const service::database_settings& defaults) {
  service::database_settings made = settings_of(asked, defaults);
  if (made.owner.empty() || !c.who().is_root()) made.owner = c.who().name();
  return made;
}

wire::group_place place_of(const service::group_place& from) {
  return {.name = from.name, .index = from.index, .size = from.size};
}

}  // namespace

void execute(call& c, wire::status_request&& /*asked*/) {
  go_on(c.door().all.threads(), c, [](call& on) {
    service::service& all = on.door().all;
    wire::status_answer told{.identity = all.identity(),
                             .name = on.door().options.server_name,
                             .program_version = library_version(),
                             .place = place_of(all.options().group),
                             .not_ready = {}};
    if (on.who().is_root()) {  // names of databases are not for everybody
      for (const auto& [database, why] : all.not_ready()) {
        told.not_ready.push_back({.name = database, .code = static_cast<std::uint16_t>(why.code), .why = why.message});
      }
    }
    on.answer(wire::encoded(told));
  });
}

void execute(call& c, wire::group_request&& /*asked*/) {
  const service::service_options& is = c.door().all.options();
  wire::group_answer told{.dependent = is.link != nullptr, .map_number = 1, .place = place_of(is.group), .members = {}};
  if (is.link != nullptr) {
    for (auto& [index, address] : c.door().all.announced()) {
      told.members.push_back({.address = address, .index = index});
    }
  } else {
    told.members.push_back({.address = c.door().address(), .index = is.group.index});
  }
  c.answer(wire::encoded(told));
}

void execute(call& c, wire::snapshot_request&& asked) {
  go_on(c.door().lengthy, c, [to = std::move(asked.to)](call& on) {
    wire::snapshot_answer told;
    for (const auto& part : on.door().all.write_snapshot(on.who(), to).parts) {
      told.parts.push_back({.database = part.database, .version = part.version, .bytes = part.bytes});
    }
    on.answer(wire::encoded(told));
  });
}

void execute(call& c, wire::create_database_request&& asked) {
  service::database_settings settings = wanted(c, asked.settings, c.door().all.options().defaults);
  go_on(c.door().lengthy, c, [settings = std::move(settings)](call& on) {
    const auto made = on.door().all.create(on.who(), settings);
    on.answer(wire::encoded(wire::database_answer{.settings = message_of(made->settings())}));
  });
}

void execute(call& c, wire::open_database_request&& asked) {
  service::numbered_database found = c.door().all.find_numbered(c.who(), asked.name);
  wire::open_database_answer told{.handle = 0, .number = found.number, .settings = message_of(found.open->settings())};
  if (c.session().databases.is_full()) {
    c.session().databases.remove_if([](const named_database& one) { return one.open->is_dropped(); });
  }
  told.handle = c.session().databases.add({.open = std::move(found.open), .name = std::move(asked.name)});
  c.answer(wire::encoded(told));
}

void execute(call& c, wire::close_database_request&& /*asked*/) {
  c.session().databases.take(c.handle());
  c.answer({});
}

void execute(call& c, wire::drop_database_request&& asked) {
  go_on(c.door().lengthy, c, [name = std::move(asked.name)](call& on) {
    on.door().all.drop(on.who(), name);
    on.answer({});
  });
}

void execute(call& c, wire::list_databases_request&& /*asked*/) {
  wire::list_databases_answer told;
  for (const service::database_settings& one : c.door().all.list(c.who())) told.databases.push_back(message_of(one));
  c.answer(wire::encoded(told));
}

void execute(call& c, wire::describe_database_request&& /*asked*/) {
  go_on(c.door().all.threads(), c, [](call& on) {
    on.answer(wire::encoded(wire::describe_database_answer{.status = message_of(on.database().status())}));
  });
}

void execute(call& c, wire::copy_database_request&& asked) {
  go_on(c.door().lengthy, c, [asked = std::move(asked)](call& on) {
    service::service& all = on.door().all;
    const auto from = all.find_database(on.who(), asked.from);
    const service::database_settings like = from->settings();
    const auto made = all.copy(on.who(), asked.from, asked.at, wanted(on, asked.settings, like));
    on.answer(wire::encoded(wire::database_answer{.settings = message_of(made->settings())}));
  });
}

void execute(call& c, wire::alter_database_request&& asked) {
  service::changed_settings changes = changes_of(asked);
  go_on(c.door().lengthy, c, [changes = std::move(changes), name = std::move(asked.name)](call& on) {
    service::service& all = on.door().all;
    all.change(on.who(), name, changes);
    on.answer(
        wire::encoded(wire::database_answer{.settings = message_of(all.find_database(on.who(), name)->settings())}));
  });
}

}  // namespace icecore::doors
