#include <algorithm>
#include <deque>

#include "conversions.hpp"
#include "operation.hpp"

namespace icecore::remote {

namespace {

using detail::in;

constexpr std::size_t load_bytes = 256U << 10;
constexpr std::size_t loads_ahead = 4;

template <class Request>
std::shared_ptr<detail::operation> begun(const std::shared_ptr<detail::database>& of, std::string_view key,
                                         const Request& asked, bool repeatable, std::chrono::milliseconds deadline) {
  auto made = std::make_shared<detail::operation>(of, of->all->server_of(key), Request::number, wire::encoded(asked),
                                                  repeatable, in(deadline));
  made->begin();
  return made;
}

wire::update_request_view update_of(std::string_view key, std::string_view part, const part_rule& how) {
  return {.key = key,
          .part = part,
          .rule = static_cast<service::update_rule>(how.rule),
          .offset = how.offset,
          .or_put = how.or_put};
}

update_result result_of(const wire::update_answer& told) {
  return {.is = static_cast<update_state>(told.is), .version = told.version, .size = told.size, .number = told.number};
}

/// Loads of one part: some are under way, and the oldest is waited for when there are too many.
class loads {
 public:
  loads(std::shared_ptr<detail::database> of, std::size_t part, bool keep, std::chrono::milliseconds deadline)
      : of_(std::move(of)), part_(part), deadline_(deadline) {
    next_.keep = keep;
  }
  void add(const item& each) {
    next_.rows.keys.add(each.key);
    next_.rows.values.add(each.value);
    if (next_.rows.keys.bytes.size() + next_.rows.values.bytes.size() >= load_bytes) send();
  }
  std::uint64_t finish() {
    if (!next_.rows.empty()) send();
    while (!ahead_.empty()) take();
    return written_;
  }

 private:
  void send() {
    if (ahead_.size() >= loads_ahead) take();
    ahead_.push_back(
        std::make_unique<detail::operation>(of_, part_, next_.number, wire::encoded(next_), true, in(deadline_)));
    ahead_.back()->begin();
    next_.rows.clear();
  }
  void take() {
    const auto first = std::move(ahead_.front());
    ahead_.pop_front();
    written_ += detail::read_answer<wire::load_answer>(first->wait(), first->server()).written;
  }

  std::shared_ptr<detail::database> of_;
  std::size_t part_;
  std::chrono::milliseconds deadline_;
  wire::load_request next_;
  std::deque<std::unique_ptr<detail::operation>> ahead_;
  std::uint64_t written_ = 0;
};

std::size_t server_of(const detail::database& of, const batch& operations) {
  if (operations.empty()) return 0;
  const std::size_t part = of.all->part_of(operations.operations().front().key);
  const auto elsewhere = [&](const batch::operation& each) { return of.all->part_of(each.key) != part; };
  if (std::ranges::any_of(operations.operations(), elsewhere)) {
    throw icecore::error(errc::not_owner,
                         "the keys of the batch belong to several independent servers, which cannot "
                         "write at one instant: apply a batch for each");
  }
  return of.all->server_of(operations.operations().front().key);
}

}  // namespace

version store::insert(std::string_view key, std::string_view value, lease_number lease) {
  const wire::put_request_view asked{.key = key, .value = value, .only_new = false, .lease = lease};
  return of_->ask<wire::put_answer>(of_->all->server_of(key), asked, in(deadline_), true).version;
}

std::optional<version> store::insert_new(std::string_view key, std::string_view value) {
  const wire::put_request_view asked{.key = key, .value = value, .only_new = true};
  const auto told = of_->ask<wire::put_answer>(of_->all->server_of(key), asked, in(deadline_), false);
  return told.written ? std::optional(told.version) : std::nullopt;
}

std::optional<version> store::remove(std::string_view key) {
  const wire::remove_request_view asked{.key = key};
  const auto told = of_->ask<wire::remove_answer>(of_->all->server_of(key), asked, in(deadline_), true);
  return told.removed > 0 ? std::optional(told.version) : std::nullopt;
}

std::optional<version> store::replace(std::string_view key, std::string_view value, version expected) {
  batch one;
  one.replace(key, value, expected);
  return apply_if(one);
}

version store::apply(const batch& operations) {
  if (operations.has_conditions()) {
    throw icecore::error(errc::invalid_argument, "apply() takes a batch without conditions: use apply_if()");
  }
  const wire::write_request asked{.what = detail::transaction_of(operations)};
  return of_->ask<wire::write_answer>(server_of(*of_, operations), asked, in(deadline_), false).done.version;
}

std::optional<version> store::apply_if(const batch& operations) {
  const wire::write_request asked{.what = detail::transaction_of(operations)};
  const auto told = of_->ask<wire::write_answer>(server_of(*of_, operations), asked, in(deadline_), false);
  return told.done.succeeded ? std::optional(told.done.version) : std::nullopt;
}

update_result store::update(std::string_view key, std::string_view part, const part_rule& how) {
  const auto asked = update_of(key, part, how);
  return result_of(of_->ask<wire::update_answer>(of_->all->server_of(key), asked, in(deadline_), false));
}

update_result store::increment(std::string_view key, std::int64_t by) {
  const wire::increment_request asked{.key = std::string(key), .by = by};
  return result_of(of_->ask<wire::update_answer>(of_->all->server_of(key), asked, in(deadline_), false));
}

std::uint64_t store::insert_many(std::span<const item> items, bool keep) {
  std::deque<loads> servers;
  for (std::size_t server = 0; server < of_->all->targets(); ++server)
    servers.emplace_back(of_, server, keep, deadline_);
  for (const item& each : items) {
    // A group may tell its servers meanwhile: whoever is not in the list goes the way that needs no map.
    const std::size_t server = of_->all->server_of(each.key);
    servers[server < servers.size() ? server : 0].add(each);
  }
  std::uint64_t written = 0;
  for (loads& server : servers) written += server.finish();
  return written;
}

void store::sync() {
  for (std::size_t part = 0; part < of_->all->parts(); ++part) {
    static_cast<void>(
        of_->ask<wire::bare_request<wire::operation_number::sync>>(part, wire::sync_request{}, in(deadline_), true));
  }
}

pending<version> store::start_insert(std::string_view key, std::string_view value, lease_number lease) {
  const wire::put_request_view asked{.key = key, .value = value, .only_new = false, .lease = lease};
  return {begun(of_, key, asked, true, deadline_), detail::read_put};
}

pending<std::optional<version>> store::start_insert_new(std::string_view key, std::string_view value) {
  const wire::put_request_view asked{.key = key, .value = value, .only_new = true};
  return {begun(of_, key, asked, false, deadline_), detail::read_put_new};
}

pending<std::optional<version>> store::start_remove(std::string_view key) {
  return {begun(of_, key, wire::remove_request_view{.key = key}, true, deadline_), detail::read_remove};
}

pending<std::optional<value>> store::start_find(std::string_view key) {
  return {begun(of_, key, wire::get_request_view{.key = key}, true, deadline_), detail::read_get};
}

pending<update_result> store::start_update(std::string_view key, std::string_view part, const part_rule& how) {
  return {begun(of_, key, update_of(key, part, how), false, deadline_), detail::read_update};
}

pending<update_result> store::start_increment(std::string_view key, std::int64_t by) {
  const wire::increment_request asked{.key = std::string(key), .by = by};
  return {begun(of_, key, asked, false, deadline_), detail::read_update};
}

}  // namespace icecore::remote
