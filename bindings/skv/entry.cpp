#include "entry.hpp"

#include <cstdio>

namespace icecore::skv {

namespace {

bool are_good(const buffers& with) noexcept {
  const bool key = with.key_size >= 0 && (with.key != nullptr || with.key_size == 0);
  const bool value = with.value_size >= 0 && (with.value != nullptr || with.value_size == 0);
  return key && value && with.offset >= 0;
}

std::string_view key_of(const buffers& with) { return {with.key, static_cast<std::size_t>(with.key_size)}; }
std::string_view value_of(const buffers& with) { return {with.value, static_cast<std::size_t>(with.value_size)}; }

skv_status_t carry_out(const client_pointer& of, plan&& what, manner how) {
  return how.waits ? of->run(what) : of->start(std::move(what), how.handle);
}

/// A command that was carried out already, as one that is under way.
skv_status_t done(const client_pointer& of, skv_status_t status, manner how) {
  if (how.waits) return status;
  plan known;
  known.known = status;
  return of->start(std::move(known), how.handle);
}

bool is_bad(const client_pointer& of, const skv_pds_id_t* id, manner how) {
  return of == nullptr || id == nullptr || (!how.waits && how.handle == nullptr);
}

void print(std::string_view bytes, int bytes_max) {
  const std::size_t shown = std::min(bytes.size(), static_cast<std::size_t>(std::max(bytes_max, 0)));
  for (const char c : bytes.substr(0, shown)) {
    const bool plain = c >= ' ' && c < 127 && c != '\\' && c != '"';
    if (plain) {
      std::putchar(c);
    } else {
      std::printf("\\x%02x", static_cast<unsigned>(static_cast<unsigned char>(c)));
    }
  }
}

}  // namespace

open_handles& handles() {
  static open_handles& all = *new open_handles;
  return all;
}

skv_status_t connect_entry(const client_pointer& of, const char* file) {
  if (of == nullptr) return SKV_ERRNO_UNSPECIFIED_ERROR;
  const skv_status_t status = of->connect(file);
  const std::lock_guard held(handles().mutex);
  handles().connected_last = of;
  return status;
}

skv_status_t open_entry(const client_pointer& of, const char* name, skv_cmd_open_flags_t flags, skv_pds_id_t* id,
                        manner how) {
  if (is_bad(of, id, how)) return SKV_ERRNO_UNSPECIFIED_ERROR;
  return done(of, of->open(name, flags, *id), how);
}

skv_status_t insert_entry(const client_pointer& of, const skv_pds_id_t* id, const buffers& with, unsigned flags,
                          bool must_exist, manner how) {
  if (is_bad(of, id, how) || !are_good(with)) return SKV_ERRNO_UNSPECIFIED_ERROR;
  const auto offset = static_cast<std::uint64_t>(with.offset);
  return carry_out(of, of->insert(*id, key_of(with), value_of(with), offset, flags, must_exist), how);
}

skv_status_t retrieve_entry(const client_pointer& of, const skv_pds_id_t* id, const buffers& with, int* size,
                            unsigned flags, manner how) {
  if (is_bad(of, id, how) || !are_good(with)) return SKV_ERRNO_UNSPECIFIED_ERROR;
  const client::retrieved into{.value = with.value, .value_bytes = value_of(with).size(), .size = size};
  return carry_out(of, of->retrieve(*id, key_of(with), into, static_cast<std::uint64_t>(with.offset), flags), how);
}

skv_status_t remove_entry(const client_pointer& of, const skv_pds_id_t* id, const buffers& with, manner how) {
  if (is_bad(of, id, how) || !are_good(with)) return SKV_ERRNO_UNSPECIFIED_ERROR;
  return carry_out(of, of->remove(*id, key_of(with)), how);
}

skv_status_t close_entry(const client_pointer& of, const skv_pds_id_t* id, manner how) {
  if (is_bad(of, id, how)) return SKV_ERRNO_UNSPECIFIED_ERROR;
  return done(of, of->close(*id), how);
}

skv_status_t control_entry(const client_pointer& of, skv_pdscntl_cmd_t what, skv_pds_attr_t* attributes, manner how) {
  if (of == nullptr || attributes == nullptr || (!how.waits && how.handle == nullptr)) {
    return SKV_ERRNO_UNSPECIFIED_ERROR;
  }
  return done(of, of->control(what, *attributes), how);
}

skv_status_t open_cursor_entry(const client_pointer& of, const skv_pds_id_t* id, std::optional<int> server,
                               skv_client_cursor_ext_hdl_t* handle) {
  if (is_bad(of, id, {}) || handle == nullptr) return SKV_ERRNO_UNSPECIFIED_ERROR;
  const auto all = of->session();
  if (all == nullptr) return SKV_ERRNO_CONN_FAILED;
  if (of->database(*id) == nullptr) return SKV_ERRNO_PDS_DOES_NOT_EXIST;
  if (server && (*server < 0 || static_cast<std::size_t>(*server) >= all->servers())) {
    return SKV_ERRNO_NODE_NOT_OWNER;
  }
  *handle = handles().cursors.add(std::make_shared<cursor>(of, *id, server));
  return SKV_SUCCESS;
}

skv_status_t element_entry(skv_client_cursor_ext_hdl_t handle, const element_buffers& into, bool first,
                           unsigned flags) {
  const std::shared_ptr<cursor> open = handles().cursors.find(handle);
  if (open == nullptr) return SKV_ERRNO_UNSPECIFIED_ERROR;
  return first ? open->first(into, flags) : open->next(into);
}

skv_status_t open_inserter_entry(const client_pointer& of, const skv_pds_id_t* id,
                                 skv_client_bulk_inserter_ext_hdl_t* handle) {
  if (is_bad(of, id, {}) || handle == nullptr) return SKV_ERRNO_UNSPECIFIED_ERROR;
  if (of->session() == nullptr) return SKV_ERRNO_CONN_FAILED;
  if (of->database(*id) == nullptr) return SKV_ERRNO_PDS_DOES_NOT_EXIST;
  *handle = handles().inserters.add(std::make_shared<bulk_inserter>(of, *id));
  return SKV_SUCCESS;
}

skv_status_t bulk_insert_entry(skv_client_bulk_inserter_ext_hdl_t handle, const buffers& with) {
  const std::shared_ptr<bulk_inserter> open = handles().inserters.find(handle);
  if (open == nullptr || !are_good(with)) return SKV_ERRNO_UNSPECIFIED_ERROR;
  return open->insert(key_of(with), value_of(with));
}

skv_status_t flush_entry(skv_client_bulk_inserter_ext_hdl_t handle) {
  const std::shared_ptr<bulk_inserter> open = handles().inserters.find(handle);
  return open == nullptr ? SKV_ERRNO_UNSPECIFIED_ERROR : open->flush();
}

skv_status_t close_inserter_entry(skv_client_bulk_inserter_ext_hdl_t handle) {
  const std::shared_ptr<bulk_inserter> open = handles().inserters.remove(handle);
  return open == nullptr ? SKV_ERRNO_UNSPECIFIED_ERROR : open->flush();
}

skv_status_t dump_entry(const client_pointer& of, const skv_pds_id_t* id, int key_bytes_max, int value_bytes_max) {
  if (is_bad(of, id, {})) return SKV_ERRNO_UNSPECIFIED_ERROR;
  const auto all = of->session();
  if (all == nullptr) return SKV_ERRNO_CONN_FAILED;
  const database_pointer set = of->database(*id);
  if (set == nullptr) return SKV_ERRNO_PDS_DOES_NOT_EXIST;
  const remote::snapshot now = remote::store(set, all->opened_with().deadline).latest();
  for (const auto& [key, value] : now.range()) {
    std::fputs("\"", stdout);
    print(key, key_bytes_max);
    std::fputs("\" = \"", stdout);
    print(value, value_bytes_max);
    std::fputs("\"\n", stdout);
  }
  std::fflush(stdout);
  return SKV_SUCCESS;
}

}  // namespace icecore::skv
