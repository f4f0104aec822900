/* remote.cpp in C. */
#include <icecore/icecore_remote.h>
#include <stdio.h>
#include <stdlib.h>

int main(void) {
  icecore_remote_options options;
  icecore_remote_client* client = NULL;
  icecore_remote_store* store = NULL;
  icecore_remote_value before = {0};
  icecore_remote_value after = {0};
  icecore_remote_options_init(&options, sizeof options);
  options.token = getenv("ICECORE_ADDRESS_TOKEN");
  if (icecore_remote_connect(getenv("ICECORE_ADDRESS"), &options, &client) != ICECORE_OK ||
      icecore_remote_create(client, "consumer", NULL, &store) != ICECORE_OK ||
      icecore_remote_insert(store, "key", 3, "before", 6, NULL) != ICECORE_OK ||
      icecore_remote_tag(store, "then", 4, NULL, 0, NULL) != ICECORE_OK ||
      icecore_remote_insert(store, "key", 3, "after", 5, NULL) != ICECORE_OK ||
      icecore_remote_find_tag_value(store, "key", 3, "then", 4, &before) != ICECORE_OK ||
      icecore_remote_find(store, "key", 3, &after) != ICECORE_OK) {
    return puts(icecore_last_error_message());
  }
  printf("icecore %s: %.*s, %.*s\n", icecore_library_version(), (int)before.size, (const char*)before.data,
         (int)after.size, (const char*)after.data);
  icecore_remote_value_release(&before);
  icecore_remote_value_release(&after);
  icecore_remote_close(store);
  icecore_remote_disconnect(client);
  return 0;
}
