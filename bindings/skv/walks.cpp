#include "walks.hpp"

#include <algorithm>
#include <cstring>

namespace icecore::skv {

namespace {

constexpr std::size_t inserter_bytes = std::size_t{1} << 20;

}  // namespace

skv_status_t cursor::first(const element_buffers& into, unsigned flags) {
  if (client_->session() == nullptr) return SKV_ERRNO_CONN_FAILED;
  const database_pointer of = client_->database(pds_);
  if (of == nullptr) return SKV_ERRNO_PDS_DOES_NOT_EXIST;
  wire::open_scan_request asked;
  if ((flags & SKV_CURSOR_WITH_STARTING_KEY_FLAG) != 0) {
    if (into.key == nullptr || into.key_size == nullptr) return SKV_ERRNO_UNSPECIFIED_ERROR;
    if (*into.key_size < 0 || *into.key_size > into.key_bytes_max) return SKV_ERRNO_UNSPECIFIED_ERROR;
    asked.bounds.from.emplace(into.key, static_cast<std::size_t>(*into.key_size));
  }
  const auto deadline = of->all->opened_with().deadline;
  std::vector<std::unique_ptr<detail::row_source>> parts;
  for (std::size_t part = 0; part < of->all->parts(); ++part) {
    // Dependent servers have one database in common: each shows all of it.
    if (server_ && of->all->independent() && static_cast<std::size_t>(*server_) != part) continue;
    asked.at = of->ask<wire::version_answer>(part, wire::resolve_request{}, detail::in(deadline), true).version;
    parts.push_back(std::make_unique<detail::row_source>(of, part, asked, deadline));
  }
  rows_ = std::make_unique<detail::row_merge>(std::move(parts), false);
  given_ = false;
  return give(into);
}

skv_status_t cursor::next(const element_buffers& into) {
  if (client_->session() == nullptr) return SKV_ERRNO_CONN_FAILED;
  if (rows_ == nullptr) return first(into, SKV_CURSOR_NONE_FLAG);
  if (given_ && rows_->current() != nullptr) rows_->step();
  given_ = false;
  return give(into);
}

skv_status_t cursor::give(const element_buffers& into) {
  const detail::row_source* row = rows_->current();
  if (row == nullptr) return SKV_ERRNO_END_OF_RECORDS;
  const std::string_view key = row->key();
  const std::string_view value = row->value();
  if (into.key_size != nullptr) *into.key_size = static_cast<int>(key.size());
  if (into.value_size != nullptr) *into.value_size = static_cast<int>(std::min<std::size_t>(value.size(), INT32_MAX));
  if (into.key_bytes_max < 0 || into.value_bytes_max < 0) return SKV_ERRNO_UNSPECIFIED_ERROR;
  if (key.size() > static_cast<std::size_t>(into.key_bytes_max)) return SKV_ERRNO_KEY_SIZE_OVERFLOW;
  const std::size_t fits = std::min(value.size(), static_cast<std::size_t>(into.value_bytes_max));
  if ((into.key == nullptr && !key.empty()) || (into.value == nullptr && fits > 0)) return SKV_ERRNO_UNSPECIFIED_ERROR;
  if (!key.empty()) std::memcpy(into.key, key.data(), key.size());
  if (fits > 0) std::memcpy(into.value, value.data(), fits);
  given_ = true;
  return SKV_SUCCESS;
}

skv_status_t bulk_inserter::insert(std::string_view key, std::string_view value) {
  if (client_->session() == nullptr) return SKV_ERRNO_CONN_FAILED;
  keys_.add(key);
  values_.add(value);
  return keys_.bytes.size() + values_.bytes.size() < inserter_bytes ? SKV_SUCCESS : flush();
}

skv_status_t bulk_inserter::flush() {
  if (client_->session() == nullptr) return SKV_ERRNO_CONN_FAILED;
  const database_pointer of = client_->database(pds_);
  if (of == nullptr) return SKV_ERRNO_PDS_DOES_NOT_EXIST;
  std::vector<icecore::item> items(keys_.size());
  for (std::size_t i = 0; i < items.size(); ++i) items[i] = {keys_[i], values_[i]};
  remote::store(of, of->all->opened_with().deadline).insert_many(items, true);
  keys_.clear();
  values_.clear();
  return SKV_SUCCESS;
}

}  // namespace icecore::skv
