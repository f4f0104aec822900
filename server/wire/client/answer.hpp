// How a request ended.
//
//   answer got = server.call(operation, database, std::move(payload), deadline);
//   if (got.how != outcome::answered) return may_be_repeated(got.how) || harmless ? repeat() : outcome_unknown();
#pragma once

#include <cstdint>
#include <functional>

#include "wire/format/byte_buffer.hpp"
#include "wire/format/handshake.hpp"

namespace icecore::wire {

enum class outcome : std::uint8_t {
  answered,   ///< the status and the payload are the server's
  not_sent,   ///< the server has not seen it, and will not: it may be repeated, whatever it is
  broken,     ///< it was sent, then the connection was lost: the server may have done it or not
  timed_out,  ///< it was sent, and no answer came in time: the server may have done it, may still do it, or not
};

/// Whether the request certainly had no effect. Otherwise only what is idempotent may be repeated unseen.
[[nodiscard]] constexpr bool may_be_repeated(outcome how) noexcept { return how == outcome::not_sent; }

struct answer {
  outcome how = outcome::not_sent;
  bool more = false;         ///< one part; another one follows
  std::uint16_t status = 0;  ///< of the last part
  byte_buffer payload{};
};

/// Receives the parts of an answer in their order, then the last one, or how else the request ended: exactly one call
/// has `more` false. It runs on a thread that makes progress for the client and must not block; it may call the client.
using completion = std::function<void(answer&&)>;

}  // namespace icecore::wire
