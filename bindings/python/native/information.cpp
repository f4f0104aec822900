// Information about a store: tags, statistics, durability, verification. This code returns plain tuples and dicts; the
// Python layer makes named objects from them.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

#include "icecore/compaction.hpp"
#include "icecore/forgetting.hpp"
#include "objects.hpp"
#include "upkeep.hpp"

namespace icecore::python {
namespace {

nb::tuple tuple_of(const tag_info& tag) {
  return nb::make_tuple(tag.version, tag.time_ns, new_text(tag.name), new_text(tag.note));
}

tag_tuple_or_none optional_tuple_of(const std::optional<tag_info>& tag) {
  return tag ? nb::object(tuple_of(*tag)) : nb::none();
}

nb::dict dict_of(const durability_info& info) {
  nb::dict d;
  d["mode"] = static_cast<int>(info.mode);
  d["medium"] = static_cast<int>(info.medium);
  d["emulated"] = info.emulated;
  d["flush_method"] = info.flush_method;
  d["filesystem"] = info.filesystem;
  d["deferred"] = info.deferred;
  return d;
}

nb::object path_text(const std::string& path) {
  return nb::steal(PyUnicode_DecodeFSDefaultAndSize(path.data(), static_cast<Py_ssize_t>(path.size())));
}

nb::object version_or_none(const std::optional<version>& v) { return v ? nb::cast(*v) : nb::none(); }

nb::dict dict_of(const statistics& s) {
  nb::dict d;
  d["path"] = path_text(s.path);
  d["pool_id"] = s.pool_id;
  d["keys"] = s.keys;
  d["keys_at_least"] = s.keys_at_least;
  d["records"] = s.records;
  d["removes"] = s.removes;
  d["tags"] = s.tags;
  d["clock"] = s.clock;
  d["key_bytes"] = s.key_bytes;
  d["value_bytes"] = s.value_bytes;
  d["used_bytes"] = s.used_bytes;
  d["file_bytes"] = s.file_bytes;
  d["free_bytes"] = s.free_bytes;
  d["live_bytes"] = s.live_bytes;
  d["garbage_bytes"] = s.garbage_bytes;
  d["waiting_bytes"] = s.waiting_bytes;
  d["index_bytes"] = s.index_bytes;
  d["packed_keys"] = s.packed_keys;
  d["packed_records"] = s.packed_records;
  d["packed_bytes"] = s.packed_bytes;
  d["packed_inflated_bytes"] = s.packed_inflated_bytes;
  d["block_cache_bytes_max"] = s.block_cache_bytes_max;
  d["block_cache_bytes"] = s.block_cache_bytes;
  d["block_cache_hits"] = s.block_cache_hits;
  d["block_cache_misses"] = s.block_cache_misses;
  d["strata"] = s.strata;
  d["recovery_seconds"] = s.recovery_seconds;
  d["recovered_from_crash"] = s.recovered_from_crash;
  d["format"] = nb::make_tuple(s.format_major, s.format_minor);
  d["index"] = static_cast<int>(s.index);
  d["recovered_instantly"] = s.recovered_instantly;
  d["compactions"] = s.compactions;
  d["compaction_failure"] = s.compaction_failure;
  d["pins"] = s.pins;
  d["oldest_pin"] = version_or_none(s.oldest_pin);
  d["oldest_pin_seconds"] = s.oldest_pin_seconds;
  d["oldest_held"] = version_or_none(s.oldest_held);
  d["given_bytes"] = s.given_bytes;
  d["written_bytes"] = s.written_bytes;
  d["write_amplification"] = s.write_amplification();
  d["durability"] = dict_of(s.durability);
  nb::list files;
  for (const file_statistics& f : s.files) {
    files.append(nb::make_tuple(path_text(f.path), f.node, f.file_bytes, f.used_bytes));
  }
  d["files"] = files;
  return d;
}

nb::list list_of(const std::vector<damage>& damages) {
  nb::list list;
  for (const damage& found : damages) {
    const nb::object key = found.key ? nb::object(nb::bytes(found.key->data(), found.key->size())) : nb::none();
    const nb::object version = found.version ? nb::cast(*found.version) : nb::none();
    list.append(
        nb::make_tuple(found.offset, found.structure, new_text(found.what), key, version, path_text(found.file)));
  }
  return list;
}

nb::dict dict_of(const repair_report& report) {
  nb::list unknown;
  for (const unknown_versions& u : report.unknown) {
    unknown.append(nb::make_tuple(nb::bytes(u.key.data(), u.key.size()), u.first, u.last));
  }
  nb::dict d;
  d["losses"] = list_of(report.losses);
  d["repaired"] = list_of(report.repaired);
  d["unknown"] = unknown;
  d["keys"] = report.keys;
  d["records"] = report.records;
  d["tags"] = report.tags;
  d["feeds"] = report.feeds;
  d["holds"] = report.holds;
  d["queries"] = report.queries;
  d["clock"] = report.clock;
  return d;
}

nb::dict dict_of(const verify_report& report) {
  nb::dict d;
  d["damages"] = list_of(report.damages);
  d["segments"] = report.segments;
  d["entries"] = report.entries;
  d["records"] = report.records;
  d["tags"] = report.tags;
  d["queries"] = report.queries;
  d["bytes"] = report.bytes;
  return d;
}

named_values verify_store(store_object& self, progress_like on_progress) {
  const icecore::store& store = self.owner->use();
  progress_adapter progress(on_progress);
  const progress_function function = progress.function();
  verify_report report;
  {
    const without_gil released(*self.owner);
    report = store.verify(function);
  }
  progress.finish();
  return dict_of(report);
}

named_values verify_path(const nb::bytes& path, progress_like on_progress, const placement_pairs& moved) {
  const std::vector<placement> places = placements_of(moved);
  const std::filesystem::path file(std::string(path.c_str(), path.size()));
  progress_adapter progress(on_progress);
  const progress_function function = progress.function();
  verify_report report;
  {
    const nb::gil_scoped_release released;
    report = verify_file(file, function, places);
  }
  progress.finish();
  return dict_of(report);
}

named_values repair_path(const nb::bytes& damaged, const nb::bytes& repaired, progress_like on_progress,
                         const placement_pairs& placements, const placement_pairs& moved, int crash) {
  progress_adapter progress(on_progress);
  const repair_options how{.from = std::string(damaged.c_str(), damaged.size()),
                           .to = std::string(repaired.c_str(), repaired.size()),
                           .on_progress = progress.function(),
                           .placements = placements_of(placements),
                           .moved = placements_of(moved),
                           .crash = static_cast<crash_kind>(crash)};
  repair_report report;
  {
    const nb::gil_scoped_release released;
    report = repair(how);
  }
  progress.finish();
  return dict_of(report);
}

named_values compact_open(store_object& self, const wanted_compaction& wanted, progress_like on_progress) {
  icecore::store& store = self.owner->use();
  progress_adapter progress(on_progress);
  const compaction_options how = options_of(wanted, progress);
  compaction_report done;
  {
    const without_gil released(*self.owner);
    done = store.compact(how);
  }
  progress.finish();
  return python::dict_of(done);
}

named_values compact_path(const nb::bytes& path, const wanted_compaction& wanted, progress_like on_progress,
                          const placement_pairs& placements, int crash) {
  progress_adapter progress(on_progress);
  options opening;
  opening.on_progress = progress.function();
  opening.placements = placements_of(placements);
  opening.crash = static_cast<crash_kind>(crash);
  const std::filesystem::path file(std::string(path.c_str(), path.size()));
  const compaction_options how = options_of(wanted, progress);
  compaction_report done;
  {
    const nb::gil_scoped_release released;
    done = compact(file, opening, how);
  }
  progress.finish();
  return python::dict_of(done);
}

named_values retention_dict(store_object& self) { return python::dict_of(self.owner->use().retention()); }

void set_retention(store_object& self, bool tagged, std::uint64_t newest, std::int64_t seconds, std::uint32_t hourly,
                   std::uint32_t daily, std::uint32_t weekly) {
  store& used = self.owner->use();
  const without_gil released(*self.owner);
  used.set_retention({.tagged = tagged,
                      .newest = newest,
                      .younger_than = std::chrono::seconds(seconds),
                      .hourly = hourly,
                      .daily = daily,
                      .weekly = weekly});
}

any_list expired_ranges(store_object& self) {
  nb::list all;
  for (const version_range& each : self.owner->use().expired_versions()) {
    all.append(nb::make_tuple(each.first, each.end));
  }
  return all;
}

icecore::version hold_version(store_object& self, const nb::bytes& name, std::optional<icecore::version> at) {
  store& used = self.owner->use();
  const std::string of(name.c_str(), name.size());
  const without_gil released(*self.owner);
  return used.hold_version(of, at);
}

void release_version(store_object& self, const nb::bytes& name) {
  store& used = self.owner->use();
  const std::string of(name.c_str(), name.size());
  const without_gil released(*self.owner);
  used.release_version(of);
}

any_list held_tuples(store_object& self) {
  const store& used = self.owner->use();
  std::vector<held_version> found;
  {
    const without_gil released(*self.owner);
    found = used.held_versions();
  }
  return tuples_of(found);
}

named_values forget(store_object& self, many_bytes_like keys, many_bytes_like prefixes, const nb::bytes& note) {
  store& used = self.owner->use();
  const std::string why(note.c_str(), note.size());
  const forget_request what{
      .keys = strings_of(keys, "a key"), .prefixes = strings_of(prefixes, "a prefix"), .note = why};
  forget_report done;
  {
    const without_gil released(*self.owner);
    done = used.forget(what);
  }
  return python::dict_of(done);
}

}  // namespace

void bind_information(store_class& c, nb::module_& m) {
  c.def_prop_ro(
       "_clock", [](store_object& self) { return self.owner->use().clock(); },
       "The version that a write now belongs to; all smaller ones are closed.")
      .def_prop_ro(
          "_durable_version", [](store_object& self) { return self.owner->use().durable_version(); },
          "All versions up to this closed one survive a power cut. Where durability is deferred: those that sync()\n"
          "covered.")
      .def_prop_ro(
          "_read_only", [](store_object& self) { return self.owner->use().read_only(); },
          "Whether the store was opened for reading.")
      .def_prop_ro(
          "_beside_writer", [](store_object& self) { return self.owner->use().beside_writer(); },
          "Whether the store was opened for reading while another process had it open for writing.")
      .def_prop_ro(
          "_closed", [](const store_object& self) { return self.owner->closed(); }, "Whether close() was called.")
      .def_prop_ro(
          "_path",
          [](const store_object& self) -> text_object {
            const std::string& path = self.owner->path().native();
            return nb::steal(PyUnicode_DecodeFSDefaultAndSize(path.data(), static_cast<Py_ssize_t>(path.size())));
          },
          "The path with which the store was opened.")
      .def("_tag_tuples",
           [](store_object& self) -> tag_tuples {
             const icecore::store& store = self.owner->use();
             std::vector<tag_info> found;
             {
               const without_gil released(*self.owner);
               found = store.tags();
             }
             nb::list tags;
             for (const tag_info& tag : found) tags.append(tuple_of(tag));
             return tags;
           })
      .def(
          "_tag_by_name",
          [](store_object& self, bytes_like name) {
            return optional_tuple_of(self.owner->use().find_tag(bytes_argument(name.ptr(), "name").bytes()));
          },
          nb::arg("name"))
      .def(
          "_tag_by_version",
          [](store_object& self, icecore::version tagged) {
            return optional_tuple_of(self.owner->use().find_tag(tagged));
          },
          nb::arg("version"))
      .def(
          "_tag_by_time",
          [](store_object& self, std::int64_t time_ns) {
            return optional_tuple_of(self.owner->use().find_tag_at_time(time_ns));
          },
          nb::arg("time_ns"))
      .def("_retention_dict", &retention_dict)
      .def("_set_retention", &set_retention, nb::arg("tagged"), nb::arg("newest"), nb::arg("seconds"),
           nb::arg("hourly"), nb::arg("daily"), nb::arg("weekly"))
      .def("_expired_ranges", &expired_ranges)
      .def("_hold_version", &hold_version, nb::arg("name"), nb::arg("at").none())
      .def("_release_version", &release_version, nb::arg("name"))
      .def("_held_tuples", &held_tuples)
      .def("_forget", &forget, nb::arg("keys"), nb::arg("prefixes"), nb::arg("note"))
      .def("_durability_dict",
           [](store_object& self) -> named_values { return dict_of(self.owner->use().durability()); })
      .def("_stats_dict",
           [](store_object& self) -> named_values {
             const icecore::store& store = self.owner->use();
             std::optional<statistics> counted;
             {
               const without_gil released(*self.owner);
               counted = store.stats();
             }
             return dict_of(*counted);
           })
      .def("_compact", &compact_open, nb::arg("wanted"), nb::arg("on_progress").none())
      .def("_pause_compaction", [](store_object& self) { self.owner->use().pause_compaction(); })
      .def("_resume_compaction", [](store_object& self) { self.owner->use().resume_compaction(); })
      .def("_verify_dict", &verify_store, nb::arg("on_progress").none());
  m.def("verify_file_dict", &verify_path, nb::arg("path"), nb::arg("on_progress").none(), nb::arg("moved"));
  m.def("compact_dict", &compact_path, nb::arg("path"), nb::arg("wanted"), nb::arg("on_progress").none(),
        nb::arg("placements"), nb::arg("crash"));
  m.def("repair_dict", &repair_path, nb::arg("damaged"), nb::arg("repaired"), nb::arg("on_progress").none(),
        nb::arg("placements"), nb::arg("moved"), nb::arg("crash"));
}

}  // namespace icecore::python
