// The stores that can be measured: those whose libraries were available when this program was built.
#pragma once

#include <vector>

#include "store.hpp"

namespace icecore::bench {

/// One function per file of adaptors. A file may provide several kinds: configurations of one library.
[[nodiscard]] std::vector<store_kind> icecore_kinds();      // icecore, and the papers' ESkipList and PSkipList
[[nodiscard]] std::vector<store_kind> locked_map_kinds();   // the paper's LockedMap
[[nodiscard]] std::vector<store_kind> absl_btree_kinds();   // absl::btree_map, a lock, version vectors
[[nodiscard]] std::vector<store_kind> sqlite_kinds();       // the paper's SQLiteReg and SQLiteMem
[[nodiscard]] std::vector<store_kind> lmdb_kinds();         // a transaction an operation, and batches of 1,000
[[nodiscard]] std::vector<store_kind> rocksdb_kinds();      // user-defined timestamps
[[nodiscard]] std::vector<store_kind> leveldb_kinds();      // composite keys
[[nodiscard]] std::vector<store_kind> wiredtiger_kinds();   // composite keys
[[nodiscard]] std::vector<store_kind> berkeley_db_kinds();  // composite keys

/// The maps, for suites that need no versions.
[[nodiscard]] std::vector<store_kind> icecore_map_kinds();        // each index, every write flushed
[[nodiscard]] std::vector<store_kind> lmdb_map_kinds();           // without sync, and with
[[nodiscard]] std::vector<store_kind> rocksdb_map_kinds();        // without sync, and with
[[nodiscard]] std::vector<store_kind> pmemobj_skip_list_kinds();  // a lock-based skip list on libpmemobj transactions

/// All kinds, in the order of reports.
[[nodiscard]] const std::vector<store_kind>& all_kinds();

/// The kind with that name, or null.
[[nodiscard]] const store_kind* kind_of_name(std::string_view name);

}  // namespace icecore::bench
