/* Copying, checking, repairing and packing whole stores, for C: a part of icecore.h, which includes it, and whose
 * conventions hold.
 */
#ifndef ICECORE_ICECORE_UPKEEP_H
#define ICECORE_ICECORE_UPKEEP_H

#include "icecore/icecore.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The whole store as it was at one instant, with every version and tag. It can be written to a file of its own while
 * writes to the store go on. Release it with icecore_checkpoint_free(). */
typedef struct icecore_checkpoint icecore_checkpoint;

/* Captures the store as it is now. Closes the open version if anything was written in it and the store is not read
 * only. O(segments); writers wait that long. Nothing is copied yet. */
int icecore_checkpoint_now(icecore_store* store, icecore_checkpoint** checkpoint);
void icecore_checkpoint_free(icecore_checkpoint* checkpoint);

/* The newest closed version in the checkpoint, and the size of the file it will write. 0 if checkpoint is NULL. */
icecore_version icecore_checkpoint_version(const icecore_checkpoint* checkpoint);
uint64_t icecore_checkpoint_bytes(const icecore_checkpoint* checkpoint);

/* Writes the file, a store like any other. The file gets its name only when it is complete and durable. Any thread may
 * write, and several may write different files at once. on_progress may be NULL. ICECORE_STORE_EXISTS if something is
 * at `path`. */
int icecore_checkpoint_write(const icecore_checkpoint* checkpoint, const char* path,
                             icecore_progress_function on_progress, void* progress_context);

typedef struct icecore_damage {
  uint64_t offset;       /* byte in the pool file */
  const char* structure; /* "root", "segment", "entry", "record", "tag", "batch", "index", "query", "file", "packed" */
  const char* what;      /* what is wrong, in words */
  icecore_bytes key;     /* NULL if not known */
  icecore_version version; /* 0 if not known */
  const char* file;        /* the pool file */
} icecore_damage;

typedef struct icecore_verify_report {
  size_t damage_count; /* 0: no damage */
  const icecore_damage* damages;
  uint64_t segments;
  uint64_t entries;
  uint64_t records;
  uint64_t tags;
  uint64_t bytes;   /* bytes that were checked against a checksum */
  uint64_t queries; /* kept queries */
} icecore_verify_report;

/* Checks every structure of the open store against its checksums and against the other structures; readers and writers
 * may go on. The report lists the damage; damage is not an error code. on_progress may be NULL. Release the report with
 * icecore_verify_report_free(). */
int icecore_verify(const icecore_store* store, icecore_progress_function on_progress, void* progress_context,
                   icecore_verify_report** report);
/* Checks a store file that may be too damaged to open; changes nothing. Beside a process that writes the store, checks
 * what was settled when it began. */
int icecore_verify_file(const char* path, icecore_progress_function on_progress, void* progress_context,
                        icecore_verify_report** report);
/* The same. `moved`, an array of `moved_count` elements: secondary files that are not where the store expects them. */
int icecore_verify_files(const char* path, const icecore_placement* moved, size_t moved_count,
                         icecore_progress_function on_progress, void* progress_context, icecore_verify_report** report);
void icecore_verify_report_free(icecore_verify_report* report);

/* Versions of a key for which repair does not know the key's value; in the new store the key is not there in them. */
typedef struct icecore_unknown_versions {
  icecore_bytes key;
  icecore_version first;
  icecore_version last; /* the open version if no newer record of the key is left */
} icecore_unknown_versions;

typedef struct icecore_repair_report {
  size_t loss_count; /* 0: the new store holds everything that the old one did */
  const icecore_damage* losses;
  size_t repaired_count;
  const icecore_damage* repaired; /* damage that lost nothing */
  size_t unknown_count;
  const icecore_unknown_versions* unknown;
  uint64_t keys;         /* keys of the new store */
  uint64_t records;      /* inserts and removes copied to the new store */
  uint64_t tags;         /* named or timed tags copied to the new store */
  icecore_version clock; /* the open version of both stores */
  uint64_t queries;      /* kept queries of the new store, which start anew */
  uint64_t feeds;        /* kept feeds of the new store, which go on */
  uint64_t holds;        /* versions that the new store holds by name */
} icecore_repair_report;

/* Writes everything intact of the store file `damaged` to a new store at `repaired` and does not change `damaged`.
 * ICECORE_STORE_EXISTS if something is at `repaired`. The report lists the losses; a loss is not an error code.
 * on_progress may be NULL. Release the report with icecore_repair_report_free(). ICECORE_CRASH_UNKNOWN if opening would
 * fail with it: use `icecore repair --crash`. */
int icecore_repair(const char* damaged, const char* repaired, icecore_progress_function on_progress,
                   void* progress_context, icecore_repair_report** report);
/* The same. `moved`: secondary files of the damaged store that are not where it expects them; the contents of missing
 * files are lost. `placements`: the secondary files of the new store. */
int icecore_repair_files(const char* damaged, const icecore_placement* moved, size_t moved_count, const char* repaired,
                         const icecore_placement* placements, size_t placement_count,
                         icecore_progress_function on_progress, void* progress_context, icecore_repair_report** report);
void icecore_repair_report_free(icecore_repair_report* report);

typedef struct icecore_compaction_report {
  size_t struct_size;
  int packed;                  /* 0: there was nothing to pack, and nothing has changed */
  uint64_t keys;               /* in what was packed now */
  uint64_t records;            /* in what was packed now */
  uint64_t strata;             /* that the store has now */
  icecore_version up_to;       /* all versions up to this one are packed */
  uint64_t bytes_before;       /* that the store's files took on the device, or in memory */
  uint64_t bytes_after;        /* that they take now */
  uint64_t bytes_written;      /* to pack */
  uint64_t versions_expired;   /* by this call; reading them is ICECORE_VERSION_EXPIRED from now on */
  uint64_t records_dropped;    /* that no kept version shows, of those that were packed now */
  int erased;                  /* 0: who reads, in this process or beside it, keeps bytes of what went in the files */
  uint64_t writers_stopped_us; /* microseconds in which icecore_compact_open() stopped writers, at its end */
} icecore_compaction_report;

/* How a store is packed; compaction.hpp says more of each. */
typedef struct icecore_compaction_options {
  size_t struct_size;
  int whole;                 /* not 0: what is packed already is packed once more, so that there is one stratum */
  int dry_run;               /* not 0: only counts what would be packed, and what would go */
  int only_if_expiring;      /* not 0: packs only if versions expire */
  unsigned threads;          /* 0 (default): as many as there are cores */
  int compression_level;     /* of zstd, 1 to 19, for what is packed now; 0 (default): it is not compressed */
  uint64_t bytes_per_second; /* written at most, on average; 0 (default): no limit */
  /* Of packed records, about: a larger merge of strata is done by ranges of keys with so many, each by a durable change
   * of its own. So it takes little more space than that on the way, and goes on where a crash or an error cut it off.
   * 0 (default): an eighth, if the store has a retention or more than 4 GiB are merged; else all at once. */
  uint64_t bytes_at_once;
  icecore_progress_function on_progress; /* NULL: no progress reports */
  void* progress_context;
} icecore_compaction_options;

/* Fills in the defaults. struct_size: sizeof(icecore_compaction_options). */
void icecore_compaction_options_init(icecore_compaction_options* how, size_t struct_size);

/* Packs the versions of the store at `path`: they lie side by side in the order of keys then, and take a fraction of
 * the space. Every version shows what it did; of several writes of a key in one version the last one stays. Nobody may
 * have the store open: ICECORE_LOCKED. `options` as for icecore_open(), or NULL; access and creation do not count, and
 * shared_as must be NULL. how: NULL for the defaults; a dry run opens the store for reading, and bytes_after is about
 * what would be left. `report` may be NULL; else the caller sets report->struct_size to
 * sizeof(icecore_compaction_report). A crash leaves the store as it was before or as it is afterwards, and an error as
 * it was; a compaction by ranges keeps what it has done. What is compressed is inflated when it is read
 * (block_cache_bytes of icecore_options). compaction.hpp has the costs. */
int icecore_compact(const char* path, const icecore_options* options, const icecore_compaction_options* how,
                    icecore_compaction_report* report);
/* The same for a store that this process has open, while threads go on to read and write: store.hpp says what stays
 * valid, and when space is given back. A process that is attached has it done by the one that opened the store:
 * ICECORE_INVALID_ARGUMENT if that one has ended, ICECORE_CLOSED if it closes the store meanwhile. */
int icecore_compact_open(icecore_store* store, const icecore_compaction_options* how,
                         icecore_compaction_report* report);
/* Automatic compaction (icecore_options.compaction) rests until it is resumed. ICECORE_READ_ONLY;
 * ICECORE_INVALID_ARGUMENT in a process that is attached. */
int icecore_pause_compaction(icecore_store* store);
int icecore_resume_compaction(icecore_store* store);

/* Which closed versions stay when the store is compacted: those that any field wants; all, if none wants any. The
 * newest one, and what kept queries, feeds and holds need, always stay. retention.hpp says more. */
typedef struct icecore_retention {
  size_t struct_size;
  int tagged;                    /* not 0: versions that have a tag with a name, a note or a time */
  uint64_t newest;               /* so many of the newest versions */
  uint64_t younger_than_seconds; /* versions younger than this, by the times of tags */
  uint32_t hourly;               /* the newest tag of each of so many hours (UTC) that have one */
  uint32_t daily;                /* the same for days */
  uint32_t weekly;               /* the same for weeks */
} icecore_retention;

/* The caller sets struct_size of the structures. What is set is durable when the call returns. */
int icecore_set_retention(icecore_store* store, const icecore_retention* retention);
int icecore_get_retention(const icecore_store* store, icecore_retention* retention);
/* *expired is 1 if a compaction gave the version up: reading it is ICECORE_VERSION_EXPIRED. */
int icecore_is_expired(const icecore_store* store, icecore_version version, int* expired);

/* Holds a closed version, or ICECORE_VERSION_PRESENT, by a name: it does not expire until it is released, whatever the
 * retention. What the version shows stays; a key that is forgotten goes from it, too. Version and hold are durable when
 * the call returns. held: NULL, or receives the version. ICECORE_VERSION_NOT_CLOSED, ICECORE_VERSION_LOST,
 * ICECORE_VERSION_EXPIRED; ICECORE_QUERY_EXISTS if a hold has this name; ICECORE_INVALID_ARGUMENT if it is empty or has
 * more than 65,535 bytes, and in a process that is attached, unless every write is durable by itself. */
int icecore_hold_version(icecore_store* store, const void* name, size_t name_size, icecore_version at,
                         icecore_version* held);
/* Ends the hold of this name, durably. ICECORE_NO_SUCH_QUERY. */
int icecore_release_version(icecore_store* store, const void* name, size_t name_size);

typedef struct icecore_hold {
  icecore_bytes name;
  icecore_version version;
  int64_t created_ns; /* nanoseconds since 1970-01-01 UTC */
} icecore_hold;

/* All holds as they are now, by version. */
typedef struct icecore_holds icecore_holds;

int icecore_held_versions(const icecore_store* store, icecore_holds** holds); /* icecore_holds_close() releases it */
size_t icecore_holds_count(const icecore_holds* holds);
/* The next hold; the first call returns the first one. NULL at the end. The list owns the hold. */
const icecore_hold* icecore_holds_next(icecore_holds* holds);
void icecore_holds_close(icecore_holds* holds);

typedef struct icecore_forget_report {
  size_t struct_size;
  icecore_version up_to; /* what was written in later versions stays */
  uint64_t keys;         /* that the store had, in whatever version */
  char tag[40];          /* the name of the tag that says so */
} icecore_forget_report;

/* Removes keys, and those that begin with a prefix, and has the next icecore_compact() erase them from all versions, so
 * that no byte of them is in the store's files: forgetting.hpp. Every key begins with an empty prefix. `report` may be
 * NULL. ICECORE_KEY_TOO_LONG; ICECORE_INVALID_ARGUMENT if nothing is named. */
int icecore_forget(icecore_store* store, const icecore_bytes* keys, size_t key_count, const icecore_bytes* prefixes,
                   size_t prefix_count, const void* note, size_t note_size, icecore_forget_report* report);

#ifdef __cplusplus
}
#endif

#endif /* ICECORE_ICECORE_UPKEEP_H */
