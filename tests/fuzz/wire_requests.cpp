// Requests by UCX, whose first two bytes are the operation's number: refused, or read as what is written again as a
// request that is read the same.
#include <algorithm>
#include <stdexcept>

#include "support/fuzz_target.hpp"
#include "wire/messages/request.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace icecore::wire;
  if (size < 2) return 0;
  icecore::testing::must_hold([&] {
    // Numbers of operations are below 128; the highest bit asks for any number.
    const std::uint16_t number =
        data[1] < 128 ? static_cast<std::uint16_t>(data[0] % 128) : static_cast<std::uint16_t>(data[0] * 256 + data[1]);
    const auto payload = std::as_bytes(std::span(data + 2, size - 2));
    const auto read = decode_request(number, payload);
    if (!read) return;
    if (static_cast<std::uint16_t>(number_of(*read)) != number)
      throw std::logic_error("a request of another operation");
    (void)may_repeat(*read);
    const byte_buffer written = encode_request(*read);
    const auto again = decode_request(number, written.view());
    if (!again) throw std::logic_error("a request that is written cannot be read");
    if (!std::ranges::equal(encode_request(*again).view(), written.view())) {
      throw std::logic_error("a request has two forms");
    }
  });
  return 0;
}
