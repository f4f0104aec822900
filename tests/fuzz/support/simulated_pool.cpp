#include "support/simulated_pool.hpp"

#include "machine.hpp"

namespace icecore::testing {

using crash::machine;

const unsigned simulated_pool::count = machine::stores;

simulated_pool::simulated_pool(unsigned number) : number_(number), path_(machine::path(number)) {
  write(std::string_view());
}

void simulated_pool::write(std::span<const std::byte> content) const { machine::get().file(number_).assign(content); }

std::span<const std::byte> simulated_pool::bytes() const { return machine::get().file(number_).bytes(); }

std::string_view simulated_pool::text() const {
  const auto all = bytes();
  return {reinterpret_cast<const char*>(all.data()), all.size()};
}

std::uint64_t simulated_pool::inode() noexcept { return machine::inode; }

}  // namespace icecore::testing
