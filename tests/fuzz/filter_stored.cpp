// Stored expressions, with the checksum put right: refused, or a filter with exactly these bytes.
#include <algorithm>
#include <cstring>
#include <vector>

#include "base/checksum.hpp"
#include "filter/results/aggregation.hpp"
#include "icecore/error.hpp"
#include "support/filter_rows.hpp"
#include "support/fuzz_target.hpp"

namespace {

/// The bytes with a frame: what they are of, version, checksum.
std::vector<std::byte> framed(char what, const std::uint8_t* data, std::size_t size) {
  std::vector<std::byte> bytes = {std::byte{'I'}, static_cast<std::byte>(what), std::byte{1}};
  for (std::size_t i = 0; i < size; ++i) bytes.push_back(static_cast<std::byte>(data[i]));
  const std::uint32_t sum = icecore::crc32c(0, bytes.data(), bytes.size());
  bytes.resize(bytes.size() + sizeof sum);
  std::memcpy(bytes.data() + bytes.size() - sizeof sum, &sum, sizeof sum);
  return bytes;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace icecore;
  using namespace icecore::testing;
  const auto may_refuse = [](const auto& run) {
    try {
      run();
    } catch (const error& told) {
      if (told.code() != errc::bad_token) throw;
    }
  };
  must_hold([&] {
    may_refuse([&] {
      const std::vector<std::byte> bytes = framed('F', data, size);
      const filter made = filter::from_stored(bytes, [](std::string_view name, std::uint64_t revision) {
        return caller_function{.name = std::string(name), .revision = revision, .evaluate = [](auto, auto) {}};
      });
      // A JSON value alone is taken as a condition, in a form that says so.
      if (made.program().tree().op != detail::operation::both && made.stored() != bytes) {
        throw std::logic_error("a filter has two stored forms");
      }
      require_promises(made);
    });
    may_refuse([&] {
      const filter_rows rows;
      detail::scratch memory;
      const auto made = detail::projection::from_stored(framed('S', data, size));
      auto columns = made.columns();
      made.evaluate(rows.block, rows.block.mask(), memory, columns);
    });
    may_refuse([&] { static_cast<void>(detail::aggregation::from_stored(framed('S', data, size))); });
  });
  return 0;
}
