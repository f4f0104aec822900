// The same program as a cluster: each rank writes what the next one reads, and catches what both libraries throw.
#include <icecore/cluster.hpp>
#include <icecore/error.hpp>
#include <icecore/version.hpp>
#include <iostream>

int main(int count, char** arguments) {
  MPI_Init(&count, &arguments);
  {
    icecore::cluster cluster(MPI_COMM_WORLD, arguments[1]);
    const std::string own = "key/" + std::to_string(cluster.rank());
    const std::string other = "key/" + std::to_string((cluster.rank() + 1) % cluster.size());
    cluster.insert(own, "before");
    const icecore::version then = cluster.tag();
    cluster.insert(own, "after");
    cluster.tag();
    const std::string before = cluster.find(other, then).value();
    const std::string after = cluster.find(other).value();
    bool caught = false;
    try {
      static_cast<void>(cluster.find(own, cluster.clock()));
    } catch (const icecore::error& refused) {
      caught = refused.code() == icecore::errc::version_not_closed;
    }
    if (cluster.rank() == 0 && caught) {
      std::cout << "icecore " << icecore::library_version() << ": " << before << ", " << after << '\n';
    }
  }
  MPI_Finalize();
}
