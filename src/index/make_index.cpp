#include "index/make_index.hpp"

#include "index/btree/btree.hpp"
#include "index/skip_list/skip_list.hpp"

namespace icecore::index {

std::unique_ptr<ordered_index> make_index(index_kind kind, const key_source& source, const arena_options& memory) {
  switch (kind) {
    case index_kind::skip_list:
      return make_skip_list(source, memory);
    case index_kind::btree:
      break;
  }
  return make_btree(source, memory);
}

}  // namespace icecore::index
