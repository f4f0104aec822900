// What LeakSanitizer is not to tell of tests with clients of gRPC: c-ares 1.18, by which gRPC looks up names, leaves 10
// bytes in memory with each connection, as many as the text 127.0.0.1 takes. Nothing of ours is called by that library.
extern "C" const char* __lsan_default_suppressions();  // NOLINT: the sanitizer's name

extern "C" const char* __lsan_default_suppressions() { return "leak:libcares.so\n"; }
