/* The C interface of clusters: tests that every rank runs, and what they share. */
#ifndef ICECORE_TESTS_CLUSTER_C_TESTS_H
#define ICECORE_TESTS_CLUSTER_C_TESTS_H

#include "check.h"
#include "icecore/icecore_mpi.h"

extern int rank, ranks; /* of MPI_COMM_WORLD */

/* A path that all ranks share and where nothing is yet. Collective. */
const char* new_path(void);
/* A new cluster there. Collective. */
icecore_cluster* new_cluster(void);
/* Text of a format with one number; valid until the 256th call after it. */
const char* text(const char* format, int number);
/* A key that belongs to `owner`; valid as a text() is. */
const char* key_of(const icecore_cluster* cluster, int owner);
/* The newest value is this text. */
int finds(const icecore_cluster* cluster, const char* key, const char* expected);
/* A broadcast of rank 0's number. */
uint64_t of_rank_0(uint64_t number);

void a_cluster_opens_by_its_options(void);
void structures_of_clusters_may_be_older_or_newer(void);
void keys_belong_to_whom_the_program_says(void);
void every_rank_reads_what_every_rank_wrote(void);
void many_go_and_come_at_once(void);
void a_batch_takes_effect_at_its_one_owner(void);
void the_owner_decides_about_conditions(void);
void a_tag_is_the_same_on_all_ranks(void);
void a_snapshot_shows_one_version_of_all_ranks(void);
void cursors_walk_all_ranks_in_key_order(void);
void histories_of_clusters_run_from_either_end(void);
void columns_of_all_ranks_come_in_order_to_the_root(void);
void columns_of_ranges_are_put_behind_each_other(void);
void gathered_columns_hold_all_and_outlive_the_cluster(void);
void distributed_columns_are_a_stretch_of_each_rank(void);
void a_stream_hands_all_pairs_in_order_to_the_root_and_can_stop(void);
void a_find_by_broadcast_answers_the_root(void);
void extractions_that_cannot_be_fail_on_all_ranks(void);
void consistency_and_protection_change_on_all_ranks(void);
void a_signal_carries_what_was_written_before(void);
void a_cluster_is_packed_and_its_versions_expire_alike(void);
void a_checkpoint_is_restored_on_other_ranks(void);
void nothing_in_place_of_an_argument_is_an_error(void);

#endif
