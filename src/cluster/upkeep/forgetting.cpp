// Having the stores of all ranks forget keys.
//
// Each rank's store notes the request for its own keys, at one instant: no rank writes, and the open version of all is
// one (C2). Each store closes it and removes the keys in the next one, which the tag closes. So what is written of a
// key afterwards is in a later version, and stays. If a rank fails, it has noted all of the request or nothing; the
// other ranks keep what they have noted. The caller may make the same request again: that harms nothing.
#include <fmt/format.h>

#include <array>
#include <functional>
#include <string>
#include <vector>

#include "base/forget_tag.hpp"
#include "cluster/cluster_core.hpp"

namespace icecore::mpi {
namespace {

/// Equal if all ranks ask for the same.
std::int64_t digest_of(const forget_request& what) {
  std::string text;
  for (const auto* const list : {&what.keys, &what.prefixes}) {
    text += fmt::format("{}:", list->size());
    for (const std::string& each : *list) text += fmt::format("{}:{}", each.size(), each);
  }
  text += fmt::format("{}{}", what.tag, what.note);
  return static_cast<std::int64_t>(std::hash<std::string>{}(text) >> 1);
}

/// The first name that no tag has.
std::string next_name(const store& first) {
  std::uint64_t number = 1;
  while (first.find_tag(forget_tag_name(number))) ++number;
  return forget_tag_name(number);
}

}  // namespace

forget_report cluster_core::forget(const forget_request& what) {
  begin_collective();
  return agree_.all([&] {
    const agreed same = agree_.on(step::forget_asked, attempt([&] { check_writes(); }), digest_of(what));
    if (same.least != same.greatest) {
      agree_.refuse(errc::invalid_argument,
                    "the ranks forget different keys, or with different notes; all must call "
                    "forget with the same request");
    }
    const write_gate::hold held = hold_writes();
    const auto fenced = attempt([&] { fence_all(); });
    const auto open =
        static_cast<version>(agree_.on(step::forget_held, fenced, static_cast<std::int64_t>(store_->clock())).greatest);
    forget_report mine;
    try {
      agree_.on(step::forget_made, attempt([&] {
                  store_->skip_to(open);
                  forget_request of_this_rank = what;
                  of_this_rank.tag = false;  // it would close a version of this rank alone
                  mine = store_->forget(of_this_rank);
                }));
    } catch (...) {  // some clocks may now be ahead of others
      align_after_failure(step::forget_clock, step::forget_aligned);
      throw;
    }
    std::vector<std::uint64_t> keys(static_cast<std::size_t>(ranks_));
    agree_.gather(&mine.keys, sizeof mine.keys, keys.data());
    forget_report all;
    all.up_to = open;
    for (const std::uint64_t each : keys) all.keys += each;
    tag_options label;
    std::string note;
    std::array<char, 64> name{};  // that of rank 0, which has the tags
    agree_.on(step::forget_named, attempt([&] {
                if (!what.tag || rank_ != 0) return;
                note = forget_tag_note(all.keys, what.note);
                const std::string next = next_name(*store_);
                next.copy(name.data(), name.size() - 1);
                label.name = name.data();
                label.note = note;
              }));
    agree_.broadcast(name.data(), name.size(), 0);
    all.tag = name.data();
    static_cast<void>(tag_held(label));
    return all;
  });
}

}  // namespace icecore::mpi
