#include "cluster/messages/wire.hpp"

#include "cluster/gather/ranks/kept_memory.hpp"

namespace icecore::mpi {
namespace {

ranks::kept_memory<std::string>& free_strings() {
  static auto& kept = *new ranks::kept_memory<std::string>;
  return kept;
}

}  // namespace

void packer::make_room(std::size_t more) {
  const std::size_t needed = bytes_.size() + more;
  if (needed > bytes_.capacity()) {
    std::string used = free_strings().take(needed);
    if (used.capacity() >= needed) bytes_.swap(used.assign(bytes_));
  }
  bytes_.reserve(needed);
}

std::shared_ptr<const std::string> sent_bytes(std::string packed) {
  if (!ranks::kept_memory<std::string>::keeps(packed.capacity())) {
    return std::make_shared<const std::string>(std::move(packed));
  }
  const auto give_back = [](std::string* sent) {
    const std::size_t capacity = sent->capacity();
    free_strings().give(std::move(*sent), capacity);
    delete sent;
  };
  return {new std::string(std::move(packed)), give_back};
}

}  // namespace icecore::mpi
