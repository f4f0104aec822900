/* weather_stations.cpp in C: one store over the ranks of an MPI job.
 *
 *   mpirun -np 4 weather_stations_c [FOLDER]       (default: weather in the current folder, which is not there yet)
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "icecore/icecore_mpi.h"

enum { stations = 8 };

static void check(int code) {
  if (code == ICECORE_OK) return;
  fprintf(stderr, "weather_stations_c: %s\n", icecore_last_error_message());
  MPI_Abort(MPI_COMM_WORLD, 1);
}

static void report(icecore_cluster* weather, int hour) {
  char key[32], value[32];
  for (int station = icecore_cluster_rank(weather); station < stations; station += icecore_cluster_size(weather)) {
    const size_t key_size = (size_t)snprintf(key, sizeof key, "station/%d", station);
    if (hour == 2 && station == 5) { /* this station is out of order */
      check(icecore_cluster_remove(weather, key, key_size, NULL));
      continue;
    }
    const size_t value_size = (size_t)snprintf(value, sizeof value, "%d C", 10 + (3 * station + hour) % 7);
    check(icecore_cluster_insert(weather, key, key_size, value, value_size, NULL));
  }
}

static void tag(icecore_cluster* weather, const char* hour) {
  icecore_tag_options label;
  icecore_tag_options_init(&label, sizeof label);
  label.name.data = hour;
  label.name.size = strlen(hour);
  check(icecore_cluster_tag_with(weather, &label, NULL)); /* waits for all ranks: one version, the same on all */
}

static void print(const icecore_cluster* weather, const char* hour) {
  icecore_cluster_snapshot* then;
  icecore_cluster_cursor* at;
  uint64_t size;
  check(icecore_cluster_at_tag(weather, hour, strlen(hour), &then));
  check(icecore_cluster_snapshot_size(then, &size));
  printf("%s, %llu stations:", hour, (unsigned long long)size);
  check(icecore_cluster_cursor_open_prefix(then, "station/", 8, &at));
  check(icecore_cluster_cursor_seek_first(at));
  while (icecore_cluster_cursor_valid(at)) {
    const icecore_bytes key = icecore_cluster_cursor_key(at), value = icecore_cluster_cursor_value(at);
    printf("  %.*s %.*s", (int)key.size, (const char*)key.data, (int)value.size, (const char*)value.data);
    check(icecore_cluster_cursor_next(at));
  }
  printf("\n");
  icecore_cluster_cursor_close(at);
  icecore_cluster_snapshot_close(then);
}

static void print_history(const icecore_cluster* weather) {
  icecore_cluster_history* history;
  icecore_change change;
  check(icecore_cluster_history_open(weather, "station/5", 9, ICECORE_NEWEST_FIRST, &history));
  printf("station 5, newest first:");
  for (check(icecore_cluster_history_next(history, &change)); change.version != 0;
       check(icecore_cluster_history_next(history, &change))) {
    const int there = change.value.data != NULL;
    printf("  %.*s in version %llu", there ? (int)change.value.size : 7,
           there ? (const char*)change.value.data : "nothing", (unsigned long long)change.version);
  }
  printf("\n");
  icecore_cluster_history_close(history);
}

int main(int argc, char** argv) {
  int threads;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &threads); /* also works with a lower level */
  static const char* const hours[] = {"hour-1", "hour-2", "hour-3"};
  icecore_cluster* weather;
  check(icecore_cluster_open(MPI_COMM_WORLD, argc > 1 ? argv[1] : "weather", NULL, &weather));
  for (int hour = 1; hour <= 3; ++hour) {
    report(weather, hour);
    tag(weather, hours[hour - 1]);
  }
  if (icecore_cluster_rank(weather) == 0) {
    for (int hour = 1; hour <= 3; ++hour) print(weather, hours[hour - 1]);
    print_history(weather);
  }
  check(icecore_cluster_close(weather)); /* waits for all ranks and answers them meanwhile */
  MPI_Finalize();
  return 0;
}
