/* A C program that knows nothing but SKV: program CONFIGURATION. */
#define SKV_CLIENT_UNI
#include <skv/c/skv.h>
#include <stdio.h>
#include <string.h>

#define CHECK(expression, expected)                                                                \
  do {                                                                                             \
    const skv_status_t got = (expression);                                                         \
    if (got != (expected)) {                                                                       \
      fprintf(stderr, "line %d: %s gives %s\n", __LINE__, #expression, skv_status_to_string(got)); \
      return 1;                                                                                    \
    }                                                                                              \
  } while (0)

int main(int argc, char** argv) {
  skv_hdl_t client = NULL;
  skv_pds_hdl_t pds = NULL;
  skv_pds_hdl_t other = NULL;
  skv_client_cmd_ext_hdl_t command = NULL;
  skv_client_cmd_ext_hdl_t done = NULL;
  skv_client_cursor_ext_hdl_t cursor = NULL;
  skv_client_bulk_inserter_ext_hdl_t inserter = NULL;
  skv_pds_attr_ext_t attributes;
  char key[16], value[16];
  int key_size = 0, value_size = 0, pairs = 0;
  skv_status_t status;
  const skv_pds_priv_t both = (skv_pds_priv_t)(SKV_PDS_READ | SKV_PDS_WRITE);
  if (argc != 2) return 2;

  CHECK(SKV_Init(0, 0, NULL, NULL), SKV_ERRNO_UNSPECIFIED_ERROR);
  CHECK(SKV_Init(0, 0, NULL, &client), SKV_SUCCESS);
  CHECK(SKV_Open(client, "set", both, SKV_COMMAND_OPEN_FLAGS_CREATE, &pds), SKV_ERRNO_CONN_FAILED);
  CHECK(SKV_Connect(client, argv[1], 0), SKV_SUCCESS);
  CHECK(SKV_Open(client, "set", both, SKV_COMMAND_OPEN_FLAGS_DUP, &pds), SKV_SUCCESS);
  CHECK(SKV_Open(client, "set", both, SKV_COMMAND_OPEN_FLAGS_EXCLUSIVE, &other), SKV_ERRNO_PDS_ALREADY_EXISTS);
  CHECK(SKV_Iopen(client, "set", both, SKV_COMMAND_OPEN_FLAGS_NONE, &other, &command), SKV_SUCCESS);
  CHECK(SKV_Wait(client, command), SKV_SUCCESS);
  CHECK(SKV_Insert(client, pds, "a", 1, "one", 3, 0, SKV_COMMAND_RIU_FLAGS_NONE), SKV_SUCCESS);
  CHECK(SKV_Insert(client, pds, "a", 1, "two", 3, 0, SKV_COMMAND_RIU_FLAGS_NONE), SKV_ERRNO_RECORD_ALREADY_EXISTS);
  CHECK(SKV_Update(client, other, "a", 1, "TWO", 3, 0, SKV_COMMAND_RIU_FLAGS_NONE), SKV_SUCCESS);
  CHECK(SKV_Retrieve(client, pds, "a", 1, value, 16, &value_size, 0, SKV_COMMAND_RIU_FLAGS_NONE), SKV_SUCCESS);
  if (value_size != 3 || memcmp(value, "TWO", 3) != 0) return 1;
  CHECK(SKV_Iinsert(client, pds, "b", 1, "x", 1, 0, SKV_COMMAND_RIU_FLAGS_NONE, &command), SKV_SUCCESS);
  CHECK(SKV_Wait(client, command), SKV_SUCCESS);
  CHECK(SKV_Wait(client, command), SKV_ERRNO_NO_EVENT);
  CHECK(SKV_Iupdate(client, pds, "b", 1, "y", 1, 0, SKV_COMMAND_RIU_FLAGS_NONE, &command), SKV_SUCCESS);
  CHECK(SKV_WaitAny(client, &done), SKV_SUCCESS);
  if (done != command) return 1;
  CHECK(SKV_Iretrieve(client, pds, "b", 1, value, 16, &value_size, 0, SKV_COMMAND_RIU_FLAGS_NONE, &command),
        SKV_SUCCESS);
  do {
    status = SKV_Test(client, command);
  } while (status == SKV_ERRNO_NOT_DONE);
  CHECK(status, SKV_SUCCESS);
  if (value_size != 1 || value[0] != 'y') return 1;
  CHECK(SKV_Iremove(client, pds, "b", 1, SKV_COMMAND_REMOVE_FLAGS_NONE, &command), SKV_SUCCESS);
  do {
    status = SKV_TestAny(client, &done);
  } while (status == SKV_ERRNO_NOT_DONE);
  CHECK(status, SKV_SUCCESS);
  CHECK(SKV_Remove(client, pds, "b", 1, SKV_COMMAND_REMOVE_FLAGS_NONE), SKV_ERRNO_ELEM_NOT_FOUND);

  CHECK(SKV_CreateBulkInserter(pds, SKV_BULK_INSERTER_FLAGS_NONE, &inserter), SKV_SUCCESS);
  CHECK(SKV_Bulk_Insert(inserter, "c", 1, "bulk", 4, SKV_BULK_INSERTER_FLAGS_NONE), SKV_SUCCESS);
  CHECK(SKV_Flush(inserter), SKV_SUCCESS);
  CHECK(SKV_CloseBulkInserter(inserter), SKV_SUCCESS);
  CHECK(SKV_OpenCursor(pds, &cursor), SKV_SUCCESS);
  status = SKV_GetFirstElement(cursor, key, &key_size, 16, value, &value_size, 16, SKV_CURSOR_NONE_FLAG);
  for (; status == SKV_SUCCESS; ++pairs) {
    status = SKV_GetNextElement(cursor, key, &key_size, 16, value, &value_size, 16, SKV_CURSOR_NONE_FLAG);
  }
  CHECK(status, SKV_ERRNO_END_OF_RECORDS);
  if (pairs != 2) return 1;
  CHECK(SKV_CloseCursor(cursor), SKV_SUCCESS);
  CHECK(SKV_OpenLocalCursor(0, pds, &cursor), SKV_SUCCESS);
  CHECK(GetFirstLocalElement(cursor, key, &key_size, 16, value, &value_size, 16, SKV_CURSOR_NONE_FLAG), SKV_SUCCESS);
  CHECK(SKV_GetFirstLocalElement(cursor, key, &key_size, 16, value, &value_size, 16, SKV_CURSOR_NONE_FLAG),
        SKV_SUCCESS);
  CHECK(SKV_GetNextLocalElement(cursor, key, &key_size, 16, value, &value_size, 16, SKV_CURSOR_NONE_FLAG), SKV_SUCCESS);
  CHECK(SKV_CloseLocalCursor(cursor), SKV_SUCCESS);
  CHECK(SKV_CloseLocalCursor(cursor), SKV_ERRNO_UNSPECIFIED_ERROR);

  attributes.mSize = 42;
  CHECK(SKV_PDSCntl(client, pds, SKV_PDSCNTL_CMD_STAT_SET, &attributes), SKV_SUCCESS);
  attributes.mSize = 0;
  CHECK(SKV_PDSCntl(client, pds, SKV_PDSCNTL_CMD_STAT_GET, &attributes), SKV_SUCCESS);
  if (attributes.mSize != 42 || strcmp(attributes.mPDSName, "set") != 0) return 1;
  CHECK(DumpPDS(pds, 16, 16), SKV_SUCCESS);
  snprintf(value, sizeof value, "/tmp");
  status = DumpPersistentImage(value);
  if (status == SKV_SUCCESS) return 1; /* the folder is there already */
  CHECK(SKV_Close(client, other), SKV_SUCCESS);
  CHECK(SKV_Close(client, other), SKV_ERRNO_UNSPECIFIED_ERROR);
  CHECK(SKV_Iclose(client, pds, &command), SKV_SUCCESS);
  CHECK(SKV_Wait(client, command), SKV_SUCCESS);
  CHECK(SKV_Insert(client, pds, "a", 1, "one", 3, 0, SKV_COMMAND_RIU_FLAGS_NONE), SKV_ERRNO_UNSPECIFIED_ERROR);
  CHECK(SKV_Disconnect(client), SKV_SUCCESS);
  CHECK(SKV_Finalize(client), SKV_SUCCESS);
  CHECK(SKV_Finalize(client), SKV_ERRNO_UNSPECIFIED_ERROR);
  CHECK(SKV_Connect(client, argv[1], 0), SKV_ERRNO_UNSPECIFIED_ERROR);
  return 0;
}
