#include "service/rows.hpp"

namespace icecore::service {

void row_block::clear() noexcept {
  keys.clear();
  values.clear();
  versions.clear();
  removed.clear();
  before.clear();
  before_absent.clear();
}

void row_block::add(std::string_view key, std::optional<std::string_view> value, icecore::version version) {
  // `removed` stays empty until the first removal.
  if (!value || !removed.empty()) {
    removed.resize(keys.size(), 0);
    removed.push_back(value ? 0 : 1);
  }
  keys.add(key);
  values.add(value.value_or(std::string_view()));
  versions.push_back(version);
}

void row_block::add_before(std::optional<std::string_view> value) {
  before.add(value.value_or(std::string_view()));
  before_absent.push_back(value ? 0 : 1);
}

}  // namespace icecore::service
