// Text of expressions: an error with its position, or a filter whose normal text and stored form give the same answers.
#include <string_view>

#include "icecore/error.hpp"
#include "support/filter_rows.hpp"
#include "support/fuzz_target.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace icecore;
  using namespace icecore::testing;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  static const layout columns("price f64, qty u32 be, name bytes(4), rest bytes");
  must_hold([&] {
    try {
      static_cast<void>(layout(text));
    } catch (const error& told) {
      if (told.code() != errc::bad_input) throw;
    }
    try {
      const filter made(text, columns);
      require_promises(made);
      const std::string normal = made.explain();
      const filter again(normal.substr(0, normal.find("\nkeys: ")), columns);
      if (filter_rows().matches(again) != filter_rows().matches(made))
        throw std::logic_error("normal text means another thing");
    } catch (const error& told) {
      if (told.code() != errc::bad_input) throw;
    }
  });
  return 0;
}
