/* An ordered map that never forgets, from C: the stars of a small survey, catalogued in two nights.
 *
 *   ordered_map_with_a_past_c [FILE]     (default: survey-c.ice in the current folder, made anew)
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "icecore/icecore.h"

/* Ends the program with an error message if the call failed. */
static void check(int code) {
  if (code == ICECORE_OK) return;
  fprintf(stderr, "ordered_map_with_a_past_c: %s (%s)\n", icecore_last_error_message(), icecore_strerror(code));
  exit(1);
}

static void see(icecore_store* sky, const char* star, const char* magnitude) {
  check(icecore_insert(sky, star, strlen(star), magnitude, strlen(magnitude), NULL));
}

static icecore_version end_night(icecore_store* sky, const char* name) {
  icecore_tag_options label;
  icecore_tag_options_init(&label, sizeof label);
  label.name = (icecore_bytes){name, strlen(name)};
  icecore_version version;
  check(icecore_tag_with(sky, &label, &version));
  return version;
}

static void print(const char* before, icecore_bytes bytes) {
  printf("%s%.*s", before, (int)bytes.size, (const char*)bytes.data);
}

int main(int argc, char** argv) {
  const char* path = argc > 1 ? argv[1] : "survey-c.ice";
  remove(path);
  icecore_store* sky;
  check(icecore_open(path, NULL, &sky));

  see(sky, "Aldebaran", "0.87");
  see(sky, "Betelgeuse", "0.42");
  see(sky, "Sirius", "-1.46");
  const icecore_version first = end_night(sky, "night-1");
  see(sky, "Betelgeuse", "1.64"); /* it dims; the first night keeps its value */
  check(icecore_remove(sky, "Aldebaran", 9, NULL));
  const icecore_version second = end_night(sky, "night-2");

  icecore_snapshot* then;
  check(icecore_at_tag(sky, "night-1", 7, &then));
  icecore_cursor* star;
  check(icecore_cursor_open(then, NULL, 0, NULL, 0, &star));
  printf("night-1:");
  for (icecore_cursor_seek_first(star); icecore_cursor_valid(star); icecore_cursor_next(star)) {
    print("  ", icecore_cursor_key(star));
    print(" ", icecore_cursor_value(star));
  }
  check(icecore_cursor_status(star));
  icecore_cursor_close(star);
  icecore_snapshot_close(then);

  icecore_diff* changes;
  check(icecore_diff_open(sky, first, second, NULL, 0, NULL, 0, &changes));
  printf("\nnight-1 to night-2:");
  icecore_difference change;
  for (check(icecore_diff_next(changes, &change)); change.key.data != NULL;
       check(icecore_diff_next(changes, &change))) {
    print("  ", change.key);
    if (change.before.data != NULL) print(" ", change.before);
    print(" -> ", change.after.data != NULL ? change.after : (icecore_bytes){"gone", 4});
  }
  icecore_diff_close(changes);

  icecore_value now;
  check(icecore_find(sky, "Aldebaran", 9, &now));
  printf("\nAldebaran now: %s\n", now.data == NULL ? "not there" : "there");
  icecore_value_release(&now);
  check(icecore_close(sky));
  return 0;
}
