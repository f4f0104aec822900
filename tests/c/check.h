/* A test framework of a few lines: a failed CHECK says where and ends the program. */
#ifndef ICECORE_TESTS_C_CHECK_H
#define ICECORE_TESTS_C_CHECK_H

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "icecore/icecore_query.h"

#define CHECK(condition)                                                         \
  do {                                                                           \
    if (!(condition)) {                                                          \
      fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__, #condition);  \
      fprintf(stderr, "last error message: %s\n", icecore_last_error_message()); \
      exit(1);                                                                   \
    }                                                                            \
  } while (0)

/* The call succeeds. */
#define OK(call) CHECK((call) == ICECORE_OK)

/* The call fails with this code, and says something about it. */
#define FAILS(code, call)                             \
  do {                                                \
    CHECK((call) == (code));                          \
    CHECK(strlen(icecore_last_error_message()) > 10); \
  } while (0)

/* Bytes that hold this text; nothing at all. */
static inline int holds(icecore_bytes bytes, const char* text) {
  return bytes.data != NULL && bytes.size == strlen(text) && memcmp(bytes.data, text, bytes.size) == 0;
}
static inline int is_nothing(icecore_bytes bytes) { return bytes.data == NULL && bytes.size == 0; }

/* Whether a value that was found holds this text (NULL: whether there is none). Releases it. */
static inline int value_is(icecore_value* value, const char* text) {
  const icecore_bytes bytes = {value->data, value->size};
  const int is_right = text == NULL ? is_nothing(bytes) && value->pin == NULL : holds(bytes, text);
  icecore_value_release(value);
  return is_right && value->data == NULL && value->pin == NULL;
}

/* (pointer, size) of a text. */
#define TEXT(text) (text), strlen(text)

/* A new store in the folder that the test may use; closed by the test itself. */
icecore_store* new_store(void);
/* Its path; whatever is there is removed. */
const char* fresh_path(const char* name);
/* The folder itself. */
const char* folder(void);

#endif
