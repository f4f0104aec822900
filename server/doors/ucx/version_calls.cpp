// Versions and leases: tags, syncs, compaction; keys that end by themselves.
#include <fmt/format.h>

#include <algorithm>

#include "doors/ucx/call.hpp"

namespace icecore::doors {

using service::right;

namespace {

wire::lease_answer answer_of(const service::lease_info& lease) {
  return {.lease = lease.number,
          .granted_ms = static_cast<std::uint64_t>(lease.granted.count()),
          .left_ms = static_cast<std::uint64_t>(std::max(lease.left, std::chrono::milliseconds(0)).count()),
          .keys = lease.keys};
}

}  // namespace

void execute(call& c, wire::tag_request&& asked) {
  c.require(key_bounds{}, right::write);
  go_on(c.door().all.threads(), c, [asked = std::move(asked)](call& on) {
    const tag_options label{.name = asked.name, .note = asked.note, .time_ns = asked.time_ns};
    on.answer(wire::encoded(wire::version_answer{.version = on.database().tag(label)}));
  });
}

void execute(call& c, wire::list_tags_request&& /*asked*/) {
  go_on(c.door().all.threads(), c, [](call& on) {
    wire::list_tags_answer told{.tags = on.database().tags()};
    on.answer(wire::encoded(told));
  });
}

void execute(call& c, wire::find_tag_request&& asked) {
  go_on(c.door().all.threads(), c, [asked = std::move(asked)](call& on) {
    on.answer(wire::encoded(wire::find_tag_answer{.tag = on.database().find_tag(asked.at)}));
  });
}

void execute(call& c, wire::resolve_request&& asked) {
  go_on(c.door().all.threads(), c, [asked = std::move(asked)](call& on) {
    on.answer(wire::encoded(wire::version_answer{.version = on.database().resolve(asked.at)}));
  });
}

void execute(call& c, wire::sync_request&& /*asked*/) {
  go_on(c.door().all.threads(), c, [](call& on) {
    on.database().sync();
    on.answer({});
  });
}

void execute(call& c, wire::compact_request&& asked) {
  c.require(key_bounds{}, right::administer);
  go_on(c.door().lengthy, c, [oldest = asked.oldest_kept](call& on) {
    on.database().compact(oldest);
    on.answer({});
  });
}

void execute(call& c, wire::grant_lease_request&& asked) {
  constexpr std::uint64_t ten_years_ms = 315'576'000'000;
  if (asked.time_ms < 1000 || asked.time_ms > ten_years_ms) {
    throw error(errc::invalid_argument, fmt::format("a lease of {} ms: it may be 1 second to 10 years", asked.time_ms));
  }
  go_on(c.door().all.threads(), c, [asked](call& on) {
    on.answer(wire::encoded(answer_of(on.database().grant(std::chrono::milliseconds(asked.time_ms), asked.wanted))));
  });
}

void execute(call& c, wire::keep_lease_request&& asked) {
  go_on(c.door().all.threads(), c, [asked](call& on) {
    service::lease_info lease = on.database().keep_alive(asked.lease);
    lease.keys.clear();
    on.answer(wire::encoded(answer_of(lease)));
  });
}

/// Whoever ends a lease removes its keys, so must be allowed to write all of them.
void execute(call& c, wire::revoke_lease_request&& asked) {
  std::unique_ptr<call> kept = c.keep();
  call* const mine = kept.get();
  mine->door().all.threads().post([mine, lease = asked.lease] {
    std::unique_ptr<call> ends(mine);
    const std::shared_ptr<service::database> database = mine->shared_database();
    const auto may_remove = [who = mine->who(), is = database->settings()](std::string_view key) {
      who.require(is.name, is.owner, key, right::write);
    };
    database->revoke(lease, may_remove, [mine](service::result<service::outcome> done) {
      const std::unique_ptr<call> over(mine);
      if (const auto* const failed = std::get_if<service::failure>(&done)) return mine->fail(*failed);
      const auto& what = std::get<service::outcome>(done);
      std::uint64_t removed = 0;
      for (const service::operation_result& result : what.results) removed += result.count;
      mine->attempt(
          [&] { mine->answer(wire::encoded(wire::revoke_lease_answer{.removed = removed, .version = what.version})); });
    });
    static_cast<void>(ends.release());  // the completion has it
  });
  static_cast<void>(kept.release());
}

void execute(call& c, wire::describe_lease_request&& asked) {
  go_on(c.door().all.threads(), c, [asked](call& on) {
    const service::lease_info lease = on.database().lease(asked.lease, asked.keys);
    for (const std::string& key : lease.keys) on.require(key, right::read);
    on.answer(wire::encoded(answer_of(lease)));
  });
}

void execute(call& c, wire::list_leases_request&& /*asked*/) {
  go_on(c.door().all.threads(), c,
        [](call& on) { on.answer(wire::encoded(wire::list_leases_answer{.leases = on.database().leases()})); });
}

}  // namespace icecore::doors
