// Checkpoints: a store as it was at one instant, written to a file of its own.
#include "icecore/checkpoint.hpp"

#include "support.hpp"

using namespace icecore::c;

struct icecore_checkpoint {
  icecore::checkpoint cut;
};

extern "C" {

int icecore_checkpoint_now(icecore_store* store, icecore_checkpoint** checkpoint) {
  if (checkpoint != nullptr) *checkpoint = nullptr;
  return guarded([&] {
    require(store, "icecore_checkpoint_now", "store");
    require(checkpoint, "icecore_checkpoint_now", "checkpoint");
    *checkpoint = new icecore_checkpoint{store->store.checkpoint()};
  });
}

void icecore_checkpoint_free(icecore_checkpoint* checkpoint) { delete checkpoint; }

icecore_version icecore_checkpoint_version(const icecore_checkpoint* checkpoint) {
  return checkpoint == nullptr ? 0 : checkpoint->cut.version();
}

uint64_t icecore_checkpoint_bytes(const icecore_checkpoint* checkpoint) {
  return checkpoint == nullptr ? 0 : checkpoint->cut.bytes();
}

int icecore_checkpoint_write(const icecore_checkpoint* checkpoint, const char* path,
                             icecore_progress_function on_progress, void* progress_context) {
  return guarded([&] {
    require(checkpoint, "icecore_checkpoint_write", "checkpoint");
    require(path, "icecore_checkpoint_write", "path");
    checkpoint->cut.write(path, progress_of(on_progress, progress_context));
  });
}

}  // extern "C"
