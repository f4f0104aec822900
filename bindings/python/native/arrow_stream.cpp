// Snapshots, histories, differences, changes and tags as Arrow streams: the PyCapsule interface, without an Arrow
// library. https://arrow.apache.org/docs/format/CStreamInterface.html
//
// A consumer may ask for the next batch on any thread, with the GIL or without: the stream takes it to see whether the
// store is open, and reads the rows without it, as a call for which closing waits (calls.hpp).
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cerrno>
#include <functional>
#include <utility>

#include "arrow_batch.hpp"
#include "arrow_capsule.hpp"
#include "objects.hpp"

namespace icecore::python {
namespace {

/// Where a batch ends.
struct batch_limits {
  std::size_t rows;
  std::size_t bytes;
};

/// Rows from which batches are made.
class row_source {
 public:
  row_source() = default;
  row_source(const row_source&) = delete;
  row_source& operator=(const row_source&) = delete;
  virtual ~row_source() = default;
  /// Appends the next row to the columns; false at the end.
  virtual bool append_to(std::vector<arrow_column>& columns, std::uint64_t row) = 0;
};

/// The rows of a range, of whose elements `Append` makes rows.
template <class Range, auto Append>
class range_source final : public row_source {
 public:
  explicit range_source(Range range) : range_(std::move(range)) {}

  bool append_to(std::vector<arrow_column>& columns, std::uint64_t row) override {
    if (!at_) {
      at_.emplace(range_.begin());
    } else if (*at_ != range_.end()) {
      ++*at_;
    }
    if (*at_ == range_.end()) return false;
    Append(**at_, columns, row);
    return true;
  }

 private:
  Range range_;
  std::optional<typename Range::iterator> at_;
};

void append_item(const item& found, std::vector<arrow_column>& columns, std::uint64_t row) {
  columns[0].append(found.key, row);
  columns[1].append(found.value, row);
}

void append_change(const change& found, std::vector<arrow_column>& columns, std::uint64_t row) {
  columns[0].append_version(found.version);
  columns[1].append(found.value, row);
}

void append_difference(const difference& found, std::vector<arrow_column>& columns, std::uint64_t row) {
  columns[0].append(found.key, row);
  columns[1].append(found.before, row);
  columns[2].append(found.after, row);
}

void append_key_change(const key_change& found, std::vector<arrow_column>& columns, std::uint64_t row) {
  columns[0].append(found.key, row);
  columns[1].append_version(found.version);
  columns[2].append(found.value, row);
  columns[3].append(found.before, row);
  columns[4].append(found.first ? "1" : "", row);
}

/// What the pointers of a stream lead to.
class stream_state {
 public:
  /// `owner`: the store that is read; none for rows that are in memory.
  stream_state(std::shared_ptr<session> owner, pin holds, std::vector<arrow_field> fields,
               std::unique_ptr<row_source> rows, batch_limits limits)
      : owner_(std::move(owner)),
        opening_(owner_ ? owner_->openings() : 0),
        holds_(std::move(holds)),
        fields_(std::move(fields)),
        rows_(std::move(rows)),
        limits_(limits) {
    for (const arrow_field& field : fields_) columns_.emplace_back(field);
  }

  static void expose(std::unique_ptr<stream_state> state, ArrowArrayStream& stream) noexcept {
    stream.get_schema = [](ArrowArrayStream* of, ArrowSchema* out) noexcept {
      return state_of(of).guarded([&] { describe_fields(state_of(of).fields_, *out); });
    };
    stream.get_next = [](ArrowArrayStream* of, ArrowArray* out) noexcept {
      *out = {};  // the end
      return state_of(of).guarded([&] { state_of(of).next(*out); });
    };
    stream.get_last_error = [](ArrowArrayStream* of) noexcept -> const char* { return state_of(of).failure_.c_str(); };
    stream.release = [](ArrowArrayStream* of) noexcept {
      of->release = nullptr;
      if (Py_IsInitialized() == 0) return;  // the interpreter has closed the store, and nothing can be given back
      const nb::gil_scoped_acquire held;
      delete &state_of(of);
    };
    stream.private_data = state.release();
  }

 private:
  static stream_state& state_of(ArrowArrayStream* stream) noexcept {
    return *static_cast<stream_state*>(stream->private_data);
  }

  /// The errno of what `body` throws, whose message get_last_error tells.
  template <class Body>
  int guarded(const Body& body) noexcept {
    try {
      try {
        body();
        return 0;
      } catch (const error& e) {
        failure_ = e.what();
        return e.code() == errc::damaged || e.code() == errc::io ? EIO : EINVAL;
      } catch (const std::bad_alloc&) {
        failure_ = "out of memory";
      }
    } catch (...) {
      failure_.clear();
    }
    return ENOMEM;
  }

  void next(ArrowArray& out) {
    if (Py_IsInitialized() == 0) throw error(errc::closed, "the interpreter has ended, and closed the store");
    const nb::gil_scoped_acquire held;
    if (!owner_) return fill(out);
    owner_->use();
    if (opening_ != owner_->openings()) owner_->refuse_what_was_inherited();
    const without_gil released(*owner_);
    fill(out);
  }

  void fill(ArrowArray& out) {
    std::size_t bytes = 0;
    while (!ended_ && columns_.front().size() < limits_.rows && bytes < limits_.bytes) {
      ended_ = !rows_->append_to(columns_, row_);
      row_ += ended_ ? 0 : 1;
      bytes = 0;
      for (const arrow_column& column : columns_) bytes += column.bytes();
    }
    if (columns_.front().size() > 0) out = batch_of(columns_, holds_);
  }

  std::shared_ptr<session> owner_;
  std::uint64_t opening_;
  pin holds_;  // of all values
  std::vector<arrow_field> fields_;
  std::vector<arrow_column> columns_;
  std::unique_ptr<row_source> rows_;
  batch_limits limits_;
  std::uint64_t row_ = 0;
  bool ended_ = false;
  std::string failure_;
};

nb::object stream_of(const std::shared_ptr<session>& owner, const pin& holds, std::vector<arrow_field> fields,
                     std::unique_ptr<row_source> rows, std::size_t batch_rows, std::size_t batch_bytes) {
  auto state = std::make_unique<stream_state>(owner, holds, std::move(fields), std::move(rows),
                                              batch_limits{batch_rows, batch_bytes});
  auto stream = std::make_unique<ArrowArrayStream>();
  stream_state::expose(std::move(state), *stream);
  return capsule_of(std::move(stream), "arrow_array_stream");
}

/// No item: what lies between bounds that exclude each other.
class no_rows final : public row_source {
 public:
  bool append_to(std::vector<arrow_column>&, std::uint64_t) override { return false; }
};

arrow_capsule snapshot_stream(const snapshot_object& self, const arrow_type& key, const arrow_type& value,
                              std::size_t batch_rows, std::size_t batch_bytes) {
  const icecore::snapshot& then = self.then();
  std::unique_ptr<row_source> rows = std::make_unique<no_rows>();
  if (!empty(self.bounds)) {
    rows = std::make_unique<range_source<item_range, append_item>>(then.range(self.bounds));
  }
  return stream_of(self.owner, then.holds(), {{"key", key}, {"value", value}}, std::move(rows), batch_rows,
                   batch_bytes);
}

nb::object history_stream(const std::shared_ptr<session>& owner, const pin& holds, bytes_like key,
                          icecore::version up_to, const arrow_type& value, std::size_t batch_rows,
                          std::size_t batch_bytes) {
  key_history history(holds, bytes_argument(key.ptr(), "a key").bytes(), up_to);
  return stream_of(owner, holds, {{"version", {arrow_kind::version}}, {"value", value, true}},
                   std::make_unique<range_source<key_history, append_change>>(std::move(history)), batch_rows,
                   batch_bytes);
}

arrow_capsule diff_stream(const store_object& store, icecore::version before, icecore::version after, bytes_like start,
                          bytes_like stop, bytes_like prefix, const arrow_type& key, const arrow_type& value,
                          std::size_t batch_rows, std::size_t batch_bytes) {
  key_bounds bounds = bounds_from(start, stop, prefix);
  const icecore::store& used = store.owner->use();
  std::unique_ptr<row_source> rows = std::make_unique<no_rows>();
  if (!empty(bounds)) {
    rows = std::make_unique<range_source<diff_range, append_difference>>(used.diff(before, after, std::move(bounds)));
  }
  return stream_of(store.owner, used.hold(), {{"key", key}, {"before", value, true}, {"after", value, true}},
                   std::move(rows), batch_rows, batch_bytes);
}

arrow_capsule changes_stream(const changes_object& changes, const arrow_type& key, const arrow_type& value,
                             std::size_t batch_rows, std::size_t batch_bytes) {
  const icecore::store& used = changes.owner->use();
  return stream_of(changes.owner, used.hold(),
                   {{"key", key},
                    {"version", {arrow_kind::version}},
                    {"value", value, true},
                    {"before", value, true},
                    {"first", {arrow_kind::flag}}},
                   std::make_unique<range_source<change_range, append_key_change>>(changes.range.where({})), batch_rows,
                   batch_bytes);
}

/// Rows of the caller.
class given_rows final : public row_source {
 public:
  /// Of each column, bytes or None for each row.
  given_rows(const columns_of_bytes& columns, std::size_t rows) : rows_(rows) {
    for (const nb::handle column : columns) {
      std::vector<std::optional<std::string>>& copied = columns_.emplace_back();
      copied.reserve(rows);
      for (const nb::handle item : column) {
        if (item.is_none()) {
          copied.emplace_back();
        } else {
          copied.emplace_back(bytes_argument(item.ptr(), "an item").bytes());
        }
      }
      if (copied.size() != rows) throw error(errc::invalid_argument, "columns have one length");
    }
  }

  bool append_to(std::vector<arrow_column>& columns, std::uint64_t row) override {
    if (row == rows_) return false;
    for (std::size_t c = 0; c < columns.size(); ++c) columns[c].append(columns_[c][row], row);
    return true;
  }

 private:
  std::size_t rows_;
  std::vector<std::vector<std::optional<std::string>>> columns_;
};

arrow_capsule table_stream(const std::vector<std::string>& names, const std::vector<arrow_type>& types,
                           const columns_of_bytes& columns, std::size_t rows, std::size_t batch_rows,
                           std::size_t batch_bytes) {
  std::vector<arrow_field> fields;
  for (std::size_t c = 0; c < names.size(); ++c) {
    fields.push_back({names[c], types.at(c), true});
  }
  return stream_of(nullptr, {}, std::move(fields), std::make_unique<given_rows>(columns, rows), batch_rows,
                   batch_bytes);
}

/// The schema of a stream, which stays as it is.
arrow_capsule schema_of(const any_object& capsule) {
  auto* const stream = static_cast<ArrowArrayStream*>(PyCapsule_GetPointer(capsule.ptr(), "arrow_array_stream"));
  if (stream == nullptr) throw nb::python_error();
  auto schema = std::make_unique<ArrowSchema>();
  if (stream->get_schema(stream, schema.get()) != 0) throw std::bad_alloc();
  return capsule_of(std::move(schema), "arrow_schema");
}

}  // namespace

void bind_arrow_streams(nb::module_& m) {
  nb::class_<arrow_type>(m, "ArrowType", "What the items of a column become in Arrow; icecore.tables makes it.")
      .def(
          "__init__",
          [](arrow_type* self, int kind, const std::string& format, std::size_t item_bytes, std::size_t list_size,
             std::size_t reversed_bytes) {
            new (self) arrow_type{static_cast<arrow_kind>(kind), format, item_bytes, list_size, reversed_bytes};
          },
          nb::arg("kind"), nb::arg("format") = "", nb::arg("item_bytes") = 0, nb::arg("list_size") = 0,
          nb::arg("reversed_bytes") = 0);
  m.def("snapshot_stream", &snapshot_stream, nb::arg("snapshot"), nb::arg("key"), nb::arg("value"),
        nb::arg("batch_rows"), nb::arg("batch_bytes"));
  m.def(
      "history_stream",
      [](const store_object& store, bytes_like key, const arrow_type& value, std::size_t rows,
         std::size_t bytes) -> arrow_capsule {
        return history_stream(store.owner, store.owner->use().hold(), key, version_max, value, rows, bytes);
      },
      nb::arg("source"), nb::arg("key"), nb::arg("value"), nb::arg("batch_rows"), nb::arg("batch_bytes"));
  m.def(
      "history_stream",
      [](const snapshot_object& snapshot, bytes_like key, const arrow_type& value, std::size_t rows,
         std::size_t bytes) -> arrow_capsule {
        const pin& holds = snapshot.then().holds();
        return history_stream(snapshot.owner, holds, key, snapshot.number, value, rows, bytes);
      },
      nb::arg("source"), nb::arg("key"), nb::arg("value"), nb::arg("batch_rows"), nb::arg("batch_bytes"));
  m.def("diff_stream", &diff_stream, nb::arg("store"), nb::arg("before"), nb::arg("after"), nb::arg("start").none(),
        nb::arg("stop").none(), nb::arg("prefix").none(), nb::arg("key"), nb::arg("value"), nb::arg("batch_rows"),
        nb::arg("batch_bytes"));
  m.def("changes_stream", &changes_stream, nb::arg("changes"), nb::arg("key"), nb::arg("value"), nb::arg("batch_rows"),
        nb::arg("batch_bytes"));
  m.def("table_stream", &table_stream, nb::arg("names"), nb::arg("types"), nb::arg("columns"), nb::arg("rows"),
        nb::arg("batch_rows"), nb::arg("batch_bytes"), "Rows of the caller: of each column, bytes or None for each.");
  m.def("schema_of_stream", &schema_of, nb::arg("stream"));
}

}  // namespace icecore::python
