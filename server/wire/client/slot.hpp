// What a client endpoint keeps of a request.
#pragma once

#include "wire/client/client_endpoint.hpp"

namespace icecore::wire {

/// A request under way. Its number is its place and a count of how often the place was used.
struct client_endpoint::slot {
  std::uint16_t place = 0;
  std::uint16_t uses = 0;
  bool used = false;
  bool done = false;       // of a call: the answer is in `gathered`
  bool abandoned = false;  // completed as timed out; waits for the server's answer
  std::uint64_t charged = 0;
  steady_time deadline{};
  completion done_call;  // empty: a thread waits in call()
  answer gathered;
  std::uint32_t next_part = 0;

  [[nodiscard]] std::uint32_t number() const noexcept { return place | (static_cast<std::uint32_t>(uses) << 16); }
};

}  // namespace icecore::wire
