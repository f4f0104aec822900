#include "kinds.hpp"

#include <algorithm>

namespace icecore::bench {
namespace {

void append(std::vector<store_kind>& to, std::vector<store_kind> more) {
  std::ranges::move(more, std::back_inserter(to));
}

std::vector<store_kind> kinds_of_this_build() {
  std::vector<store_kind> kinds = icecore_kinds();
  append(kinds, locked_map_kinds());
#ifdef ICECORE_BENCH_ABSL_BTREE
  append(kinds, absl_btree_kinds());
#endif
#ifdef ICECORE_BENCH_SQLITE
  append(kinds, sqlite_kinds());
#endif
#ifdef ICECORE_BENCH_LMDB
  append(kinds, lmdb_kinds());
#endif
#ifdef ICECORE_BENCH_ROCKSDB
  append(kinds, rocksdb_kinds());
#endif
#ifdef ICECORE_BENCH_LEVELDB
  append(kinds, leveldb_kinds());
#endif
#ifdef ICECORE_BENCH_WIREDTIGER
  append(kinds, wiredtiger_kinds());
#endif
#ifdef ICECORE_BENCH_BERKELEY_DB
  append(kinds, berkeley_db_kinds());
#endif
  append(kinds, icecore_map_kinds());
#ifdef ICECORE_BENCH_LMDB_MAP
  append(kinds, lmdb_map_kinds());
#endif
#ifdef ICECORE_BENCH_ROCKSDB_MAP
  append(kinds, rocksdb_map_kinds());
#endif
#ifdef ICECORE_BENCH_PMEMOBJ_SKIP_LIST
  append(kinds, pmemobj_skip_list_kinds());
#endif
  return kinds;
}

}  // namespace

const std::vector<store_kind>& all_kinds() {
  static const std::vector<store_kind> kinds = kinds_of_this_build();
  return kinds;
}

const store_kind* kind_of_name(std::string_view name) {
  const auto found = std::ranges::find(all_kinds(), name, &store_kind::name);
  return found == all_kinds().end() ? nullptr : &*found;
}

}  // namespace icecore::bench
