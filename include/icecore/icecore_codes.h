/* The codes that functions of icecore return; icecore.h includes this file. */
#ifndef ICECORE_ICECORE_CODES_H
#define ICECORE_ICECORE_CODES_H

enum icecore_code {
  ICECORE_OK = 0,
  ICECORE_INVALID_ARGUMENT = 1,    /* an argument is outside its documented range */
  ICECORE_KEY_TOO_LONG = 2,        /* a key of more than 65,535 bytes */
  ICECORE_VALUE_TOO_LARGE = 3,     /* a value of more than 4 GiB - 1 bytes */
  ICECORE_NOT_A_STORE = 4,         /* the file is not an icecore pool, or the path is not a regular file */
  ICECORE_UNSUPPORTED_FORMAT = 5,  /* of an unsupported format, or written by a machine of other byte order */
  ICECORE_DAMAGED = 6,             /* bytes on media fail their check; the message names the place */
  ICECORE_TRUNCATED = 7,           /* the file is shorter than its root says */
  ICECORE_LOCKED = 8,              /* another process has the store open; the message names its pid */
  ICECORE_NO_SPACE = 9,            /* the device or its quota is full */
  ICECORE_IO = 10,                 /* a system call failed; the message names the call, the path and the reason */
  ICECORE_NOT_DURABLE = 11,        /* the device cannot provide the requested durability */
  ICECORE_VERSION_NOT_CLOSED = 12, /* a version was read that no tag has closed yet */
  ICECORE_UNKNOWN_TAG = 13,        /* no tag has this name, or none is as old as this time */
  ICECORE_TAG_EXISTS = 14,         /* another version already carries this tag name */
  ICECORE_READ_ONLY = 15,          /* a write to a store opened for reading */
  ICECORE_CLOSED = 16,             /* the store was closed */
  ICECORE_FORKED = 17,             /* used in a child process after fork; open it again there */
  ICECORE_POISONED = 18,           /* an earlier sync failed, so the content of the media is unknown; reopen */
  ICECORE_COPIED = 19,             /* the file is a copy or was moved while a writer had it open */
  ICECORE_NO_SUCH_STORE = 20,      /* nothing is at this path, and the call does not create a store */
  ICECORE_STORE_EXISTS = 21,       /* the call creates a new store, and something is already at this path */
  ICECORE_BAD_INPUT = 22,          /* text or data is malformed: a dump, an expression */
  ICECORE_PERMISSION = 23,         /* the file system denies access */
  ICECORE_OTHER_CLUSTER = 24,      /* the cluster has another number of ranks or ownership, or is incomplete */
  ICECORE_PROTECTION = 25,         /* the cluster's current protection does not allow this call */
  ICECORE_MPI = 26,                /* MPI is not running, an MPI call failed, or ranks called different functions */
  ICECORE_MISSING_FILE = 27,       /* a file of the store is missing, or another store's file or an old copy is there */
  ICECORE_VERSION_LOST = 28,       /* the closed version was not durable, and a power cut took it */
  ICECORE_RANK_FAILED = 29,        /* a rank of the cluster failed; no rank can use the cluster any more */
  ICECORE_CRASH_UNKNOWN = 30,      /* opening cannot find out whether writes survived a crash: set `crash` */
  ICECORE_BAD_TOKEN = 31,        /* a token is damaged, forged, or of another store or filter; the message says which */
  ICECORE_QUERY_EXISTS = 32,     /* another query already has this name */
  ICECORE_NO_SUCH_QUERY = 33,    /* no query has this name */
  ICECORE_QUERY_BUSY = 34,       /* the query runs elsewhere; the message names the pid */
  ICECORE_UNKNOWN_FUNCTION = 35, /* a filter needs a function of the caller that is missing or of another revision */
  /* Of the service and its clients: */
  ICECORE_VERSION_EXPIRED = 36, /* the version was given up by compact() or the retention rule */
  ICECORE_OUTCOME_UNKNOWN =
      37, /* the connection broke while a write that cannot be repeated was under way: it may have taken effect */
  ICECORE_UNAVAILABLE = 38,       /* the server cannot be reached, is stopping, or does not serve this database now */
  ICECORE_DEADLINE_EXCEEDED = 39, /* the call took longer than its deadline; a write may still take effect */
  ICECORE_CANCELLED = 40,         /* the caller cancelled the call; a write may still take effect */
  ICECORE_DENIED =
      41, /* no such database, or no right to do this with it: one answer, so that names cannot be probed */
  ICECORE_UNAUTHENTICATED = 42, /* the server does not know this user, password or token */
  ICECORE_LIMIT_REACHED = 43,   /* a limit of the server; the message names it and its value */
  ICECORE_NO_SUCH_LEASE = 44,   /* no lease has this number, or its time is over */
  ICECORE_DATABASE_EXISTS = 45, /* another database of the server already has this name */
  ICECORE_NOT_OWNER = 46,       /* the key belongs to another server of the group */

  ICECORE_NO_MEMORY = -1, /* the process is out of memory; if this interrupts a batch, the store is poisoned */
  ICECORE_SYSTEM = -2,    /* the system refused another resource, such as a thread; the message names it */
  ICECORE_STOPPED = -3    /* a callback asked to stop */
};

#endif
