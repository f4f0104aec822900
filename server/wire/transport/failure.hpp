// What the wire throws when it cannot begin: a listener or a client that cannot be made. Once a connection stands,
// nothing throws: how a request ended is told with its answer.
//
//   try { client_endpoint server(settings); }
//   catch (const wire::failure& e) { if (e.reason() == close_reason::wrong_token) ask_for_another(); }
#pragma once

#include <stdexcept>
#include <string>

#include "wire/format/handshake.hpp"

namespace icecore::wire {

class failure : public std::runtime_error {
 public:
  /// `reason` is none unless the server gave one, or the connection was lost.
  explicit failure(const std::string& message, close_reason reason = close_reason::none)
      : std::runtime_error(message), reason_(reason) {}

  [[nodiscard]] close_reason reason() const noexcept { return reason_; }

 private:
  close_reason reason_;
};

}  // namespace icecore::wire
