/* What C programs that test the interface check with: the first check that fails is told, and ends the function. */
#ifndef ICECORE_TESTS_REMOTE_C_CHECKS_H
#define ICECORE_TESTS_REMOTE_C_CHECKS_H

#include <stdio.h>
#include <string.h>

#include "icecore/icecore_remote.h"

#define CHECK(expression, expected)                                                                         \
  do {                                                                                                      \
    const int got = (expression);                                                                           \
    if (got != (expected)) {                                                                                \
      fprintf(stderr, "line %d: %s is %d: %s\n", __LINE__, #expression, got, icecore_last_error_message()); \
      return 1;                                                                                             \
    }                                                                                                       \
  } while (0)
#define OK(expression) CHECK(expression, ICECORE_OK)
#define TRUE(condition) CHECK((condition) ? 1 : 0, 1)

static inline int is(icecore_remote_value* value, const char* text) {
  const int same = value->data != NULL && value->size == strlen(text) && memcmp(value->data, text, value->size) == 0;
  icecore_remote_value_release(value);
  return same;
}

#endif
