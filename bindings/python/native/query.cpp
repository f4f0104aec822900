// Kept queries. Every call that takes a lock of the library releases the GIL: the last user of a Python function may be
// a thread that holds such a lock, and needs the GIL to give the function up.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
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

using std::chrono::microseconds;

/// icecore._native.Query
struct query_object {
  std::shared_ptr<session> owner;
  icecore::query kept;

  template <typename Call>
  auto without_the_gil(const Call& call) const {
    owner->use();
    const without_gil released(*owner);
    return call();
  }
};

/// A row whose key stays.
struct kept_row {
  kept_row(const query_row& from) : number(from.number), key(from.key), value(from.value) {}  // NOLINT: converts
  std::uint64_t number;
  std::string key;
  std::optional<std::string_view> value;
};

/// icecore._native.RowIterator
struct row_iterator {
  block_reader<query_rows, kept_row> reader;

  PyObject* next() {
    const kept_row* found = reader.next();
    if (found == nullptr) return nullptr;
    const std::optional<std::string_view> value = found->value;
    PyObject* const number = PyLong_FromUnsignedLongLong(found->number);
    PyObject* const key = PyBytes_FromStringAndSize(found->key.data(), static_cast<Py_ssize_t>(found->key.size()));
    return tuple_of<3>({number, key, reader.copied(value)});
  }
};

/// Expressions and how they are folded.
using aggregate_list = std::vector<std::pair<int, std::string>>;

icecore::query started(session& owner, const std::string& name, const filter_object& where,
                       std::optional<icecore::version> at, int keep, const std::vector<std::string>& select,
                       const aggregate_list& aggregates) {
  icecore::store& store = owner.use();
  query_request what;
  what.name = name;
  what.at = at;
  what.where = where.filter;
  what.keep = static_cast<query_keeps>(keep);
  what.select = select;
  for (const auto& [how, expression] : aggregates) what.aggregates.push_back({static_cast<aggregate>(how), expression});
  const without_gil released(owner);
  return store.start(what);
}

/// Finds functions of this revision, or of any one.
function_resolver resolver_of(const std::vector<const filter_object*>& functions, bool any_revision) {
  std::vector<caller_function> known;
  for (const filter_object* one : functions) {
    if (one->function) known.push_back(*one->function);
  }
  if (known.empty()) return {};
  return [known = std::move(known), any_revision](std::string_view called, std::uint64_t revision) {
    for (const caller_function& one : known) {
      if (one.name == called && (any_revision || one.revision == revision)) return one;
    }
    return caller_function{};
  };
}

icecore::query opened(session& owner, const std::string& name, const std::vector<const filter_object*>& functions) {
  icecore::store& store = owner.use();
  const function_resolver resolve = resolver_of(functions, false);
  const without_gil released(owner);
  return store.query(name, resolve);
}

any_tuple tuple_of_progress(const query_progress& now) {
  nb::object left = nb::none();
  if (now.left) left = nb::cast(now.left->count());
  return nb::make_tuple(static_cast<int>(now.state), now.examined, now.expected, now.rows, now.repeated, now.runs,
                        now.worked.count(), left);
}

struct run_limits {
  unsigned threads;
  std::int64_t every_us;
  bool every_item;
  std::optional<std::int64_t> time_us;
  std::optional<std::uint64_t> keys;
  std::uint64_t keys_per_second;
  bool skip_failed;
  bool skip_damaged;
};

any_tuple run(query_object& self, const run_limits& limits, query_report on_progress) {
  run_options how;
  how.threads = limits.threads;
  how.every = microseconds(limits.every_us);
  how.every_item = limits.every_item;
  if (limits.time_us) how.time = microseconds(*limits.time_us);
  how.keys = limits.keys;
  how.keys_per_second = limits.keys_per_second;
  how.skip_failed = limits.skip_failed;
  how.skip_damaged = limits.skip_damaged;
  how.on_progress = [on_progress](const query_progress& now) {
    const nb::gil_scoped_acquire held;
    if (PyErr_CheckSignals() != 0) throw nb::python_error();  // KeyboardInterrupt
    if (!on_progress.is_none()) on_progress(tuple_of_progress(now));
  };
  return tuple_of_progress(self.without_the_gil([&] { return self.kept.run(how); }));
}

/// All rows from one on, as columns.
results_object columns_of(const query_object& self, std::uint64_t from_row, bool with_values) {
  return self.without_the_gil([&] {
    auto columns = std::make_shared<result_columns>(with_values ? 3 : 2);
    result_values& numbers = (*columns)[0];
    numbers.name = "number";
    numbers.type = result_type::u64;
    for (std::size_t i = 1; i < columns->size(); ++i) {
      (*columns)[i].name = i == 1 ? "key" : "value";
      (*columns)[i].type = result_type::bytes;
      (*columns)[i].offsets.push_back(0);
    }
    query_rows rows = self.kept.results(from_row, with_values);
    for (const query_row& row : rows) {
      numbers.words.push_back(row.number);
      append_bytes((*columns)[1], row.key);
      if (with_values) append_bytes((*columns)[2], row.value);
    }
    numbers.size = numbers.words.size();
    numbers.validity = (*columns)[1].validity;
    return results_object{std::move(columns)};
  });
}

/// Of a query that keeps columns: some rows of those that match, if a condition is given.
results_object kept_columns_of(const query_object& self, std::uint64_t from_row, std::optional<std::uint64_t> rows,
                               const std::optional<std::string>& where) {
  return self.without_the_gil([&] {
    selected_rows some = self.kept.rows();
    if (where) some = some.where(*where);
    return results_object{std::make_shared<result_columns>(
        some.read(from_row, rows.value_or(std::numeric_limits<std::uint64_t>::max())))};
  });
}

/// The number, or None.
nb::object number_object(const std::optional<result_number>& number) {
  if (!number) return nb::none();
  return std::visit([](auto n) -> nb::object { return nb::cast(n); }, *number);
}

std::uint64_t kept_count(const query_object& self, const std::optional<std::string>& where, unsigned threads) {
  return self.without_the_gil([&] {
    const selected_rows all = self.kept.rows();
    return (where ? all.where(*where) : all).count(threads);
  });
}

using kept_total = std::optional<result_number> (selected_rows::*)(std::string_view, unsigned) const;

template <kept_total Which>
found_number kept_total_of(const query_object& self, const std::string& expression,
                           const std::optional<std::string>& where, unsigned threads) {
  return number_object(self.without_the_gil([&] {
    const selected_rows all = self.kept.rows();
    return ((where ? all.where(*where) : all).*Which)(expression, threads);
  }));
}

any_list totals_of(const query_object& self) {
  const std::vector<query_total> totals = self.without_the_gil([&] { return self.kept.totals(); });
  nb::list all;
  for (const query_total& one : totals) {
    all.append(nb::make_tuple(static_cast<int>(one.how), new_text(one.expression), number_object(one.value)));
  }
  return all;
}

any_list list_of_failures(const std::vector<query_failure>& failures) {
  nb::list all;
  for (const query_failure& one : failures) {
    all.append(nb::make_tuple(
        nb::bytes(one.key.data(), one.key.size()),
        nb::steal(PyUnicode_DecodeUTF8(one.message.data(), static_cast<Py_ssize_t>(one.message.size()), "replace")),
        one.damaged));
  }
  return all;
}

void bind_failures(nb::class_<query_object>& c) {
  c.def("_failures",
        [](const query_object& self) {
          const auto found = self.without_the_gil([&] { return self.kept.failure(); });
          return list_of_failures(found ? std::vector{*found} : std::vector<query_failure>());
        })
      .def("_skipped",
           [](const query_object& self) {
             return list_of_failures(self.without_the_gil([&] { return self.kept.skipped(); }));
           })
      .def(
          "_rebind",
          [](query_object& self, const std::vector<const filter_object*>& functions) {
            const function_resolver resolve = resolver_of(functions, true);
            self.without_the_gil([&] { self.kept.rebind(resolve); });
          },
          nb::arg("functions"))
      .def_prop_ro(
          "_rebound",
          [](const query_object& self) { return self.without_the_gil([&] { return self.kept.rebound(); }); },
          "Whether functions of other revisions were accepted at some time.")
      .def(
          "_restart_part",
          [](query_object& self, std::size_t part) { self.without_the_gil([&] { self.kept.restart_part(part); }); },
          nb::arg("part"),
          "Forgets what a part has kept, which is damaged (the error names it), so that run() computes it again.");
}

void bind_query(nb::class_<query_object>& c) {
  c.def(
       "__init__",
       [](query_object* self, const store_object& store, const std::string& name, const filter_object& where,
          std::optional<icecore::version> at, int keep, const std::vector<std::string>& select,
          const aggregate_list& aggregates) {
         new (self) query_object{store.owner, started(*store.owner, name, where, at, keep, select, aggregates)};
       },
       nb::arg("store"), nb::arg("name"), nb::arg("where"), nb::arg("at").none(), nb::arg("keep"), nb::arg("select"),
       nb::arg("aggregates"))
      .def(
          "__init__",
          [](query_object* self, const store_object& store, const std::string& name,
             const std::vector<const filter_object*>& functions) {
            new (self) query_object{store.owner, opened(*store.owner, name, functions)};
          },
          nb::arg("store"), nb::arg("name"), nb::arg("functions"))
      .def_prop_ro(
          "_name", [](const query_object& self) { return self.kept.name(); }, "Its name in the store.")
      .def_prop_ro(
          "_version", [](const query_object& self) { return self.kept.version(); },
          "The version whose answer it gives.")
      .def("_keep", [](const query_object& self) { return static_cast<int>(self.kept.keeps()); })
      .def(
          "_created_ns",
          [](const query_object& self) {
            return std::chrono::duration_cast<std::chrono::nanoseconds>(self.kept.created().time_since_epoch()).count();
          })
      .def("_progress_tuple",
           [](const query_object& self) {
             return tuple_of_progress(self.without_the_gil([&] { return self.kept.progress(); }));
           })
      .def(
          "_run",
          [](query_object& self, unsigned threads, std::int64_t every_us, bool every_item,
             std::optional<std::int64_t> time_us, std::optional<std::uint64_t> keys, std::uint64_t keys_per_second,
             bool skip_failed, bool skip_damaged, query_report on_progress) {
            return run(self, {threads, every_us, every_item, time_us, keys, keys_per_second, skip_failed, skip_damaged},
                       on_progress);
          },
          nb::arg("threads"), nb::arg("every_us"), nb::arg("every_item"), nb::arg("time_us").none(),
          nb::arg("keys").none(), nb::arg("keys_per_second"), nb::arg("skip_failed"), nb::arg("skip_damaged"),
          nb::arg("on_progress").none())
      .def(
          "_explain",
          [](const query_object& self) -> text_object {
            return new_text(self.without_the_gil([&] { return self.kept.where().explain(); }));
          },
          "The expression of its filter in normal form, the ranges of keys that are sought, and the order of\n"
          "evaluation.")
      .def(
          "_pause", [](query_object& self) { self.without_the_gil([&] { self.kept.pause(); }); },
          "Asks the runner, in whatever thread or process, to stop within 10 ms and a block of evaluations.")
      .def(
          "_cancel", [](query_object& self) { self.without_the_gil([&] { self.kept.cancel(); }); },
          "The same, and it will not go on. The rows stay.")
      .def(
          "_drop", [](query_object& self) { self.without_the_gil([&] { self.kept.drop(); }); },
          "Takes the query out of the store and gives its space back. QueryBusyError while it runs.")
      .def(
          "_acknowledge",
          [](query_object& self, std::uint64_t row) { self.without_the_gil([&] { self.kept.acknowledge(row); }); },
          nb::arg("row"), "Notes durably that the consumer has done with all rows before this one.")
      .def_prop_ro(
          "_acknowledged",
          [](const query_object& self) { return self.without_the_gil([&] { return self.kept.acknowledged(); }); },
          "The row that was acknowledged last; 0 if none was.")
      .def("_columns", &columns_of, nb::arg("from_row"), nb::arg("values"))
      .def("_kept_columns", &kept_columns_of, nb::arg("from_row"), nb::arg("rows").none(), nb::arg("where").none())
      .def("_kept_count", &kept_count, nb::arg("where").none(), nb::arg("threads"))
      .def("_kept_sum", &kept_total_of<&selected_rows::sum>, nb::arg("expression"), nb::arg("where").none(),
           nb::arg("threads"))
      .def("_kept_min", &kept_total_of<&selected_rows::min>, nb::arg("expression"), nb::arg("where").none(),
           nb::arg("threads"))
      .def("_kept_max", &kept_total_of<&selected_rows::max>, nb::arg("expression"), nb::arg("where").none(),
           nb::arg("threads"))
      .def("_totals", &totals_of);
}

}  // namespace

void bind_queries(nb::module_& m) {
  nb::class_<query_object> c(m, "Query", "A filter whose progress and rows are kept; icecore.Query adds the rest.");
  bind_query(c);
  bind_failures(c);
  nb::class_<row_iterator>(m, "RowIterator", nb::type_slots(iterator_slots<row_iterator>()))
      .def(
          "__init__",
          [](row_iterator* self, const query_object& q, std::uint64_t from_row, bool with_values) {
            constexpr std::uint64_t all = std::numeric_limits<std::uint64_t>::max();
            pin holds = q.owner->use().hold();
            query_rows rows = q.without_the_gil([&] { return q.kept.results(from_row, with_values); });
            new (self) row_iterator{{q.owner, std::move(holds), std::move(rows), all}};
          },
          nb::arg("query"), nb::arg("from_row"), nb::arg("values"));
  m.def(
      "query_names",
      [](const store_object& store) -> text_list {
        std::vector<icecore::query> all;
        {
          const icecore::store& used = store.owner->use();
          const without_gil released(*store.owner);
          all = used.queries();
        }
        nb::list names;
        for (const icecore::query& one : all) names.append(new_text(one.name()));
        return names;
      },
      nb::arg("store"), "The names of all queries, oldest first.");
  m.def(
      "prune_queries",
      [](const store_object& store, std::optional<std::int64_t> older_than_s, bool finished) {
        icecore::store& used = store.owner->use();
        prune_options which{.older_than = std::nullopt, .finished = finished};
        if (older_than_s) which.older_than = std::chrono::seconds(*older_than_s);
        const without_gil released(*store.owner);
        return used.prune_queries(which);
      },
      nb::arg("store"), nb::arg("older_than_s").none(), nb::arg("finished"));
}

}  // namespace icecore::python
