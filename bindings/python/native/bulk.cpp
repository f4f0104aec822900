// put_many and find_many: whole columns of keys in one call, without the GIL.
#include <nanobind/stl/optional.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <mutex>
#include <span>
#include <system_error>
#include <thread>
#include <vector>

#include "fixed_output.hpp"
#include "objects.hpp"

namespace icecore::python {
namespace {

// The code checks for Ctrl-C after each chunk of this many items.
constexpr std::size_t insert_chunk = 64 * 1024;
// Keys whose finds are interleaved in one call of the core; their answers stay in the cache.
constexpr std::size_t find_chunk = 4096;

void check_signals() {
  if (PyErr_CheckSignals() != 0) throw nb::python_error();
}

/// Inserts items [from, to), one after another.
void insert_range(icecore::store& store, const column& keys, const column& values, std::size_t from, std::size_t to) {
  for (std::size_t i = from; i < to; ++i) {
    try {
      store.insert(keys[i], values[i]);
    } catch (const error& e) {
      throw error(static_cast<errc>(e.code().value()), "put_many failed at item " + std::to_string(i) + " of " +
                                                           std::to_string(keys.size()) + ": " + e.message());
    }
  }
}

/// Runs insert_range on `threads` threads, each with its own range of items. Throws the first failure after all have
/// ended.
void insert_in_parallel(icecore::store& store, const column& keys, const column& values, std::size_t from,
                        std::size_t to, std::size_t threads) {
  std::exception_ptr first;
  std::mutex first_mutex;
  const auto work = [&](std::size_t begin, std::size_t end) {
    try {
      insert_range(store, keys, values, begin, end);
    } catch (...) {
      const std::scoped_lock lock(first_mutex);
      if (!first) first = std::current_exception();
    }
  };
  {
    std::vector<std::jthread> others;
    const std::size_t each = (to - from + threads - 1) / threads;
    for (std::size_t begin = from + each; begin < to; begin += each) {
      const std::size_t end = std::min(begin + each, to);
      try {
        others.emplace_back(work, begin, end);
      } catch (const std::system_error&) {
        work(begin, end);  // the machine provides no more threads: do the work here
      }
    }
    work(from, std::min(from + each, to));
  }
  if (first) std::rethrow_exception(first);
}

void put_many(store_object& self, const column& keys, const column& values, unsigned threads) {
  icecore::store& store = self.owner->use();
  const std::size_t parallel = std::max(threads, 1U);
  const std::size_t chunk = insert_chunk * parallel;
  for (std::size_t from = 0; from < keys.size(); from += chunk) {
    const std::size_t to = std::min(from + chunk, keys.size());
    self.owner->use();  // between two chunks another thread may have closed the store
    {
      const without_gil released(*self.owner);
      if (parallel == 1 || to - from < parallel) {
        insert_range(store, keys, values, from, to);
      } else {
        insert_in_parallel(store, keys, values, from, to, parallel);
      }
    }
    check_signals();
  }
}

/// Finds keys [from, from + out.size()), all at one version or each at its own.
struct find_job {
  const column& keys;
  const snapshot_object* of;  // whose version is `then`, or
  const icecore::snapshot* then;
  const icecore::store* store;                    // with
  const std::vector<icecore::version>* versions;  // one per key

  /// The answers are valid as long as the returned pin lives.
  [[nodiscard]] pin run(std::size_t from, std::vector<std::string_view>& chunk, std::vector<answer>& out) const {
    for (std::size_t i = 0; i < chunk.size(); ++i) chunk[i] = keys[from + i];
    if (then == nullptr) return store->find_many(chunk, std::span(*versions).subspan(from, chunk.size()), out);
    then->find_many(chunk, out);
    for (std::size_t i = 0; of->bounded() && i < chunk.size(); ++i) {
      if (!contains(of->bounds, chunk[i])) out[i].reset();
    }
    return then->holds();
  }
};

/// Calls `take(first, answers)` for each chunk of keys; holds the GIL only if `with_gil`.
template <typename Take>
void find_in_chunks(session& owner, const find_job& job, bool with_gil, const Take& take) {
  std::vector<std::string_view> chunk;
  std::vector<answer> out;
  for (std::size_t from = 0; from < job.keys.size(); from += find_chunk) {
    owner.use();
    chunk.resize(std::min(find_chunk, job.keys.size() - from));
    out.resize(chunk.size());
    pin holds;
    {
      const without_gil released(owner);
      holds = job.run(from, chunk, out);
      if (!with_gil) take(from, out);
    }
    if (with_gil) take(from, out);
    check_signals();
  }
}

any_list find_objects(session& owner, const find_job& job, any_object missing) {
  const nb::object list = nb::steal(PyList_New(static_cast<Py_ssize_t>(job.keys.size())));
  if (!list.is_valid()) throw nb::python_error();
  find_in_chunks(owner, job, true, [&](std::size_t from, const std::vector<answer>& out) {
    for (std::size_t i = 0; i < out.size(); ++i) {
      PyObject* const made = out[i] ? new_bytes(owner, *out[i]) : Py_NewRef(missing.ptr());
      if (made == nullptr) throw nb::python_error();
      PyList_SET_ITEM(list.ptr(), static_cast<Py_ssize_t>(from + i), made);
    }
  });
  return list;
}

void find_fixed(session& owner, const find_job& job, const fixed_output& to) {
  find_in_chunks(owner, job, false, [&](std::size_t from, const std::vector<answer>& out) {
    for (std::size_t i = 0; i < out.size(); ++i) to.put(from + i, out[i]);
  });
}

/// The job for a call on a store: `versions` is a buffer with one 64-bit version per key.
struct versioned_job {
  std::vector<icecore::version> versions;
  find_job job;

  versioned_job(const versioned_job&) = delete;  // job points to versions
  versioned_job& operator=(const versioned_job&) = delete;
  versioned_job(const store_object& self, const column& keys, buffer_like buffer)
      : job{keys, nullptr, nullptr, &self.owner->use(), &versions} {
    const bytes_argument given(buffer.ptr(), "versions");
    if (given.bytes().size() != keys.size() * sizeof(icecore::version)) {
      throw error(errc::invalid_argument,
                  std::to_string(keys.size()) + " keys need the same number of 64-bit versions");
    }
    versions.resize(keys.size());
    if (!versions.empty()) std::memcpy(versions.data(), given.bytes().data(), given.bytes().size());
  }
};

find_job job_of(const snapshot_object& self, const column& keys) {
  return {keys, &self, &self.then(), nullptr, nullptr};
}

}  // namespace

void bind_bulk(store_class& store, snapshot_class& snapshot) {
  store.def("_insert_many", &put_many, nb::arg("keys"), nb::arg("values"), nb::arg("threads"))
      .def(
          "_find_many_objects",
          [](store_object& self, const column& keys, buffer_like versions, any_object missing) {
            return find_objects(*self.owner, versioned_job(self, keys, versions).job, missing);
          },
          nb::arg("keys"), nb::arg("versions"), nb::arg("missing").none())
      .def(
          "_find_many_fixed",
          [](store_object& self, const column& keys, buffer_like versions, buffer_like values, buffer_like found,
             std::size_t size, bool pad) {
            const output_buffer value_buffer(values, keys.size() * size);
            const output_buffer found_buffer(found, keys.size());
            find_fixed(*self.owner, versioned_job(self, keys, versions).job,
                       {value_buffer.data(), found_buffer.data(), size, pad});
          },
          nb::arg("keys"), nb::arg("versions"), nb::arg("values"), nb::arg("found"), nb::arg("size"), nb::arg("pad"));
  snapshot
      .def(
          "_find_many_objects",
          [](snapshot_object& self, const column& keys, any_object missing) {
            const find_job job = job_of(self, keys);  // before the owner is used: see snapshot_object
            return find_objects(*self.owner, job, missing);
          },
          nb::arg("keys"), nb::arg("missing").none())
      .def(
          "_find_many_fixed",
          [](snapshot_object& self, const column& keys, buffer_like values, buffer_like found, std::size_t size,
             bool pad) {
            const output_buffer value_buffer(values, keys.size() * size);
            const output_buffer found_buffer(found, keys.size());
            const find_job job = job_of(self, keys);
            find_fixed(*self.owner, job, {value_buffer.data(), found_buffer.data(), size, pad});
          },
          nb::arg("keys"), nb::arg("values"), nb::arg("found"), nb::arg("size"), nb::arg("pad"));
}

}  // namespace icecore::python
