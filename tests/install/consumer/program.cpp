// The smallest program that uses an installed icecore: writes, tags, overwrites, reads both.
#include <icecore/icecore.hpp>
#include <iostream>

int main(int, char** arguments) {
  icecore::store store(arguments[1]);
  store.insert("key", "before");
  const icecore::version then = store.tag("then");
  store.insert("key", "after");
  std::cout << "icecore " << icecore::library_version() << ": " << store.find("key", then).value() << ", "
            << store.find("key").value() << '\n';
}
