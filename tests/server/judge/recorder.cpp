#include "judge/recorder.hpp"

#include <chrono>
#include <nlohmann/json.hpp>
#include <stdexcept>

namespace icecore::judge {
namespace {

using nlohmann::json;
using service::condition;
using service::operation;
using service::operation_result;

const char* name_of(condition::kind is) {
  switch (is) {
    case condition::kind::present:
      return "present";
    case condition::kind::absent:
      return "absent";
    case condition::kind::version_is:
      return "version_is";
    case condition::kind::version_below:
      return "version_below";
    case condition::kind::version_above:
      return "version_above";
    case condition::kind::version_is_not:
      return "version_is_not";
    case condition::kind::value_is:
      return "value_is";
    case condition::kind::value_is_not:
      return "value_is_not";
    default:
      throw std::logic_error("the checker does not know this condition");
  }
}

const char* name_of(operation::kind what) {
  switch (what) {
    case operation::kind::put:
      return "put";
    case operation::kind::put_new:
      return "put_new";
    case operation::kind::remove:
      return "remove";
    case operation::kind::remove_range:
      return "remove_range";
    case operation::kind::get:
      return "get";
    case operation::kind::get_range:
      return "get_range";
    default:
      throw std::logic_error("the checker does not know this operation");
  }
}

const char* name_of(operation_result::state is) {
  switch (is) {
    case operation_result::state::done:
      return "done";
    case operation_result::state::absent:
      return "absent";
    case operation_result::state::exists:
      return "exists";
    default:
      return "refused";
  }
}

json json_of(const std::vector<service::row>& rows) {
  json all = json::array();
  for (const service::row& r : rows) all.push_back({{"key", r.key}, {"value", r.value}, {"version", r.version}});
  return all;
}

json json_of(const std::vector<operation>& list) {
  json all = json::array();
  for (const operation& o : list) {
    all.push_back({{"what", name_of(o.what)}, {"key", o.key}, {"end", o.end}, {"value", o.value}, {"limit", o.limit}});
  }
  return all;
}

}  // namespace

std::int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

void event_log::write(const service::transaction& asked, const service::outcome* outcome, std::int64_t call) {
  const std::int64_t returned = outcome != nullptr ? now_ns() : 0;
  json conditions = json::array();
  for (const condition& c : asked.conditions) {
    conditions.push_back({{"key", c.key}, {"is", name_of(c.is)}, {"version", c.version}, {"value", c.value}});
  }
  json line{{"kind", "write"},
            {"client", client_},
            {"call", call},
            {"return", returned},
            {"conditions", conditions},
            {"then", json_of(asked.then)},
            {"otherwise", json_of(asked.otherwise)}};
  if (outcome != nullptr) {
    json results = json::array();
    for (const operation_result& r : outcome->results) {
      results.push_back({{"is", name_of(r.is)}, {"rows", json_of(r.rows)}, {"count", r.count}, {"more", r.more}});
    }
    line["succeeded"] = outcome->succeeded;
    line["version"] = outcome->version;
    line["results"] = std::move(results);
  }
  lines_.push_back(line.dump());
}

void event_log::find(const std::string& key, const std::optional<service::row>& found, std::int64_t call) {
  const std::int64_t returned = now_ns();
  json line{{"kind", "find"},     {"client", client_}, {"call", call},
            {"return", returned}, {"key", key},        {"found", found.has_value()}};
  if (found) line["rows"] = json_of({*found});
  lines_.push_back(line.dump());
}

void event_log::scan(const char* kind, const icecore::key_bounds& bounds, const scanned& came, std::int64_t call) {
  const std::int64_t returned = now_ns();
  lines_.push_back(json{
      {"kind", kind},
      {"client", client_},
      {"call", call},
      {"return", returned},
      {"from", bounds.from.value_or("")},
      {"end", bounds.to.value_or("")},
      {"rows", json_of(came.rows)},
      {"version",
       came.version}}.dump());
}

void event_log::watch(int number, icecore::version after, const icecore::key_bounds& bounds) {
  lines_.push_back(json{{"kind", "watch"},
                        {"watch", number},
                        {"after", after},
                        {"from", bounds.from.value_or("")},
                        {"end", bounds.to.value_or("")}}
                       .dump());
}

void event_log::told(int number, const watch_part& part) {
  json rows = json::array();
  for (std::size_t i = 0; i < part.changes.size(); ++i) {
    const bool removed = !part.changes.removed.empty() && part.changes.removed[i] != 0;
    rows.push_back({{"key", part.changes.keys[i]},
                    {"value", part.changes.values[i]},
                    {"version", part.changes.versions[i]},
                    {"removed", removed}});
  }
  lines_.push_back(json{{"kind", "told"}, {"watch", number}, {"told", part.told}, {"rows", rows}}.dump());
}

history_file::history_file(const std::string& path, const std::string& rule) : out_(path) {
  out_ << json{{"kind", "history"}, {"rule", rule}}.dump() << '\n';
}

void history_file::add(event_log& log) {
  for (const std::string& line : log.take()) out_ << line << '\n';
}

void history_file::close() {
  out_.close();
  if (!out_) throw std::runtime_error("the history could not be written: is the device full?");
}

}  // namespace icecore::judge
