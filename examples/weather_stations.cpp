// One store over the ranks of an MPI job: weather stations report from every rank, hour by hour, and every rank reads
// all reports.
//
//   mpirun -np 4 weather_stations [FOLDER]       (default: weather in the current folder, created anew)
#include <mpi.h>

#include <cstdio>
#include <filesystem>
#include <string>

#include "icecore/cluster.hpp"

namespace {

constexpr int stations = 8;

void report(icecore::cluster& weather, int hour) {
  for (int station = weather.rank(); station < stations; station += weather.size()) {
    if (hour == 2 && station == 5) {
      weather.remove("station/5");  // this station is out of order
      continue;
    }
    weather.insert("station/" + std::to_string(station), std::to_string(10 + (3 * station + hour) % 7) + " C");
  }
}

void print(const icecore::cluster& weather, const char* hour) {
  std::printf("%s, %llu stations:", hour, static_cast<unsigned long long>(weather.at(hour).size()));
  for (const auto& [key, value] : weather.at(hour).prefix("station/")) {
    std::printf("  %.*s %.*s", static_cast<int>(key.size()), key.data(), static_cast<int>(value.size()), value.data());
  }
  std::printf("\n");
}

void run(const std::string& folder) {
  icecore::cluster weather(MPI_COMM_WORLD, folder);
  for (int hour = 1; hour <= 3; ++hour) {
    report(weather, hour);
    weather.tag("hour-" + std::to_string(hour));  // waits for all ranks: one version, the same on all
  }
  if (weather.rank() == 0) {
    for (const char* hour : {"hour-1", "hour-2", "hour-3"}) print(weather, hour);
    std::printf("station 5, newest first:");
    for (const auto& [version, value] : weather.history("station/5")) {
      std::printf("  %s in version %llu", value.value_or("nothing").c_str(), static_cast<unsigned long long>(version));
    }
    std::printf("\n");
  }
  weather.close();  // waits for all ranks, and answers them meanwhile
}

}  // namespace

int main(int argc, char** argv) {
  int threads = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &threads);  // also works with a lower level
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  const std::string folder = argc > 1 ? argv[1] : "weather";
  int result = 0;
  try {
    if (rank == 0) std::filesystem::remove_all(folder);
    MPI_Barrier(MPI_COMM_WORLD);
    run(folder);
  } catch (const icecore::error& failure) {
    std::fprintf(stderr, "weather_stations: %s\n", failure.what());
    result = 1;
  }
  MPI_Finalize();
  return result;
}
