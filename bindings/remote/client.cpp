#include "conversions.hpp"
#include "session.hpp"

namespace icecore::remote {

namespace {

template <class Request>
wire::answer ask_all(const std::shared_ptr<detail::session>& all, const Request& asked, bool repeatable) {
  const auto deadline = detail::in(all->opened_with().deadline);
  wire::answer first;
  for (std::size_t part = 0; part < all->parts(); ++part) {
    wire::answer got = all->call(
        {.server = part, .database = {}, .repeatable = repeatable}, Request::number,
        [&] { return wire::encoded(asked); }, deadline);
    if (got.status != wire::status_ok) detail::throw_answer(got, all->link_of(part).name());
    if (part == 0) first = std::move(got);
  }
  return first;
}

}  // namespace

client::client(std::string_view address, const remote::options& opening)
    : session_(std::make_shared<detail::session>(address, opening)) {}

store client::create(std::string_view name, const settings& with) {
  static_cast<void>(
      ask_all(session_, wire::create_database_request{.settings = detail::message_of(name, with)}, false));
  return open(name);
}

store client::open(std::string_view name) {
  const auto deadline = detail::in(session_->opened_with().deadline);
  auto of = std::make_shared<detail::database>(session_, std::string(name));
  for (std::size_t part = 0; part < session_->parts(); ++part) {
    session_->link_of(part).look_up(of->name, deadline);
  }
  return {std::move(of), session_->opened_with().deadline};
}

void client::drop(std::string_view name) {
  static_cast<void>(ask_all(session_, wire::drop_database_request{.name = std::string(name)}, false));
  session_->forget(std::string(name));
}

std::vector<database_info> client::list() const {
  const wire::answer got = ask_all(session_, wire::list_databases_request{}, true);
  std::vector<database_info> found;
  for (const auto& each :
       detail::read_answer<wire::list_databases_answer>(got, session_->link_of(0).name()).databases) {
    found.push_back(detail::info_of(each));
  }
  return found;
}

void client::write_snapshot(std::string_view folder) {
  for (std::size_t part = 0; part < session_->parts(); ++part) {
    std::string to(folder);
    if (session_->parts() > 1) to.append(".").append(std::to_string(part));
    const wire::answer got = session_->call(
        {.server = part, .database = {}, .repeatable = false}, wire::operation_number::snapshot,
        [&] { return wire::encoded(wire::snapshot_request{.to = to}); }, detail::in(session_->opened_with().deadline));
    if (got.status != wire::status_ok) detail::throw_answer(got, session_->link_of(part).name());
  }
}

std::size_t client::servers() const noexcept { return session_->servers(); }

}  // namespace icecore::remote
