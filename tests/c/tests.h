/* The tests, by the names under which they run. */
#ifndef ICECORE_TESTS_C_TESTS_H
#define ICECORE_TESTS_C_TESTS_H

void opens_by_options_and_closes(void);
void a_large_store_grows_on_a_thread_that_can_be_turned_off(void);
void a_reader_beside_the_writer_shows_what_is_closed(void);
void a_store_of_several_files_is_opened_by_its_first(void);
void a_store_is_shared_with_who_attaches_to_it(void);
void an_index_is_chosen_and_changed(void);
void structures_may_be_older_or_newer_than_the_library(void);
void writes_are_found_and_report_their_version(void);
void a_batch_is_applied_at_once(void);
void conditions_decide_whether_a_write_happens(void);
void every_index_can_be_asked_for(void);
void tags_carry_name_note_and_time(void);
void a_store_describes_itself(void);
void verify_finds_damage_and_names_it(void);
void a_checkpoint_holds_one_instant_and_nothing_later(void);
void a_packed_store_shows_what_it_did(void);
void packing_tells_its_progress_and_takes_options(void);
void snapshots_are_found_by_version_tag_and_time(void);
void many_keys_are_found_at_once(void);
void bytes_outlive_their_store(void);
void columns_of_fixed_and_of_any_size_are_extracted(void);
void visits_reach_every_item_and_can_stop(void);
void cursors_walk_both_ways_between_bounds(void);
void histories_run_from_either_end(void);
void differences_come_in_key_order(void);
void filters_are_made_of_texts_functions_and_each_other(void);
void a_filtered_walk_and_totals_agree(void);
void columns_are_arrow_record_batches(void);
void pages_follow_each_other_by_tokens(void);
void a_filter_function_can_stop_a_scan(void);
void a_query_is_kept_and_goes_on_in_the_next_opening(void);
void a_progress_function_pauses_a_query(void);
void a_query_of_a_function_needs_it_again(void);
void columns_and_totals_are_kept(void);
void a_key_that_fails_is_told_and_can_be_passed(void);
void queries_are_listed_cancelled_and_dropped(void);
void changes_match_by_what_they_change(void);
void a_feed_goes_on_where_it_was_acknowledged(void);
void a_feed_without_a_name_goes_on_behind_its_token(void);
void codes_have_texts_and_the_library_a_version(void);
void nothing_where_something_must_be_is_an_error(void);
void an_unfinished_cursor_step_shows_in_its_status(void);

#endif
