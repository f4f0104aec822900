// Versions that are held by a call on all ranks. A rank's part is a hold of its store, which keeps the promises of one;
// here the ranks agree about names and versions. A compaction of the cluster lets no version expire that any rank's
// store holds (compaction.cpp).
//
// A crash amid hold_version() leaves the holds of some ranks. Nobody was told of them, and all that they do is to keep
// the version: the next hold_version() of that name takes them away first, and release_version() takes away what there
// is.
#include <fmt/format.h>

#include <algorithm>

#include "base/checksum.hpp"
#include "cluster/cluster_core.hpp"

namespace icecore::mpi {
namespace {

std::int64_t digest_of(std::string_view name, std::optional<version> at) {
  std::uint32_t crc = crc32c(0, name.data(), name.size());
  crc = crc32c(crc, std::uint64_t{at ? 1U : 0U});
  return crc32c(crc, at.value_or(0));
}

bool has_hold(const store& own, std::string_view name) {
  const auto all = own.held_versions();
  return std::ranges::any_of(all, [name](const held_version& each) { return each.name == name; });
}

}  // namespace

version cluster_core::hold_version(std::string_view name, std::optional<version> at) {
  begin_collective();
  return agree_.all([&] { return hold_version_of_all(name, at); });
}

version cluster_core::hold_version_of_all(std::string_view name, std::optional<version> at) {
  const auto bad = attempt([&] {
    if (store_->read_only()) throw error(errc::read_only, "the cluster was opened for reading only");
    if (at) check_closed(*at);
  });
  const agreed same = agree_.on(step::hold_asked, bad, digest_of(name, at));
  if (same.least != same.greatest) {
    agree_.refuse(errc::invalid_argument, "the ranks hold different versions; all must pass the same name and version");
  }
  bool is_there = false;
  const auto unread = attempt([&] { is_there = has_hold(*store_, name); });
  if (agree_.on(step::hold_found, unread, is_there ? 1 : 0).least == 1) {
    agree_.refuse(errc::query_exists, fmt::format("a hold is named '{}' already", name));
  }

  // making the version durable may close the open version: that must be one instant for all ranks (C2)
  const write_gate::hold held = hold_writes();
  const auto fenced = attempt([&] {
    if (is_there) store_->release_version(name);  // a crash has left it
    fence_all();
  });
  const auto open =
      static_cast<version>(agree_.on(step::hold_held, fenced, static_cast<std::int64_t>(store_->clock())).greatest);
  const version wanted = at.value_or(open);
  bool is_made = false;
  const auto failure = attempt([&] {
    if (!at) {
      store_->skip_to(open);
      static_cast<void>(store_->tag());
    }
    static_cast<void>(store_->hold_version(name, wanted));
    is_made = true;
  });
  try {
    agree_.on(step::hold_made, failure);
  } catch (...) {
    if (is_made) static_cast<void>(attempt([&] { store_->release_version(name); }));
    align_after_failure(step::hold_clock, step::hold_aligned);
    throw;
  }
  align_clocks(step::hold_clock, step::hold_aligned);
  return wanted;
}

void cluster_core::release_version(std::string_view name) {
  begin_collective();
  agree_.all([&] {
    bool is_there = false;
    const auto released = attempt([&] {
      is_there = has_hold(*store_, name);
      // of a cluster that was opened for reading: the error says so
      if (is_there || store_->read_only()) store_->release_version(name);
    });
    if (agree_.on(step::hold_released, released, is_there ? 1 : 0).greatest == 0) {
      agree_.refuse(errc::no_such_query, fmt::format("no hold is named '{}'", name));
    }
  });
}

}  // namespace icecore::mpi
