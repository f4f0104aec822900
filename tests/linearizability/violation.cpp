#include "violation.hpp"

namespace icecore::testing {
namespace {

/// Times are told from the first call on: that is shorter.
[[nodiscard]] std::int64_t first_instant(const history& h) {
  std::int64_t first = std::numeric_limits<std::int64_t>::max();
  for (const life& l : h.lives) {
    for (const auto& client : l.clients) {
      if (!client.empty() && client.front().invoke_ns < first) first = client.front().invoke_ns;
    }
  }
  return first;
}

[[nodiscard]] std::string asked(const operation& o) {
  const std::string name(name_of(o.what));
  const std::string value = std::to_string(o.value);
  switch (o.what) {
    case call::insert:
    case call::batch_insert:
      return name + " of value " + value + " to " + describe_key(o.key);
    case call::batch:
      return name + " of " + std::to_string(o.count) + " parts";
    case call::tag:
      return o.value == 0 ? name : name + " named " + value;
    case call::find_at:
      return name + " of " + describe_key(o.key) + " in version " + std::to_string(o.version);
    case call::digest_at:
      return name + " of group " + std::to_string(o.key) + " in version " + std::to_string(o.version);
    case call::remove:
    case call::batch_remove:
    case call::find:
    case call::history:
      return name + " of " + describe_key(o.key);
    default:
      return name;
  }
}

[[nodiscard]] std::string answered(const operation& o) {
  switch (o.what) {
    case call::find:
    case call::find_at:
      return o.value == 0 ? "nothing" : "value " + std::to_string(o.value);
    case call::digest_at:
      return "digest " + std::to_string(o.value);
    case call::history:
      return std::to_string(o.count) + " records";
    case call::remove:
      if (o.version == 0) return "\"was not there\"";
      [[fallthrough]];
    default:
      return "version " + std::to_string(o.version);
  }
}

}  // namespace

std::string describe_key(std::uint32_t key) {
  return "key " + std::to_string(group_of(key)) + ":" + std::to_string(key & 0xffffff);
}

std::string describe_record(const found_record& r) {
  return (r.value == 0 ? "a removal" : "value " + std::to_string(r.value)) + " in version " + std::to_string(r.version);
}

std::string describe(const history& h, place_of_call p) {
  if (p.client == place_of_call::nowhere) return "nothing";
  if (p.client == place_of_call::an_inspection) {
    return "inspection " + std::to_string(p.index) + " after life " + std::to_string(p.life);
  }
  const operation& o = operation_at(h, p);
  const std::int64_t first = first_instant(h);
  std::string text = asked(o) + " (client " + std::to_string(p.client) + " of life " + std::to_string(p.life) +
                     ", called at " + std::to_string(o.invoke_ns - first) + " ns, ";
  if (o.return_ns == 0) return text + "in flight at the crash)";
  return text + "returned " + answered(o) + " at " + std::to_string(o.return_ns - first) + " ns)";
}

}  // namespace icecore::testing
