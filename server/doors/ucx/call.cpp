#include "doors/ucx/call.hpp"

#include <fmt/format.h>

namespace icecore::doors {

namespace {

/// Messages are for people; longer ones say no more.
constexpr std::size_t message_bytes_max = 4096;

}  // namespace

call::call(ucx_parts& door, wire::request& asked, const wire::operation_facts& facts)
    : door_(&door),
      asked_(&asked),
      session_(static_cast<ucx_session*>(asked.from().session().get())),
      facts_(&facts),
      who_(&session_->who),
      request_bytes_(asked.payload().size()),
      began_(door.options.observer ? std::chrono::steady_clock::now() : std::chrono::steady_clock::time_point()) {
  if (who_->is_current()) return;
  // The user, or a role, was changed: a log-in that is still good gives the rights that there are now.
  session_->who = door.all.users().recognise(session_->token);
}

call::call(call& begun, bool /*kept*/)
    : door_(begun.door_),
      asked_(begun.asked_),
      session_(begun.session_),
      facts_(begun.facts_),
      who_(begun.who_),
      request_bytes_(begun.request_bytes_),
      began_(begun.began_),
      database_(std::move(begun.database_)),
      settings_(std::move(begun.settings_)),
      held_(std::move(begun.held_)),
      keeps_session_(begun.asked_->from().session()),
      kept_who_(*begun.who_) {
  if (begun.database_name_ != nullptr) kept_name_ = *begun.database_name_;
  database_name_ = &kept_name_;
  who_ = &*kept_who_;
  asked_->forget_payload();
  own_.emplace(std::move(*asked_));
  asked_ = &*own_;
  begun.ended_ = true;
  door_->opened();
}

call::~call() {
  if (!own_) return;
  if (!ended_) end(wire::status_dropped, {});
  database_.reset();
  own_.reset();
  keeps_session_.reset();
  held_ = {};
  door_->closed();  // the last that is done: the door may be gone then
}

std::unique_ptr<call> call::keep() { return std::unique_ptr<call>(new call(*this, true)); }

std::shared_ptr<ucx_session> call::shared_session() const {
  return std::static_pointer_cast<ucx_session>(asked_->from().session());
}

void call::find_database() {
  named_database* const found = session_->databases.find(handle());
  if (found == nullptr) {
    if (session_->databases.was_last(handle())) {  // by another thread of the client, which drops the database
      throw error(errc::unavailable, "the database was closed on this connection meanwhile");
    }
    throw error(errc::invalid_argument, fmt::format("no database is open on this connection under the handle {:#x}; "
                                                    "open_database gives one",
                                                    handle()));
  }
  // A handle stands for a name: clients keep it while others drop the database and make another one.
  if (found->open->is_dropped()) found->open = door_->all.find_database(*who_, found->name);
  database_ = found->open;
  database_name_ = &found->name;
}

const service::database_settings& call::settings() {
  if (!settings_) settings_ = database_->settings();
  return *settings_;
}

void call::require(std::string_view key, service::right what) {
  if (who_->is_root()) return;
  const service::database_settings& is = settings();
  if (!who_->allows(is.name, is.owner, key, what)) service::deny(is.name);
}

void call::require(const key_bounds& keys, service::right what) {
  if (who_->is_root()) return;
  const service::database_settings& is = settings();
  if (!who_->allows(is.name, is.owner, keys, what)) service::deny(is.name);
}

void call::require_again(const key_bounds& keys, service::right what) {
  if (!who_->is_current()) {
    kept_who_ = door_->all.users().recognise(session_->token);
    who_ = &*kept_who_;
  }
  settings_.reset();
  require(keys, what);
}

void call::fail(const service::failure& why) {
  std::string message = why.message;
  if (message.size() > message_bytes_max) message.replace(message_bytes_max, std::string::npos, "...");
  end(static_cast<std::uint16_t>(why.code), wire::encoded(wire::failed_answer{.message = std::move(message)}));
}

void call::fail_with_current() noexcept {
  try {
    fail(service::failure_of(std::current_exception()));
  } catch (...) {  // no memory for words: the number alone
    try {
      end(static_cast<std::uint16_t>(errc::limit_reached), {});
    } catch (...) {  // the request is dropped, which the wire tells the client
    }
  }
}

void call::end(std::uint16_t status, wire::frame_payload payload) {
  if (std::exchange(ended_, true)) return;
  const std::uint64_t answer_bytes = payload.size();
  // Nothing of the request was done, so its client asks the next server, whatever it is.
  const bool stops = status == static_cast<std::uint16_t>(errc::unavailable) && door_->is_stopping();
  asked_->answer(stops ? wire::status_stopping : status, std::move(payload));
  if (!door_->options.observer) return;
  door_->options.observer->finished(
      {.operation = static_cast<std::uint16_t>(facts_->number),
       .name = facts_->name,
       .status = status,
       .took = std::chrono::steady_clock::now() - began_,
       .database = database_name_ == nullptr ? std::string_view() : std::string_view(*database_name_),
       .user = who_->name(),
       .program = session_->program,
       .request_bytes = request_bytes_,
       .answer_bytes = answer_bytes});
}

}  // namespace icecore::doors
