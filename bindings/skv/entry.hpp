// What SKV's C and C++ interfaces have in common: open handles, and the commands with their arguments checked.
//
//   return guarded([&] { return insert_entry(find_client(handle), pds, ...); });
//
// Threads: any number. Errors: guarded() makes a status of whatever is thrown, so that nothing leaves the library.
// Lifetime: the tables live as long as the process, since programs end in every order. Cost: a lock a handle.
#pragma once

#include <memory>

#include "client.hpp"
#include "walks.hpp"

namespace icecore::skv {

using client_pointer = std::shared_ptr<client>;

/// A PDS as the C interface names it.
struct pds_handle {
  client_pointer of;
  skv_pds_id_t id;
};

struct open_handles {
  handle_table<client> clients;
  handle_table<pds_handle> sets;
  handle_table<cursor> cursors;
  handle_table<bulk_inserter> inserters;
  std::mutex mutex;
  std::weak_ptr<client> connected_last;  // whom DumpPersistentImage of C means
};
[[nodiscard]] open_handles& handles();

template <class Function>
skv_status_t guarded(const Function& f) noexcept {
  try {
    return f();
  } catch (...) {
    return status_of(std::current_exception());
  }
}

/// Key and value of a command as the program gave them.
struct buffers {
  const char* key;
  int key_size;
  char* value = nullptr;
  int value_size = 0;
  int offset = 0;
};

/// How a command is made: at once, or under way with a handle.
struct manner {
  bool waits = true;
  skv_client_cmd_ext_hdl_t* handle = nullptr;
};

skv_status_t connect_entry(const client_pointer& of, const char* file);
skv_status_t open_entry(const client_pointer& of, const char* name, skv_cmd_open_flags_t flags, skv_pds_id_t* id,
                        manner how);
skv_status_t insert_entry(const client_pointer& of, const skv_pds_id_t* id, const buffers& with, unsigned flags,
                          bool must_exist, manner how);
skv_status_t retrieve_entry(const client_pointer& of, const skv_pds_id_t* id, const buffers& with, int* size,
                            unsigned flags, manner how);
skv_status_t remove_entry(const client_pointer& of, const skv_pds_id_t* id, const buffers& with, manner how);
skv_status_t close_entry(const client_pointer& of, const skv_pds_id_t* id, manner how);
skv_status_t control_entry(const client_pointer& of, skv_pdscntl_cmd_t what, skv_pds_attr_t* attributes, manner how);

skv_status_t open_cursor_entry(const client_pointer& of, const skv_pds_id_t* id, std::optional<int> server,
                               skv_client_cursor_ext_hdl_t* handle);
skv_status_t element_entry(skv_client_cursor_ext_hdl_t handle, const element_buffers& into, bool first, unsigned flags);
skv_status_t open_inserter_entry(const client_pointer& of, const skv_pds_id_t* id,
                                 skv_client_bulk_inserter_ext_hdl_t* handle);
skv_status_t bulk_insert_entry(skv_client_bulk_inserter_ext_hdl_t handle, const buffers& with);
skv_status_t flush_entry(skv_client_bulk_inserter_ext_hdl_t handle);
skv_status_t close_inserter_entry(skv_client_bulk_inserter_ext_hdl_t handle);
skv_status_t dump_entry(const client_pointer& of, const skv_pds_id_t* id, int key_bytes_max, int value_bytes_max);

}  // namespace icecore::skv
