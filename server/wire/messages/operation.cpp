#include "wire/messages/operation.hpp"

#include <algorithm>
#include <array>

namespace icecore::wire {

namespace {

// Number, name, idempotent, on a database, writes.
consteval auto make_table() {
  using enum operation_number;
  return std::array{
      operation_facts{status, "status", true, false, false},
      operation_facts{group, "group", true, false, false},
      operation_facts{snapshot, "snapshot", false, false, true},
      operation_facts{create_database, "create_database", false, false, true},
      operation_facts{open_database, "open_database", true, false, false},
      operation_facts{close_database, "close_database", true, true, false},
      operation_facts{drop_database, "drop_database", false, false, true},
      operation_facts{list_databases, "list_databases", true, false, false},
      operation_facts{describe_database, "describe_database", true, true, false},
      operation_facts{copy_database, "copy_database", false, false, true},
      operation_facts{alter_database, "alter_database", true, false, true},
      operation_facts{get, "get", true, true, false},
      operation_facts{put, "put", true, true, true},  // not with only_new: request.hpp asks the request itself
      operation_facts{remove, "remove", true, true, true},
      operation_facts{update, "update", false, true, true},
      operation_facts{increment, "increment", false, true, true},
      operation_facts{write, "write", false, true, true},
      operation_facts{get_many, "get_many", true, true, false},
      operation_facts{load, "load", true, true, true},
      operation_facts{count, "count", true, true, false},
      operation_facts{open_scan, "open_scan", true, true, false},
      operation_facts{open_history, "open_history", true, true, false},
      operation_facts{open_differences, "open_differences", true, true, false},
      operation_facts{open_changes, "open_changes", true, true, false},
      operation_facts{next_rows, "next_rows", false, true, false},  // the rows are bound to their connection
      operation_facts{close_rows, "close_rows", true, true, false},
      operation_facts{open_watch, "open_watch", true, true, false},
      operation_facts{next_changes, "next_changes", false, true, false},
      operation_facts{close_watch, "close_watch", true, true, false},
      operation_facts{tag, "tag", false, true, true},
      operation_facts{list_tags, "list_tags", true, true, false},
      operation_facts{find_tag, "find_tag", true, true, false},
      operation_facts{resolve, "resolve", true, true, false},
      operation_facts{sync, "sync", true, true, false},
      operation_facts{compact, "compact", true, true, true},
      operation_facts{grant_lease, "grant_lease", false, true, true},
      operation_facts{keep_lease, "keep_lease", true, true, true},
      operation_facts{revoke_lease, "revoke_lease", false, true, true},
      operation_facts{describe_lease, "describe_lease", true, true, false},
      operation_facts{list_leases, "list_leases", true, true, false},
  };
}
constexpr auto table = make_table();
static_assert(std::ranges::is_sorted(table, {}, &operation_facts::number));

}  // namespace

std::span<const operation_facts> all_operations() noexcept { return table; }

const operation_facts* facts_of(std::uint16_t number) noexcept {
  const auto wanted = static_cast<operation_number>(number);
  const auto found = std::ranges::lower_bound(table, wanted, {}, &operation_facts::number);
  return found != table.end() && found->number == wanted ? found : nullptr;
}

}  // namespace icecore::wire
