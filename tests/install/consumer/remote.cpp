// The smallest program that uses an installed client: on the server that the environment names it writes, tags,
// overwrites, reads both. And what the library throws is of the type that the program catches.
#include <cstdlib>
#include <icecore/icecore.hpp>
#include <icecore/remote.hpp>
#include <iostream>

int main() {
  icecore::remote::client client(std::getenv("ICECORE_ADDRESS"), {.token = std::getenv("ICECORE_ADDRESS_TOKEN")});
  icecore::remote::store store = client.create("consumer", {.rule = icecore::remote::version_rule::tag});
  store.insert("key", "before");
  store.tag("then");
  store.insert("key", "after");
  try {
    static_cast<void>(client.create("consumer"));
    return 1;
  } catch (const icecore::error& refused) {
    if (refused.code() != icecore::errc::database_exists || refused.code().category() != icecore::category()) return 2;
  }
  std::cout << "icecore " << icecore::library_version() << ": " << store.find("key", "then").value().bytes() << ", "
            << store.find("key").value().bytes() << '\n';
}
