// How AddressSanitizer runs in the fuzzers: what is freed is kept for a moment only, so that memory stays warm; leaks
// are looked for by libFuzzer itself, where an execution frees less than it allocates.
extern "C" const char* __asan_default_options();  // NOLINT: the sanitizer's name

extern "C" const char* __asan_default_options() {
  return "quarantine_size_mb=1:thread_local_quarantine_size_kb=64:malloc_context_size=8:detect_stack_use_after_return="
         "0";
}
