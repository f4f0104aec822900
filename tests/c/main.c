/* test_c FOLDER [TEST]: runs all tests or one; keeps its stores in FOLDER. */
#include "check.h"
#include "tests.h"

static const char* test_folder;
static const char* test_name;

const char* folder(void) { return test_folder; }

const char* fresh_path(const char* name) {
  static char path[4096];
  snprintf(path, sizeof path, "%s/%s-%s", test_folder, test_name, name);
  remove(path);
  return path;
}

icecore_store* new_store(void) {
  icecore_store* store;
  static int count;
  char name[32];
  snprintf(name, sizeof name, "store-%d.ice", ++count);
  OK(icecore_open(fresh_path(name), NULL, &store));
  return store;
}

#define TEST(name) \
  { #name, name }
static const struct {
  const char* name;
  void (*run)(void);
} tests[] = {
    TEST(opens_by_options_and_closes),
    TEST(a_large_store_grows_on_a_thread_that_can_be_turned_off),
    TEST(a_reader_beside_the_writer_shows_what_is_closed),
    TEST(a_reader_that_never_locks_lets_writers_come),
    TEST(a_store_of_several_files_is_opened_by_its_first),
    TEST(a_store_is_shared_with_who_attaches_to_it),
    TEST(an_index_is_chosen_and_changed),
    TEST(structures_may_be_older_or_newer_than_the_library),
    TEST(writes_are_found_and_report_their_version),
    TEST(a_batch_is_applied_at_once),
    TEST(conditions_decide_whether_a_write_happens),
    TEST(every_index_can_be_asked_for),
    TEST(tags_carry_name_note_and_time),
    TEST(a_store_describes_itself),
    TEST(verify_finds_damage_and_names_it),
    TEST(a_checkpoint_holds_one_instant_and_nothing_later),
    TEST(a_packed_store_shows_what_it_did),
    TEST(an_open_store_is_packed),
    TEST(a_store_keeps_the_versions_that_its_retention_says),
    TEST(a_version_that_is_held_does_not_expire),
    TEST(a_store_is_packed_only_if_versions_expire),
    TEST(a_store_is_packed_by_ranges),
    TEST(forgotten_keys_are_in_no_version),
    TEST(packing_tells_its_progress_and_takes_options),
    TEST(snapshots_are_found_by_version_tag_and_time),
    TEST(many_keys_are_found_at_once),
    TEST(bytes_outlive_their_store),
    TEST(columns_of_fixed_and_of_any_size_are_extracted),
    TEST(visits_reach_every_item_and_can_stop),
    TEST(cursors_walk_both_ways_between_bounds),
    TEST(histories_run_from_either_end),
    TEST(differences_come_in_key_order),
    TEST(filters_are_made_of_texts_functions_and_each_other),
    TEST(a_filtered_walk_and_totals_agree),
    TEST(columns_are_arrow_record_batches),
    TEST(pages_follow_each_other_by_tokens),
    TEST(a_filter_function_can_stop_a_scan),
    TEST(a_query_is_kept_and_goes_on_in_the_next_opening),
    TEST(a_progress_function_pauses_a_query),
    TEST(a_query_of_a_function_needs_it_again),
    TEST(columns_and_totals_are_kept),
    TEST(a_key_that_fails_is_told_and_can_be_passed),
    TEST(queries_are_listed_cancelled_and_dropped),
    TEST(changes_match_by_what_they_change),
    TEST(a_feed_goes_on_where_it_was_acknowledged),
    TEST(a_feed_without_a_name_goes_on_behind_its_token),
    TEST(codes_have_texts_and_the_library_a_version),
    TEST(nothing_where_something_must_be_is_an_error),
    TEST(an_unfinished_cursor_step_shows_in_its_status),
};

int main(int argc, char** argv) {
  if (argc < 2) {
    fprintf(stderr, "usage: test_c FOLDER [TEST]\n");
    return 2;
  }
  test_folder = argv[1];
  int run = 0;
  for (size_t i = 0; i < sizeof tests / sizeof tests[0]; ++i) {
    if (argc > 2 && strcmp(argv[2], tests[i].name) != 0) continue;
    test_name = tests[i].name;
    tests[i].run();
    printf("passed: %s\n", tests[i].name);
    ++run;
  }
  if (run == 0) fprintf(stderr, "no such test: %s\n", argv[2]);
  return run == 0 ? 2 : 0;
}
