// SKV's C interface: each function is one of entry.hpp.
#include <skv/c/skv.h>

#include "entry.hpp"

using namespace icecore::skv;

namespace {

client_pointer client_of(skv_hdl_t handle) { return handles().clients.find(handle); }

/// The client and the PDS that two handles name; `id` is null unless both are open, and the PDS is the client's.
struct named {
  named(skv_hdl_t client_handle, skv_pds_hdl_t pds) : of(client_of(client_handle)), set(handles().sets.find(pds)) {
    if (set != nullptr && set->of == of) id = &set->id;
  }
  explicit named(skv_pds_hdl_t pds) : set(handles().sets.find(pds)) {
    if (set == nullptr) return;
    of = set->of;
    id = &set->id;
  }
  client_pointer of;
  std::shared_ptr<pds_handle> set;
  const skv_pds_id_t* id = nullptr;
};

skv_status_t init(const char* file, skv_hdl_t* handle) {
  if (handle == nullptr) return SKV_ERRNO_UNSPECIFIED_ERROR;
  *handle = handles().clients.add(std::make_shared<client>(file));
  return SKV_SUCCESS;
}

skv_status_t open(skv_hdl_t handle, const char* name, skv_cmd_open_flags_t flags, skv_pds_hdl_t* pds, manner how) {
  const client_pointer of = client_of(handle);
  if (of == nullptr || pds == nullptr || (!how.waits && how.handle == nullptr)) return SKV_ERRNO_UNSPECIFIED_ERROR;
  skv_pds_id_t id{};
  const skv_status_t status = open_entry(of, name, flags, &id, how);
  if (status == SKV_SUCCESS) *pds = handles().sets.add(std::make_shared<pds_handle>(of, id));
  return status;
}

skv_status_t close(skv_hdl_t handle, skv_pds_hdl_t pds, manner how) {
  const named what(handle, pds);
  const skv_status_t status = close_entry(what.of, what.id, how);
  if (what.id != nullptr && (how.waits || how.handle != nullptr)) static_cast<void>(handles().sets.remove(pds));
  return status;
}

}  // namespace

skv_status_t SKV_Init(skv_client_group_id_t /*aCommGroupId*/, int /*aFlags*/, const char* aConfigFile,
                      skv_hdl_t* aClient) {
  return guarded([&] { return init(aConfigFile, aClient); });
}

extern "C" SKV_API skv_status_t SKV_Init_client(skv_client_group_id_t /*aCommGroupId*/, int /*aFlags*/,
                                                const char* aConfigFile, skv_hdl_t* aClient) {
  return guarded([&] { return init(aConfigFile, aClient); });
}

skv_status_t SKV_Finalize(skv_hdl_t aClient) {
  return guarded([&] {
    const client_pointer last = handles().clients.remove(aClient);
    if (last == nullptr) return SKV_ERRNO_UNSPECIFIED_ERROR;
    static_cast<void>(last->disconnect());
    return SKV_SUCCESS;
  });
}

skv_status_t SKV_Connect(skv_hdl_t aClient, const char* aServerGroupFile, int /*aFlags*/) {
  return guarded([&] { return connect_entry(client_of(aClient), aServerGroupFile); });
}

skv_status_t SKV_Disconnect(skv_hdl_t aClient) {
  return guarded([&] {
    const client_pointer of = client_of(aClient);
    return of == nullptr ? SKV_ERRNO_UNSPECIFIED_ERROR : of->disconnect();
  });
}

skv_status_t SKV_Open(skv_hdl_t aClient, char* aPDSName, skv_pds_priv_t /*aPrivs*/, skv_cmd_open_flags_t aFlags,
                      skv_pds_hdl_t* aPDSId) {
  return guarded([&] { return open(aClient, aPDSName, aFlags, aPDSId, {}); });
}

skv_status_t SKV_Retrieve(skv_hdl_t aClient, skv_pds_hdl_t aPDSId, char* aKeyBuffer, int aKeyBufferSize,
                          char* aValueBuffer, int aValueBufferSize, int* aValueRetrievedSize, int aOffset,
                          skv_cmd_RIU_flags_t aFlags) {
  return guarded([&] {
    const named what(aClient, aPDSId);
    return retrieve_entry(what.of, what.id, {aKeyBuffer, aKeyBufferSize, aValueBuffer, aValueBufferSize, aOffset},
                          aValueRetrievedSize, aFlags, {});
  });
}

skv_status_t SKV_Update(skv_hdl_t aClient, skv_pds_hdl_t aPDSId, char* aKeyBuffer, int aKeyBufferSize,
                        char* aValueBuffer, int aValueUpdateSize, int aOffset, skv_cmd_RIU_flags_t /*aFlags*/) {
  return guarded([&] {
    const named what(aClient, aPDSId);
    return insert_entry(what.of, what.id, {aKeyBuffer, aKeyBufferSize, aValueBuffer, aValueUpdateSize, aOffset},
                        SKV_COMMAND_RIU_UPDATE, true, {});
  });
}

skv_status_t SKV_Insert(skv_hdl_t aClient, skv_pds_hdl_t aPDSId, char* aKeyBuffer, int aKeyBufferSize,
                        char* aValueBuffer, int aValueBufferSize, int aValueBufferOffset, skv_cmd_RIU_flags_t aFlags) {
  return guarded([&] {
    const named what(aClient, aPDSId);
    return insert_entry(what.of, what.id,
                        {aKeyBuffer, aKeyBufferSize, aValueBuffer, aValueBufferSize, aValueBufferOffset}, aFlags, false,
                        {});
  });
}

skv_status_t SKV_Remove(skv_hdl_t aClient, skv_pds_hdl_t aPDSId, char* aKeyBuffer, int aKeyBufferSize,
                        skv_cmd_remove_flags_t /*aFlags*/) {
  return guarded([&] {
    const named what(aClient, aPDSId);
    return remove_entry(what.of, what.id, {aKeyBuffer, aKeyBufferSize}, {});
  });
}

skv_status_t SKV_Close(skv_hdl_t aClient, skv_pds_hdl_t aPDSId) {
  return guarded([&] { return close(aClient, aPDSId, {}); });
}

skv_status_t SKV_Iopen(skv_hdl_t aClient, char* aPDSName, skv_pds_priv_t /*aPrivs*/, skv_cmd_open_flags_t aFlags,
                       skv_pds_hdl_t* aPDSId, skv_client_cmd_ext_hdl_t* aCmdHdl) {
  return guarded([&] { return open(aClient, aPDSName, aFlags, aPDSId, {.waits = false, .handle = aCmdHdl}); });
}

skv_status_t SKV_Iretrieve(skv_hdl_t aClient, skv_pds_hdl_t aPDSId, char* aKeyBuffer, int aKeyBufferSize,
                           char* aValueBuffer, int aValueBufferSize, int* aValueRetrievedSize, int aOffset,
                           skv_cmd_RIU_flags_t aFlags, skv_client_cmd_ext_hdl_t* aCmdHdl) {
  return guarded([&] {
    const named what(aClient, aPDSId);
    return retrieve_entry(what.of, what.id, {aKeyBuffer, aKeyBufferSize, aValueBuffer, aValueBufferSize, aOffset},
                          aValueRetrievedSize, aFlags, {.waits = false, .handle = aCmdHdl});
  });
}

skv_status_t SKV_Iupdate(skv_hdl_t aClient, skv_pds_hdl_t aPDSId, char* aKeyBuffer, int aKeyBufferSize,
                         char* aValueBuffer, int aValueUpdateSize, int aOffset, skv_cmd_RIU_flags_t /*aFlags*/,
                         skv_client_cmd_ext_hdl_t* aCmdHdl) {
  return guarded([&] {
    const named what(aClient, aPDSId);
    return insert_entry(what.of, what.id, {aKeyBuffer, aKeyBufferSize, aValueBuffer, aValueUpdateSize, aOffset},
                        SKV_COMMAND_RIU_UPDATE, true, {.waits = false, .handle = aCmdHdl});
  });
}

skv_status_t SKV_Iinsert(skv_hdl_t aClient, skv_pds_hdl_t aPDSId, char* aKeyBuffer, int aKeyBufferSize,
                         char* aValueBuffer, int aValueBufferSize, int aValueBufferOffset, skv_cmd_RIU_flags_t aFlags,
                         skv_client_cmd_ext_hdl_t* aCmdHdl) {
  return guarded([&] {
    const named what(aClient, aPDSId);
    return insert_entry(what.of, what.id,
                        {aKeyBuffer, aKeyBufferSize, aValueBuffer, aValueBufferSize, aValueBufferOffset}, aFlags, false,
                        {.waits = false, .handle = aCmdHdl});
  });
}

skv_status_t SKV_Iremove(skv_hdl_t aClient, skv_pds_hdl_t aPDSId, char* aKeyBuffer, int aKeyBufferSize,
                         skv_cmd_remove_flags_t /*aFlags*/, skv_client_cmd_ext_hdl_t* aCmdHdl) {
  return guarded([&] {
    const named what(aClient, aPDSId);
    return remove_entry(what.of, what.id, {aKeyBuffer, aKeyBufferSize}, {.waits = false, .handle = aCmdHdl});
  });
}

skv_status_t SKV_Iclose(skv_hdl_t aClient, skv_pds_hdl_t aPDSId, skv_client_cmd_ext_hdl_t* aCmdHdl) {
  return guarded([&] { return close(aClient, aPDSId, {.waits = false, .handle = aCmdHdl}); });
}

skv_status_t SKV_PDSCntl(skv_hdl_t aClient, skv_pds_hdl_t aPDSId, skv_pdscntl_cmd_t aCmd,
                         skv_pds_attr_ext_t* aPDSAttr) {
  return guarded([&] {
    const named what(aClient, aPDSId);
    if (what.id == nullptr || aPDSAttr == nullptr) return SKV_ERRNO_UNSPECIFIED_ERROR;
    skv_pds_attr_t attributes{};
    attributes.mSize = aPDSAttr->mSize;
    attributes.mPDSId = *what.id;
    const skv_status_t status = control_entry(what.of, aCmd, &attributes, {});
    if (status == SKV_SUCCESS && aCmd == SKV_PDSCNTL_CMD_STAT_GET) {
      aPDSAttr->mSize = attributes.mSize;
      aPDSAttr->mPrivs = attributes.mPrivs;
      std::copy(std::begin(attributes.mPDSName), std::end(attributes.mPDSName), aPDSAttr->mPDSName);
    }
    if (status == SKV_SUCCESS && aCmd == SKV_PDSCNTL_CMD_CLOSE) static_cast<void>(handles().sets.remove(aPDSId));
    return status;
  });
}

skv_status_t SKV_WaitAny(skv_hdl_t aClient, skv_client_cmd_ext_hdl_t* aCmdHdl) {
  return guarded([&] {
    const client_pointer of = client_of(aClient);
    return of == nullptr ? SKV_ERRNO_UNSPECIFIED_ERROR : of->wait_any(aCmdHdl);
  });
}

skv_status_t SKV_Wait(skv_hdl_t aClient, skv_client_cmd_ext_hdl_t aCmdHdl) {
  return guarded([&] {
    const client_pointer of = client_of(aClient);
    return of == nullptr ? SKV_ERRNO_UNSPECIFIED_ERROR : of->wait(aCmdHdl);
  });
}

skv_status_t SKV_TestAny(skv_hdl_t aClient, skv_client_cmd_ext_hdl_t* aCmdHdl) {
  return guarded([&] {
    const client_pointer of = client_of(aClient);
    return of == nullptr ? SKV_ERRNO_UNSPECIFIED_ERROR : of->test_any(aCmdHdl);
  });
}

skv_status_t SKV_Test(skv_hdl_t aClient, skv_client_cmd_ext_hdl_t aCmdHdl) {
  return guarded([&] {
    const client_pointer of = client_of(aClient);
    return of == nullptr ? SKV_ERRNO_UNSPECIFIED_ERROR : of->test(aCmdHdl);
  });
}

skv_status_t SKV_OpenLocalCursor(int aNodeId, skv_pds_hdl_t aPDSId, skv_client_cursor_ext_hdl_t* aCursorHdl) {
  return guarded([&] {
    const named what(aPDSId);
    return open_cursor_entry(what.of, what.id, aNodeId, aCursorHdl);
  });
}

skv_status_t SKV_OpenCursor(skv_pds_hdl_t aPDSId, skv_client_cursor_ext_hdl_t* aCursorHdl) {
  return guarded([&] {
    const named what(aPDSId);
    return open_cursor_entry(what.of, what.id, std::nullopt, aCursorHdl);
  });
}

skv_status_t SKV_CloseLocalCursor(skv_client_cursor_ext_hdl_t aCursorHdl) {
  return guarded(
      [&] { return handles().cursors.remove(aCursorHdl) == nullptr ? SKV_ERRNO_UNSPECIFIED_ERROR : SKV_SUCCESS; });
}

skv_status_t SKV_GetFirstLocalElement(skv_client_cursor_ext_hdl_t aCursorHdl, char* aRetrievedKeyBuffer,
                                      int* aRetrievedKeySize, int aRetrievedKeyMaxSize, char* aRetrievedValueBuffer,
                                      int* aRetrievedValueSize, int aRetrievedValueMaxSize, skv_cursor_flags_t aFlags) {
  return guarded([&] {
    return element_entry(aCursorHdl,
                         {aRetrievedKeyBuffer, aRetrievedKeySize, aRetrievedKeyMaxSize, aRetrievedValueBuffer,
                          aRetrievedValueSize, aRetrievedValueMaxSize},
                         true, aFlags);
  });
}

skv_status_t SKV_GetNextLocalElement(skv_client_cursor_ext_hdl_t aCursorHdl, char* aRetrievedKeyBuffer,
                                     int* aRetrievedKeySize, int aRetrievedKeyMaxSize, char* aRetrievedValueBuffer,
                                     int* aRetrievedValueSize, int aRetrievedValueMaxSize, skv_cursor_flags_t aFlags) {
  return guarded([&] {
    return element_entry(aCursorHdl,
                         {aRetrievedKeyBuffer, aRetrievedKeySize, aRetrievedKeyMaxSize, aRetrievedValueBuffer,
                          aRetrievedValueSize, aRetrievedValueMaxSize},
                         false, aFlags);
  });
}

skv_status_t SKV_CloseCursor(skv_client_cursor_ext_hdl_t aCursorHdl) {
  return guarded(
      [&] { return handles().cursors.remove(aCursorHdl) == nullptr ? SKV_ERRNO_UNSPECIFIED_ERROR : SKV_SUCCESS; });
}

skv_status_t SKV_GetFirstElement(skv_client_cursor_ext_hdl_t aCursorHdl, char* aRetrievedKeyBuffer,
                                 int* aRetrievedKeySize, int aRetrievedKeyMaxSize, char* aRetrievedValueBuffer,
                                 int* aRetrievedValueSize, int aRetrievedValueMaxSize, skv_cursor_flags_t aFlags) {
  return guarded([&] {
    return element_entry(aCursorHdl,
                         {aRetrievedKeyBuffer, aRetrievedKeySize, aRetrievedKeyMaxSize, aRetrievedValueBuffer,
                          aRetrievedValueSize, aRetrievedValueMaxSize},
                         true, aFlags);
  });
}

skv_status_t SKV_GetNextElement(skv_client_cursor_ext_hdl_t aCursorHdl, char* aRetrievedKeyBuffer,
                                int* aRetrievedKeySize, int aRetrievedKeyMaxSize, char* aRetrievedValueBuffer,
                                int* aRetrievedValueSize, int aRetrievedValueMaxSize, skv_cursor_flags_t aFlags) {
  return guarded([&] {
    return element_entry(aCursorHdl,
                         {aRetrievedKeyBuffer, aRetrievedKeySize, aRetrievedKeyMaxSize, aRetrievedValueBuffer,
                          aRetrievedValueSize, aRetrievedValueMaxSize},
                         false, aFlags);
  });
}

skv_status_t GetFirstLocalElement(skv_client_cursor_ext_hdl_t aCursorHdl, char* aRetrievedKeyBuffer,
                                  int* aRetrievedKeySize, int aRetrievedKeyMaxSize, char* aRetrievedValueBuffer,
                                  int* aRetrievedValueSize, int aRetrievedValueMaxSize, skv_cursor_flags_t aFlags) {
  return guarded([&] {
    return element_entry(aCursorHdl,
                         {aRetrievedKeyBuffer, aRetrievedKeySize, aRetrievedKeyMaxSize, aRetrievedValueBuffer,
                          aRetrievedValueSize, aRetrievedValueMaxSize},
                         true, aFlags);
  });
}

skv_status_t SKV_CreateBulkInserter(skv_pds_hdl_t aPDSId, skv_bulk_inserter_flags_t /*aFlags*/,
                                    skv_client_bulk_inserter_ext_hdl_t* aBulkInserterHandle) {
  return guarded([&] {
    const named what(aPDSId);
    return open_inserter_entry(what.of, what.id, aBulkInserterHandle);
  });
}

skv_status_t SKV_Bulk_Insert(skv_client_bulk_inserter_ext_hdl_t aBulkInserterHandle, char* aKeyBuffer,
                             int aKeyBufferSize, char* aValueBuffer, int aValueBufferSize,
                             skv_bulk_inserter_flags_t /*aFlags*/) {
  return guarded([&] {
    return bulk_insert_entry(aBulkInserterHandle, {aKeyBuffer, aKeyBufferSize, aValueBuffer, aValueBufferSize});
  });
}

skv_status_t SKV_Flush(skv_client_bulk_inserter_ext_hdl_t aBulkInserterHandle) {
  return guarded([&] { return flush_entry(aBulkInserterHandle); });
}

skv_status_t SKV_CloseBulkInserter(skv_client_bulk_inserter_ext_hdl_t aBulkInserterHandle) {
  return guarded([&] { return close_inserter_entry(aBulkInserterHandle); });
}

skv_status_t DumpPersistentImage(char* aPath) {
  return guarded([&] {
    client_pointer of;
    {
      const std::lock_guard held(handles().mutex);
      of = handles().connected_last.lock();
    }
    return of == nullptr ? SKV_ERRNO_CONN_FAILED : of->dump_image(aPath);
  });
}

skv_status_t DumpPDS(skv_pds_hdl_t aPDSId, int aMaxKeySize, int aMaxValueSize) {
  return guarded([&] {
    const named what(aPDSId);
    return dump_entry(what.of, what.id, aMaxKeySize, aMaxValueSize);
  });
}
