// A C++ program that knows nothing but SKV and its logger: program CONFIGURATION.
#define SKV_CLIENT_UNI
#define SKV_NON_MPI
#include <FxLogger.hpp>
#include <Trace.hpp>
#include <skv/client/skv_client.hpp>

#include <cstring>

int main(int argc, char** argv) {
  StrongAssertLogLine(argc == 2) << "argc: " << argc << EndLogLine;
  pkTraceServer::Init();
  TraceClient trace;
  trace.HitOE(1, "program", 0, started);
  skv_client_t client;
  skv_status_t status = client.Init(0, 0, argv[1]);
  BegLogLine(1) << "Init: " << skv_status_to_string(status) << EndLogLine;
  status = client.Connect(NULL, 0);
  StrongAssertLogLine(status == SKV_SUCCESS) << "Connect: " << skv_status_to_string(status) << EndLogLine;
  char name[SKV_MAX_PDS_NAME_SIZE] = "TestPds";
  skv_pds_id_t pds;
  status = client.Open(name, (skv_pds_priv_t)(SKV_PDS_READ | SKV_PDS_WRITE), SKV_COMMAND_OPEN_FLAGS_CREATE, &pds);
  StrongAssertLogLine(status == SKV_SUCCESS) << "Open: " << skv_status_to_string(status) << EndLogLine;
  BegLogLine(1) << "the PDS: " << pds << " flags " << FormatString("%04X") << 255 << " name " << HexDump(name, 4)
                << EndLogLine;
  int key = 17;
  char value[] = "a value";
  status = client.Insert(&pds, (char*)&key, sizeof key, value, sizeof value, 0, SKV_COMMAND_RIU_FLAGS_NONE);
  StrongAssertLogLine(status == SKV_SUCCESS) << "Insert: " << skv_status_to_string(status) << EndLogLine;
  char got[64];
  int size = 0;
  status = client.Retrieve(&pds, (char*)&key, sizeof key, got, sizeof got, &size, 0, SKV_COMMAND_RIU_FLAGS_NONE);
  const bool same = size == sizeof value && std::strcmp(got, value) == 0;
  StrongAssertLogLine(status == SKV_SUCCESS && same) << "Retrieve: " << skv_status_to_string(status) << EndLogLine;
  skv_pds_attr_t attributes;
  attributes.mPDSId = pds;
  attributes.mSize = 500;
  status = client.PDScntl(SKV_PDSCNTL_CMD_STAT_SET, &attributes);
  AssertLogLine(status == SKV_SUCCESS) << "PDScntl: " << skv_status_to_string(status) << EndLogLine;
  status = client.PDScntl(SKV_PDSCNTL_CMD_STAT_GET, &attributes);
  BegLogLine(1) << "attributes: " << attributes << EndLogLine;
  status = client.Close(&pds);
  AssertLogLine(status == SKV_SUCCESS) << "Close: " << skv_status_to_string(status) << EndLogLine;
  status = client.Disconnect();
  AssertLogLine(status == SKV_SUCCESS) << "Disconnect: " << skv_status_to_string(status) << EndLogLine;
  return client.Finalize() == SKV_SUCCESS ? 0 : 1;
}
