// Checkpoints of a cluster, and the events that report their progress.
#include <filesystem>

#include "cluster_objects.hpp"

namespace icecore::python {
namespace {

/// Runs `call(event)` without the GIL. The cluster may be closed: then the checkpoint has ended.
template <typename Call>
auto ask(const checkpoint_object& self, const Call& call) {
  self.owner->require_own_process();
  const without_gil released(*self.owner);
  return call(self.event);
}

}  // namespace

void bind_checkpoint(nb::module_& m, cluster_class& cluster) {
  nb::class_<checkpoint_object>(m, "Checkpoint", "A checkpoint that is being written or has ended.")
      .def(
          "wait", [](const checkpoint_object& self) { ask(self, [](const checkpoint_event& event) { event.wait(); }); },
          "Returns when the checkpoint is complete on all ranks, or raises the failure. Not collective.")
      .def_prop_ro(
          "done",
          [](const checkpoint_object& self) {
            return ask(self, [](const checkpoint_event& event) { return event.done(); });
          },
          "Whether wait() would return or raise without waiting.")
      .def_prop_ro(
          "progress",
          [](const checkpoint_object& self) -> int_pair {
            const icecore::progress now = ask(self, [](const checkpoint_event& event) { return event.progress(); });
            return nb::object(nb::make_tuple(now.done, now.total));
          },
          "The bytes of its file that this rank has written so far, and the file's final size.");
  cluster.def(
      "_checkpoint",
      [](cluster_object& self, const nb::bytes& folder) {
        const std::filesystem::path path(std::string(folder.c_str(), folder.size()));
        const std::shared_ptr<cluster_session> owner = self.owner;
        return checkpoint_object{owner, run(*owner, [&](icecore::cluster& used) { return used.checkpoint(path); })};
      },
      nb::arg("folder"));
}

}  // namespace icecore::python
