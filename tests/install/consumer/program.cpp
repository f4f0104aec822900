// The smallest program that uses an installed icecore: writes, tags, overwrites, reads both. And what the library
// throws is of the types that the program catches.
#include <icecore/icecore.hpp>
#include <iostream>
#include <system_error>

int main(int, char** arguments) {
  icecore::store store(arguments[1]);
  store.insert("key", "before");
  const icecore::version then = store.tag("then");
  store.insert("key", "after");
  try {
    static_cast<void>(store.at(then + 1));
    return 1;
  } catch (const icecore::error& refused) {
    if (refused.code() != icecore::errc::version_not_closed || refused.code().category() != icecore::category())
      return 2;
  }
  try {
    store.insert(std::string(icecore::key_size_max + 1, 'k'), "");
    return 3;
  } catch (const std::system_error& refused) {
    if (dynamic_cast<const icecore::error*>(&refused) == nullptr) return 4;
  }
  std::cout << "icecore " << icecore::library_version() << ": " << store.find("key", then).value() << ", "
            << store.find("key").value() << '\n';
}
