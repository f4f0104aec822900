// SKV's C++ interface: each function is one of entry.hpp.
#include <skv/client/skv_client.hpp>

#include "entry.hpp"

using namespace icecore::skv;

namespace {

client_pointer client_of(void* handle) { return handles().clients.find(handle); }

}  // namespace

skv_client_t::~skv_client_t() { static_cast<void>(Finalize()); }

skv_status_t skv_client_t::init(skv_client_group_id_t /*aCommGroupId*/, int /*aFlags*/, const char* aConfigFile) {
  return guarded([&] {
    if (client_of(handle_) != nullptr) return SKV_ERRNO_STATE_MACHINE_ERROR;
    handle_ = handles().clients.add(std::make_shared<client>(aConfigFile));
    return SKV_SUCCESS;
  });
}

skv_status_t skv_client_t::Finalize() {
  return guarded([&] {
    const client_pointer last = handles().clients.remove(handle_);
    if (last == nullptr) return SKV_ERRNO_UNSPECIFIED_ERROR;
    static_cast<void>(last->disconnect());
    return SKV_SUCCESS;
  });
}

skv_status_t skv_client_t::Connect(const char* aConfigFile, int /*aFlags*/) {
  return guarded([&] { return connect_entry(client_of(handle_), aConfigFile); });
}

skv_status_t skv_client_t::Disconnect() {
  return guarded([&] {
    const client_pointer of = client_of(handle_);
    return of == nullptr ? SKV_ERRNO_UNSPECIFIED_ERROR : of->disconnect();
  });
}

skv_status_t skv_client_t::Open(char* aPDSName, skv_pds_priv_t /*aPrivs*/, skv_cmd_open_flags_t aFlags,
                                skv_pds_id_t* aPDSId) {
  return guarded([&] { return open_entry(client_of(handle_), aPDSName, aFlags, aPDSId, {}); });
}

skv_status_t skv_client_t::Retrieve(skv_pds_id_t* aPDSId, char* aKeyBuffer, int aKeyBufferSize, char* aValueBuffer,
                                    int aValueBufferSize, int* aValueRetrievedSize, int aOffset,
                                    skv_cmd_RIU_flags_t aFlags) {
  return guarded([&] {
    return retrieve_entry(client_of(handle_), aPDSId,
                          {aKeyBuffer, aKeyBufferSize, aValueBuffer, aValueBufferSize, aOffset}, aValueRetrievedSize,
                          aFlags, {});
  });
}

skv_status_t skv_client_t::Update(skv_pds_id_t* aPDSId, char* aKeyBuffer, int aKeyBufferSize, char* aValueBuffer,
                                  int aValueUpdateSize, int aOffset, skv_cmd_RIU_flags_t /*aFlags*/) {
  return guarded([&] {
    return insert_entry(client_of(handle_), aPDSId,
                        {aKeyBuffer, aKeyBufferSize, aValueBuffer, aValueUpdateSize, aOffset}, SKV_COMMAND_RIU_UPDATE,
                        true, {});
  });
}

skv_status_t skv_client_t::Insert(skv_pds_id_t* aPDSId, char* aKeyBuffer, int aKeyBufferSize, char* aValueBuffer,
                                  int aValueBufferSize, int aValueBufferOffset, skv_cmd_RIU_flags_t aFlags) {
  return guarded([&] {
    return insert_entry(client_of(handle_), aPDSId,
                        {aKeyBuffer, aKeyBufferSize, aValueBuffer, aValueBufferSize, aValueBufferOffset}, aFlags, false,
                        {});
  });
}

skv_status_t skv_client_t::Remove(skv_pds_id_t* aPDSId, char* aKeyBuffer, int aKeyBufferSize,
                                  skv_cmd_remove_flags_t /*aFlags*/) {
  return guarded([&] { return remove_entry(client_of(handle_), aPDSId, {aKeyBuffer, aKeyBufferSize}, {}); });
}

skv_status_t skv_client_t::Close(skv_pds_id_t* aPDSId) {
  return guarded([&] { return close_entry(client_of(handle_), aPDSId, {}); });
}

skv_status_t skv_client_t::PDScntl(skv_pdscntl_cmd_t aCmd, skv_pds_attr_t* aPDSAttr) {
  return guarded([&] { return control_entry(client_of(handle_), aCmd, aPDSAttr, {}); });
}

skv_status_t skv_client_t::iOpen(char* aPDSName, skv_pds_priv_t /*aPrivs*/, skv_cmd_open_flags_t aFlags,
                                 skv_pds_id_t* aPDSId, skv_client_cmd_ext_hdl_t* aCmdHdl) {
  return guarded(
      [&] { return open_entry(client_of(handle_), aPDSName, aFlags, aPDSId, {.waits = false, .handle = aCmdHdl}); });
}

skv_status_t skv_client_t::iRetrieve(skv_pds_id_t* aPDSId, char* aKeyBuffer, int aKeyBufferSize, char* aValueBuffer,
                                     int aValueBufferSize, int* aValueRetrievedSize, int aOffset,
                                     skv_cmd_RIU_flags_t aFlags, skv_client_cmd_ext_hdl_t* aCmdHdl) {
  return guarded([&] {
    return retrieve_entry(client_of(handle_), aPDSId,
                          {aKeyBuffer, aKeyBufferSize, aValueBuffer, aValueBufferSize, aOffset}, aValueRetrievedSize,
                          aFlags, {.waits = false, .handle = aCmdHdl});
  });
}

skv_status_t skv_client_t::iUpdate(skv_pds_id_t* aPDSId, char* aKeyBuffer, int aKeyBufferSize, char* aValueBuffer,
                                   int aValueUpdateSize, int aOffset, skv_cmd_RIU_flags_t /*aFlags*/,
                                   skv_client_cmd_ext_hdl_t* aCmdHdl) {
  return guarded([&] {
    return insert_entry(client_of(handle_), aPDSId,
                        {aKeyBuffer, aKeyBufferSize, aValueBuffer, aValueUpdateSize, aOffset}, SKV_COMMAND_RIU_UPDATE,
                        true, {.waits = false, .handle = aCmdHdl});
  });
}

skv_status_t skv_client_t::iInsert(skv_pds_id_t* aPDSId, char* aKeyBuffer, int aKeyBufferSize, char* aValueBuffer,
                                   int aValueBufferSize, int aValueBufferOffset, skv_cmd_RIU_flags_t aFlags,
                                   skv_client_cmd_ext_hdl_t* aCmdHdl) {
  return guarded([&] {
    return insert_entry(client_of(handle_), aPDSId,
                        {aKeyBuffer, aKeyBufferSize, aValueBuffer, aValueBufferSize, aValueBufferOffset}, aFlags, false,
                        {.waits = false, .handle = aCmdHdl});
  });
}

skv_status_t skv_client_t::iRemove(skv_pds_id_t* aPDSId, char* aKeyBuffer, int aKeyBufferSize,
                                   skv_cmd_remove_flags_t /*aFlags*/, skv_client_cmd_ext_hdl_t* aCmdHdl) {
  return guarded([&] {
    return remove_entry(client_of(handle_), aPDSId, {aKeyBuffer, aKeyBufferSize}, {.waits = false, .handle = aCmdHdl});
  });
}

skv_status_t skv_client_t::iClose(skv_pds_id_t* aPDSId, skv_client_cmd_ext_hdl_t* aCmdHdl) {
  return guarded([&] { return close_entry(client_of(handle_), aPDSId, {.waits = false, .handle = aCmdHdl}); });
}

skv_status_t skv_client_t::iPDScntl(skv_pdscntl_cmd_t aCmd, skv_pds_attr_t* aPDSAttr,
                                    skv_client_cmd_ext_hdl_t* aCmdHdl) {
  return guarded(
      [&] { return control_entry(client_of(handle_), aCmd, aPDSAttr, {.waits = false, .handle = aCmdHdl}); });
}

skv_status_t skv_client_t::WaitAny(skv_client_cmd_ext_hdl_t* aCmdHdl) {
  return guarded([&] {
    const client_pointer of = client_of(handle_);
    return of == nullptr ? SKV_ERRNO_UNSPECIFIED_ERROR : of->wait_any(aCmdHdl);
  });
}

skv_status_t skv_client_t::Wait(skv_client_cmd_ext_hdl_t aCmdHdl) {
  return guarded([&] {
    const client_pointer of = client_of(handle_);
    return of == nullptr ? SKV_ERRNO_UNSPECIFIED_ERROR : of->wait(aCmdHdl);
  });
}

skv_status_t skv_client_t::TestAny(skv_client_cmd_ext_hdl_t* aCmdHdl) {
  return guarded([&] {
    const client_pointer of = client_of(handle_);
    return of == nullptr ? SKV_ERRNO_UNSPECIFIED_ERROR : of->test_any(aCmdHdl);
  });
}

skv_status_t skv_client_t::Test(skv_client_cmd_ext_hdl_t aCmdHdl) {
  return guarded([&] {
    const client_pointer of = client_of(handle_);
    return of == nullptr ? SKV_ERRNO_UNSPECIFIED_ERROR : of->test(aCmdHdl);
  });
}

skv_status_t skv_client_t::GetLocalServerRanks(int** aLocalServers, int* aCount) {
  return guarded([&] {
    const client_pointer of = client_of(handle_);
    if (of == nullptr || aLocalServers == nullptr || aCount == nullptr) return SKV_ERRNO_UNSPECIFIED_ERROR;
    if (of->session() == nullptr) return SKV_ERRNO_CONN_FAILED;
    const std::vector<int>& found = of->local_servers();
    *aLocalServers = const_cast<int*>(found.data());
    *aCount = static_cast<int>(found.size());
    return SKV_SUCCESS;
  });
}

skv_status_t skv_client_t::OpenLocalCursor(int aNodeId, skv_pds_id_t* aPDSId, skv_client_cursor_ext_hdl_t* aCursorHdl) {
  return guarded([&] { return open_cursor_entry(client_of(handle_), aPDSId, aNodeId, aCursorHdl); });
}

skv_status_t skv_client_t::OpenCursor(skv_pds_id_t* aPDSId, skv_client_cursor_ext_hdl_t* aCursorHdl) {
  return guarded([&] { return open_cursor_entry(client_of(handle_), aPDSId, std::nullopt, aCursorHdl); });
}

skv_status_t skv_client_t::CloseLocalCursor(skv_client_cursor_ext_hdl_t aCursorHdl) {
  return guarded(
      [&] { return handles().cursors.remove(aCursorHdl) == nullptr ? SKV_ERRNO_UNSPECIFIED_ERROR : SKV_SUCCESS; });
}

skv_status_t skv_client_t::GetFirstLocalElement(skv_client_cursor_ext_hdl_t aCursorHdl, char* aRetrievedKeyBuffer,
                                                int* aRetrievedKeySize, int aRetrievedKeyMaxSize,
                                                char* aRetrievedValueBuffer, int* aRetrievedValueSize,
                                                int aRetrievedValueMaxSize, skv_cursor_flags_t aFlags) {
  return guarded([&] {
    return element_entry(aCursorHdl,
                         {aRetrievedKeyBuffer, aRetrievedKeySize, aRetrievedKeyMaxSize, aRetrievedValueBuffer,
                          aRetrievedValueSize, aRetrievedValueMaxSize},
                         true, aFlags);
  });
}

skv_status_t skv_client_t::GetNextLocalElement(skv_client_cursor_ext_hdl_t aCursorHdl, char* aRetrievedKeyBuffer,
                                               int* aRetrievedKeySize, int aRetrievedKeyMaxSize,
                                               char* aRetrievedValueBuffer, int* aRetrievedValueSize,
                                               int aRetrievedValueMaxSize, skv_cursor_flags_t aFlags) {
  return guarded([&] {
    return element_entry(aCursorHdl,
                         {aRetrievedKeyBuffer, aRetrievedKeySize, aRetrievedKeyMaxSize, aRetrievedValueBuffer,
                          aRetrievedValueSize, aRetrievedValueMaxSize},
                         false, aFlags);
  });
}

skv_status_t skv_client_t::CloseCursor(skv_client_cursor_ext_hdl_t aCursorHdl) {
  return guarded(
      [&] { return handles().cursors.remove(aCursorHdl) == nullptr ? SKV_ERRNO_UNSPECIFIED_ERROR : SKV_SUCCESS; });
}

skv_status_t skv_client_t::GetFirstElement(skv_client_cursor_ext_hdl_t aCursorHdl, char* aRetrievedKeyBuffer,
                                           int* aRetrievedKeySize, int aRetrievedKeyMaxSize,
                                           char* aRetrievedValueBuffer, int* aRetrievedValueSize,
                                           int aRetrievedValueMaxSize, skv_cursor_flags_t aFlags) {
  return guarded([&] {
    return element_entry(aCursorHdl,
                         {aRetrievedKeyBuffer, aRetrievedKeySize, aRetrievedKeyMaxSize, aRetrievedValueBuffer,
                          aRetrievedValueSize, aRetrievedValueMaxSize},
                         true, aFlags);
  });
}

skv_status_t skv_client_t::GetNextElement(skv_client_cursor_ext_hdl_t aCursorHdl, char* aRetrievedKeyBuffer,
                                          int* aRetrievedKeySize, int aRetrievedKeyMaxSize, char* aRetrievedValueBuffer,
                                          int* aRetrievedValueSize, int aRetrievedValueMaxSize,
                                          skv_cursor_flags_t aFlags) {
  return guarded([&] {
    return element_entry(aCursorHdl,
                         {aRetrievedKeyBuffer, aRetrievedKeySize, aRetrievedKeyMaxSize, aRetrievedValueBuffer,
                          aRetrievedValueSize, aRetrievedValueMaxSize},
                         false, aFlags);
  });
}

skv_status_t skv_client_t::CreateBulkInserter(skv_pds_id_t* aPDSId, skv_bulk_inserter_flags_t /*aFlags*/,
                                              skv_client_bulk_inserter_ext_hdl_t* aBulkInserterHandle) {
  return guarded([&] { return open_inserter_entry(client_of(handle_), aPDSId, aBulkInserterHandle); });
}

skv_status_t skv_client_t::Insert(skv_client_bulk_inserter_ext_hdl_t aBulkInserterHandle, char* aKeyBuffer,
                                  int aKeyBufferSize, char* aValueBuffer, int aValueBufferSize,
                                  skv_bulk_inserter_flags_t /*aFlags*/) {
  return guarded([&] {
    return bulk_insert_entry(aBulkInserterHandle, {aKeyBuffer, aKeyBufferSize, aValueBuffer, aValueBufferSize});
  });
}

skv_status_t skv_client_t::Flush(skv_client_bulk_inserter_ext_hdl_t aBulkInserterHandle) {
  return guarded([&] { return flush_entry(aBulkInserterHandle); });
}

skv_status_t skv_client_t::CloseBulkInserter(skv_client_bulk_inserter_ext_hdl_t aBulkInserterHandle) {
  return guarded([&] { return close_inserter_entry(aBulkInserterHandle); });
}

skv_status_t skv_client_t::DumpPersistentImage(char* aPath) {
  return guarded([&] {
    const client_pointer of = client_of(handle_);
    return of == nullptr ? SKV_ERRNO_UNSPECIFIED_ERROR : of->dump_image(aPath);
  });
}

skv_status_t skv_client_t::DumpPDS(skv_pds_id_t aPDSId, int aMaxKeySize, int aMaxValueSize) {
  return guarded([&] { return dump_entry(client_of(handle_), &aPDSId, aMaxKeySize, aMaxValueSize); });
}
