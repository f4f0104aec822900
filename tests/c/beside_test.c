/* Readers beside the process that writes, and those that never lock. */
#include "check.h"
#include "tests.h"

void a_reader_beside_the_writer_shows_what_is_closed(void) {
  char path[4096];
  snprintf(path, sizeof path, "%s", fresh_path("beside.ice"));
  icecore_options options;
  icecore_options_init(&options, sizeof options);
  CHECK(options.beside_writer == 1);
  icecore_store* writer;
  OK(icecore_open(path, &options, &writer));
  OK(icecore_insert(writer, "a", 1, "1", 1, NULL));
  icecore_version one;
  OK(icecore_tag_now(writer, &one));
  OK(icecore_sync(writer));
  options.access = ICECORE_ACCESS_READ_ONLY;
  icecore_store* reader;
  OK(icecore_open(path, &options, &reader));
  icecore_version shown;
  OK(icecore_refresh(reader, &shown));
  CHECK(shown >= one);
  int there;
  OK(icecore_contains(reader, "a", 1, &there));
  CHECK(there);
  OK(icecore_insert(writer, "b", 1, "2", 1, NULL));
  OK(icecore_sync(writer));
  OK(icecore_contains(reader, "b", 1, &there));
  CHECK(!there);
  OK(icecore_refresh(reader, NULL));
  OK(icecore_contains(reader, "b", 1, &there));
  CHECK(there);
  FAILS(ICECORE_READ_ONLY, icecore_insert(reader, "c", 1, "3", 1, NULL));
  OK(icecore_close(reader));
  options.beside_writer = 0;
  FAILS(ICECORE_LOCKED, icecore_open(path, &options, &reader));
  OK(icecore_close(writer));
}

void a_reader_that_never_locks_lets_writers_come(void) {
  char path[4096];
  snprintf(path, sizeof path, "%s", fresh_path("unlocked.ice"));
  icecore_store* writer;
  OK(icecore_open(path, NULL, &writer));
  OK(icecore_insert(writer, "a", 1, "1", 1, NULL));
  OK(icecore_close(writer));
  icecore_options options;
  icecore_options_init(&options, sizeof options);
  CHECK(options.never_locks == 0);
  options.access = ICECORE_ACCESS_READ_ONLY;
  icecore_store* reader;
  OK(icecore_open(path, &options, &reader));
  FAILS(ICECORE_LOCKED, icecore_open(path, NULL, &writer)); /* a reader with a lock keeps writers out */
  OK(icecore_close(reader));
  options.never_locks = 1;
  OK(icecore_open(path, &options, &reader));
  int there;
  OK(icecore_contains(reader, "a", 1, &there));
  CHECK(there);
  OK(icecore_open(path, NULL, &writer));
  OK(icecore_insert(writer, "b", 1, "2", 1, NULL));
  OK(icecore_sync(writer));
  OK(icecore_refresh(reader, NULL));
  OK(icecore_contains(reader, "b", 1, &there));
  CHECK(there);
  OK(icecore_close(writer));
  OK(icecore_close(reader));
  options.accept_damage = 1;
  FAILS(ICECORE_INVALID_ARGUMENT, icecore_open(path, &options, &reader));
  /* A program that was built before the field was there. */
  options.accept_damage = 0;
  options.struct_size = offsetof(icecore_options, never_locks);
  OK(icecore_open(path, &options, &reader));
  FAILS(ICECORE_LOCKED, icecore_open(path, NULL, &writer));
  OK(icecore_close(reader));
}
