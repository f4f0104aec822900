#include "service/write/write_path.hpp"

#include "icecore/history.hpp"
#include "service/write/applied_writes.hpp"
#include "service/write/direct_writes.hpp"

namespace icecore::service {

std::unique_ptr<write_path> make_write_path(version_rule rule, const write_parts& parts) {
  if (rule == version_rule::write) return std::make_unique<applied_writes>(parts);
  return std::make_unique<direct_writes>(parts);
}

std::optional<found> found_in(icecore::key_history past, const icecore::pin& holds, const value_codec& codec) {
  auto record = past.begin();
  if (record == past.end() || !record->value) return std::nullopt;
  if (codec.plain()) return found(icecore::value(*record->value, holds), record->version);
  std::string room;
  const std::string_view value = codec.decode(*record->value, room);
  if (value.data() != room.data()) room.assign(value);
  return found(std::move(room), record->version);
}

}  // namespace icecore::service
