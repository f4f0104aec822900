#include "service/write/present.hpp"

#include "icecore/history.hpp"
#include "service/read/hidden_keys.hpp"

namespace icecore::service {
namespace {

// The newest record of a history, if it is a value.
std::optional<present_value> newest_of(icecore::key_history& past, const value_codec& codec, std::string& room) {
  auto record = past.begin();
  if (record == past.end() || !record->value) return std::nullopt;
  return present_value{.value = codec.decode(*record->value, room), .version = record->version};
}

}  // namespace

std::optional<present_value> newest_present::find(std::string_view key) {
  if (leases_->is_over(key)) return std::nullopt;
  return newest_of(shown_.emplace(store_->history(key)), *codec_, room_);
}

void newest_present::for_each(const icecore::key_bounds& bounds, const std::function<bool(std::string_view)>& visit) {
  const icecore::snapshot now = store_->latest();
  auto items = now.range(bounds);
  for (const auto& [key, value] : items) {
    if (!is_hidden(key) && !leases_->is_over(key) && !visit(key)) return;
  }
}

std::optional<present_value> durable_present::find(std::string_view key) {
  if (leases_->is_over(key)) return std::nullopt;
  if (const auto since = since_->find(key); since != since_->end()) {
    if (!since->second.value) return std::nullopt;
    return present_value{.value = *since->second.value, .version = since->second.version};
  }
  return newest_of(shown_.emplace(durable_.holds(), key, durable_.version()), *codec_, room_);
}

void durable_present::for_each(const icecore::key_bounds& bounds, const std::function<bool(std::string_view)>& visit) {
  auto items = durable_.range(bounds);
  auto old = items.begin();
  auto young = bounds.from ? since_->lower_bound(*bounds.from) : since_->begin();
  const auto young_end = bounds.to ? since_->lower_bound(*bounds.to) : since_->end();
  const auto show = [&](std::string_view key) { return is_hidden(key) || leases_->is_over(key) || visit(key); };
  while (old != items.end() || young != young_end) {
    if (young == young_end || (old != items.end() && old->key < young->first)) {
      if (!show(old->key)) return;
      ++old;
      continue;
    }
    if (old != items.end() && old->key == young->first) ++old;  // written again since
    if (young->second.value && !show(young->first)) return;
    ++young;
  }
}

}  // namespace icecore::service
