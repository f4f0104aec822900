// What a filter finds in a snapshot: items, totals, columns, pages.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <chrono>
#include <limits>
#include <string>
#include <vector>

#include "block_reader.hpp"
#include "results.hpp"

namespace icecore::python {
namespace {

/// A literal of the language of filters.
std::string literal_of(std::string_view bytes) {
  constexpr std::string_view digits = "0123456789abcdef";
  std::string text = "x'";
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    text += digits[byte >> 4];
    text += digits[byte & 15];
  }
  return text + "'";
}

/// The filter for the keys between the snapshot's bounds.
icecore::filter within(const snapshot_object& snapshot, const icecore::filter& where) {
  if (!snapshot.bounded()) return where;
  std::string text = "true";
  if (snapshot.bounds.from) text += " and key >= " + literal_of(*snapshot.bounds.from);
  if (snapshot.bounds.to) text += " and key < " + literal_of(*snapshot.bounds.to);
  return icecore::filter::all_of({icecore::filter(text), where}).with_columns(where.columns());
}

/// icecore._native.Filtered
struct filtered_object {
  snapshot_object of;  // whose bounds are in `where`
  icecore::filter where;

  template <typename Call>
  auto without_the_gil(const Call& call) const {
    const icecore::snapshot& then = of.then();
    const without_gil released(*of.owner);
    return call(then);
  }
};

/// icecore._native.FilteredIterator
struct filtered_iterator {
  block_reader<filtered_items, item> reader;
  part wanted;

  PyObject* next() {
    const item* found = reader.next();
    if (found == nullptr) return nullptr;
    const item now = *found;  // the block may be replaced while the GIL is released to copy a large value
    if (wanted == part::key) return reader.copied(now.key);
    if (wanted == part::value) return reader.copied(now.value);
    PyObject* const key = reader.copied(now.key);
    return tuple_of<2>({key, reader.copied(now.value)});
  }
};

using total = std::optional<result_number> (icecore::snapshot::*)(const icecore::filter&, std::string_view,
                                                                  unsigned) const;

template <total Which>
found_number total_of(const filtered_object& self, const std::string& expression, unsigned threads) {
  const auto found = self.without_the_gil(
      [&](const icecore::snapshot& then) { return (then.*Which)(self.where, expression, threads); });
  if (!found) return nb::none();
  return std::visit([](auto number) -> nb::object { return nb::cast(number); }, *found);
}

results_object extract(const filtered_object& self, const std::vector<std::string>& select, unsigned threads) {
  return self.without_the_gil([&](const icecore::snapshot& then) {
    return results_object{std::make_shared<result_columns>(then.extract(self.where, select, threads))};
  });
}

found_page page_of(const filtered_object& self, bytes_like token, std::uint64_t matches,
                   std::optional<std::uint64_t> examined, std::optional<std::int64_t> time_us, bool reverse,
                   bytes_like secret) {
  const bytes_argument from(token.ptr(), "token");
  const bytes_argument signed_with(secret.ptr(), "secret");
  page_limits limits{.matches = matches, .examined = examined, .reverse = reverse, .secret = signed_with.bytes()};
  if (time_us) limits.time = std::chrono::microseconds(*time_us);
  const page found =
      self.without_the_gil([&](const icecore::snapshot& then) { return then.page(self.where, limits, from.bytes()); });
  nb::list items;
  for (const item& one : found.items) {
    items.append(
        nb::make_tuple(nb::bytes(one.key.data(), one.key.size()), nb::bytes(one.value.data(), one.value.size())));
  }
  return nb::make_tuple(items, nb::bytes(found.token.data(), found.token.size()), found.examined, found.end);
}

}  // namespace

void bind_filtered(nb::module_& m) {
  nb::class_<filtered_object>(m, "Filtered", "What a filter finds in a snapshot; icecore.Filtered adds the rest.")
      .def(
          "__init__",
          [](filtered_object* self, const snapshot_object& snapshot, const filter_object& where) {
            static_cast<void>(snapshot.then());  // raises now what keeps it from being read
            new (self) filtered_object{snapshot, within(snapshot, where.filter)};
          },
          nb::arg("snapshot"), nb::arg("filter"))
      .def(
          "_count",
          [](const filtered_object& self, unsigned threads) {
            return self.without_the_gil([&](const icecore::snapshot& then) { return then.count(self.where, threads); });
          },
          nb::arg("threads"))
      .def("_sum", &total_of<&icecore::snapshot::sum>, nb::arg("expression"), nb::arg("threads"))
      .def("_min", &total_of<&icecore::snapshot::min>, nb::arg("expression"), nb::arg("threads"))
      .def("_max", &total_of<&icecore::snapshot::max>, nb::arg("expression"), nb::arg("threads"))
      .def("_extract", &extract, nb::arg("select"), nb::arg("threads"))
      .def("_page", &page_of, nb::arg("token").none(), nb::arg("matches"), nb::arg("examined").none(),
           nb::arg("time_us").none(), nb::arg("reverse"), nb::arg("secret").none())
      .def(
          "_explain",
          [](const filtered_object& self) -> text_object {
            return new_text(
                self.without_the_gil([&](const icecore::snapshot& then) { return then.explain(self.where); }));
          },
          "The expression in normal form, the ranges of keys that are sought, the order of evaluation, and whether "
          "the\n"
          "store sorts its keys first.")
      .def_prop_ro(
          "_version", [](const filtered_object& self) { return self.of.number; }, "The version's number.");
  nb::class_<filtered_iterator>(m, "FilteredIterator", nb::type_slots(iterator_slots<filtered_iterator>()))
      .def(
          "__init__",
          [](filtered_iterator* self, const filtered_object& found, int wanted) {
            const icecore::snapshot& then = found.of.then();
            constexpr std::uint64_t all = std::numeric_limits<std::uint64_t>::max();
            new (self) filtered_iterator{
                {found.of.owner, then.holds(), filtered_items(then.holds(), then.version(), found.where), all},
                static_cast<part>(wanted)};
          },
          nb::arg("found"), nb::arg("part"));
}

}  // namespace icecore::python
