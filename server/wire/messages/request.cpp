#include "wire/messages/request.hpp"

#include <algorithm>
#include <utility>

namespace icecore::wire {

namespace {

template <std::size_t... Index>
std::optional<any_request> decode_one_of(std::uint16_t operation, std::span<const std::byte> payload,
                                         std::index_sequence<Index...> /*all*/) {
  std::optional<any_request> read;
  const auto try_one = [&]<class Request>(std::in_place_type_t<Request> /*which*/) {
    if (static_cast<std::uint16_t>(Request::number) != operation) return false;
    if (!decoded(payload, read.emplace().emplace<Request>())) read.reset();
    return true;
  };
  static_cast<void>((try_one(std::in_place_type<std::variant_alternative_t<Index, any_request>>) || ...));
  return read;
}

bool only_reads(const service::transaction& what) noexcept {
  const auto reads = [](const service::operation& each) { return !each.writes(); };
  return std::ranges::all_of(what.then, reads) && std::ranges::all_of(what.otherwise, reads);
}

}  // namespace

std::optional<any_request> decode_request(std::uint16_t operation, std::span<const std::byte> payload) {
  return decode_one_of(operation, payload, std::make_index_sequence<std::variant_size_v<any_request>>());
}

operation_number number_of(const any_request& request) noexcept {
  return std::visit([](const auto& what) { return what.number; }, request);
}

byte_buffer encode_request(const any_request& request) {
  return std::visit([](const auto& what) { return encoded(what); }, request);
}

bool may_repeat(const any_request& request) noexcept {
  if (const auto* put = std::get_if<put_request>(&request)) return !put->only_new;
  if (const auto* transaction = std::get_if<write_request>(&request)) return only_reads(transaction->what);
  const operation_facts* facts = facts_of(static_cast<std::uint16_t>(number_of(request)));
  return facts != nullptr && facts->idempotent;
}

}  // namespace icecore::wire
