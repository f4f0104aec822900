// Filters: of texts, of Python functions, of several.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "objects.hpp"

namespace icecore::python {
namespace {

/// A Python object that threads without the GIL may copy and give up.
class shared_callable {
 public:
  explicit shared_callable(nb::handle called)
      : called_(called.inc_ref().ptr(), [](PyObject* last) noexcept {
          if (Py_IsInitialized() == 0) return;  // the interpreter has gone, and the object with it
          const nb::gil_scoped_acquire held;
          Py_DECREF(last);
        }) {}

  [[nodiscard]] nb::handle get() const noexcept { return called_.get(); }

 private:
  std::shared_ptr<PyObject> called_;
};

nb::bytes bytes_of(std::string_view view) { return nb::bytes(view.data(), view.size()); }

/// Calls a Python function for a block of items: with the list of their keys and the list of their values. If
/// `value_size` is not 0, only with those items whose values have this size, and the values are one bytes object.
/// What it returns is a buffer with a byte for each item that it got.
struct python_block_function {
  shared_callable called;
  std::size_t value_size;

  void operator()(std::span<const item> items, std::span<bool> flags) const {
    const inside_call inside;
    const nb::gil_scoped_acquire held;
    std::vector<std::size_t> given;
    for (std::size_t i = 0; i < items.size(); ++i) {
      if (value_size == 0 || items[i].value.size() == value_size) given.push_back(i);
    }
    if (given.empty()) return;
    nb::list keys;
    for (const std::size_t i : given) keys.append(bytes_of(items[i].key));
    const nb::object answer = called.get()(keys, values(items, given));
    const bytes_argument matches(answer.ptr(), "what the function of a filter returns");
    if (matches.bytes().size() != given.size()) {
      throw error(errc::invalid_argument, "the function of a filter must return a bool for each of the " +
                                              std::to_string(given.size()) + " items, not " +
                                              std::to_string(matches.bytes().size()) + " of them");
    }
    for (std::size_t n = 0; n < given.size(); ++n) flags[given[n]] = matches.bytes()[n] != 0;
  }

 private:
  [[nodiscard]] nb::object values(std::span<const item> items, const std::vector<std::size_t>& given) const {
    if (value_size == 0) {
      nb::list list;
      for (const std::size_t i : given) list.append(bytes_of(items[i].value));
      return list;
    }
    std::string all;
    all.reserve(given.size() * value_size);
    for (const std::size_t i : given) all.append(items[i].value);
    return bytes_of(all);
  }
};

std::vector<icecore::filter> filters_of(const std::vector<const filter_object*>& objects) {
  std::vector<icecore::filter> filters;
  for (const filter_object* one : objects) filters.push_back(one->filter);
  return filters;
}

}  // namespace

void bind_filters(nb::module_& m) {
  nb::class_<filter_object>(m, "Filter", "A condition on keys and values; icecore.Filter adds the rest.")
      .def(
          "__init__",
          [](filter_object* self, std::string_view text, const std::optional<std::string>& columns) {
            new (self) filter_object{icecore::filter(text, columns ? icecore::layout(*columns) : icecore::layout())};
          },
          nb::arg("text"), nb::arg("layout").none())
      .def(
          "__init__",
          [](filter_object* self, const std::string& name, std::uint64_t revision, block_call function,
             std::size_t value_size) {
            caller_function made{name, revision, python_block_function{shared_callable(function), value_size}};
            auto one = icecore::filter::of(name, revision, made.evaluate);
            new (self) filter_object{std::move(one), std::move(made)};
          },
          nb::arg("name"), nb::arg("revision"), nb::arg("function"), nb::arg("value_size"))
      .def(
          "__init__",
          [](filter_object* self, const std::vector<const filter_object*>& filters, bool all) {
            const auto joined = filters_of(filters);
            new (self) filter_object{all ? icecore::filter::all_of(joined) : icecore::filter::any_of(joined)};
          },
          nb::arg("filters"), nb::arg("all"))
      .def(
          "__init__",
          [](filter_object* self, const filter_object& given, const std::string& columns) {
            new (self) filter_object{given.filter.with_columns(icecore::layout(columns)), given.function};
          },
          nb::arg("given"), nb::arg("layout"))
      .def(
          "_matches",
          [](const filter_object& self, bytes_like key, bytes_like value) {
            const bytes_argument key_bytes(key.ptr(), "a key");
            const bytes_argument value_bytes(value.ptr(), "a value");
            const nb::gil_scoped_release released;
            return self.filter.matches(key_bytes.bytes(), value_bytes.bytes());
          },
          nb::arg("key").none(), nb::arg("value").none(),
          "Whether one key and value match. ``where()`` is many times as fast for many.")
      .def(
          "_explain", [](const filter_object& self) -> text_object { return new_text(self.filter.explain()); },
          "The expression in normal form, the ranges of keys that are sought, and the order of evaluation.")
      .def(
          "_fingerprint",
          [](const filter_object& self) {
            const auto print = self.filter.fingerprint();
            return nb::bytes(print.data(), print.size());
          },
          "16 bytes; equal filters have equal ones.")
      .def_prop_ro(
          "_function",
          [](const filter_object& self) -> name_and_revision {
            if (!self.function) return nb::none();
            return nb::make_tuple(new_text(self.function->name), self.function->revision);
          },
          "Name and revision of the function that it is of, by which kept queries refer to it; None if it is of none.");
}

}  // namespace icecore::python
