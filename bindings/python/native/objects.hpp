// The C++ halves of the Python objects, and the functions that bind them, one per file.
#pragma once

#include <nanobind/nanobind.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string_view>
#include <utility>

#include "arguments.hpp"
#include "column.hpp"
#include "icecore/changes.hpp"
#include "icecore/icecore.hpp"
#include "session.hpp"

namespace icecore::python {

/// icecore._native.Store
struct store_object {
  std::shared_ptr<session> owner;
};

/// icecore._native.Snapshot: one version of the store between bounds.
struct snapshot_object {
  mutable std::shared_ptr<session> owner;  // another one in a child of the process that writes the store
  icecore::version number;
  key_bounds bounds;

  /// Of the open store; errc::version_not_closed and the like come now.
  snapshot_object(const std::shared_ptr<session>& of, icecore::version at)
      : owner(of), number(at), at_(of->use().at(at)), opening_(of->openings()) {}
  /// Of a store that is opened at its first use.
  snapshot_object(std::shared_ptr<session> of, icecore::version at, key_bounds within)
      : owner(std::move(of)), number(at), bounds(std::move(within)) {}
  /// A part of another one.
  snapshot_object(const snapshot_object& whole, key_bounds within) : snapshot_object(whole) {
    bounds = std::move(within);
  }

  [[nodiscard]] bool bounded() const noexcept { return bounds.from.has_value() || bounds.to.has_value(); }
  /// The version in the store that is open in this process. The caller holds the GIL. errc::closed, errc::forked.
  [[nodiscard]] const icecore::snapshot& then() const {
    if (owner->is_of_writing_parent()) {
      at_.reset();
      owner = std::shared_ptr(owner->beside_parent());
    }
    owner->use();
    if (!at_ || opening_ != owner->openings()) open_here();
    return *at_;
  }
  [[nodiscard]] std::optional<value> find(std::string_view key) const {
    const icecore::snapshot& at = then();
    return find_value(*owner, [&](const icecore::store&) -> std::optional<value> {
      if (!contains(bounds, key)) return std::nullopt;
      const std::optional<std::string_view> found = at.find(key);
      if (!found) return std::nullopt;
      return value(*found, at.holds());
    });
  }

 private:
  void open_here() const;  // snapshot.cpp

  mutable std::optional<icecore::snapshot> at_;
  mutable std::uint64_t opening_ = 0;
};

/// icecore._native.Batch. The mutex guards the operations while large values are copied without the GIL. Its holder
/// never needs the GIL before it unlocks the mutex, so other threads may wait for the mutex with the GIL held.
struct batch_object {
  std::mutex mutex;
  icecore::batch operations;
};

/// icecore._native.Filter
struct filter_object {
  icecore::filter filter;
  std::optional<caller_function> function{};  // if it is of one: what stored filters refer to
};

/// icecore._native.Changes: must not move while it is iterated.
struct changes_object {
  std::shared_ptr<session> owner;
  change_range range;
  std::optional<change_range::iterator> at{};
};

/// Which part of an item the caller wants.
enum class part : std::uint8_t { key = 0, value = 1, both = 2 };

/// mp_subscript calls it for a slice; the Python layer returns a narrowed snapshot.
[[nodiscard]] inline PyObject* subscript_slice(PyObject* self, PyObject* slice) {
  return PyObject_CallMethod(self, "_slice", "O", slice);
}

using store_class = nb::class_<store_object>;
using snapshot_class = nb::class_<snapshot_object>;

void bind_batch(nb::module_& m);                               // store.cpp
[[nodiscard]] store_class bind_store(nb::module_& m);          // store.cpp
void bind_information(store_class& store, nb::module_& m);     // information.cpp
[[nodiscard]] snapshot_class bind_snapshot(nb::module_& m);    // snapshot.cpp
void bind_iterators(nb::module_& m);                           // iterators.cpp
void bind_extraction(nb::module_& m);                          // extraction.cpp
void bind_bulk(store_class& store, snapshot_class& snapshot);  // bulk.cpp
void bind_filters(nb::module_& m);                             // filter.cpp
void bind_filtered(nb::module_& m);                            // filtered.cpp
void bind_queries(nb::module_& m);                             // query.cpp
void bind_feeds(nb::module_& m);                               // feed.cpp
void bind_arrow_streams(nb::module_& m);                       // arrow_stream.cpp

}  // namespace icecore::python
