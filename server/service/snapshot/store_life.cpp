#include "service/snapshot/store_life.hpp"

#include "icecore/error.hpp"

namespace icecore::service {

std::shared_ptr<const void> store_life::keep(std::shared_ptr<store_life> of) {
  {
    const std::lock_guard lock(of->mutex_);
    ++of->keepers_;
  }
  store_life* const life = of.get();
  return {life, [kept = std::move(of)](const void*) { kept->let_go(); }};
}

void store_life::end() {
  const std::lock_guard lock(mutex_);
  over_ = true;
  if (keepers_ == 0) store_->close();
}

void store_life::let_go() noexcept {
  const std::lock_guard lock(mutex_);
  if (--keepers_ > 0 || !over_) return;
  try {
    store_->close();
  } catch (const icecore::error&) {  // the database is dropped, so nobody misses what could not be kept of it
  }
}

}  // namespace icecore::service
