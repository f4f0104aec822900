// Synchronous inserts and retrieves through SKV's C++ interface; prints one line of JSON for each of the two. It knows
// nothing but SKV's public header, so it also compiles against SKV of 2015 itself, and the two can be compared:
//
//   icecore_skv_load 100000 skv_server.conf
//
// Keys are 64-bit numbers in an order like chance, values of 8 bytes. The PDS is made new, under a name of the process.
#ifndef SKV_CLIENT_UNI
#define SKV_CLIENT_UNI
#endif
#ifndef SKV_NON_MPI
#define SKV_NON_MPI
#endif
#include <skv/client/skv_client.hpp>

#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

using clock_type = std::chrono::steady_clock;

void check(const char* what, skv_status_t status) {
  if (status == SKV_SUCCESS) return;
  std::fprintf(stderr, "%s: %s\n", what, skv_status_to_string(status));
  std::_Exit(1);
}

/// A permutation of all 64-bit numbers.
std::uint64_t scattered(std::uint64_t number) {
  number = (number ^ (number >> 32)) * 0x9E3779B97F4A7C15U;
  return number ^ (number >> 29);
}

void tell(const char* work, std::uint64_t records, clock_type::time_point begun) {
  const double seconds = std::chrono::duration<double>(clock_type::now() - begun).count();
  std::printf("{\"work\":\"%s\",\"records\":%llu,\"seconds\":%.6f,\"records_per_second\":%.1f}\n", work,
              static_cast<unsigned long long>(records), seconds, static_cast<double>(records) / seconds);
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: %s RECORDS CONFIGURATION\n", argv[0]);
    return 2;
  }
  const std::uint64_t records = std::strtoull(argv[1], nullptr, 10);
  skv_client_t client;
  check("Init", client.Init(0, 0, argv[2]));
  check("Connect", client.Connect(argv[2], 0));
  char name[SKV_MAX_PDS_NAME_SIZE] = {};
  std::snprintf(name, sizeof name, "load.%d", static_cast<int>(getpid()));
  skv_pds_id_t pds;
  check("Open", client.Open(name, static_cast<skv_pds_priv_t>(SKV_PDS_READ | SKV_PDS_WRITE),
                            SKV_COMMAND_OPEN_FLAGS_CREATE, &pds));

  clock_type::time_point begun = clock_type::now();
  for (std::uint64_t record = 0; record < records; ++record) {
    std::uint64_t key = scattered(record);
    std::uint64_t value = record;
    check("Insert", client.Insert(&pds, reinterpret_cast<char*>(&key), sizeof key, reinterpret_cast<char*>(&value),
                                  sizeof value, 0, SKV_COMMAND_RIU_FLAGS_NONE));
  }
  tell("insert", records, begun);

  begun = clock_type::now();
  for (std::uint64_t record = 0; record < records; ++record) {
    std::uint64_t key = scattered(record);
    std::uint64_t value = 0;
    int size = 0;
    check("Retrieve", client.Retrieve(&pds, reinterpret_cast<char*>(&key), sizeof key, reinterpret_cast<char*>(&value),
                                      sizeof value, &size, 0, SKV_COMMAND_RIU_FLAGS_NONE));
    if (size != sizeof value || value != record) {
      std::fprintf(stderr, "record %llu has another value\n", static_cast<unsigned long long>(record));
      return 1;
    }
  }
  tell("retrieve", records, begun);

  check("Close", client.Close(&pds));
  check("Disconnect", client.Disconnect());
  check("Finalize", client.Finalize());
  return 0;
}
