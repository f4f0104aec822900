// Text of a configuration file: an error that says what is wrong, or a configuration that is the same when it is
// printed and read again.
#include <stdexcept>
#include <string>

#include "icecore/error.hpp"
#include "run/configuration/reading.hpp"
#include "support/fuzz_target.hpp"

namespace {

icecore::server::configuration read(const std::string& text) {
  icecore::server::configuration_reader reader;
  reader.read_text(text, "fuzz.toml");
  reader.check_contradictions();
  reader.require_no_problems();
  return reader.result();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace icecore;
  const std::string text(reinterpret_cast<const char*>(data), size);
  testing::must_hold([&] {
    try {
      const auto told = read(text);
      if (told.server.data.string().find('\0') != std::string::npos) throw std::logic_error("a path with a zero byte");
      if (read(configuration_toml(told, server::toml_style::plain)) != told) {
        throw std::logic_error("what is printed means another thing");
      }
    } catch (const error& wrong) {
      if (wrong.code() != errc::bad_input) throw;
      if (wrong.message().empty() || wrong.message().size() > 32'768)
        throw std::logic_error("no message, or a long one");
    }
  });
  return 0;
}
