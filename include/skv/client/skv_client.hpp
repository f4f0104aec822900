// SKV's C++ interface, served by icecore-server: programs written for SKV of 2015 compile unchanged, link -lskv, and
// work.
//
//   skv_client_t client;
//   client.Init(0, 0);                                     // with MPI: client.Init(0, MPI_COMM_WORLD, 0)
//   client.Connect(nullptr, 0);
//   skv_pds_id_t pds;
//   client.Open(name, (skv_pds_priv_t)(SKV_PDS_READ | SKV_PDS_WRITE), SKV_COMMAND_OPEN_FLAGS_CREATE, &pds);
//   client.Insert(&pds, key, 3, value, 5, 0, SKV_COMMAND_RIU_FLAGS_NONE);
//
// Programs without MPI define SKV_CLIENT_UNI (or SKV_NON_MPI) before they include this file. What each function and
// flag does: docs/skv.md; the functions are those of skv/c/skv.h. Threads, lifetime, errors, cost: as told there. A
// client is not to be copied.
#ifndef SKV_CLIENT_SKV_CLIENT_HPP
#define SKV_CLIENT_SKV_CLIENT_HPP
#pragma once

#include <skv/common/skv_types_ext.hpp>

#include <cstddef>

class SKV_API skv_client_t {
 public:
  skv_client_t() : handle_(nullptr) {}
  ~skv_client_t();
  skv_client_t(const skv_client_t&) = delete;
  skv_client_t& operator=(const skv_client_t&) = delete;

#if defined(SKV_CLIENT_UNI) || defined(SKV_NON_MPI)
  skv_status_t Init(skv_client_group_id_t aCommGroupId, int aFlags, const char* aConfigFile = nullptr) {
    return init(aCommGroupId, aFlags, aConfigFile);
  }
#else
  skv_status_t Init(skv_client_group_id_t aCommGroupId, MPI_Comm aComm, int aFlags, const char* aConfigFile = nullptr) {
    static_cast<void>(aComm);
    return init(aCommGroupId, aFlags, aConfigFile);
  }
#endif
  skv_status_t Finalize();
  skv_status_t Connect(const char* aConfigFile, int aFlags);
  skv_status_t Disconnect();

  // ---- Commands that wait ----
  skv_status_t Open(char* aPDSName, skv_pds_priv_t aPrivs, skv_cmd_open_flags_t aFlags, skv_pds_id_t* aPDSId);
  skv_status_t Retrieve(skv_pds_id_t* aPDSId, char* aKeyBuffer, int aKeyBufferSize, char* aValueBuffer,
                        int aValueBufferSize, int* aValueRetrievedSize, int aOffset, skv_cmd_RIU_flags_t aFlags);
  skv_status_t Update(skv_pds_id_t* aPDSId, char* aKeyBuffer, int aKeyBufferSize, char* aValueBuffer,
                      int aValueUpdateSize, int aOffset, skv_cmd_RIU_flags_t aFlags);
  skv_status_t Insert(skv_pds_id_t* aPDSId, char* aKeyBuffer, int aKeyBufferSize, char* aValueBuffer,
                      int aValueBufferSize, int aValueBufferOffset, skv_cmd_RIU_flags_t aFlags);
  skv_status_t Remove(skv_pds_id_t* aPDSId, char* aKeyBuffer, int aKeyBufferSize, skv_cmd_remove_flags_t aFlags);
  skv_status_t Close(skv_pds_id_t* aPDSId);
  skv_status_t PDScntl(skv_pdscntl_cmd_t aCmd, skv_pds_attr_t* aPDSAttr);

  // ---- Commands that do not ----
  skv_status_t iOpen(char* aPDSName, skv_pds_priv_t aPrivs, skv_cmd_open_flags_t aFlags, skv_pds_id_t* aPDSId,
                     skv_client_cmd_ext_hdl_t* aCmdHdl);
  skv_status_t iRetrieve(skv_pds_id_t* aPDSId, char* aKeyBuffer, int aKeyBufferSize, char* aValueBuffer,
                         int aValueBufferSize, int* aValueRetrievedSize, int aOffset, skv_cmd_RIU_flags_t aFlags,
                         skv_client_cmd_ext_hdl_t* aCmdHdl);
  skv_status_t iUpdate(skv_pds_id_t* aPDSId, char* aKeyBuffer, int aKeyBufferSize, char* aValueBuffer,
                       int aValueUpdateSize, int aOffset, skv_cmd_RIU_flags_t aFlags,
                       skv_client_cmd_ext_hdl_t* aCmdHdl);
  skv_status_t iInsert(skv_pds_id_t* aPDSId, char* aKeyBuffer, int aKeyBufferSize, char* aValueBuffer,
                       int aValueBufferSize, int aValueBufferOffset, skv_cmd_RIU_flags_t aFlags,
                       skv_client_cmd_ext_hdl_t* aCmdHdl);
  skv_status_t iRemove(skv_pds_id_t* aPDSId, char* aKeyBuffer, int aKeyBufferSize, skv_cmd_remove_flags_t aFlags,
                       skv_client_cmd_ext_hdl_t* aCmdHdl);
  skv_status_t iClose(skv_pds_id_t* aPDSId, skv_client_cmd_ext_hdl_t* aCmdHdl);
  skv_status_t iPDScntl(skv_pdscntl_cmd_t aCmd, skv_pds_attr_t* aPDSAttr, skv_client_cmd_ext_hdl_t* aCmdHdl);
  skv_status_t WaitAny(skv_client_cmd_ext_hdl_t* aCmdHdl);
  skv_status_t Wait(skv_client_cmd_ext_hdl_t aCmdHdl);
  skv_status_t TestAny(skv_client_cmd_ext_hdl_t* aCmdHdl);
  skv_status_t Test(skv_client_cmd_ext_hdl_t aCmdHdl);

  // ---- Cursors ----
  /// The servers on this machine. The array is the client's and valid until the next call.
  skv_status_t GetLocalServerRanks(int** aLocalServers, int* aCount);
  skv_status_t OpenLocalCursor(int aNodeId, skv_pds_id_t* aPDSId, skv_client_cursor_ext_hdl_t* aCursorHdl);
  skv_status_t CloseLocalCursor(skv_client_cursor_ext_hdl_t aCursorHdl);
  skv_status_t GetFirstLocalElement(skv_client_cursor_ext_hdl_t aCursorHdl, char* aRetrievedKeyBuffer,
                                    int* aRetrievedKeySize, int aRetrievedKeyMaxSize, char* aRetrievedValueBuffer,
                                    int* aRetrievedValueSize, int aRetrievedValueMaxSize, skv_cursor_flags_t aFlags);
  skv_status_t GetNextLocalElement(skv_client_cursor_ext_hdl_t aCursorHdl, char* aRetrievedKeyBuffer,
                                   int* aRetrievedKeySize, int aRetrievedKeyMaxSize, char* aRetrievedValueBuffer,
                                   int* aRetrievedValueSize, int aRetrievedValueMaxSize, skv_cursor_flags_t aFlags);
  skv_status_t OpenCursor(skv_pds_id_t* aPDSId, skv_client_cursor_ext_hdl_t* aCursorHdl);
  skv_status_t CloseCursor(skv_client_cursor_ext_hdl_t aCursorHdl);
  skv_status_t GetFirstElement(skv_client_cursor_ext_hdl_t aCursorHdl, char* aRetrievedKeyBuffer,
                               int* aRetrievedKeySize, int aRetrievedKeyMaxSize, char* aRetrievedValueBuffer,
                               int* aRetrievedValueSize, int aRetrievedValueMaxSize, skv_cursor_flags_t aFlags);
  skv_status_t GetNextElement(skv_client_cursor_ext_hdl_t aCursorHdl, char* aRetrievedKeyBuffer, int* aRetrievedKeySize,
                              int aRetrievedKeyMaxSize, char* aRetrievedValueBuffer, int* aRetrievedValueSize,
                              int aRetrievedValueMaxSize, skv_cursor_flags_t aFlags);

  // ---- Bulk inserts ----
  skv_status_t CreateBulkInserter(skv_pds_id_t* aPDSId, skv_bulk_inserter_flags_t aFlags,
                                  skv_client_bulk_inserter_ext_hdl_t* aBulkInserterHandle);
  skv_status_t Insert(skv_client_bulk_inserter_ext_hdl_t aBulkInserterHandle, char* aKeyBuffer, int aKeyBufferSize,
                      char* aValueBuffer, int aValueBufferSize, skv_bulk_inserter_flags_t aFlags);
  skv_status_t Flush(skv_client_bulk_inserter_ext_hdl_t aBulkInserterHandle);
  skv_status_t CloseBulkInserter(skv_client_bulk_inserter_ext_hdl_t aBulkInserterHandle);

  // ---- Persistence, debugging ----
  skv_status_t DumpPersistentImage(char* aPath);
  skv_status_t DumpPDS(skv_pds_id_t aPDSId, int aMaxKeySize, int aMaxValueSize);

 private:
  skv_status_t init(skv_client_group_id_t aCommGroupId, int aFlags, const char* aConfigFile);

  skv_hdl_t handle_;
};

#endif
