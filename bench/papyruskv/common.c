#include "common.h"

#include <mpi.h>
#include <papyrus/kv.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Errors ------------------------------------------------------------------------------------------------------ */

void fail(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vfprintf(stderr, format, arguments);
  va_end(arguments);
  fputc('\n', stderr);
  MPI_Abort(MPI_COMM_WORLD, 1);
  exit(1);
}

void must(int result, const char* what) {
  if (result != PAPYRUSKV_OK) fail("%s failed: %s", what, papyruskv_error_message());
}

/* ---- Arguments --------------------------------------------------------------------------------------------------- */

size_t number_of(const char* argument, const char* name, size_t least) {
  char* end = NULL;
  const unsigned long number = strtoul(argument, &end, 10);
  if (*argument < '0' || *argument > '9' || *end != '\0' || number < least) {
    fail("%s is '%s', and must be a number of %zu or more", name, argument, least);
  }
  return number;
}

struct setting setting_of(char** argv) {
  struct setting s;
  s.keylen = number_of(argv[1], "keylen", 2); /* a letter and the NUL */
  s.vallen = number_of(argv[2], "vallen", 1);
  s.count = number_of(argv[3], "count", 1);
  MPI_Comm_rank(MPI_COMM_WORLD, &s.rank);
  MPI_Comm_size(MPI_COMM_WORLD, &s.size);
  return s;
}

/* ---- Keys and values --------------------------------------------------------------------------------------------- */

/* The next number of a stream that looks random (splitmix64). */
static uint64_t next_random(uint64_t* state) {
  uint64_t z = *state += 0x9e3779b97f4a7c15U;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
  return z ^ (z >> 31);
}

char* keys_of(const struct setting* s, int rank) {
  static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
  uint64_t state = (uint64_t)rank << 32;
  char* const keys = malloc(s->keylen * s->count);
  if (keys == NULL) fail("no memory for %zu keys of %zu bytes", s->count, s->keylen);
  for (size_t i = 0; i < s->count; ++i) {
    char* const key = keys + i * s->keylen;
    for (size_t j = 0; j + 1 < s->keylen; ++j) key[j] = letters[next_random(&state) % (sizeof letters - 1)];
    key[s->keylen - 1] = '\0';
  }
  return keys;
}

/* The key and the generation, mixed, once in every block of otherwise equal bytes. So a large value takes almost no
 * time to make, and still differs from every other. */
void make_value(const struct setting* s, const char* key, int generation, char* value) {
  enum { stretch = 512 };
  uint64_t state = (uint64_t)generation;
  for (size_t i = 0; i < s->keylen; ++i) {
    state ^= (unsigned char)key[i];
    state = next_random(&state);
  }
  memset(value, 'v', s->vallen);
  for (size_t i = 0; i < s->vallen; i += stretch) {
    const size_t room = s->vallen - i;
    memcpy(value + i, &state, room < sizeof state ? room : sizeof state);
  }
}

int checked_get(const struct setting* s, int db, const char* key, int last, char* expected, char* found) {
  size_t length = s->vallen;
  if (papyruskv_get(db, key, s->keylen, &found, &length) != PAPYRUSKV_OK) {
    fail("rank %d: key %s was not found: %s", s->rank, key, papyruskv_error_message());
  }
  for (int generation = last; generation >= 0; --generation) {
    make_value(s, key, generation, expected);
    if (length == s->vallen && memcmp(expected, found, length) == 0) return generation;
  }
  fail("rank %d: key %s has a wrong value of %zu bytes", s->rank, key, length);
}

void remove_database(const char* name) {
  int db = 0;
  must(papyruskv_open(name, PAPYRUSKV_RDWR, NULL, &db), "papyruskv_open");
  must(papyruskv_destroy(db, NULL), "papyruskv_destroy");
  must(papyruskv_close(db), "papyruskv_close");
}

/* ---- Printing ---------------------------------------------------------------------------------------------------- */

struct times gathered(const struct setting* s, const double* seconds, int count) {
  struct times t;
  MPI_Reduce(seconds, t.least, count, MPI_DOUBLE, MPI_MIN, 0, MPI_COMM_WORLD);
  MPI_Reduce(seconds, t.greatest, count, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
  MPI_Reduce(seconds, t.average, count, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
  for (int i = 0; s->rank == 0 && i < count; ++i) t.average[i] /= s->size;
  return t;
}

void print_setting(const struct setting* s) {
  const double each_bytes = (double)((s->keylen + s->vallen) * s->count);
  const double all_bytes = each_bytes * s->size;
  printf(
      "keylen[%zu] vallen[%zu] count[%zu] size[%.0f]KB [%f]MB [%f]GB nranks[%d] total count[%zu] size[%.0f]KB [%f]MB "
      "[%f]GB",
      s->keylen, s->vallen, s->count, each_bytes / 0x1p10, each_bytes / 0x1p20, each_bytes / 0x1p30, s->size,
      s->count * (size_t)s->size, all_bytes / 0x1p10, all_bytes / 0x1p20, all_bytes / 0x1p30);
}

void print_phase(const char* name, const struct times* t, int phase) {
  printf(" %s[%f,%f,%f]", name, t->least[phase], t->greatest[phase], t->average[phase]);
}
