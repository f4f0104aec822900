// The statuses of SKV's interface, with the numbers that they had in SKV of 2015. docs/skv.md tells which ones
// icecore's libskv gives, and when; the others are here because programs name them.
//
//   if (status != SKV_SUCCESS) fprintf(stderr, "%s\n", skv_status_to_string(status));
//
// Threads: no state. Cost: O(1). C and C++.
#ifndef SKV_COMMON_SKV_ERRNO_HPP
#define SKV_COMMON_SKV_ERRNO_HPP
#pragma once

typedef enum {
  SKV_SUCCESS = 0,                     /**< it was done */
  SKV_ERRNO_NODE_NOT_OWNER = 1,        /**< the key belongs to another server */
  SKV_ERRNO_NODE_FULL = 2,             /**< the quota or the device is full */
  SKV_ERRNO_ELEM_NOT_FOUND = 3,        /**< no such key */
  SKV_ERRNO_RECORD_ALREADY_EXISTS = 4, /**< the key is there, and no flag allows to change it */
  SKV_ERRNO_ITER_DONE = 5,
  SKV_ERRNO_LOCAL_IP_NOT_FOUND = 6,
  SKV_ERRNO_CONNECTION_REQUEST_REFUSED = 7, /**< the servers refuse this client: the token, or the list */
  SKV_ERRNO_NO_EVENT = 8,                   /**< no such command, or it was waited for already */
  SKV_ERRNO_CONN_FAILED = 9,                /**< not connected, or the connection broke: a write may have been done */
  SKV_ERRNO_COMMAND_LIMIT_REACHED = 10,     /**< 262,144 commands are under way */
  SKV_ERRNO_NOT_DONE = 11,                  /**< not yet */
  SKV_ERRNO_MAX_UNRETIRED_CMDS = 12,
  SKV_ERRNO_PDS_ALREADY_EXISTS = 13, /**< a PDS of this name is there */
  SKV_ERRNO_PDS_DOES_NOT_EXIST = 14, /**< no such PDS */
  SKV_ERRNO_PERMISSION_DENIED = 15,  /**< this user may not */
  SKV_ERRNO_IT_POST_SEND_FAILED = 16,
  SKV_ERRNO_IT_POST_RECV_FAILED = 17,
  SKV_ERRNO_IT_POST_RDMA_WRITE_FAILED = 18,
  SKV_ERRNO_OUT_OF_MEMORY = 19, /**< no memory */
  SKV_ERRNO_KEY_NOT_FOUND = 20,
  SKV_ERRNO_KEY_TOO_LARGE = 21,     /**< a key of more than 65,519 bytes */
  SKV_ERRNO_VALUE_TOO_LARGE = 22,   /**< the part does not fit in the value, or the value is too long */
  SKV_ERRNO_KEY_SIZE_OVERFLOW = 23, /**< the key does not fit in the buffer */
  SKV_ERRNO_RECORD_IS_LOCKED = 24,
  SKV_ERRNO_CONTROL_MSG_LIMIT_EXCEEDED = 25,
  SKV_ERRNO_NOT_IMPLEMENTED = 26, /**< these flags mean nothing together */
  SKV_ERRNO_END_OF_RECORDS = 27,  /**< the cursor is at its end */
  SKV_ERRNO_RETRIEVE_BUFFER_MAX_SIZE_EXCEEDED = 28,
  SKV_ERRNO_FILLED_END_OF_RECORDS = 29,
  SKV_ERRNO_NO_BUFFER_AVAILABLE = 30,
  SKV_ERRNO_CURSOR_DONE = 31,
  SKV_ERRNO_BULK_INSERT_LIMIT_EXCEEDED = 32,
  SKV_ERRNO_PENDING_COMMAND_LIMIT_REACHED = 33, /**< a limit of the server */
  SKV_ERRNO_CHECKSUM_MISMATCH = 34,
  SKV_ERRNO_END_OF_BUFFER = 35,
  SKV_ERRNO_EVENTS_PENDING = 36,
  SKV_ERRNO_INSERT_OVERLAP = 37, /**< the part reaches over the end of the value */
  SKV_ERRNO_NEED_DATA_TRANSFER = 38,
  SKV_ERRNO_LOCAL_KV_EVENT = 39,
  SKV_ERRNO_STATE_MACHINE_ERROR = 40,
  SKV_ERRNO_UNSPECIFIED_ERROR = 41,
  /**< a NULL or a closed handle, or an error that SKV has no number for */
  INTERN_MAX_STATUS_VALUE = 0x7fffffff /**< the type has four bytes */
} skv_status_t;

/** The name of a status; "SKV_ERRNO_UNKNOWN_STATE" of another number. Static storage. */
static inline const char* skv_status_to_string(const skv_status_t aStatus) {
  static const char* const names[] = {
      "SKV_SUCCESS",
      "SKV_ERRNO_NODE_NOT_OWNER",
      "SKV_ERRNO_NODE_FULL",
      "SKV_ERRNO_ELEM_NOT_FOUND",
      "SKV_ERRNO_RECORD_ALREADY_EXISTS",
      "SKV_ERRNO_ITER_DONE",
      "SKV_ERRNO_LOCAL_IP_NOT_FOUND",
      "SKV_ERRNO_CONNECTION_REQUEST_REFUSED",
      "SKV_ERRNO_NO_EVENT",
      "SKV_ERRNO_CONN_FAILED",
      "SKV_ERRNO_COMMAND_LIMIT_REACHED",
      "SKV_ERRNO_NOT_DONE",
      "SKV_ERRNO_MAX_UNRETIRED_CMDS",
      "SKV_ERRNO_PDS_ALREADY_EXISTS",
      "SKV_ERRNO_PDS_DOES_NOT_EXIST",
      "SKV_ERRNO_PERMISSION_DENIED",
      "SKV_ERRNO_IT_POST_SEND_FAILED",
      "SKV_ERRNO_IT_POST_RECV_FAILED",
      "SKV_ERRNO_IT_POST_RDMA_WRITE_FAILED",
      "SKV_ERRNO_OUT_OF_MEMORY",
      "SKV_ERRNO_KEY_NOT_FOUND",
      "SKV_ERRNO_KEY_TOO_LARGE",
      "SKV_ERRNO_VALUE_TOO_LARGE",
      "SKV_ERRNO_KEY_SIZE_OVERFLOW",
      "SKV_ERRNO_RECORD_IS_LOCKED",
      "SKV_ERRNO_CONTROL_MSG_LIMIT_EXCEEDED",
      "SKV_ERRNO_NOT_IMPLEMENTED",
      "SKV_ERRNO_END_OF_RECORDS",
      "SKV_ERRNO_RETRIEVE_BUFFER_MAX_SIZE_EXCEEDED",
      "SKV_ERRNO_FILLED_END_OF_RECORDS",
      "SKV_ERRNO_NO_BUFFER_AVAILABLE",
      "SKV_ERRNO_CURSOR_DONE",
      "SKV_ERRNO_BULK_INSERT_LIMIT_EXCEEDED",
      "SKV_ERRNO_PENDING_COMMAND_LIMIT_REACHED",
      "SKV_ERRNO_CHECKSUM_MISMATCH",
      "SKV_ERRNO_END_OF_BUFFER",
      "SKV_ERRNO_EVENTS_PENDING",
      "SKV_ERRNO_INSERT_OVERLAP",
      "SKV_ERRNO_NEED_DATA_TRANSFER",
      "SKV_ERRNO_LOCAL_KV_EVENT",
      "SKV_ERRNO_STATE_MACHINE_ERROR",
      "SKV_ERRNO_UNSPECIFIED_ERROR",
  };
  return (unsigned)aStatus < sizeof names / sizeof names[0] ? names[(unsigned)aStatus] : "SKV_ERRNO_UNKNOWN_STATE";
}

#endif
