// The C interface of icecore::remote: clients, tags, leases, and what is under way.
#include "remote_c.hpp"

namespace remote = icecore::remote;
using namespace icecore::remote::c;

namespace {

std::string text(const char* given) { return given == nullptr ? std::string() : std::string(given); }

remote::options options_of(const icecore_remote_options* given) {
  icecore_remote_options defaults;
  icecore_remote_options_init(&defaults, sizeof defaults);
  const auto read = given == nullptr ? defaults : icecore::c::read_structure(given, defaults, "icecore_remote_connect");
  remote::options opening;
  opening.token = text(read.token);
  opening.user = text(read.user);
  opening.password = text(read.password);
  opening.name = text(read.name);
  opening.group = text(read.group);
  opening.network_devices = text(read.network_devices);
  opening.grouping = read.independent != 0 ? remote::grouping::independent : remote::grouping::dependent;
  opening.deadline = std::chrono::milliseconds(read.deadline_ms);
  opening.connect_limit = std::chrono::milliseconds(read.connect_limit_ms);
  return opening;
}

int in_range(int value, int most, const char* what) {
  if (value < 0 || value > most) {
    throw icecore::error(icecore::errc::invalid_argument, std::string("icecore_remote_create: ") + what + " is " +
                                                              std::to_string(value) + ", not 0 to " +
                                                              std::to_string(most));
  }
  return value;
}

remote::settings settings_of(const icecore_remote_settings* given) {
  remote::settings with;
  if (given == nullptr) return with;
  icecore_remote_settings defaults;
  icecore_remote_settings_init(&defaults, sizeof defaults);
  const auto read = icecore::c::read_structure(given, defaults, "icecore_remote_create");
  with.rule = static_cast<remote::version_rule>(in_range(read.rule, 3, "rule"));
  with.interval = std::chrono::milliseconds(read.interval_ms);
  const int durability = in_range(read.durability, 4, "durability");
  if (durability > 0) with.durability = static_cast<icecore::durability>(durability - 1);
  const int index = in_range(read.index, 5, "index");
  if (index > 0) with.index = static_cast<icecore::index_kind>(index);
  with.compression = static_cast<remote::compression>(in_range(read.compression, 2, "compression"));
  with.quota_bytes = read.quota_bytes;
  return with;
}

}  // namespace

void icecore_remote_options_init(icecore_remote_options* options, size_t struct_size) {
  icecore_remote_options defaults{};
  defaults.deadline_ms = 30'000;
  defaults.connect_limit_ms = 5'000;
  icecore::c::initialise(options, struct_size, defaults);
}

int icecore_remote_connect(const char* address, const icecore_remote_options* options, icecore_remote_client** client) {
  if (client != nullptr) *client = nullptr;
  return guarded([&] {
    require(address, __func__, "address");
    require(client, __func__, "client");
    *client = new icecore_remote_client{remote::client(address, options_of(options))};
  });
}

void icecore_remote_disconnect(icecore_remote_client* client) { delete client; }

void icecore_remote_settings_init(icecore_remote_settings* settings, size_t struct_size) {
  icecore::c::initialise(settings, struct_size, icecore_remote_settings{});
}

int icecore_remote_create(icecore_remote_client* client, const char* name, const icecore_remote_settings* settings,
                          icecore_remote_store** store) {
  if (store != nullptr) *store = nullptr;
  return guarded([&] {
    require(client, __func__, "client");
    require(name, __func__, "name");
    require(store, __func__, "store");
    *store = new icecore_remote_store{client->client.create(name, settings_of(settings))};
  });
}

int icecore_remote_open(icecore_remote_client* client, const char* name, icecore_remote_store** store) {
  if (store != nullptr) *store = nullptr;
  return guarded([&] {
    require(client, __func__, "client");
    require(name, __func__, "name");
    require(store, __func__, "store");
    *store = new icecore_remote_store{client->client.open(name)};
  });
}

void icecore_remote_close(icecore_remote_store* store) { delete store; }

int icecore_remote_drop(icecore_remote_client* client, const char* name) {
  return guarded([&] {
    require(client, __func__, "client");
    require(name, __func__, "name");
    client->client.drop(name);
  });
}

int icecore_remote_write_snapshot(icecore_remote_client* client, const char* folder) {
  return guarded([&] {
    require(client, __func__, "client");
    require(folder, __func__, "folder");
    client->client.write_snapshot(folder);
  });
}

int icecore_remote_tag(icecore_remote_store* store, const void* name, size_t name_size, const void* note,
                       size_t note_size, icecore_version* closed) {
  put(closed, {});
  return guarded([&] {
    require(store, __func__, "store");
    put(closed, store->store.tag(view(name, name_size, __func__, "name"), view(note, note_size, __func__, "note")));
  });
}

int icecore_remote_find_tag(const icecore_remote_store* store, const void* name, size_t name_size,
                            icecore_version* version) {
  put(version, {});
  return guarded([&] {
    require(store, __func__, "store");
    require(version, __func__, "version");
    const auto found = store->store.find_tag(view(name, name_size, __func__, "name"));
    if (found) *version = found->version;
  });
}

int icecore_remote_compact(icecore_remote_store* store, icecore_version oldest_kept) {
  return guarded([&] {
    require(store, __func__, "store");
    store->store.compact(oldest_kept);
  });
}

int icecore_remote_compact_snapshot(icecore_remote_store* store, const icecore_remote_snapshot* oldest_kept) {
  return guarded([&] {
    require(store, __func__, "store");
    require(oldest_kept, __func__, "oldest_kept");
    store->store.compact(oldest_kept->snapshot);
  });
}

int icecore_remote_grant_lease(icecore_remote_store* store, uint64_t time_ms, uint64_t wanted, uint64_t* lease) {
  put(lease, {});
  return guarded([&] {
    require(store, __func__, "store");
    require(lease, __func__, "lease");
    *lease = store->store.grant_lease(std::chrono::milliseconds(time_ms), wanted).number;
  });
}

int icecore_remote_keep_lease(icecore_remote_store* store, uint64_t lease, uint64_t* left_ms) {
  put(left_ms, {});
  return guarded([&] {
    require(store, __func__, "store");
    put(left_ms, static_cast<std::uint64_t>(store->store.keep_lease(lease).left.count()));
  });
}

int icecore_remote_revoke_lease(icecore_remote_store* store, uint64_t lease, uint64_t* removed) {
  put(removed, {});
  return guarded([&] {
    require(store, __func__, "store");
    put(removed, store->store.revoke_lease(lease));
  });
}

int icecore_remote_start_insert(icecore_remote_store* store, const void* key, size_t key_size, const void* value,
                                size_t value_size, icecore_remote_pending** pending) {
  if (pending != nullptr) *pending = nullptr;
  return guarded([&] {
    require(store, __func__, "store");
    require(pending, __func__, "pending");
    *pending = new icecore_remote_pending{
        store->store.start_insert(view(key, key_size, __func__, "key"), view(value, value_size, __func__, "value"))};
  });
}

int icecore_remote_start_find(icecore_remote_store* store, const void* key, size_t key_size,
                              icecore_remote_pending** pending) {
  if (pending != nullptr) *pending = nullptr;
  return guarded([&] {
    require(store, __func__, "store");
    require(pending, __func__, "pending");
    *pending = new icecore_remote_pending{store->store.start_find(view(key, key_size, __func__, "key"))};
  });
}

int icecore_remote_wait_for(icecore_remote_pending* pending, uint32_t wait_ms, int* done) {
  if (done != nullptr) *done = 0;
  return guarded([&] {
    require(pending, __func__, "pending");
    require(done, __func__, "done");
    const auto look = [&](auto& one) {
      return wait_ms == 0 ? one.test() : one.wait_for(std::chrono::milliseconds(wait_ms));
    };
    *done = std::visit(look, pending->result) ? 1 : 0;
  });
}

int icecore_remote_cancel(icecore_remote_pending* pending) {
  return guarded([&] {
    require(pending, __func__, "pending");
    std::visit([](auto& one) { one.cancel(); }, pending->result);
  });
}

int icecore_remote_wait(icecore_remote_pending* pending, icecore_version* version, icecore_remote_value* value) {
  put(version, {});
  if (value != nullptr) *value = {};
  return guarded([&] {
    require(pending, __func__, "pending");
    if (auto* insert = std::get_if<remote::pending<icecore::version>>(&pending->result)) {
      put(version, insert->wait());
      return;
    }
    require(value, __func__, "value");
    hand_out(std::get<1>(pending->result).wait(), *value);
  });
}

void icecore_remote_pending_free(icecore_remote_pending* pending) { delete pending; }
