// icecore._native: the C++ half of the Python package. Start reading at session.hpp, then store.cpp.
#include <nanobind/nanobind.h>

#include "objects.hpp"
#include "results.hpp"

namespace icecore::python {
namespace {

int get_buffer(PyObject* self, Py_buffer* view, int flags) noexcept {
  return slot(-1, [&] {
    const std::string_view bytes = self_of<value>(self).bytes();
    // a buffer of no bytes must still have an address
    void* const data = bytes.empty() ? const_cast<char*>("") : const_cast<char*>(bytes.data());
    return PyBuffer_FillInfo(view, self, data, static_cast<Py_ssize_t>(bytes.size()), /*readonly=*/1, flags);
  });
}

const PyType_Slot view_slots[] = {
    {Py_bf_getbuffer, reinterpret_cast<void*>(get_buffer)},
    {0, nullptr},
};

void translate(const std::exception_ptr& thrown, void*) {
  try {
    std::rethrow_exception(thrown);
  } catch (const error&) {
    set_python_error();
  }
}

}  // namespace
}  // namespace icecore::python

NB_MODULE(_native, m) {
  namespace python = icecore::python;
  nanobind::set_leak_warnings(false);  // not a leak: icecore's exit function closes a store that is still open
  nanobind::register_exception_translator(python::translate);
  nanobind::class_<icecore::value>(m, "ValueView", nanobind::type_slots(python::view_slots),
                                   "A value in the pool, which it keeps mapped.");
  python::bind_column(m);
  python::bind_batch(m);
  python::store_class store = python::bind_store(m);
  python::bind_information(store, m);
  python::snapshot_class snapshot = python::bind_snapshot(m);
  python::bind_bulk(store, snapshot);
  python::bind_iterators(m);
  python::bind_extraction(m);
  python::bind_filters(m);
  python::bind_results(m);
  python::bind_filtered(m);
  python::bind_queries(m);
  python::bind_feeds(m);
  python::bind_arrow_streams(m);
  m.def("library_version", &icecore::library_version);
  m.def("process_huge_page_bytes", &icecore::process_huge_page_bytes,
        nanobind::call_guard<nanobind::gil_scoped_release>(),
        "Memory of the whole process in huge pages now, bytes; 0 if the kernel hides it. The kernel counts the\n"
        "process's pages meanwhile, which takes milliseconds.");
}
