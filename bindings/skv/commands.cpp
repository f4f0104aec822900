#include <algorithm>
#include <cstring>

#include "client.hpp"
#include "icecore/error.hpp"

namespace icecore::skv {

namespace {

using state = service::operation_result::state;

constexpr unsigned kinds = SKV_COMMAND_RIU_INSERT_EXPANDS_VALUE | SKV_COMMAND_RIU_INSERT_OVERWRITE_VALUE_ON_DUP |
                           SKV_COMMAND_RIU_UPDATE | SKV_COMMAND_RIU_APPEND;

skv_status_t status_of_state(state is) noexcept {
  switch (is) {
    case state::done:
      return SKV_SUCCESS;
    case state::absent:
      return SKV_ERRNO_ELEM_NOT_FOUND;
    case state::exists:
      return SKV_ERRNO_RECORD_ALREADY_EXISTS;
    case state::too_large:
      return SKV_ERRNO_VALUE_TOO_LARGE;
    case state::overlap:
      return SKV_ERRNO_INSERT_OVERLAP;
    case state::no_number:
      break;
  }
  return SKV_ERRNO_UNSPECIFIED_ERROR;
}

/// How a part is put into a value that is there. Empty: these flags mean nothing together.
std::optional<service::update_rule> rule_of(unsigned flags) noexcept {
  switch (flags & kinds) {
    case SKV_COMMAND_RIU_INSERT_EXPANDS_VALUE:
      return (flags & SKV_COMMAND_RIU_INSERT_OVERLAPPING) != 0 ? service::update_rule::expand_overlap
                                                               : service::update_rule::expand;
    case SKV_COMMAND_RIU_INSERT_OVERWRITE_VALUE_ON_DUP:
      return service::update_rule::in_place;
    case SKV_COMMAND_RIU_UPDATE:
      return service::update_rule::replace_from;
    case SKV_COMMAND_RIU_APPEND:
      return service::update_rule::append;
    default:
      return std::nullopt;
  }
}

plan known(skv_status_t status) {
  plan made;
  made.known = status;
  return made;
}

template <class Request>
plan asking(database_pointer of, std::string_view key, const Request& asked, bool repeatable) {
  plan made;
  made.part = of->all->server_of(key);
  made.of = std::move(of);
  made.number = Request::number;
  made.payload = wire::encoded(asked);
  made.repeatable = repeatable;
  return made;
}

template <class Answer>
Answer understood(const wire::answer& got) {
  return detail::read_answer<Answer>(got, "of SKV");
}

}  // namespace

plan client::insert(const skv_pds_id_t& id, std::string_view key, std::string_view value, std::uint64_t offset,
                    unsigned flags, bool must_exist) {
  if (session() == nullptr) return known(SKV_ERRNO_CONN_FAILED);
  database_pointer of = database(id);
  if (of == nullptr) return known(SKV_ERRNO_PDS_DOES_NOT_EXIST);
  if ((flags & kinds) == 0 && offset != 0) {  // the server puts the zeros before it, and sees to its memory
    using service::condition;
    using service::operation;
    wire::write_request asked;
    asked.what.conditions.push_back({.key = std::string(key), .is = condition::kind::absent});
    asked.what.then.push_back({.what = operation::kind::upsert,
                               .key = std::string(key),
                               .value = std::string(value),
                               .rule = service::update_rule::expand_overlap,
                               .offset = offset});
    plan made = asking(std::move(of), key, asked, false);
    made.finish = [](const wire::answer& got) {
      return understood<wire::write_answer>(got).done.succeeded ? SKV_SUCCESS : SKV_ERRNO_RECORD_ALREADY_EXISTS;
    };
    return made;
  }
  if ((flags & kinds) == 0) {
    const wire::put_request_view asked{.key = key, .value = value, .only_new = true};
    plan made = asking(std::move(of), key, asked, false);
    made.finish = [](const wire::answer& got) {
      return understood<wire::put_answer>(got).written ? SKV_SUCCESS : SKV_ERRNO_RECORD_ALREADY_EXISTS;
    };
    return made;
  }
  const std::optional<service::update_rule> rule = rule_of(flags);
  if (!rule) return known(SKV_ERRNO_NOT_IMPLEMENTED);
  const wire::update_request_view asked{
      .key = key, .part = value, .rule = *rule, .offset = offset, .or_put = !must_exist};
  plan made = asking(std::move(of), key, asked, false);
  made.finish = [](const wire::answer& got) { return status_of_state(understood<wire::update_answer>(got).is); };
  return made;
}

plan client::retrieve(const skv_pds_id_t& id, std::string_view key, const retrieved& into, std::uint64_t offset,
                      unsigned flags) {
  if (session() == nullptr) return known(SKV_ERRNO_CONN_FAILED);
  database_pointer of = database(id);
  if (of == nullptr) return known(SKV_ERRNO_PDS_DOES_NOT_EXIST);
  const wire::get_request_view asked{.key = key, .at = {}, .offset = offset, .length = into.value_bytes};
  plan made = asking(std::move(of), key, asked, true);
  const bool exactly = (flags & SKV_COMMAND_RIU_RETRIEVE_SPECIFIC_VALUE_LEN) != 0;
  made.finish = [into, offset, exactly](const wire::answer& got) {
    wire::get_answer_view told;
    if (got.status != wire::status_ok) detail::throw_answer(got, "of SKV");
    if (!wire::decoded(got.payload.view(), told) || told.value.size() > into.value_bytes) {
      return SKV_ERRNO_UNSPECIFIED_ERROR;
    }
    if (!told.found) return SKV_ERRNO_ELEM_NOT_FOUND;
    if (offset > told.size || (exactly && told.value.size() < into.value_bytes)) return SKV_ERRNO_VALUE_TOO_LARGE;
    if (!told.value.empty()) std::memcpy(into.value, told.value.data(), told.value.size());
    const std::uint64_t size = exactly ? into.value_bytes : told.size - offset;
    if (into.size != nullptr) *into.size = static_cast<int>(std::min<std::uint64_t>(size, INT32_MAX));
    return SKV_SUCCESS;
  };
  return made;
}

plan client::remove(const skv_pds_id_t& id, std::string_view key) {
  if (session() == nullptr) return known(SKV_ERRNO_CONN_FAILED);
  database_pointer of = database(id);
  if (of == nullptr) return known(SKV_ERRNO_PDS_DOES_NOT_EXIST);
  // Not repeated: a second one would say that the key was not there.
  plan made = asking(std::move(of), key, wire::remove_request_view{.key = key}, false);
  made.finish = [](const wire::answer& got) {
    return understood<wire::remove_answer>(got).removed > 0 ? SKV_SUCCESS : SKV_ERRNO_ELEM_NOT_FOUND;
  };
  return made;
}

skv_status_t client::run(const plan& what) {
  if (what.known) return *what.known;
  const wire::answer got = what.of->all->call(
      {.server = what.part, .database = what.of->name, .repeatable = what.repeatable}, what.number,
      [&] { return wire::byte_buffer(what.payload.view()); }, detail::in(what.of->all->opened_with().deadline));
  return what.finish(got);
}

skv_status_t client::start(plan&& what, void** handle) {
  if (handle == nullptr) return SKV_ERRNO_UNSPECIFIED_ERROR;
  if (commands_.size() >= commands_max) return SKV_ERRNO_COMMAND_LIMIT_REACHED;
  if (what.known && *what.known != SKV_SUCCESS) return *what.known;
  auto made = std::make_shared<command>();
  made->known = what.known;
  made->finish = std::move(what.finish);
  if (!what.known) {
    const auto deadline = detail::in(what.of->all->opened_with().deadline);
    made->operation = std::make_unique<detail::operation>(what.of, what.part, what.number, std::move(what.payload),
                                                          what.repeatable, deadline);
  }
  done_->tidy(commands_);
  *handle = commands_.add(made);
  const auto put = [to = done_, which = *handle] { to->put(which); };
  if (what.known) {
    put();
    return SKV_SUCCESS;
  }
  const std::lock_guard held(made->mutex);
  made->operation->on_done(put);
  made->operation->begin();
  return SKV_SUCCESS;
}

skv_status_t client::finish(command& what) {
  if (what.known) return *what.known;
  try {
    const std::lock_guard held(what.mutex);
    return what.finish(what.operation->wait());
  } catch (...) {
    return status_of(std::current_exception());
  }
}

skv_status_t client::wait(void* handle) {
  const std::shared_ptr<command> taken = commands_.remove(handle);
  return taken == nullptr ? SKV_ERRNO_NO_EVENT : finish(*taken);
}

skv_status_t client::test(void* handle) {
  const std::shared_ptr<command> found = commands_.find(handle);
  if (found == nullptr) return SKV_ERRNO_NO_EVENT;
  if (!found->known) {
    const std::lock_guard held(found->mutex);
    if (!found->operation->test()) return SKV_ERRNO_NOT_DONE;
  }
  return wait(handle);
}

std::shared_ptr<command> client::take_done(void** handle) {
  for (;;) {
    {
      const std::lock_guard held(done_->mutex);
      if (done_->handles.empty()) return nullptr;
      *handle = done_->handles.front();
      done_->handles.pop_front();
    }
    const std::shared_ptr<command> found = commands_.find(*handle);
    if (found == nullptr) continue;  // somebody waited for this one alone
    if (!found->known) {
      const std::lock_guard held(found->mutex);
      if (!found->operation->test()) continue;  // it is repeated, and comes again
    }
    if (std::shared_ptr<command> taken = commands_.remove(*handle)) return taken;
  }
}

skv_status_t client::test_any(void** handle) {
  if (handle == nullptr) return SKV_ERRNO_UNSPECIFIED_ERROR;
  const std::shared_ptr<command> done = take_done(handle);
  return done == nullptr ? SKV_ERRNO_NOT_DONE : finish(*done);
}

skv_status_t client::wait_any(void** handle) {
  if (handle == nullptr) return SKV_ERRNO_UNSPECIFIED_ERROR;
  for (;;) {
    if (const std::shared_ptr<command> done = take_done(handle)) return finish(*done);
    if (commands_.size() == 0) return SKV_ERRNO_NO_EVENT;
    std::unique_lock held(done_->mutex);
    // A time limit, since other threads may take the last command.
    done_->changed.wait_for(held, std::chrono::milliseconds(50), [this] { return !done_->handles.empty(); });
  }
}

}  // namespace icecore::skv
