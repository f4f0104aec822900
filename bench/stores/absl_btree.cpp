// The strongest in-memory ordered map without persistence: absl::btree_map, version vectors whose first version is in
// the tree, and a lock that readers share.
#include <absl/container/btree_map.h>
#include <absl/container/inlined_vector.h>
#include <absl/synchronization/mutex.h>

#include "kinds.hpp"
#include "versioned_map.hpp"

namespace icecore::bench {
namespace {

/// absl::Mutex with the names that the standard's locks expect.
class shared_lock_mutex {
 public:
  void lock() ABSL_NO_THREAD_SAFETY_ANALYSIS { mutex_.Lock(); }
  void unlock() ABSL_NO_THREAD_SAFETY_ANALYSIS { mutex_.Unlock(); }
  void lock_shared() ABSL_NO_THREAD_SAFETY_ANALYSIS { mutex_.ReaderLock(); }
  void unlock_shared() ABSL_NO_THREAD_SAFETY_ANALYSIS { mutex_.ReaderUnlock(); }

 private:
  absl::Mutex mutex_;
};

template <class Key, class Value>
using absl_btree = versioned_map<absl::btree_map<Key, absl::InlinedVector<versioned_value<Value>, 1>>,
                                 shared_lock_mutex, std::shared_lock<shared_lock_mutex>>;

}  // namespace

std::vector<store_kind> absl_btree_kinds() {
  return {{.name = "absl",
           .configuration = "absl::btree_map from keys to absl::InlinedVector of versions, one absl::Mutex that "
                            "readers share; keys and values of 8 bytes as integers",
           .survives_kill = false,
           .parallel_extract = false,
           .open = open_for_sizes<absl_btree>}};
}

}  // namespace icecore::bench
