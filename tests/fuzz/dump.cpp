// What `icecore load` reads: any bytes. They are refused with the line's number, or make a store whose dump loads to a
// store with the same dump.
#include "dump_loader.hpp"
#include "dump_reader.hpp"
#include "icecore/icecore.hpp"
#include "support/fuzz_target.hpp"
#include "support/memory_file.hpp"
#include "support/model.hpp"
#include "support/reading.hpp"

namespace icecore::testing {
namespace {

/// Loading closes version after version, a billion of them in a minute: more than this the fuzzer does not wait for.
constexpr version clock_max = 100'000;

struct memory_files {
  memory_file input{"input"};
  memory_file pool{"pool"};
  memory_file again{"again"};
  memory_file dump{"dump"};
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
[[nodiscard]] bool is_readable(const memory_file& input) {
  cli::dump_reader reader(input.descriptor(), "the dump");
  try {
    if (reader.header().clock > clock_max) return false;
    while (reader.next()) {
    }
    return true;
  } catch (const error& failure) {
    must_be_of_a_line(failure);
    return false;
  }
}

[[nodiscard]] bool load(const memory_file& input, std::string_view dump, store& into) {
  input.write(dump);
  cli::dump_reader reader(input.descriptor(), "the dump");
  try {
    cli::dump_loader loader(into, reader);
    loader.run(0);
    promise(reader.bytes_read() == dump.size(), [] { return std::string("a dump was not read to its end"); });
    return true;
  } catch (const error& failure) {
    must_be_of_a_line(failure);
    return false;
  }
}

void execute(const memory_files& files, std::string_view dump) {
  files.input.write(dump);
  if (!is_readable(files.input)) return;
  files.pool.write(std::string_view());
  store loaded(files.pool.path(), quickly());
  if (!load(files.input, dump, loaded)) return;
  const std::string first = dump_of(loaded, files.dump);
  loaded.close();

  files.again.write(std::string_view());
  store copy(files.again.path(), quickly());
  promise(load(files.input, first, copy), [] { return std::string("what was dumped cannot be loaded"); });
  promise(dump_of(copy, files.dump) == first, [] { return std::string("dump, load, dump changes the dump"); });
  read_in_all_ways(copy);
  copy.close();

  options reading = quickly();
  reading.access = access::read_only;
  const store reopened(files.pool.path(), reading);
  promise(dump_of(reopened, files.dump) == first, [] { return std::string("a store's dump changes as it reopens"); });
}

}  // namespace
}  // namespace icecore::testing

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace icecore::testing;
  static const memory_files files;
  must_hold([&] { execute(files, {reinterpret_cast<const char*>(data), size}); });
  return 0;
}
