#include "recorder.hpp"

namespace icecore::testing {

std::vector<operation> client_log::operations() const {
  std::vector<operation> all(slots_.begin(), slots_.begin() + begun());
  for (operation& o : all) {
    if (o.return_ns != 0) continue;
    const bool value_is_asked = o.what == call::insert || o.what == call::batch_insert || o.what == call::tag;
    if (!value_is_asked) o.value = 0;
    if (o.what != call::find_at && o.what != call::digest_at) o.version = 0;
    if (o.what != call::batch) o.count = 0;
  }
  for (std::size_t i = 0; i < all.size(); ++i) {
    for (std::size_t part = i + 1; part <= i + (all[i].what == call::batch ? all[i].count : 0); ++part) {
      all[part].invoke_ns = all[i].invoke_ns;
      all[part].return_ns = all[i].return_ns;
      all[part].version = all[i].version;
    }
  }
  return all;
}

}  // namespace icecore::testing
