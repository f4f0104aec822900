#include "query/tokens/origin.hpp"

#include "base/raise.hpp"

namespace icecore::detail {

void require_origin(const pool_set& pools, const token_origin& of, const char* name) {
  if (of.store == id_of(pools.roots().read())) return;
  const auto continues = lineage_of(pools);
  if (!continues) {
    raise(errc::bad_token,
          "{} is of another store, or of one that this store continues: the page that would tell is damaged", name);
  }
  const lineage::ancestor* from = continues->find(of.store);
  if (from == nullptr) raise(errc::bad_token, "{} is of another store", name);
  if (of.closed >= from->end) {
    raise(errc::bad_token, "{} is of version {} of the store that this one was repaired from; {} {} only", name,
          of.closed, "this one continues it up to version", from->end - 1);
  }
  if (of.within && continues->altered.contains(*of.within)) {
    raise(errc::bad_token, "{} is of version {}, of which repair could not keep everything; begin this version again",
          name, *of.within);
  }
}

}  // namespace icecore::detail
