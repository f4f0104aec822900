// Loads a dump into an empty store.
//
//   dump_reader dump(STDIN_FILENO, "standard input");
//   dump_loader loader(store, dump);
//   loader.run(0);                           // errc::bad_input: the store holds a part of the dump; discard it
//
// Threads: one; nothing else may write the store.
#pragma once

#include <cstdint>

#include "dump/dump_reader.hpp"
#include "icecore/store.hpp"

namespace icecore::cli {

class dump_loader {
 public:
  /// Reads the dump's first line. errc::bad_input.
  dump_loader(store& into, dump_reader& from) : into_(&into), from_(&from), header_(from.header()) {}

  /// `total_bytes`: the size of the dump, for the progress bar; 0 if not known.
  void run(std::uint64_t total_bytes);

  std::uint64_t records = 0;
  std::uint64_t tags = 0;

 private:
  void add(const dump_record& record);
  void add(const tag_info& tag);
  void close_versions_before(version open);

  store* into_;
  dump_reader* from_;
  dump_header header_;
};

}  // namespace icecore::cli
