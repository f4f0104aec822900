// icecore._native_mpi: the C++ half of icecore.mpi. Start reading at cluster_session.hpp, then cluster.cpp. Columns and
// batches are those of icecore._native, which must be imported first.
#include <nanobind/nanobind.h>

#include "cluster_objects.hpp"

NB_MODULE(_native_mpi, m) {
  namespace python = icecore::python;
  nanobind::set_leak_warnings(false);  // not a leak: icecore's exit function closes a cluster that is still open
  nanobind::module_::import_("icecore._native");
  python::cluster_class cluster = python::bind_cluster(m);
  python::bind_checkpoint(m, cluster);
  python::bind_cluster_upkeep(cluster);
  python::cluster_snapshot_class snapshot = python::bind_cluster_snapshot(m);
  python::bind_cluster_bulk(cluster, snapshot);
  python::bind_cluster_extraction(m, snapshot);
  m.def("mpi_library_version", []() -> python::text_object {
    char text[MPI_MAX_LIBRARY_VERSION_STRING];
    int size = 0;
    MPI_Get_library_version(text, &size);
    return python::new_text({text, static_cast<std::size_t>(size)});
  });
  m.def("mpi_is_initialized", [] {
    int begun = 0;
    MPI_Initialized(&begun);
    return begun != 0;
  });
}
