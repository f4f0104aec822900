// Cursors and bulk inserters of SKV.
//
//   cursor all(client, pds, std::nullopt);
//   status = all.first(buffers, SKV_CURSOR_NONE_FLAG);  while (status == SKV_SUCCESS) status = all.next(buffers);
//
// A cursor reads the newest closed version at its first element, so it gives each key once, in key order, whatever is
// written meanwhile. An inserter keeps pairs until there are enough for a message.
// Threads: one at a time. Errors: icecore::error. Cost: two blocks of 256 KiB of each server are under way, up
// to eight while the walk goes on.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "client.hpp"
#include "rows.hpp"

namespace icecore::skv {

struct element_buffers {
  char* key;
  int* key_size;
  int key_bytes_max;
  char* value;
  int* value_size;
  int value_bytes_max;
};

class cursor {
 public:
  /// `server`: of a local cursor.
  cursor(std::shared_ptr<client> of, skv_pds_id_t pds, std::optional<int> server)
      : client_(std::move(of)), pds_(pds), server_(server) {}

  skv_status_t first(const element_buffers& into, unsigned flags);
  skv_status_t next(const element_buffers& into);

 private:
  skv_status_t give(const element_buffers& into);

  std::shared_ptr<client> client_;
  skv_pds_id_t pds_;
  std::optional<int> server_;
  std::unique_ptr<detail::row_merge> rows_;
  bool given_ = false;  // the present row
};

class bulk_inserter {
 public:
  bulk_inserter(std::shared_ptr<client> of, skv_pds_id_t pds) : client_(std::move(of)), pds_(pds) {}

  skv_status_t insert(std::string_view key, std::string_view value);
  skv_status_t flush();

 private:
  std::shared_ptr<client> client_;
  skv_pds_id_t pds_;
  service::byte_array keys_;
  service::byte_array values_;
};

}  // namespace icecore::skv
