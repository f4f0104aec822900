/* The structures by which libraries hand over columns without copying them: the Arrow C data interface and the Arrow C
 * stream interface, as their specifications give them (https://arrow.apache.org/docs/format/CDataInterface.html).
 *
 *   struct ArrowSchema schema;
 *   struct ArrowArray array;
 *   icecore_snapshot_extract_arrow(snapshot, filter, select, 2, 0, &schema, &array);   // icecore_query.h
 *   arrow::ImportRecordBatch(&array, &schema);                       // or, without Arrow:
 * array.children[0]->buffers[1]
 *
 * Ownership: whoever receives a structure calls its `release` once, with the structure; afterwards `release` is NULL.
 *   Moving one is copying it and setting `release` of the original to NULL.
 * Threads: a structure belongs to one thread at a time; what its buffers hold never changes.
 * The macros are the specification's: a program may get the same structures from several libraries.
 */
#ifndef ICECORE_ARROW_H
#define ICECORE_ARROW_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#ifndef ARROW_C_DATA_INTERFACE
#define ARROW_C_DATA_INTERFACE

#define ARROW_FLAG_DICTIONARY_ORDERED 1
#define ARROW_FLAG_NULLABLE 2
#define ARROW_FLAG_MAP_KEYS_SORTED 4

struct ArrowSchema {
  const char* format; /* "+s" a table, "b" boolean, "l" int64, "L" uint64, "g" double, "Z" bytes with 64-bit offsets */
  const char* name;
  const char* metadata;
  int64_t flags;
  int64_t n_children;
  struct ArrowSchema** children;
  struct ArrowSchema* dictionary;
  void (*release)(struct ArrowSchema*);
  void* private_data;
};

struct ArrowArray {
  int64_t length;
  int64_t null_count;
  int64_t offset;
  int64_t n_buffers;
  int64_t n_children;
  const void** buffers;
  struct ArrowArray** children;
  struct ArrowArray* dictionary;
  void (*release)(struct ArrowArray*);
  void* private_data;
};

#endif /* ARROW_C_DATA_INTERFACE */

#ifndef ARROW_C_STREAM_INTERFACE
#define ARROW_C_STREAM_INTERFACE

struct ArrowArrayStream {
  int (*get_schema)(struct ArrowArrayStream*, struct ArrowSchema* out);
  int (*get_next)(struct ArrowArrayStream*, struct ArrowArray* out);
  const char* (*get_last_error)(struct ArrowArrayStream*);
  void (*release)(struct ArrowArrayStream*);
  void* private_data;
};

#endif /* ARROW_C_STREAM_INTERFACE */

#ifdef __cplusplus
}
#endif

#endif /* ICECORE_ARROW_H */
