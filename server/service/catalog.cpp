#include "service/catalog.hpp"

#include <fmt/format.h>
#include <openssl/rand.h>

#include <array>
#include <nlohmann/json.hpp>
#include <utility>

#include "icecore/error.hpp"
#include "service/json_text.hpp"

namespace icecore::service {
namespace {

using json = nlohmann::json;

constexpr std::string_view database_prefix = "database/";

template <typename Value, std::size_t Size>
using names = std::array<std::pair<Value, std::string_view>, Size>;

constexpr names<version_rule, 3> rule_names{
    {{version_rule::write, "write"}, {version_rule::every, "every"}, {version_rule::tag, "tag"}}};
constexpr names<value_compression, 2> compression_names{
    {{value_compression::none, "none"}, {value_compression::zstd, "zstd"}}};
constexpr names<icecore::durability, 4> durability_names{{{icecore::durability::best_available, "best_available"},
                                                          {icecore::durability::none, "none"},
                                                          {icecore::durability::tag, "tag"},
                                                          {icecore::durability::operation, "operation"}}};
constexpr names<icecore::index_kind, 5> index_names{{{icecore::index_kind::btree, "btree"},
                                                     {icecore::index_kind::skip_list, "skip_list"},
                                                     {icecore::index_kind::persistent, "persistent"},
                                                     {icecore::index_kind::list, "list"},
                                                     {icecore::index_kind::hash, "hash"}}};

template <typename Value, std::size_t Size>
std::string_view text_in(const names<Value, Size>& of, Value value) noexcept {
  for (const auto& [known, text] : of) {
    if (known == value) return text;
  }
  return "?";
}

template <typename Value, std::size_t Size>
std::optional<Value> value_in(const names<Value, Size>& of, std::string_view text) noexcept {
  for (const auto& [value, known] : of) {
    if (known == text) return value;
  }
  return std::nullopt;
}

[[noreturn]] void damaged(std::string_view key, std::string_view why) {
  throw icecore::error(errc::damaged,
                       fmt::format("the server's catalog: its record '{}' is not understood: {}", key, why));
}

template <typename Value>
Value required(std::optional<Value> value, std::string_view key, std::string_view what) {
  if (!value) damaged(key, what);
  return *value;
}

json json_of(const database_settings& s) {
  return json{{"owner", s.owner},
              {"rule", text_of(s.rule)},
              {"interval_ms", s.interval.count()},
              {"durability", text_of(s.durability)},
              {"index", text_of(s.index)},
              {"compression", text_of(s.compression)},
              {"quota_bytes", s.quota_bytes}};
}

database_settings settings_in(std::string_view where, const json& record) {
  database_settings settings;
  settings.owner = record.at("owner").get<std::string>();
  settings.rule = required(rule_of(record.at("rule").get<std::string>()), where, "its version rule");
  settings.interval = std::chrono::milliseconds(record.at("interval_ms").get<std::int64_t>());
  settings.durability = required(durability_of(record.at("durability").get<std::string>()), where, "its durability");
  settings.index = required(index_of(record.at("index").get<std::string>()), where, "its index");
  settings.compression =
      required(compression_of(record.at("compression").get<std::string>()), where, "its compression");
  settings.quota_bytes = record.at("quota_bytes").get<std::uint64_t>();
  return settings;
}

json json_of(const group_place& place) {
  return json{{"name", place.name}, {"index", place.index}, {"size", place.size}};
}

std::string json_of(const catalog_entry& entry) {
  json record = json_of(entry.settings);
  record["number"] = entry.number;
  return json_text(record);
}

catalog_entry entry_of(std::string_view key, std::string_view text) {
  try {
    const json record = json::parse(text);
    catalog_entry entry{.number = record.at("number").get<std::uint64_t>(), .settings = settings_in(key, record)};
    entry.settings.name = key.substr(database_prefix.size());
    return entry;
  } catch (const json::exception& e) {
    damaged(key, e.what());
  }
}

icecore::store open_catalog(const std::filesystem::path& path) {
  icecore::options opening;
  opening.index = icecore::index_kind::persistent;
  try {
    opening.durability = icecore::durability::operation;
    return icecore::store(path, opening);
  } catch (const icecore::error& e) {
    if (e.code() != errc::not_durable) throw;
  }
  opening.durability = icecore::durability::best_available;
  return icecore::store(path, opening);
}

std::string new_identity() {
  std::array<unsigned char, 16> bytes{};
  if (RAND_bytes(bytes.data(), static_cast<int>(bytes.size())) != 1) {
    throw icecore::error(errc::io, "the system has no random numbers for the server's identity");
  }
  std::string text;
  for (const unsigned char byte : bytes) text += fmt::format("{:02x}", byte);
  return text;
}

// What all servers of a dependent group have alike.
bool is_shared(std::string_view key) {
  return key.starts_with(database_prefix) || key.starts_with("user/") || key.starts_with("role/") ||
         key == "server/last_number";
}

}  // namespace

std::string text_of(const database_settings& settings) { return json_text(json_of(settings)); }

database_settings settings_of(std::string_view where, std::string_view text) {
  try {
    return settings_in(where, json::parse(text));
  } catch (const json::exception& e) {
    damaged(where, e.what());
  }
}

std::string_view text_of(version_rule rule) noexcept { return text_in(rule_names, rule); }
std::string_view text_of(value_compression how) noexcept { return text_in(compression_names, how); }
std::string_view text_of(icecore::durability mode) noexcept { return text_in(durability_names, mode); }
std::string_view text_of(icecore::index_kind kind) noexcept { return text_in(index_names, kind); }
std::optional<version_rule> rule_of(std::string_view text) noexcept { return value_in(rule_names, text); }
std::optional<value_compression> compression_of(std::string_view text) noexcept {
  return value_in(compression_names, text);
}
std::optional<icecore::durability> durability_of(std::string_view text) noexcept {
  return value_in(durability_names, text);
}
std::optional<icecore::index_kind> index_of(std::string_view text) noexcept { return value_in(index_names, text); }

catalog::catalog(const std::filesystem::path& path) : store_(open_catalog(path)) {
  if (const auto known = store_.find("server/identity")) {
    identity_ = known->bytes();
    return;
  }
  identity_ = new_identity();
  is_new_ = true;
  store_.insert("server/identity", identity_);
  durable();
}

void catalog::durable() {
  static_cast<void>(store_.latest());
  store_.sync();
}

void catalog::require_place(const group_place& place) {
  const json wanted = json_of(place);
  const auto known = store_.find("server/group");
  if (!known) {
    store_.insert("server/group", wanted.dump());
    durable();
    return;
  }
  const json was = json::parse(known->bytes(), nullptr, false);
  if (was == wanted) return;
  throw icecore::error(
      errc::other_cluster,
      fmt::format("this data folder belongs to another place of a group: it was made for {}, and the "
                  "configuration says {}; change the configuration, or restore a snapshot for the new place",
                  known->bytes(), wanted.dump()));
}

std::vector<catalog_entry> catalog::databases() const {
  std::vector<catalog_entry> all;
  const icecore::snapshot now = store_.latest();
  auto items = now.prefix(database_prefix);
  for (const auto& [key, value] : items) all.push_back(entry_of(key, value));
  return all;
}

std::optional<catalog_entry> catalog::find(std::string_view name) const {
  const std::string key = std::string(database_prefix).append(name);
  const auto record = store_.find(key);
  if (!record) return std::nullopt;
  return entry_of(key, record->bytes());
}

std::uint64_t catalog::next_number() const {
  const auto last = store_.find("server/last_number");
  if (!last) return 1;
  const json known = json::parse(last->bytes(), nullptr, false);
  if (!known.is_number_unsigned()) damaged("server/last_number", "no number");
  return known.get<std::uint64_t>() + 1;
}

void catalog::use_number(std::uint64_t number) {
  store_.insert("server/last_number", std::to_string(number));
  durable();
}

void catalog::put(const catalog_entry& what) {
  store_.insert(std::string(database_prefix).append(what.settings.name), json_of(what));
  durable();
}

void catalog::remove(std::string_view name) {
  store_.remove(std::string(database_prefix).append(name));
  durable();
}

// ---- Groups and snapshots ----

std::string catalog::shared_records() const {
  json records = json::object();
  const icecore::snapshot now = store_.latest();
  auto items = now.range();
  for (const auto& [key, value] : items) {
    if (is_shared(key)) records[std::string(key)] = std::string(value);
  }
  return json{{"is_new", is_new_}, {"records", std::move(records)}}.dump();
}

void catalog::take_shared_records(std::string_view text) {
  const json told = json::parse(text);
  if (told.at("is_new").get<bool>() && !is_new_) {
    throw icecore::error(errc::other_cluster,
                         "the first server of the group has a new data folder, and this one's is not new: they do not "
                         "belong together; put the first server's folder back, or restore a snapshot");
  }
  const json& records = told.at("records");
  icecore::batch changed;
  bool any = false;
  const icecore::snapshot now = store_.latest();
  auto items = now.range();
  for (const auto& [key, value] : items) {
    if (!is_shared(key) || records.contains(std::string(key))) continue;
    changed.remove(key);
    any = true;
  }
  for (const auto& [key, value] : records.items()) {
    const std::string& wanted = value.get_ref<const std::string&>();
    const auto is = store_.find(key);
    if (is && is->bytes() == wanted) continue;
    changed.insert(key, wanted);
    any = true;
  }
  if (!any) return;
  store_.apply(changed);
  durable();
}

void catalog::move_to(const std::optional<group_place>& place) {
  icecore::batch changed;
  identity_ = new_identity();
  changed.insert("server/identity", identity_);
  if (place) {
    changed.insert("server/group", json_of(*place).dump());
  } else {
    changed.remove("server/group");
  }
  store_.apply(changed);
  durable();
}

}  // namespace icecore::service
