// Structures of the Arrow C data interface in the capsules by which Python hands them over:
// https://arrow.apache.org/docs/format/CDataInterface/PyCapsuleInterface.html
#pragma once

#include <nanobind/nanobind.h>

#include <memory>

#include "icecore/arrow.h"

namespace icecore::python {

/// A capsule of this name around a structure, which it releases if nobody has taken it.
template <class Structure>
nanobind::object capsule_of(std::unique_ptr<Structure> structure, const char* name) {
  PyObject* const made = PyCapsule_New(structure.get(), name, [](PyObject* capsule) {
    const std::unique_ptr<Structure> left(
        static_cast<Structure*>(PyCapsule_GetPointer(capsule, PyCapsule_GetName(capsule))));
    if (left->release != nullptr) left->release(left.get());
  });
  if (made == nullptr) {
    structure->release(structure.get());
    throw nanobind::python_error();
  }
  static_cast<void>(structure.release());
  return nanobind::steal(made);
}

}  // namespace icecore::python
