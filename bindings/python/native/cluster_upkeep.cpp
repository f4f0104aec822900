// Packing the stores of all ranks of a cluster, and which versions they keep.
#include <nanobind/stl/optional.h>

#include <optional>

#include "arguments.hpp"
#include "cluster_objects.hpp"
#include "upkeep.hpp"

namespace icecore::python {
namespace {

named_values compact(cluster_object& self, const wanted_compaction& wanted, progress_like on_progress) {
  const std::shared_ptr<cluster_session> owner = self.owner;
  progress_adapter progress(on_progress);
  const compaction_options how = options_of(wanted, progress);
  const compaction_report done = run(*owner, [&](icecore::cluster& used) { return used.compact(how); });
  progress.finish();
  return dict_of(done);
}

icecore::version hold_version(cluster_object& self, const nb::bytes& name, std::optional<icecore::version> at) {
  const std::string of(name.c_str(), name.size());
  return run(*self.owner, [&](icecore::cluster& used) { return used.hold_version(of, at); });
}

void release_version(cluster_object& self, const nb::bytes& name) {
  const std::string of(name.c_str(), name.size());
  run(*self.owner, [&](icecore::cluster& used) { used.release_version(of); });
}

any_list held_tuples(cluster_object& self) {
  return tuples_of(run(*self.owner, [](icecore::cluster& used) { return used.held_versions(); }));
}

named_values forget(cluster_object& self, many_bytes_like keys, many_bytes_like prefixes, const nb::bytes& note) {
  const std::string why(note.c_str(), note.size());
  const forget_request what{
      .keys = strings_of(keys, "a key"), .prefixes = strings_of(prefixes, "a prefix"), .note = why};
  return dict_of(run(*self.owner, [&](icecore::cluster& used) { return used.forget(what); }));
}

}  // namespace

void bind_cluster_upkeep(cluster_class& cluster) {
  cluster.def("_compact", compact, nb::arg("wanted"), nb::arg("on_progress").none())
      .def("_hold_version", hold_version, nb::arg("name"), nb::arg("at").none())
      .def("_release_version", release_version, nb::arg("name"))
      .def("_held_tuples", held_tuples)
      .def("_forget", forget, nb::arg("keys"), nb::arg("prefixes"), nb::arg("note"))
      .def("_retention_dict",
           [](cluster_object& self) -> named_values {
             return dict_of(run(*self.owner, [](icecore::cluster& used) { return used.retention(); }));
           })
      .def(
          "_set_retention",
          [](cluster_object& self, bool tagged, std::uint64_t newest, std::int64_t seconds, std::uint32_t hourly,
             std::uint32_t daily, std::uint32_t weekly) {
            run(*self.owner, [&](icecore::cluster& used) {
              used.set_retention({.tagged = tagged,
                                  .newest = newest,
                                  .younger_than = std::chrono::seconds(seconds),
                                  .hourly = hourly,
                                  .daily = daily,
                                  .weekly = weekly});
            });
          },
          nb::arg("tagged"), nb::arg("newest"), nb::arg("seconds"), nb::arg("hourly"), nb::arg("daily"),
          nb::arg("weekly"));
}

}  // namespace icecore::python
