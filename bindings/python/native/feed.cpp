// Changes between versions, and feeds.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "icecore/feed.hpp"
#include "objects.hpp"

namespace icecore::python {
namespace {

using std::chrono::microseconds;

/// icecore._native.Feed
struct feed_object {
  std::shared_ptr<session> owner;
  icecore::feed feed;

  template <typename Call>
  auto without_the_gil(const Call& call) const {
    owner->use();
    const without_gil released(*owner);
    return call();
  }
};

nb::object bytes_or_none(const std::optional<std::string_view>& bytes) {
  if (!bytes) return nb::none();
  return nb::bytes(bytes->data(), bytes->size());
}

nb::tuple tuple_of(const key_change& c) {
  return nb::make_tuple(nb::bytes(c.key.data(), c.key.size()), c.version, bytes_or_none(c.value),
                        bytes_or_none(c.before), c.first);
}

/// Waits in slices, between which signals (Ctrl-C) are handled.
any_tuple next_of(feed_object& self, std::size_t limit, std::int64_t timeout_us) {
  constexpr microseconds slice{100'000};
  microseconds left{timeout_us};
  for (;;) {
    const microseconds wait = std::min(left, slice);
    const feed_batch found = self.without_the_gil([&] { return self.feed.next(limit, wait); });
    left -= wait;
    if (found.changes.empty() && left.count() > 0) {
      if (PyErr_CheckSignals() != 0) throw nb::python_error();
      continue;
    }
    nb::list changes;
    for (const key_change& c : found.changes) changes.append(tuple_of(c));
    return nb::make_tuple(changes, found.told, found.is_snapshot, nb::bytes(found.token.data(), found.token.size()));
  }
}

void bind_feed(nb::module_& m) {
  nb::class_<feed_object>(m, "Feed", "What changes from a version on; icecore.Feed adds the rest.")
      .def(
          "__init__",
          [](feed_object* self, const store_object& store, const std::string& name,
             std::optional<icecore::version> after, const filter_object& where, bool snapshot, bool unsynced,
             bytes_like token, bytes_like secret) {
            const bytes_argument from(token.ptr(), "token");
            const bytes_argument signed_with(secret.ptr(), "secret");
            feed_request what;
            what.name = name;
            what.after = after;
            what.where = where.filter;
            what.snapshot = snapshot;
            what.unsynced = unsynced;
            what.token = from.bytes();
            what.secret = signed_with.bytes();
            icecore::store& used = store.owner->use();
            const without_gil released(*store.owner);
            new (self) feed_object{store.owner, used.feed(what)};
          },
          nb::arg("store"), nb::arg("name"), nb::arg("after").none(), nb::arg("where"), nb::arg("snapshot"),
          nb::arg("unsynced"), nb::arg("token").none(), nb::arg("secret").none())
      .def("_next", &next_of, nb::arg("limit"), nb::arg("timeout_us"))
      .def(
          "_acknowledge",
          [](feed_object& self, bytes_like token) {
            const bytes_argument up_to(token.ptr(), "token");
            self.without_the_gil([&] { self.feed.acknowledge(up_to.bytes()); });
          },
          nb::arg("token").none(),
          "Notes durably that the consumer has done with all up to the end of this token's batch.")
      .def_prop_ro(
          "_name", [](const feed_object& self) { return self.feed.name(); },
          "Its name in the store; \"\" of one\n"
          "whose place the caller keeps.")
      .def("_token",
           [](const feed_object& self) {
             const std::string token = self.without_the_gil([&] { return self.feed.token(); });
             return nb::bytes(token.data(), token.size());
           })
      .def(
          "_drop", [](feed_object& self) { self.without_the_gil([&] { self.feed.drop(); }); },
          "Takes a feed with a name out of the store.");
}

void bind_changes(nb::module_& m) {
  nb::class_<changes_object>(m, "Changes", "What was written between two versions; icecore.Changes adds the rest.")
      .def(
          "__init__",
          [](changes_object* self, const store_object& store, icecore::version after, icecore::version up_to,
             const filter_object& where) {
            const icecore::store& used = store.owner->use();
            const without_gil released(*store.owner);
            new (self) changes_object{store.owner, used.changes(after, up_to).where(where.filter)};
          },
          nb::arg("store"), nb::arg("after"), nb::arg("up_to"), nb::arg("where"))
      .def("_begin",
           [](changes_object& self) {
             self.owner->use();
             const without_gil released(*self.owner);
             self.at = self.range.begin();
           })
      .def(
          "_some",
          [](changes_object& self, std::size_t limit) -> any_list {
            nb::list some;
            self.owner->use();
            for (; some.size() < limit && self.at && *self.at != std::default_sentinel;) {
              some.append(tuple_of(**self.at));
              const without_gil released(*self.owner);
              ++*self.at;
            }
            return some;
          },
          nb::arg("limit"))
      .def(
          "_count",
          [](const changes_object& self, unsigned threads) {
            self.owner->use();
            const without_gil released(*self.owner);
            return self.range.count({}, threads);
          },
          nb::arg("threads"));
}

}  // namespace

void bind_feeds(nb::module_& m) {
  bind_feed(m);
  bind_changes(m);
  m.def(
      "feed_names",
      [](const store_object& store) -> any_list {
        nb::list all;
        for (const feed_info& one : store.owner->use().feeds()) {
          all.append(nb::make_tuple(new_text(one.name), one.after, one.acknowledged, one.snapshot));
        }
        return all;
      },
      nb::arg("store"),
      "Name, the version behind which it began, the version acknowledged, and whether it began with\n"
      "a snapshot, of each feed.");
}

}  // namespace icecore::python
