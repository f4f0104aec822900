/* SKV's C interface, served by icecore-server: programs written for SKV of 2015 compile unchanged, link -lskv, and
 * work.
 *
 *   skv_hdl_t client;
 *   SKV_Init(0, 0, NULL, &client);
 *
 *   SKV_Connect(client, NULL, 0);
 *
 *   skv_pds_hdl_t pds;
 *
 *   SKV_Open(client, "weights", SKV_PDS_WRITE, SKV_COMMAND_OPEN_FLAGS_CREATE, &pds);
 *
 *   SKV_Insert(client, pds, "key", 3, "value", 5, 0, SKV_COMMAND_RIU_FLAGS_NONE);
 *
 *   SKV_Disconnect(client);
 *
 *   SKV_Finalize(client);
 *
 * With MPI the second argument of SKV_Init is a communicator: SKV_Init(0, MPI_COMM_WORLD, 0, NULL, &client).
 *
 * Programs without MPI define SKV_CLIENT_UNI (or SKV_NON_MPI) before they include this file. A PDS, a partitioned data
 * set, is a database of the server. docs/skv.md tells what each function and flag does, and where the configuration
 * comes from.
 *
 * Threads: any number may use one client; a cursor and a bulk inserter belong to one thread at a time.
 * Lifetime: handles are numbers, not addresses. One that is closed, and NULL, give a status. Buffers of an asynchronous
 * command stay the caller's until the command has completed.
 * Errors: skv_status_t (skv_errno.hpp); nothing aborts. Cost: one message each way; asynchronous commands overlap.
 */
#ifndef SKV_C_SKV_H
#define SKV_C_SKV_H

#include <inttypes.h>
#include <skv/common/skv_errno.hpp>

#if !defined(SKV_CLIENT_UNI) && !defined(SKV_NON_MPI)
#include <mpi.h>
#endif

#if defined(__GNUC__)
#define SKV_API __attribute__((visibility("default")))
#else
#define SKV_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

#define SKV_MAX_PDS_NAME_SIZE (64)

typedef enum {
  SKV_PDSCNTL_CMD_STAT_SET = 0,
  SKV_PDSCNTL_CMD_STAT_GET = 1,
  SKV_PDSCNTL_CMD_CLOSE = 2
} skv_pdscntl_cmd_t;

typedef enum {
  SKV_COMMAND_OPEN_FLAGS_NONE = 0x0000,      /**< the PDS must be there */
  SKV_COMMAND_OPEN_FLAGS_CREATE = 0x0001,    /**< made if it is not there */
  SKV_COMMAND_OPEN_FLAGS_EXCLUSIVE = 0x0002, /**< must not be there: with CREATE it is made */
  SKV_COMMAND_OPEN_FLAGS_DUP = 0x0003        /**< both of these */
} skv_cmd_open_flags_t;

typedef enum { SKV_PDS_READ = 0x0001, SKV_PDS_WRITE = 0x0002 } skv_pds_priv_t;

/* Of EXPANDS_VALUE, OVERWRITE_VALUE_ON_DUP, UPDATE and APPEND one at most. Without them a key that is there is
 * SKV_ERRNO_RECORD_ALREADY_EXISTS. */
typedef enum {
  SKV_COMMAND_RIU_FLAGS_NONE = 0x0000,
  SKV_COMMAND_RIU_INSERT_EXPANDS_VALUE = 0x0001,
  SKV_COMMAND_RIU_INSERT_USE_RECORD_LOCKS = 0x0002,         /**< without meaning */
  SKV_COMMAND_RIU_INSERT_KEY_FITS_IN_CTL_MSG = 0x0004,      /**< without meaning */
  SKV_COMMAND_RIU_INSERT_KEY_VALUE_FIT_IN_CTL_MSG = 0x0008, /**< without meaning */
  SKV_COMMAND_RIU_RETRIEVE_VALUE_FIT_IN_CTL_MSG = 0x0010,   /**< without meaning */
  SKV_COMMAND_RIU_INSERT_OVERWRITE_VALUE_ON_DUP = 0x0020,   /**< in place; the part must fit */
  SKV_COMMAND_RIU_RETRIEVE_SPECIFIC_VALUE_LEN = 0x0040,     /**< exactly so many bytes, or VALUE_TOO_LARGE */
  SKV_COMMAND_RIU_UPDATE = 0x0080,                          /**< the value ends with the part */
  SKV_COMMAND_RIU_APPEND = 0x0100,
  SKV_COMMAND_RIU_INSERT_OVERLAPPING = 0x0200 /**< with EXPANDS_VALUE: over the end of the value, too */
} skv_cmd_RIU_flags_t;

typedef enum {
  SKV_COMMAND_REMOVE_FLAGS_NONE = 0x0000,
  SKV_COMMAND_REMOVE_KEY_FITS_IN_CTL_MSG = 0x0001 /**< without meaning */
} skv_cmd_remove_flags_t;

typedef enum {
  SKV_CURSOR_NONE_FLAG = 0x0000,
  SKV_CURSOR_RETRIEVE_FIRST_ELEMENT_FLAG = 0x0001,
  SKV_CURSOR_WITH_STARTING_KEY_FLAG = 0x0002, /**< the key in the buffer is where GetFirst begins */
  /* Of relational cursors, which never had functions: */
  SKV_CURSOR_USE_ORDERED_STREAM_FLAG = 0x0004,
  SKV_CURSOR_USE_RANDOM_STREAM_FLAG = 0x0008,
  SKV_CURSOR_USE_ROUND_ROBIN_STREAM_FLAG = 0x0010,
  SKV_CURSOR_USE_HASH_STREAM_FLAG = 0x0020,
  SKV_CURSOR_USE_SHARED_STREAM_FLAG = 0x0040
} skv_cursor_flags_t;

typedef enum {
  SKV_INDEX_FLAGS_NONE = 0x0000,
  SKV_INDEX_FLAGS_HASH_ORDERED = 0x0001,
  SKV_INDEX_FLAGS_SHARED = 0x0002
} skv_index_flags_t;

typedef enum { SKV_BULK_INSERTER_FLAGS_NONE = 0x0000 } skv_bulk_inserter_flags_t;

typedef char skv_pdsname_string_t;

typedef struct {
  uint64_t mSize; /**< the program's own: what STAT_SET and closing have set */
  skv_pds_priv_t mPrivs;
  skv_pdsname_string_t mPDSName[SKV_MAX_PDS_NAME_SIZE];
  uint64_t Reserved;
} skv_pds_attr_ext_t;

typedef int skv_client_group_id_t;
typedef void* skv_hdl_t;
typedef void* skv_pds_hdl_t;
typedef void* skv_client_cmd_ext_hdl_t;
typedef void* skv_client_cursor_ext_hdl_t;
typedef void* skv_client_relational_cursor_ext_hdl_t;
typedef void* skv_client_index_ext_hdl_t;
typedef void* skv_client_bulk_inserter_ext_hdl_t;

/* ---- A client ---- */

#if defined(SKV_NON_MPI) || defined(SKV_CLIENT_UNI)
SKV_API skv_status_t SKV_Init(skv_client_group_id_t aCommGroupId, int aFlags, const char* aConfigFile,
                              skv_hdl_t* aClient);
#else
/** SKV_Init of programs with MPI, which the library does not need: the communicator says nothing to it. */
SKV_API skv_status_t SKV_Init_client(skv_client_group_id_t aCommGroupId, int aFlags, const char* aConfigFile,
                                     skv_hdl_t* aClient);
static inline skv_status_t SKV_Init(skv_client_group_id_t aCommGroupId, MPI_Comm aComm, int aFlags,
                                    const char* aConfigFile, skv_hdl_t* aClient) {
  (void)aComm;
  return SKV_Init_client(aCommGroupId, aFlags, aConfigFile, aClient);
}
#endif
SKV_API skv_status_t SKV_Finalize(skv_hdl_t aClient);
/** `aServerGroupFile`: a configuration file; NULL: that of SKV_Init, ~/.skv_server.conf, /etc/skv_server.conf. */
SKV_API skv_status_t SKV_Connect(skv_hdl_t aClient, const char* aServerGroupFile, int aFlags);
SKV_API skv_status_t SKV_Disconnect(skv_hdl_t aClient);

/* ---- Commands that wait ---- */

SKV_API skv_status_t SKV_Open(skv_hdl_t aClient, char* aPDSName, skv_pds_priv_t aPrivs, skv_cmd_open_flags_t aFlags,
                              skv_pds_hdl_t* aPDSId);
SKV_API skv_status_t SKV_Retrieve(skv_hdl_t aClient, skv_pds_hdl_t aPDSId, char* aKeyBuffer, int aKeyBufferSize,
                                  char* aValueBuffer, int aValueBufferSize, int* aValueRetrievedSize, int aOffset,
                                  skv_cmd_RIU_flags_t aFlags);
/** As SKV_Insert with UPDATE, of a key that is there. */
SKV_API skv_status_t SKV_Update(skv_hdl_t aClient, skv_pds_hdl_t aPDSId, char* aKeyBuffer, int aKeyBufferSize,
                                char* aValueBuffer, int aValueUpdateSize, int aOffset, skv_cmd_RIU_flags_t aFlags);
SKV_API skv_status_t SKV_Insert(skv_hdl_t aClient, skv_pds_hdl_t aPDSId, char* aKeyBuffer, int aKeyBufferSize,
                                char* aValueBuffer, int aValueBufferSize, int aValueBufferOffset,
                                skv_cmd_RIU_flags_t aFlags);
SKV_API skv_status_t SKV_Remove(skv_hdl_t aClient, skv_pds_hdl_t aPDSId, char* aKeyBuffer, int aKeyBufferSize,
                                skv_cmd_remove_flags_t aFlags);
SKV_API skv_status_t SKV_Close(skv_hdl_t aClient, skv_pds_hdl_t aPDSId);
SKV_API skv_status_t SKV_PDSCntl(skv_hdl_t aClient, skv_pds_hdl_t aPDSId, skv_pdscntl_cmd_t aCmd,
                                 skv_pds_attr_ext_t* aPDSAttr);

/* ---- Commands that do not: at most 262,144 of a client are under way ---- */

SKV_API skv_status_t SKV_Iopen(skv_hdl_t aClient, char* aPDSName, skv_pds_priv_t aPrivs, skv_cmd_open_flags_t aFlags,
                               skv_pds_hdl_t* aPDSId, skv_client_cmd_ext_hdl_t* aCmdHdl);
SKV_API skv_status_t SKV_Iretrieve(skv_hdl_t aClient, skv_pds_hdl_t aPDSId, char* aKeyBuffer, int aKeyBufferSize,
                                   char* aValueBuffer, int aValueBufferSize, int* aValueRetrievedSize, int aOffset,
                                   skv_cmd_RIU_flags_t aFlags, skv_client_cmd_ext_hdl_t* aCmdHdl);
SKV_API skv_status_t SKV_Iupdate(skv_hdl_t aClient, skv_pds_hdl_t aPDSId, char* aKeyBuffer, int aKeyBufferSize,
                                 char* aValueBuffer, int aValueUpdateSize, int aOffset, skv_cmd_RIU_flags_t aFlags,
                                 skv_client_cmd_ext_hdl_t* aCmdHdl);
SKV_API skv_status_t SKV_Iinsert(skv_hdl_t aClient, skv_pds_hdl_t aPDSId, char* aKeyBuffer, int aKeyBufferSize,
                                 char* aValueBuffer, int aValueBufferSize, int aValueBufferOffset,
                                 skv_cmd_RIU_flags_t aFlags, skv_client_cmd_ext_hdl_t* aCmdHdl);
SKV_API skv_status_t SKV_Iremove(skv_hdl_t aClient, skv_pds_hdl_t aPDSId, char* aKeyBuffer, int aKeyBufferSize,
                                 skv_cmd_remove_flags_t aFlags, skv_client_cmd_ext_hdl_t* aCmdHdl);
SKV_API skv_status_t SKV_Iclose(skv_hdl_t aClient, skv_pds_hdl_t aPDSId, skv_client_cmd_ext_hdl_t* aCmdHdl);

/** These four give the command's own status and end its handle. A handle that has ended: SKV_ERRNO_NO_EVENT. */
SKV_API skv_status_t SKV_WaitAny(skv_hdl_t aClient, skv_client_cmd_ext_hdl_t* aCmdHdl);
SKV_API skv_status_t SKV_Wait(skv_hdl_t aClient, skv_client_cmd_ext_hdl_t aCmdHdl);
SKV_API skv_status_t SKV_TestAny(skv_hdl_t aClient, skv_client_cmd_ext_hdl_t* aCmdHdl);
SKV_API skv_status_t SKV_Test(skv_hdl_t aClient, skv_client_cmd_ext_hdl_t aCmdHdl);

/* ---- Cursors: one state of the PDS, in key order; each key once ---- */

/** The pairs that one server has. */
SKV_API skv_status_t SKV_OpenLocalCursor(int aNodeId, skv_pds_hdl_t aPDSId, skv_client_cursor_ext_hdl_t* aCursorHdl);
SKV_API skv_status_t SKV_CloseLocalCursor(skv_client_cursor_ext_hdl_t aCursorHdl);
/** SKV had no prefix here; both names are one function. */
SKV_API skv_status_t GetFirstLocalElement(skv_client_cursor_ext_hdl_t aCursorHdl, char* aRetrievedKeyBuffer,
                                          int* aRetrievedKeySize, int aRetrievedKeyMaxSize, char* aRetrievedValueBuffer,
                                          int* aRetrievedValueSize, int aRetrievedValueMaxSize,
                                          skv_cursor_flags_t aFlags);
SKV_API skv_status_t SKV_GetFirstLocalElement(skv_client_cursor_ext_hdl_t aCursorHdl, char* aRetrievedKeyBuffer,
                                              int* aRetrievedKeySize, int aRetrievedKeyMaxSize,
                                              char* aRetrievedValueBuffer, int* aRetrievedValueSize,
                                              int aRetrievedValueMaxSize, skv_cursor_flags_t aFlags);
SKV_API skv_status_t SKV_GetNextLocalElement(skv_client_cursor_ext_hdl_t aCursorHdl, char* aRetrievedKeyBuffer,
                                             int* aRetrievedKeySize, int aRetrievedKeyMaxSize,
                                             char* aRetrievedValueBuffer, int* aRetrievedValueSize,
                                             int aRetrievedValueMaxSize, skv_cursor_flags_t aFlags);
/** All pairs. */
SKV_API skv_status_t SKV_OpenCursor(skv_pds_hdl_t aPDSId, skv_client_cursor_ext_hdl_t* aCursorHdl);
SKV_API skv_status_t SKV_CloseCursor(skv_client_cursor_ext_hdl_t aCursorHdl);
SKV_API skv_status_t SKV_GetFirstElement(skv_client_cursor_ext_hdl_t aCursorHdl, char* aRetrievedKeyBuffer,
                                         int* aRetrievedKeySize, int aRetrievedKeyMaxSize, char* aRetrievedValueBuffer,
                                         int* aRetrievedValueSize, int aRetrievedValueMaxSize,
                                         skv_cursor_flags_t aFlags);
SKV_API skv_status_t SKV_GetNextElement(skv_client_cursor_ext_hdl_t aCursorHdl, char* aRetrievedKeyBuffer,
                                        int* aRetrievedKeySize, int aRetrievedKeyMaxSize, char* aRetrievedValueBuffer,
                                        int* aRetrievedValueSize, int aRetrievedValueMaxSize,
                                        skv_cursor_flags_t aFlags);

/* ---- Bulk inserts: a key that is there keeps its value ---- */

SKV_API skv_status_t SKV_CreateBulkInserter(skv_pds_hdl_t aPDSId, skv_bulk_inserter_flags_t aFlags,
                                            skv_client_bulk_inserter_ext_hdl_t* aBulkInserterHandle);
SKV_API skv_status_t SKV_Bulk_Insert(skv_client_bulk_inserter_ext_hdl_t aBulkInserterHandle, char* aKeyBuffer,
                                     int aKeyBufferSize, char* aValueBuffer, int aValueBufferSize,
                                     skv_bulk_inserter_flags_t aFlags);
/** Everything that was given to the inserter is acknowledged when it returns. */
SKV_API skv_status_t SKV_Flush(skv_client_bulk_inserter_ext_hdl_t aBulkInserterHandle);
SKV_API skv_status_t SKV_CloseBulkInserter(skv_client_bulk_inserter_ext_hdl_t aBulkInserterHandle);

/* ---- Persistence, debugging ---- */

/** A checkpoint of all databases, in a folder of the server that is not there yet; of the client that connected last.
 */
SKV_API skv_status_t DumpPersistentImage(char* aPath);
/** Prints the pairs, of keys and values at most so many bytes, to the standard output. */
SKV_API skv_status_t DumpPDS(skv_pds_hdl_t aPDSId, int aMaxKeySize, int aMaxValueSize);

#ifdef __cplusplus
}
#endif

#endif
