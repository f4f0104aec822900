// Shared by all parts of the C interface: handles, the barrier that stops exceptions, conversions.
//
// Invariants:
//   C1. No exception leaves a function of icecore.h and icecore_query.h: every body runs inside guarded(), or cannot
//   throw. C2. A function sets its outputs to NULL or 0 before anything can fail. C3. Returned bytes have data != NULL,
//   even if they are empty.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#pragma GCC visibility push(default)  // these functions are exported
#include "icecore/icecore_query.h"
#pragma GCC visibility pop

#include "icecore/error.hpp"
#include "icecore/snapshot.hpp"
#include "icecore/store.hpp"
#include "icecore/version.hpp"

struct icecore_store {
  icecore::store store;
  std::string path;
};

struct icecore_snapshot {
  icecore::snapshot snapshot;
};

struct icecore_batch {
  icecore::batch operations;
};

// What follows is hidden, except the functions marked as visible: the C interface of clusters, in libicecore_mpi, calls
// them.
namespace icecore::c {

/// The structure that C sees, with the memory it points to; icecore_columns_free() frees it.
struct owned_columns : icecore_columns {
  std::shared_ptr<const void> memory;
};

/// Thrown where a callback asked to stop; never leaves the interface, in which it is ICECORE_STOPPED.
struct stopped_by_callback : std::exception {
  [[nodiscard]] const char* what() const noexcept override { return "a callback asked to stop"; }
};

/// Call this inside a catch block: it stores the exception's message for this thread and returns its code (C1).
[[nodiscard, gnu::visibility("default")]] int code_of_current_exception() noexcept;

/// Runs `body` and turns its exceptions into codes.
template <class Body>
int guarded(Body&& body) noexcept {
  try {
    body();
    return ICECORE_OK;
  } catch (...) {
    return code_of_current_exception();
  }
}

/// Throws errc::invalid_argument, naming function and argument.
[[noreturn, gnu::visibility("default")]] void throw_null(const char* function, const char* argument);

inline void require(const void* pointer, const char* function, const char* argument) {
  if (pointer == nullptr) throw_null(function, argument);
}

/// The caller's (pointer, size) pair as a view; (NULL, 0) is the empty string.
[[nodiscard]] inline std::string_view view(const void* data, std::size_t size, const char* function,
                                           const char* argument) {
  if (size != 0) require(data, function, argument);
  return {data == nullptr ? "" : static_cast<const char*>(data), size};
}

[[nodiscard]] inline icecore_bytes bytes(std::string_view view) noexcept {
  return {view.data() == nullptr ? "" : view.data(), view.size()};
}

[[nodiscard]] inline icecore_bytes bytes(const std::optional<std::string_view>& view) noexcept {
  return view ? bytes(*view) : icecore_bytes{nullptr, 0};
}

/// A pin as the caller holds it: the pointer is the pin's own.
[[nodiscard]] inline icecore_pin* handed_out(pin holds) noexcept {
  return reinterpret_cast<icecore_pin*>(holds.detach());
}
[[nodiscard]] inline pin taken_back(icecore_pin* holds) noexcept {
  return pin::adopt(reinterpret_cast<detail::pin_table*>(holds));
}

[[nodiscard]] inline icecore_value handed_out(std::optional<value> found) noexcept {
  if (!found) return {nullptr, 0, nullptr};
  const icecore_bytes seen = bytes(found->bytes());
  return {seen.data, seen.size, handed_out(std::move(*found).take_pin())};
}

/// from <= key < to; NULL means no bound.
[[nodiscard, gnu::visibility("default")]] key_bounds bounds(const void* from, std::size_t from_size, const void* to,
                                                            std::size_t to_size, const char* function);

/// Throws errc::invalid_argument if `size` cannot be the size of such a structure, or if a part that only a newer
/// library knows is not all zero, because this library would ignore it.
[[gnu::visibility("default")]] void check_structure(const void* structure, std::size_t size, std::size_t known_size,
                                                    const char* function);

/// The caller's structure, whose size may differ from ours; fields that it lacks keep their values in `defaults`.
template <class Structure>
[[nodiscard]] Structure read_structure(const Structure* given, Structure defaults, const char* function) {
  require(given, function, "the structure");
  check_structure(given, given->struct_size, sizeof(Structure), function);
  std::memcpy(&defaults, given, std::min(given->struct_size, sizeof(Structure)));
  defaults.struct_size = sizeof(Structure);
  return defaults;
}

/// Fills as much of the caller's structure as it has room for; its size field does not change.
template <class Structure>
void write_structure(Structure* wanted, Structure filled) noexcept {
  filled.struct_size = wanted->struct_size;
  std::memcpy(wanted, &filled, std::min(wanted->struct_size, sizeof(Structure)));
}

/// The body of an _init function: sets the defaults, and zeroes the fields that only a newer header knows.
template <class Structure>
void initialise(Structure* structure, std::size_t struct_size, const Structure& defaults) noexcept {
  if (structure == nullptr || struct_size < sizeof(std::size_t)) return;
  std::memset(structure, 0, struct_size);
  structure->struct_size = struct_size;
  write_structure(structure, defaults);
}

/// Throws errc::invalid_argument unless the caller's result structure can hold its own size.
template <class Structure>
void require_result(const Structure* wanted, const char* function) {
  require(wanted, function, "the result structure");
  if (wanted->struct_size < sizeof(std::size_t)) check_structure(wanted, wanted->struct_size, 0, function);
}

/// Copies a text into a fixed field and truncates it if it is too long; always zero-terminated.
template <std::size_t Size>
void copy_text(char (&field)[Size], std::string_view text) noexcept {
  const std::size_t size = std::min(text.size(), Size - 1);
  std::memcpy(field, text.data(), size);
  field[size] = '\0';
}

/// An icecore::progress_function that calls the C one; empty for NULL.
[[nodiscard, gnu::visibility("default")]] progress_function progress_of(icecore_progress_function function,
                                                                        void* context);

}  // namespace icecore::c
