// A request being executed: who asks, which database, how it is answered.
//
//   void execute(call& c, wire::sync_request&&) {
//     go_on(c.door().all.threads(), c, [](call& on) { on.database().sync(); on.answer({}); });
//   }
//
// A call begins on its connection's I/O thread, on the stack, and is answered there if it waits for nobody. keep()
// makes it live on: the kept one has the request, and the first one is not used any more. Order in every handler: which
// database, may they do this with these keys, is this the keys' server, then values. Errors: handlers throw
// icecore::error; attempt() answers with it. A call that is answered twice: the second answer is dropped. Threads: one
// at a time.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "doors/ucx/parts.hpp"
#include "doors/ucx/session.hpp"
#include "wire/messages/answers.hpp"
#include "wire/messages/requests.hpp"
#include "wire/server/connection.hpp"

namespace icecore::doors {

class call {
 public:
  /// `asked` is used until the call is kept or ends.
  call(ucx_parts& door, wire::request& asked, const wire::operation_facts& facts);
  call(const call&) = delete;
  call& operator=(const call&) = delete;
  ~call();

  /// The same call, which lives on by itself. Its payload is gone: what was read of it is in the handler.
  [[nodiscard]] std::unique_ptr<call> keep();

  [[nodiscard]] ucx_parts& door() const noexcept { return *door_; }
  [[nodiscard]] const wire::operation_facts& facts() const noexcept { return *facts_; }
  [[nodiscard]] ucx_session& session() const noexcept { return *session_; }
  [[nodiscard]] std::shared_ptr<ucx_session> shared_session() const;
  [[nodiscard]] const service::principal& who() const noexcept { return *who_; }
  [[nodiscard]] std::uint64_t request_bytes() const noexcept { return request_bytes_; }
  [[nodiscard]] std::uint32_t handle() const noexcept { return asked_->database(); }
  [[nodiscard]] bool is_connected() const noexcept { return asked_->from().open(); }
  [[nodiscard]] std::span<const std::byte> payload() const noexcept { return asked_->payload(); }
  [[nodiscard]] wire::connection& from() const noexcept { return asked_->from(); }

  /// Finds the database of the request's handle. errc::invalid_argument.
  void find_database();
  /// After find_database().
  [[nodiscard]] service::database& database() const noexcept { return *database_; }
  [[nodiscard]] const std::shared_ptr<service::database>& shared_database() const noexcept { return database_; }

  void require(std::string_view key, service::right what);
  void require(const key_bounds& keys, service::right what);
  /// The same of a kept call that has waited: with the rights and the owner that there are now.
  void require_again(const key_bounds& keys, service::right what);
  /// errc::not_owner if the key is another independent server's.
  void require_owner(std::string_view key) const {
    if (door_->independent) door_->all.require_owner(key);
  }
  /// Takes bytes of the server's limit until the call ends. errc::limit_reached.
  void hold(std::uint64_t bytes) { held_ = door_->all.in_flight_bytes().take(bytes); }

  void answer(wire::frame_payload payload) { end(wire::status_ok, std::move(payload)); }
  void fail(const service::failure& why);

  /// Runs `work`; if it throws, the call fails with that.
  template <typename Work>
  void attempt(Work&& work) noexcept {
    try {
      work();
    } catch (...) {
      fail_with_current();
    }
  }

 private:
  call(call& begun, bool /*kept*/);
  [[nodiscard]] const service::database_settings& settings();
  void end(std::uint16_t status, wire::frame_payload payload);
  void fail_with_current() noexcept;

  ucx_parts* door_;
  wire::request* asked_;
  ucx_session* session_;
  const wire::operation_facts* facts_;
  const service::principal* who_;
  std::uint64_t request_bytes_;
  std::chrono::steady_clock::time_point began_;
  std::shared_ptr<service::database> database_{};
  const std::string* database_name_ = nullptr;  // of the session's table, or of `kept_name_`
  std::optional<service::database_settings> settings_{};
  service::gauge::share held_{};
  bool ended_ = false;

  // Of a kept call.
  std::optional<wire::request> own_{};
  std::shared_ptr<void> keeps_session_{};
  std::optional<service::principal> kept_who_{};
  std::string kept_name_{};
};

/// Runs `work` with the kept call on a thread of `where`; it sees to it that the call ends. A call whose client is gone
/// is not begun.
template <typename Work>
void go_on(service::executor& where, call& c, Work work) {
  std::unique_ptr<call> kept = c.keep();
  call* const mine = kept.get();
  where.post([mine, work = std::move(work)]() mutable {
    const std::unique_ptr<call> ends(mine);
    if (!mine->is_connected()) return mine->fail({errc::cancelled, "the client is gone"});
    mine->attempt([&] { work(*mine); });
  });
  static_cast<void>(kept.release());  // the task has it, and may have ended it already
}

/// Decodes the request and executes it, or closes the connection if its bytes are none.
void execute(ucx_parts& door, wire::request& asked);

// By area, each in a file of its own: store_calls, row_calls, watch_calls, version_calls, database_calls.
void execute(call& c, wire::get_request&& asked);
/// Decodes, too; false if the payload is no put.
[[nodiscard]] bool execute_put(call& c);
void execute(call& c, wire::remove_request&& asked);
void execute(call& c, wire::update_request&& asked);
void execute(call& c, wire::increment_request&& asked);
void execute(call& c, wire::write_request&& asked);
void execute(call& c, wire::get_many_request&& asked);
void execute(call& c, wire::load_request&& asked);
void execute(call& c, wire::count_request&& asked);

void execute(call& c, wire::open_scan_request&& asked);
void execute(call& c, wire::open_history_request&& asked);
void execute(call& c, wire::open_differences_request&& asked);
void execute(call& c, wire::open_changes_request&& asked);
void execute(call& c, wire::next_rows_request&& asked);
void execute(call& c, wire::close_rows_request&& asked);

void execute(call& c, wire::open_watch_request&& asked);
void execute(call& c, wire::next_changes_request&& asked);
void execute(call& c, wire::close_watch_request&& asked);

void execute(call& c, wire::tag_request&& asked);
void execute(call& c, wire::list_tags_request&& asked);
void execute(call& c, wire::find_tag_request&& asked);
void execute(call& c, wire::resolve_request&& asked);
void execute(call& c, wire::sync_request&& asked);
void execute(call& c, wire::compact_request&& asked);
void execute(call& c, wire::grant_lease_request&& asked);
void execute(call& c, wire::keep_lease_request&& asked);
void execute(call& c, wire::revoke_lease_request&& asked);
void execute(call& c, wire::describe_lease_request&& asked);
void execute(call& c, wire::list_leases_request&& asked);

void execute(call& c, wire::status_request&& asked);
void execute(call& c, wire::group_request&& asked);
void execute(call& c, wire::snapshot_request&& asked);
void execute(call& c, wire::create_database_request&& asked);
void execute(call& c, wire::open_database_request&& asked);
void execute(call& c, wire::close_database_request&& asked);
void execute(call& c, wire::drop_database_request&& asked);
void execute(call& c, wire::list_databases_request&& asked);
void execute(call& c, wire::describe_database_request&& asked);
void execute(call& c, wire::copy_database_request&& asked);
void execute(call& c, wire::alter_database_request&& asked);

}  // namespace icecore::doors
