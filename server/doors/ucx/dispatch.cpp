// From the bytes of a request to the function that executes it.
#include <array>

#include "doors/ucx/call.hpp"
#include "wire/messages/request.hpp"

namespace icecore::doors {

namespace {

using handler = bool (*)(call&);

/// Not inlined: GCC 12 would believe that an absent string is destroyed.
template <typename Request>
[[gnu::noinline]] bool read(std::span<const std::byte> payload, Request& asked) {
  return wire::decoded(payload, asked);
}

/// False if the payload is no request of this kind.
template <typename Request>
bool decode_and_execute(call& c) {
  Request asked;
  if (!read(c.payload(), asked)) return false;
  c.attempt([&] {
    if (c.facts().on_database && Request::number != wire::operation_number::close_database) c.find_database();
    execute(c, std::move(asked));
  });
  return true;
}

/// A put is decoded where it is executed.
template <>
bool decode_and_execute<wire::put_request>(call& c) {
  return execute_put(c);
}

constexpr std::size_t numbers = 128;

template <std::size_t... Index>
consteval std::array<handler, numbers> table_of(std::index_sequence<Index...> /*all*/) {
  std::array<handler, numbers> all{};
  ((all.at(static_cast<std::size_t>(std::variant_alternative_t<Index, wire::any_request>::number)) =
        &decode_and_execute<std::variant_alternative_t<Index, wire::any_request>>),
   ...);
  return all;
}
constexpr auto handlers = table_of(std::make_index_sequence<std::variant_size_v<wire::any_request>>());

}  // namespace

void execute(ucx_parts& door, wire::request& asked) {
  const std::uint16_t number = asked.operation();
  const wire::operation_facts* const facts = wire::facts_of(number);
  const handler known = number < numbers ? handlers.at(number) : nullptr;
  if (facts == nullptr || known == nullptr) {
    // A newer client may ask for what this server does not know yet: it is told so, and may go on.
    return asked.answer(static_cast<std::uint16_t>(errc::invalid_argument),
                        wire::encoded(wire::failed_answer{.message = "the server does not know the operation " +
                                                                     std::to_string(number) +
                                                                     "; is the client newer than the server?"}));
  }
  bool good = true;
  try {
    call c(door, asked, *facts);
    good = known(c);
  } catch (...) {  // the user's log-in is over
    const service::failure why = service::failure_of(std::current_exception());
    return asked.answer(static_cast<std::uint16_t>(why.code),
                        wire::encoded(wire::failed_answer{.message = why.message}));
  }
  if (!good) {
    asked.from().close(wire::close_reason::malformed,
                       "the payload of a request `" + std::string(facts->name) + "` is not what it has to be");
  }
}

}  // namespace icecore::doors
