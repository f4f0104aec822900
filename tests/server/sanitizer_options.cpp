// What sanitizers are not to tell of tests of the server.
//
// c-ares 1.18, by which gRPC looks up names, leaves 10 bytes in memory with each connection, as many as the text
// 127.0.0.1 takes. ThreadSanitizer knows at most 64 locks that a thread holds at once, and a transaction that names a
// range takes 256 (direct_writes.hpp), so it looks for no deadlocks. It does not see how libraries that were not built
// with it synchronize, so what gRPC and UCX hand from thread to thread looks like races.
//
// NOLINTBEGIN: the sanitizers' names
extern "C" const char* __lsan_default_suppressions();
extern "C" const char* __tsan_default_options();
extern "C" const char* __tsan_default_suppressions();

extern "C" const char* __lsan_default_suppressions() { return "leak:libcares.so\n"; }
extern "C" const char* __tsan_default_options() { return "detect_deadlocks=0"; }
extern "C" const char* __tsan_default_suppressions() {
  return "called_from_lib:libgrpc++.so\n"
         "called_from_lib:libgrpc.so\n"
         "race:libgrpc\n"
         "race:^grpc::\n"
         "race:libgpr\n"
         "race:libabsl\n"
         "race:libcrypto\n"
         "race:libssl\n"
         "race:libprotobuf\n"
         "race:libuc[pst]\n";
}
// NOLINTEND
