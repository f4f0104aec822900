/* Shared by PapyrusKV's three microbenchmarks: their keys and values, and their output.
 *
 * Keys are random texts of letters and digits, the same for the same rank in every run. A value is made from its key
 * and a generation, so that a reader can check it.
 * Errors: every failure ends the job with a message.
 */
#ifndef ICECORE_BENCH_PAPYRUSKV_COMMON_H
#define ICECORE_BENCH_PAPYRUSKV_COMMON_H

#include <stddef.h>
#include <stdint.h>

struct setting {
  size_t keylen;
  size_t vallen;
  size_t count; /* number of keys of each rank */
  int rank;
  int size;
};

/* Ends the job unless `result` is PAPYRUSKV_OK. */
void must(int result, const char* what);
/* Ends the job with this message. */
void fail(const char* format, ...) __attribute__((format(printf, 1, 2), noreturn));

/* The number in an argument; the job ends if it is not a number, or is less than `least`. */
size_t number_of(const char* argument, const char* name, size_t least);
/* Rank, size, and the first three arguments: keylen vallen count. */
struct setting setting_of(char** argv);

/* The keys of a rank, one after another, keylen bytes each with a NUL at the end. The caller frees them. */
char* keys_of(const struct setting* s, int rank);

/* Fills the vallen bytes at `value`. */
void make_value(const struct setting* s, const char* key, int generation, char* value);

/* Checks that a key's value is that of one of the generations 0 to `last`, and returns its generation; the job ends if
 * the value is missing or wrong. `expected` and `found` are buffers for one value each. */
int checked_get(const struct setting* s, int db, const char* key, int last, char* expected, char* found);

/* Removes the closed database, so that the next run may have another number of ranks. */
void remove_database(const char* name);

/* Seconds of each phase: least, greatest and average over the ranks, on rank 0. */
enum { phases_max = 4 };
struct times {
  double least[phases_max];
  double greatest[phases_max];
  double average[phases_max];
};
struct times gathered(const struct setting* s, const double* seconds, int count);

/* "keylen[16] vallen[8] ... nranks[2] ...", without a line end. Only rank 0 prints. */
void print_setting(const struct setting* s);
/* " NAME[least,greatest,average]" of one phase. */
void print_phase(const char* name, const struct times* t, int phase);

#endif
