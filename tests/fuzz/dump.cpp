// What `icecore load` reads: any bytes. They are refused with the line's number, or make a store whose dump loads to a
// store with the same dump.
#include "dump/dump_loader.hpp"
#include "dump/dump_reader.hpp"
#include "icecore/icecore.hpp"
#include "support/fuzz_target.hpp"
#include "support/model.hpp"
#include "support/reading.hpp"
#include "support/simulated_pool.hpp"

namespace icecore::testing {
namespace {

struct pools {
  simulated_pool pool{0};
  simulated_pool again{1};
};

[[nodiscard]] options quickly() {
  options opening;
  opening.durability = durability::none;
  opening.huge_pages = false;
  return opening;
}

/// A refusal must be one of bad input, and say of which.
void must_be_of_a_line(const error& failure) {
  promise(failure.code() == errc::bad_input && failure.message().starts_with("the dump"),
          [&] { return "a dump is refused with: " + failure.message(); });
}

/// Whether the reader alone accepts it: most inputs end here, without a store.
[[nodiscard]] bool is_readable(std::string_view dump) {
  try {
    cli::dump_reader reader(dump, "the dump");
    (void)reader.header();
    while (reader.next()) {
    }
    return true;
  } catch (const error& failure) {
    must_be_of_a_line(failure);
    return false;
  }
}

[[nodiscard]] bool load(std::string_view dump, store& into) {
  try {
    cli::dump_reader reader(dump, "the dump");
    cli::dump_loader loader(into, reader);
    loader.run(0);
    return true;
  } catch (const error& failure) {
    must_be_of_a_line(failure);
    return false;
  }
}

void execute(const pools& files, std::string_view dump, bool closely) {
  if (!is_readable(dump)) return;
  promise(!is_readable(std::string(dump) + "\n{}"), [] { return std::string("a dump was not read to its end"); });
  files.pool.write(std::string_view());
  store loaded(files.pool.path(), quickly());
  if (!load(dump, loaded)) return;
  const std::string first = dump_of(loaded);

  files.again.write(std::string_view());
  store copy(files.again.path(), quickly());
  promise(load(first, copy), [] { return std::string("what was dumped cannot be loaded"); });
  promise(dump_of(copy) == first, [] { return std::string("dump, load, dump changes the dump"); });
  if (!closely) return;

  read_in_all_ways(copy);
  loaded.close();
  options reading = quickly();
  reading.access = access::read_only;
  const store reopened(files.pool.path(), reading);
  promise(dump_of(reopened) == first, [] { return std::string("a store's dump changes as it reopens"); });
}

}  // namespace
}  // namespace icecore::testing

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace icecore::testing;
  static const pools files;
  const bool closely = look_closely_at(data, size);
  must_hold([&] { execute(files, {reinterpret_cast<const char*>(data), size}, closely); });
  return 0;
}
