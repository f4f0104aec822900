#include "doors/grpc/messages.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <limits>

namespace icecore::doors {

namespace {

[[noreturn]] void refuse(const std::string& why) { throw error(errc::invalid_argument, why); }

/// Of an enumeration's number that this server does not know.
[[noreturn]] void refuse_number(std::string_view what, int number) {
  refuse(fmt::format("{} {} is none that this server knows; a newer server may", what, number));
}

service::version_rule rule_of(v1::VersionRule rule, service::version_rule otherwise) {
  switch (rule) {
    case v1::VERSION_RULE_UNSPECIFIED:
      return otherwise;
    case v1::VERSION_RULE_WRITE:
      return service::version_rule::write;
    case v1::VERSION_RULE_EVERY:
      return service::version_rule::every;
    case v1::VERSION_RULE_TAG:
      return service::version_rule::tag;
    default:
      refuse_number("version rule", rule);
  }
}

v1::VersionRule message_of(service::version_rule rule) {
  switch (rule) {
    case service::version_rule::write:
      return v1::VERSION_RULE_WRITE;
    case service::version_rule::every:
      return v1::VERSION_RULE_EVERY;
    case service::version_rule::tag:
      return v1::VERSION_RULE_TAG;
  }
  return v1::VERSION_RULE_UNSPECIFIED;
}

icecore::durability durability_of(v1::Durability durability, icecore::durability otherwise) {
  switch (durability) {
    case v1::DURABILITY_UNSPECIFIED:
      return otherwise;
    case v1::DURABILITY_BEST_AVAILABLE:
      return icecore::durability::best_available;
    case v1::DURABILITY_NONE:
      return icecore::durability::none;
    case v1::DURABILITY_TAG:
      return icecore::durability::tag;
    case v1::DURABILITY_OPERATION:
      return icecore::durability::operation;
    default:
      refuse_number("durability", durability);
  }
}

v1::Durability message_of(icecore::durability durability) {
  switch (durability) {
    case icecore::durability::best_available:
      return v1::DURABILITY_BEST_AVAILABLE;
    case icecore::durability::none:
      return v1::DURABILITY_NONE;
    case icecore::durability::tag:
      return v1::DURABILITY_TAG;
    case icecore::durability::operation:
      return v1::DURABILITY_OPERATION;
  }
  return v1::DURABILITY_UNSPECIFIED;
}

// The numbers of both enumerations are the same (checked here), so that a new kind of index needs no change.
static_assert(v1::INDEX_KIND_BTREE == static_cast<int>(index_kind::btree));
static_assert(v1::INDEX_KIND_SKIP_LIST == static_cast<int>(index_kind::skip_list));
static_assert(v1::INDEX_KIND_PERSISTENT == static_cast<int>(index_kind::persistent));
static_assert(v1::INDEX_KIND_LIST == static_cast<int>(index_kind::list));
static_assert(v1::INDEX_KIND_HASH == static_cast<int>(index_kind::hash));

service::value_compression compression_of(v1::Compression compression, service::value_compression otherwise) {
  switch (compression) {
    case v1::COMPRESSION_UNSPECIFIED:
      return otherwise;
    case v1::COMPRESSION_NONE:
      return service::value_compression::none;
    case v1::COMPRESSION_ZSTD:
      return service::value_compression::zstd;
    default:
      refuse_number("compression", compression);
  }
}

// Conditions and update rules have the same order on both sides.
static_assert(v1::Condition::KIND_VALUE_ABOVE == static_cast<int>(service::condition::kind::value_above));
static_assert(v1::Condition::KIND_VERSION_IS_NOT == static_cast<int>(service::condition::kind::version_is_not));
static_assert(v1::UPDATE_RULE_APPEND == static_cast<int>(service::update_rule::append));
static_assert(v1::OperationResult::STATE_NO_NUMBER == static_cast<int>(service::operation_result::state::no_number));

service::condition condition_of(const v1::Condition& condition) {
  if (!v1::Condition::Kind_IsValid(condition.is())) refuse_number("condition", condition.is());
  return {.key = condition.key(),
          .is = static_cast<service::condition::kind>(condition.is()),
          .version = condition.version(),
          .value = condition.value()};
}

service::operation operation_of(const v1::Operation::Update& update) {
  using kind = service::operation::kind;
  if (!v1::UpdateRule_IsValid(update.rule())) refuse_number("update rule", update.rule());
  return {.what = update.or_put() ? kind::upsert : kind::update,
          .key = update.key(),
          .value = update.part(),
          .rule = static_cast<service::update_rule>(update.rule()),
          .offset = update.offset()};
}

service::operation operation_of(const v1::Operation& operation) {
  using kind = service::operation::kind;
  switch (operation.what_case()) {
    case v1::Operation::kPut: {
      const v1::Operation::Put& put = operation.put();
      return {.what = put.only_new() ? kind::put_new : kind::put,
              .key = put.key(),
              .value = put.value(),
              .lease = put.lease(),
              .previous = put.previous()};
    }
    case v1::Operation::kRemove: {
      const v1::Operation::Remove& remove = operation.remove();
      return {.what = remove.has_end() ? kind::remove_range : kind::remove,
              .key = remove.key(),
              .end = remove.end(),
              .previous = remove.previous()};
    }
    case v1::Operation::kUpdate:
      return operation_of(operation.update());
    case v1::Operation::kIncrement:
      return {.what = kind::increment, .key = operation.increment().key(), .number = operation.increment().by()};
    case v1::Operation::kGet: {
      const v1::Operation::Get& get = operation.get();
      return {.what = get.has_end() ? kind::get_range : kind::get,
              .key = get.key(),
              .end = get.end(),
              .limit = get.limit()};
    }
    case v1::Operation::WHAT_NOT_SET:
      break;
  }
  refuse("an operation says nothing that this server knows: set put, remove, update, increment or get");
}

/// One list names each key at most once: of two writes to one key in one instant nobody could see the first.
void check_keys(const std::vector<service::operation>& list) {
  std::vector<std::string_view> written;
  for (const service::operation& o : list) {
    if (o.writes() && o.what != service::operation::kind::remove_range) written.push_back(o.key);
  }
  std::ranges::sort(written);
  if (std::ranges::adjacent_find(written) != written.end()) {
    refuse("two operations of one list write the same key; a transaction may write a key once");
  }
  for (const service::operation& o : list) {
    if (o.what != service::operation::kind::remove_range) continue;
    const auto first = std::ranges::lower_bound(written, std::string_view(o.key));
    if (first != written.end() && (o.end.empty() || *first < o.end)) {
      refuse("one list removes a range and writes a key in it; a transaction may write a key once");
    }
  }
}

std::vector<service::operation> operations_of(const google::protobuf::RepeatedPtrField<v1::Operation>& list) {
  std::vector<service::operation> operations;
  operations.reserve(static_cast<std::size_t>(list.size()));
  for (const v1::Operation& operation : list) operations.push_back(operation_of(operation));
  check_keys(operations);
  return operations;
}

/// Takes a column out of the message, after checking it.
service::byte_array column_of(v1::ByteColumn& column, std::string_view name, std::size_t rows) {
  service::byte_array out;
  if (static_cast<std::size_t>(column.ends_size()) != rows) {
    refuse(fmt::format("the column `{}` has {} ends for {} rows", name, column.ends_size(), rows));
  }
  std::uint64_t before = 0;
  for (const std::uint64_t end : column.ends()) {
    if (end < before || end > column.bytes().size()) {
      refuse(fmt::format("the column `{}` has an end of {} after {}, and {} bytes", name, end, before,
                         column.bytes().size()));
    }
    before = end;
  }
  if (before != column.bytes().size()) {
    refuse(
        fmt::format("the column `{}` has {} bytes, and its last row ends at {}", name, column.bytes().size(), before));
  }
  out.ends.assign(column.ends().begin(), column.ends().end());
  out.bytes.swap(*column.mutable_bytes());
  return out;
}

void exchange_column(v1::ByteColumn& column, service::byte_array& values) {
  column.mutable_bytes()->swap(values.bytes);
  column.mutable_ends()->Assign(values.ends.begin(), values.ends.end());
}

void fill_row(v1::Row& message, service::row& row) {
  message.mutable_key()->swap(row.key);
  message.mutable_value()->swap(row.value);
  message.set_version(row.version);
}

void fill_result(v1::OperationResult& message, service::operation_result& result) {
  message.set_is(static_cast<v1::OperationResult::State>(result.is));
  if (result.previous) fill_row(*message.mutable_previous(), *result.previous);
  for (service::row& row : result.rows) fill_row(*message.add_rows(), row);
  message.set_more(result.more);
  message.set_count(result.count);
  message.set_size(result.size);
  message.set_number(result.number);
}

}  // namespace

service::point point_of(const v1::Point& at) {
  switch (at.at_case()) {
    case v1::Point::kVersion:
      return icecore::version{at.version()};
    case v1::Point::kTag:
      return service::tag_name{at.tag()};
    case v1::Point::kTimeNs:
      return service::wall_time{std::chrono::system_clock::time_point(
          std::chrono::duration_cast<std::chrono::system_clock::duration>(std::chrono::nanoseconds(at.time_ns())))};
    case v1::Point::AT_NOT_SET:
      break;
  }
  return service::newest{};
}

key_bounds bounds_of(const v1::Bounds& bounds) {
  key_bounds out;
  if (bounds.has_from()) out.from = bounds.from();
  if (bounds.has_to()) out.to = bounds.to();
  return out;
}

key_bounds bounds_from(std::string_view key, std::string_view end) {
  key_bounds out{std::string(key), std::nullopt};
  if (!end.empty()) out.to = std::string(end);
  return out;
}

service::transaction transaction_of(const v1::WriteRequest& request, std::uint64_t operations_max,
                                    service::refusals* refused) {
  const auto check_count = [&](int count, std::string_view what) {
    if (static_cast<std::uint64_t>(count) > operations_max) {
      if (refused != nullptr) refused->count(service::kept_limit::transaction_operations);
      refuse(
          fmt::format("the transaction has {} {}; limits.transaction_operations is {}", count, what, operations_max));
    }
  };
  check_count(request.conditions_size(), "conditions");
  check_count(request.then_size(), "operations");
  check_count(request.otherwise_size(), "operations otherwise");
  service::transaction out;
  out.conditions.reserve(static_cast<std::size_t>(request.conditions_size()));
  for (const v1::Condition& condition : request.conditions()) out.conditions.push_back(condition_of(condition));
  out.then = operations_of(request.then());
  out.otherwise = operations_of(request.otherwise());
  return out;
}

service::operation put_of(const v1::PutRequest& request) {
  return {.what = request.only_new() ? service::operation::kind::put_new : service::operation::kind::put,
          .key = request.key(),
          .value = request.value(),
          .lease = request.lease()};
}

service::operation remove_of(const v1::RemoveRequest& request) {
  return {.what = request.has_end() ? service::operation::kind::remove_range : service::operation::kind::remove,
          .key = request.key(),
          .end = request.end()};
}

service::database_settings settings_of(const v1::DatabaseSettings& settings,
                                       const service::database_settings& defaults) {
  service::database_settings out = defaults;
  out.name = settings.name();
  out.owner = settings.owner();
  out.rule = rule_of(settings.rule(), defaults.rule);
  if (settings.interval_ms() != 0) {
    constexpr std::uint64_t day_ms = 86'400'000;
    if (settings.interval_ms() > day_ms) {
      refuse(fmt::format("an interval of {} ms: it may be 1 ms to 1 day", settings.interval_ms()));
    }
    out.interval = std::chrono::milliseconds(settings.interval_ms());
  }
  out.durability = durability_of(settings.durability(), defaults.durability);
  if (!v1::IndexKind_IsValid(settings.index())) refuse_number("index", settings.index());
  if (settings.index() != v1::INDEX_KIND_UNSPECIFIED) out.index = static_cast<index_kind>(settings.index());
  out.compression = compression_of(settings.compression(), defaults.compression);
  if (settings.quota_bytes() != 0) out.quota_bytes = settings.quota_bytes();
  return out;
}

service::changed_settings changes_of(const v1::AlterDatabaseRequest& request) {
  service::changed_settings out;
  if (request.has_rule()) {
    if (request.rule() == v1::VERSION_RULE_UNSPECIFIED) refuse("say which version rule: write, every or tag");
    out.rule = rule_of(request.rule(), service::version_rule::every);
  }
  if (request.has_interval_ms()) {
    constexpr std::uint64_t day_ms = 86'400'000;
    if (request.interval_ms() == 0 || request.interval_ms() > day_ms) {
      refuse(fmt::format("an interval of {} ms: it may be 1 ms to 1 day", request.interval_ms()));
    }
    out.interval = std::chrono::milliseconds(request.interval_ms());
  }
  if (request.has_quota_bytes()) out.quota_bytes = request.quota_bytes();
  if (request.has_owner()) out.owner = request.owner();
  return out;
}

service::role role_of(const v1::Role& role) {
  service::role out{.name = role.name(), .permissions = {}};
  for (const v1::Permission& permission : role.permissions()) {
    service::rights allowed = 0;
    const auto add = [&](bool is, service::right what) {
      if (is) allowed = static_cast<service::rights>(allowed | static_cast<service::rights>(what));
    };
    add(permission.read(), service::right::read);
    add(permission.write(), service::right::write);
    add(permission.administer(), service::right::administer);
    out.permissions.push_back(
        {.database = permission.database(), .keys = bounds_of(permission.keys()), .allowed = allowed});
  }
  return out;
}

service::row_block rows_of(v1::Rows& rows) {
  const auto count = static_cast<std::size_t>(rows.keys().ends_size());
  if (!rows.removed().empty() || rows.has_before()) refuse("rows that are loaded have keys and values, and no more");
  service::row_block out;
  out.keys = column_of(*rows.mutable_keys(), "keys", count);
  out.values = column_of(*rows.mutable_values(), "values", count);
  return out;
}

service::block_limits block_limits_of(std::uint32_t rows, std::uint32_t bytes) {
  constexpr std::size_t rows_max = 65'536;
  constexpr std::size_t bytes_max = std::size_t{4} << 20;
  service::block_limits out;
  if (rows != 0) out.rows = std::min<std::size_t>(rows, rows_max);
  if (bytes != 0) out.bytes = std::min<std::size_t>(bytes, bytes_max);
  return out;
}

void exchange(v1::Rows& rows, service::row_block& block) {
  exchange_column(*rows.mutable_keys(), block.keys);
  if (block.values.size() != 0) {
    exchange_column(*rows.mutable_values(), block.values);
  } else {
    rows.clear_values();
  }
  rows.mutable_versions()->Assign(block.versions.begin(), block.versions.end());
  rows.mutable_removed()->assign(block.removed.begin(), block.removed.end());
  if (block.before.size() != 0) {
    exchange_column(*rows.mutable_before(), block.before);
  } else {
    rows.clear_before();
  }
  rows.mutable_before_absent()->assign(block.before_absent.begin(), block.before_absent.end());
}

void fill(v1::WriteResponse& response, service::outcome& done) {
  response.set_succeeded(done.succeeded);
  response.set_version(done.version);
  for (service::operation_result& result : done.results) fill_result(*response.add_results(), result);
}

void fill(v1::DatabaseSettings& message, const service::database_settings& settings) {
  message.set_name(settings.name);
  message.set_owner(settings.owner);
  message.set_rule(message_of(settings.rule));
  message.set_interval_ms(static_cast<std::uint64_t>(settings.interval.count()));
  message.set_durability(message_of(settings.durability));
  message.set_index(static_cast<v1::IndexKind>(settings.index));
  message.set_compression(settings.compression == service::value_compression::zstd ? v1::COMPRESSION_ZSTD
                                                                                   : v1::COMPRESSION_NONE);
  message.set_quota_bytes(settings.quota_bytes);
}

void fill(v1::DatabaseStatus& message, const service::database_status& status) {
  fill(*message.mutable_settings(), status.settings);
  message.set_newest(status.newest);
  message.set_durable(status.durable);
  message.set_compacted(status.compacted);
  message.set_keys(status.statistics.keys);
  message.set_records(status.statistics.records);
  message.set_tags(status.statistics.tags);
  message.set_used_bytes(status.statistics.used_bytes);
  message.set_file_bytes(status.statistics.file_bytes);
  message.set_leases(status.leases);
  message.set_watches(status.watches);
  message.set_waiting(status.waiting);
  message.set_medium(status.statistics.durability.filesystem);
  if (status.sick) message.set_sick(status.sick->message);
}

void fill(v1::Tag& message, const tag_info& tag) {
  message.set_version(tag.version);
  message.set_name(tag.name);
  message.set_note(tag.note);
  message.set_time_ns(tag.time_ns);
}

void fill(v1::Lease& message, const service::lease_info& lease) {
  message.set_number(lease.number);
  message.set_granted_ms(static_cast<std::uint64_t>(lease.granted.count()));
  message.set_left_ms(static_cast<std::uint64_t>(std::max(lease.left, std::chrono::milliseconds(0)).count()));
  for (const std::string& key : lease.keys) message.add_keys(key);
}

void fill(v1::Role& message, const service::role& role) {
  message.set_name(role.name);
  for (const service::permission& permission : role.permissions) {
    v1::Permission& out = *message.add_permissions();
    out.set_database(permission.database);
    if (permission.keys.from) out.mutable_keys()->set_from(*permission.keys.from);
    if (permission.keys.to) out.mutable_keys()->set_to(*permission.keys.to);
    const auto has = [&](service::right what) {
      return (permission.allowed & static_cast<service::rights>(what)) != 0;
    };
    out.set_read(has(service::right::read));
    out.set_write(has(service::right::write));
    out.set_administer(has(service::right::administer));
  }
}

}  // namespace icecore::doors
