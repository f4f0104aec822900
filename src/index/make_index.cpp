#include "index/make_index.hpp"

#include <utility>

#include "index/btree/btree.hpp"
#include "index/list/linked_list.hpp"
#include "index/skip_list/skip_list.hpp"

namespace icecore::index {

std::unique_ptr<ordered_index> make_index(index_kind kind, const key_source& source, std::shared_ptr<arena> memory,
                                          const hash_seed& seed) {
  switch (kind) {
    case index_kind::skip_list:
      return make_skip_list(source, std::move(memory));
    case index_kind::list:
      return make_list(source, std::move(memory));
    case index_kind::hash:
      return make_hash(source, std::move(memory), seed);
    case index_kind::btree:
    case index_kind::persistent:  // this one does not lie in an arena: make_persistent_index()
      break;
  }
  return make_btree(source, std::move(memory));
}

}  // namespace icecore::index
