// What is behind an SKV client: partitioned data sets as databases, commands, cursors and bulk inserters.
//
//   auto c = std::make_shared<client>(configuration_file);
//   c->connect(nullptr);
//   skv_pds_id_t pds;
//   c->open("set", SKV_COMMAND_OPEN_FLAGS_CREATE, pds);
//   c->run(c->insert(pds, key, value, 0, flags));                 // or start(), then wait()
//
// Threads: any number; a command that several threads wait for completes for one of them.
// Errors: statuses where SKV has one; what throws (icecore::error, std::bad_alloc) becomes a status by status_of().
// Cost: one message each way for a command.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "configuration.hpp"
#include "done_queue.hpp"
#include "handle_table.hpp"
#include "names.hpp"
#include "operation.hpp"

namespace icecore::skv {

namespace detail = remote::detail;
using database_pointer = std::shared_ptr<detail::database>;

/// The status for what went wrong.
[[nodiscard]] skv_status_t status_of(const std::exception_ptr& thrown) noexcept;

/// A command before it is sent: what is asked, and what the answer means. Or its status, if nothing is to be sent.
struct plan {
  database_pointer of{};
  std::size_t part = 0;
  wire::operation_number number{};
  wire::byte_buffer payload{};
  bool repeatable = false;
  std::function<skv_status_t(const wire::answer&)> finish{};
  std::optional<skv_status_t> known{};
};

/// One that was sent.
struct command {
  std::mutex mutex;  // of the operation, which belongs to one thread at a time
  std::unique_ptr<detail::operation> operation;
  std::function<skv_status_t(const wire::answer&)> finish;
  std::optional<skv_status_t> known;
};

class client : public std::enable_shared_from_this<client> {
 public:
  static constexpr std::size_t commands_max = 262'144;

  explicit client(const char* configuration_file);

  skv_status_t connect(const char* configuration_file);
  skv_status_t disconnect();
  /// Null: not connected.
  [[nodiscard]] std::shared_ptr<detail::session> session() const;

  // ---- Partitioned data sets ----
  skv_status_t open(const char* name, skv_cmd_open_flags_t flags, skv_pds_id_t& id);
  skv_status_t close(const skv_pds_id_t& id);
  skv_status_t control(skv_pdscntl_cmd_t what, skv_pds_attr_t& attributes);
  /// The database of an identifier, whoever opened it. Null: there is none.
  [[nodiscard]] database_pointer database(const skv_pds_id_t& id);

  // ---- Commands ----
  [[nodiscard]] plan insert(const skv_pds_id_t& id, std::string_view key, std::string_view value, std::uint64_t offset,
                            unsigned flags, bool must_exist);
  struct retrieved {
    char* value;
    std::uint64_t value_bytes;
    int* size;
  };
  [[nodiscard]] plan retrieve(const skv_pds_id_t& id, std::string_view key, const retrieved& into, std::uint64_t offset,
                              unsigned flags);
  [[nodiscard]] plan remove(const skv_pds_id_t& id, std::string_view key);

  skv_status_t run(const plan& what);
  skv_status_t start(plan&& what, void** handle);
  skv_status_t wait(void* handle);
  skv_status_t test(void* handle);
  skv_status_t wait_any(void** handle);
  skv_status_t test_any(void** handle);

  // ---- The rest ----
  skv_status_t dump_image(const char* path);
  [[nodiscard]] const std::vector<int>& local_servers();

 private:
  void create(std::string_view database, bool may_exist);
  [[nodiscard]] bool is_there(const database_pointer& of);
  [[nodiscard]] database_pointer attributes();
  [[nodiscard]] static skv_status_t finish(command& what);
  /// The first of the queue that has completed, taken out of the table; its handle.
  [[nodiscard]] std::shared_ptr<command> take_done(void** handle);

  std::string configuration_file_;
  mutable std::mutex mutex_;
  std::shared_ptr<detail::session> session_;
  configuration configured_;
  std::map<skv_pds_id_t, database_pointer> known_;
  std::vector<int> local_;
  handle_table<command> commands_;
  /// The completions own it and not the client.
  std::shared_ptr<done_queue> done_ = std::make_shared<done_queue>();
};

}  // namespace icecore::skv
