/* The same program in C. */
#include <icecore/icecore.h>
#include <stdio.h>

int main(int count, char** arguments) {
  icecore_store* store = NULL;
  icecore_version then = 0;
  icecore_value before = {0};
  icecore_value after = {0};
  (void)count;
  if (icecore_open(arguments[1], NULL, &store) != ICECORE_OK ||
      icecore_insert(store, "key", 3, "before", 6, NULL) != ICECORE_OK || icecore_tag_now(store, &then) != ICECORE_OK ||
      icecore_insert(store, "key", 3, "after", 5, NULL) != ICECORE_OK ||
      icecore_find_at(store, "key", 3, then, &before) != ICECORE_OK ||
      icecore_find(store, "key", 3, &after) != ICECORE_OK) {
    return puts(icecore_last_error_message());
  }
  printf("icecore %s: %.*s, %.*s\n", icecore_library_version(), (int)before.size, (const char*)before.data,
         (int)after.size, (const char*)after.data);
  icecore_close(store);
  icecore_value_release(&before);
  icecore_value_release(&after);
  return 0;
}
