// Extracting all pairs of a cluster's snapshot, as columns or as a stream to a Python function, and the find that asks
// all ranks. Collective. Everything runs without the GIL, except what makes Python objects.
#include <nanobind/stl/optional.h>

#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cluster_objects.hpp"
#include "fixed_size.hpp"
#include "owned_array.hpp"

namespace icecore::python {
namespace {

/// icecore._native_mpi.Extracted: pairs in columns of their own, which arrays keep alive. Does not need the cluster any
/// more.
struct extracted_object {
  std::shared_ptr<const extracted_pairs> pairs;

  [[nodiscard]] const extracted_pairs::column& column(int which) const noexcept {
    return static_cast<part>(which) == part::key ? pairs->keys() : pairs->values();
  }
};

/// How the ranks extract, as the Python layer specifies it.
struct extraction_request {
  int root;
  unsigned threads = 1;
  bool linear_scan = false;
  std::optional<std::uint64_t> memory_bytes_max;

  [[nodiscard]] extraction_options options(key_bounds bounds) const {
    extraction_options how;
    how.root = root;
    how.bounds = std::move(bounds);
    if (empty(how.bounds)) how.bounds.to = how.bounds.from;  // a slice whose start is after its stop has no keys
    how.threads = threads;
    how.linear_scan = linear_scan;
    if (memory_bytes_max) how.memory_bytes_max = *memory_bytes_max;
    return how;
  }
};

/// The item sizes of the dtypes of keys and values; empty: any size.
struct item_sizes {
  std::optional<fixed_size> keys;
  std::optional<fixed_size> values;

  [[nodiscard]] bool unbound() const noexcept { return !keys && !values; }
  void require(const item& one) const {
    if (keys) keys->require(one.key, [&] { return "the key " + quoted(one.key); });
    if (values) values->require(one.value, [&] { return "the value of the key " + quoted(one.key); });
  }

 private:
  /// The beginning of the bytes: as text if they are printable ASCII, else in hexadecimal.
  static std::string quoted(std::string_view key) {
    constexpr std::size_t shown_max = 40;
    constexpr char digits[] = "0123456789abcdef";
    std::string text = "'";
    for (const char byte : key.substr(0, shown_max)) {
      const auto code = static_cast<unsigned char>(byte);
      if (code >= 0x20 && code < 0x7f) {
        text += byte;
      } else {
        text += {'\\', 'x', digits[code >> 4], digits[code & 15]};
      }
    }
    return text + (key.size() > shown_max ? "...'" : "'");
  }
};

std::optional<fixed_size> size_of(std::optional<std::size_t> size, bool pad) {
  if (!size) return std::nullopt;
  return fixed_size{*size, pad};
}

extracted_object extract(const cluster_snapshot_object& self, int method, const extraction_request& asked,
                         const item_sizes& sizes) {
  extraction_options how = asked.options(self.bounds);
  if (!sizes.unbound()) how.check = [&sizes](const item& one) { sizes.require(one); };
  return {run(*self.owner, [&](icecore::cluster& used) {
    return std::make_shared<const extracted_pairs>(
        used.at(self.at).extract(static_cast<extraction_method>(method), how));
  })};
}

/// The column's bytes, writable because nothing else uses them.
byte_array bytes_of(const extracted_object& self, int which) {
  const std::span<const char> bytes = self.column(which).bytes;
  return array_over<std::uint8_t>(const_cast<char*>(bytes.data()), bytes.size(), self.pairs);
}

number_array offsets_of(const extracted_object& self, int which) {
  const extracted_pairs::column& column = self.column(which);
  if (!column.offsets.empty()) {
    return array_over<std::uint64_t>(const_cast<std::uint64_t*>(column.offsets.data()), column.offsets.size(),
                                     self.pairs);
  }
  std::vector<std::uint64_t> made(self.pairs->size() + 1);
  for (std::size_t i = 0; i < made.size(); ++i) made[i] = i * column.width;
  return array_of<std::uint64_t>(std::move(made));
}

/// Copies a column whose items all fit, because extract() knew their size.
void copy_fixed(const extracted_object& self, int which, buffer_like out, std::size_t size, bool pad) {
  const output_buffer buffer(out, self.pairs->size() * size);
  const nb::gil_scoped_release released;
  const fixed_size fits{size, pad};
  const extracted_pairs::column& column = self.column(which);
  for (std::size_t i = 0; i < self.pairs->size(); ++i) {
    fits.require(column[i], [i] { return "item " + std::to_string(i); });
    fits.write(column[i], buffer.data() + i * size);
  }
}

nb::object new_bytes(std::string_view bytes) { return nb::bytes(bytes.data(), bytes.size()); }

bytes_list to_objects(const extracted_object& self, int which) {
  const extracted_pairs::column& column = self.column(which);
  nb::object list = nb::steal(PyList_New(static_cast<Py_ssize_t>(self.pairs->size())));
  if (!list.is_valid()) throw nb::python_error();
  for (std::size_t i = 0; i < self.pairs->size(); ++i) {
    PyList_SET_ITEM(list.ptr(), static_cast<Py_ssize_t>(i), new_bytes(column[i]).release().ptr());
  }
  return list;
}

/// A block of a stream as a list of (key, value), or as (key offsets, key bytes, value offsets, value bytes).
nb::object block_of(std::span<const item> some, bool as_columns) {
  if (!as_columns) {
    nb::list list;
    for (const item& one : some) list.append(nb::make_tuple(new_bytes(one.key), new_bytes(one.value)));
    return list;
  }
  columns block{{{0}, {}}, {{0}, {}}};
  const auto append = [](byte_column& to, std::string_view bytes) {
    to.bytes.insert(to.bytes.end(), bytes.begin(), bytes.end());
    to.offsets.push_back(to.bytes.size());
  };
  for (const item& one : some) {
    append(block.keys, one.key);
    append(block.values, one.value);
  }
  return nb::make_tuple(
      array_of<std::uint64_t>(std::move(block.keys.offsets)), array_of<std::uint8_t>(std::move(block.keys.bytes)),
      array_of<std::uint64_t>(std::move(block.values.offsets)), array_of<std::uint8_t>(std::move(block.values.bytes)));
}

/// Describes a Python exception for the other ranks, which do not have the exception object.
std::string told(const nb::python_error& raised) {
  try {
    const nb::object text = nb::str(raised.value()).attr("encode")("utf-8", "backslashreplace");
    return std::string(nb::type_name(raised.type()).c_str()) + ": " + nb::cast<nb::bytes>(text).c_str();
  } catch (const nb::python_error&) {
    return "an exception whose text cannot be read";
  }
}

void stream(const cluster_snapshot_object& self, sink_function sink, bool as_columns, const extraction_request& asked) {
  const extraction_options how = asked.options(self.bounds);
  std::optional<nb::python_error> thrown;
  const auto hand_on = [&](std::span<const item> some) {
    const nb::gil_scoped_acquire held;
    try {
      sink(block_of(some, as_columns));
      if (PyErr_CheckSignals() != 0) throw nb::python_error();
    } catch (const nb::python_error& e) {
      thrown.emplace(e);
      throw error(errc::invalid_argument, "the sink of a stream raised " + told(e));
    }
  };
  try {
    run(*self.owner, [&](icecore::cluster& used) { used.at(self.at).stream(hand_on, how); });
  } catch (const error&) {
    if (!thrown) throw;
  }
  if (thrown) throw nb::python_error(*thrown);
}

bytes_or_none find_by_broadcast(const cluster_snapshot_object& self, bytes_like key, int root) {
  std::optional<bytes_argument> bytes;
  std::exception_ptr unusable;
  if (self.owner->use().rank() == root) {
    try {
      bytes.emplace(key.ptr(), "a key");
    } catch (...) {  // report it after the call, because the other ranks are in it
      unusable = std::current_exception();
    }
  }
  const std::string_view asked = bytes ? bytes->bytes() : std::string_view();
  const auto found =
      run(*self.owner, [&](icecore::cluster& c) { return c.at(self.at).find_by_broadcast(asked, root); });
  if (unusable) std::rethrow_exception(unusable);
  return contains(self.bounds, asked) ? nb::object(new_value(found)) : nb::none();
}

}  // namespace

void bind_cluster_extraction(nb::module_& m, cluster_snapshot_class& snapshot) {
  nb::class_<extracted_object>(m, "Extracted", "The pairs of all ranks, to be copied column by column.")
      .def("__len__", [](const extracted_object& self) { return self.pairs->size(); })
      .def(
          "width", [](const extracted_object& self, int which) { return self.column(which).width; }, nb::arg("part"))
      .def("bytes", &bytes_of, nb::arg("part"))
      .def("offsets", &offsets_of, nb::arg("part"))
      .def("copy_fixed", &copy_fixed, nb::arg("part"), nb::arg("out"), nb::arg("size"), nb::arg("pad"))
      .def("to_objects", &to_objects, nb::arg("part"));
  snapshot
      .def(
          "_extract",
          [](const cluster_snapshot_object& self, int method, int root, unsigned threads, bool linear_scan,
             std::optional<std::uint64_t> memory_bytes_max, std::optional<std::size_t> key_size, bool key_pad,
             std::optional<std::size_t> value_size, bool value_pad) {
            return extract(self, method, {root, threads, linear_scan, memory_bytes_max},
                           {size_of(key_size, key_pad), size_of(value_size, value_pad)});
          },
          nb::arg("method"), nb::arg("root"), nb::arg("threads"), nb::arg("linear_scan"),
          nb::arg("memory_bytes_max").none(), nb::arg("key_size").none(), nb::arg("key_pad"),
          nb::arg("value_size").none(), nb::arg("value_pad"))
      .def(
          "_stream",
          [](const cluster_snapshot_object& self, sink_function sink, bool as_columns, int root,
             std::optional<std::uint64_t> memory_bytes_max) {
            stream(self, sink, as_columns, {.root = root, .memory_bytes_max = memory_bytes_max});
          },
          nb::arg("sink"), nb::arg("as_columns"), nb::arg("root"), nb::arg("memory_bytes_max").none())
      .def("_find_by_broadcast", &find_by_broadcast, nb::arg("key").none(), nb::arg("root"));
}

}  // namespace icecore::python
