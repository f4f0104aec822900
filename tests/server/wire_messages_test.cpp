// Messages of the UCX door: what is written is what is read; whatever else comes is refused, and takes no memory.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>
#include <set>
#include <tuple>

#include "wire/messages/answers.hpp"
#include "wire/messages/request.hpp"

namespace wire = icecore::wire;
namespace service = icecore::service;
using icecore::wire::any_request;

namespace {

std::vector<std::byte> bytes_of(const wire::byte_buffer& from) { return {from.view().begin(), from.view().end()}; }

service::row_block some_rows() {
  service::row_block rows;
  rows.add("a", "1", 5);
  rows.add("b", std::nullopt, 6);
  rows.add(std::string("c\0d", 3), std::string(300, 'x'), 6);
  rows.add_before(std::nullopt);
  rows.add_before("0");
  rows.add_before("");
  return rows;
}

service::transaction some_transaction() {
  service::transaction what;
  what.conditions.push_back({.key = "k", .is = service::condition::kind::value_above, .version = 7, .value = "v"});
  what.then.push_back(service::operation::put("a", "b"));
  what.then.push_back({.what = service::operation::kind::update,
                       .key = "u",
                       .value = "part",
                       .rule = service::update_rule::append,
                       .offset = 9,
                       .previous = true});
  what.then.push_back({.what = service::operation::kind::increment, .key = "n", .number = -3});
  what.otherwise.push_back({.what = service::operation::kind::get_range, .key = "a", .end = "z", .limit = 10});
  return what;
}

/// One request of each operation, with every field set.
std::vector<any_request> one_of_each() {
  const icecore::key_bounds bounds{.from = "from", .to = std::nullopt};
  const service::point tag = service::tag_name{"epoch"};
  const service::point time = service::wall_time{std::chrono::system_clock::time_point(std::chrono::seconds(17))};
  service::byte_array keys;
  keys.add("one");
  keys.add("");
  keys.add("three");
  const wire::database_settings settings{.name = "weights",
                                         .owner = "me",
                                         .rule = wire::wire_rule::tag,
                                         .interval_ms = 3,
                                         .durability = wire::wire_durability::operation,
                                         .index = wire::wire_index::hash,
                                         .compression = wire::wire_compression::zstd,
                                         .quota_bytes = 1U << 30};
  return {
      wire::status_request{},
      wire::group_request{},
      wire::snapshot_request{.to = "/tmp/there"},
      wire::create_database_request{.settings = settings},
      wire::open_database_request{.name = "weights"},
      wire::close_database_request{},
      wire::drop_database_request{.name = "weights"},
      wire::list_databases_request{},
      wire::describe_database_request{},
      wire::copy_database_request{.from = "a", .at = tag, .settings = settings},
      wire::alter_database_request{
          .name = "a", .rule = wire::wire_rule::write, .interval_ms = 5, .quota_bytes = 6, .owner = "you"},
      wire::get_request{.key = "k", .at = icecore::version{8}, .offset = 1, .length = 2},
      wire::put_request{.key = "k", .value = "v", .only_new = true, .lease = 4},
      wire::remove_request{.key = "k", .end = "l"},
      wire::update_request{
          .key = "k", .part = "p", .rule = service::update_rule::replace_from, .offset = 3, .or_put = true},
      wire::increment_request{.key = "k", .by = std::numeric_limits<std::int64_t>::min()},
      wire::write_request{.what = some_transaction()},
      wire::get_many_request{.keys = keys, .at = time},
      wire::load_request{.rows = some_rows(), .keep = true},
      wire::count_request{.bounds = bounds, .at = tag},
      wire::open_scan_request{.bounds = bounds,
                              .at = tag,
                              .reverse = true,
                              .limit = 5,
                              .values = false,
                              .versions = true,
                              .block_bytes = 77},
      wire::open_history_request{.key = "k", .up_to = tag, .block_bytes = 9},
      wire::open_differences_request{.before = 3, .after = tag, .bounds = bounds, .block_bytes = 8},
      wire::open_changes_request{.after = 3, .up_to = tag, .bounds = bounds, .before = true, .block_bytes = 7},
      wire::next_rows_request{.rows = 2, .block = 1ULL << 40},
      wire::close_rows_request{.rows = 2},
      wire::open_watch_request{.after = 7, .bounds = bounds, .before = true},
      wire::next_changes_request{.watch = 3, .wait_ms = 1000, .block_bytes = 6},
      wire::close_watch_request{.watch = 3},
      wire::tag_request{.name = "n", .note = "o", .time_ns = -1},
      wire::list_tags_request{},
      wire::find_tag_request{.at = time},
      wire::resolve_request{.at = service::newest{}},
      wire::sync_request{},
      wire::compact_request{.oldest_kept = 12},
      wire::grant_lease_request{.time_ms = 1000, .wanted = 5},
      wire::keep_lease_request{.lease = 5},
      wire::revoke_lease_request{.lease = 5},
      wire::describe_lease_request{.lease = 5, .keys = true},
      wire::list_leases_request{},
  };
}

template <class Answer>
void round_trip(const Answer& said) {
  const std::vector<std::byte> bytes = bytes_of(wire::encoded(said));
  Answer read;
  ASSERT_TRUE(wire::decoded(std::span(bytes), read));
  EXPECT_EQ(bytes_of(wire::encoded(read)), bytes);
  for (std::size_t length = 0; length < bytes.size(); ++length) {
    Answer cut;
    EXPECT_FALSE(wire::decoded(std::span(bytes).first(length), cut)) << length << " of " << bytes.size();
  }
}

}  // namespace

TEST(Messages, every_operation_has_a_request_and_facts) {
  std::set<wire::operation_number> seen;
  for (const any_request& each : one_of_each()) {
    const auto number = wire::number_of(each);
    EXPECT_TRUE(seen.insert(number).second);
    EXPECT_NE(wire::facts_of(static_cast<std::uint16_t>(number)), nullptr);
  }
  EXPECT_EQ(seen.size(), wire::all_operations().size());
  EXPECT_EQ(seen.size(), std::variant_size_v<any_request>);
}

TEST(Messages, a_request_is_read_as_it_was_written) {
  for (const any_request& each : one_of_each()) {
    const auto number = static_cast<std::uint16_t>(wire::number_of(each));
    const std::vector<std::byte> bytes = bytes_of(wire::encode_request(each));
    const std::optional<any_request> read = wire::decode_request(number, bytes);
    ASSERT_TRUE(read) << wire::facts_of(number)->name;
    EXPECT_EQ(read->index(), each.index());
    EXPECT_EQ(bytes_of(wire::encode_request(*read)), bytes) << wire::facts_of(number)->name;
  }
}

TEST(Messages, fields_keep_their_values) {
  const auto requests = one_of_each();
  const auto again = [&](const any_request& what) {
    return *wire::decode_request(static_cast<std::uint16_t>(wire::number_of(what)), wire::encode_request(what).view());
  };
  for (const any_request& each : requests) {
    const any_request read = again(each);
    if (const auto* get = std::get_if<wire::get_request>(&read)) {
      EXPECT_EQ(get->key, "k");
      EXPECT_EQ(std::get<icecore::version>(get->at), 8U);
      EXPECT_EQ(get->offset, 1U);
      EXPECT_EQ(get->length, 2U);
    }
    if (const auto* increment = std::get_if<wire::increment_request>(&read)) {
      EXPECT_EQ(increment->by, std::numeric_limits<std::int64_t>::min());
    }
    if (const auto* many = std::get_if<wire::get_many_request>(&read)) {
      ASSERT_EQ(many->keys.size(), 3U);
      EXPECT_EQ(many->keys[2], "three");
      EXPECT_EQ(std::get<service::wall_time>(many->at).time.time_since_epoch(), std::chrono::seconds(17));
    }
    if (const auto* load = std::get_if<wire::load_request>(&read)) {
      const service::row_block& rows = load->rows;
      ASSERT_EQ(rows.size(), 3U);
      EXPECT_EQ(rows.keys[2], std::string_view("c\0d", 3));
      EXPECT_EQ(rows.values[2], std::string(300, 'x'));
      EXPECT_EQ(rows.versions, (std::vector<icecore::version>{5, 6, 6}));
      EXPECT_EQ(rows.removed, (std::vector<std::uint8_t>{0, 1, 0}));
      EXPECT_EQ(rows.before[1], "0");
      EXPECT_EQ(rows.before_absent, (std::vector<std::uint8_t>{1, 0, 0}));
    }
    if (const auto* write = std::get_if<wire::write_request>(&read)) {
      ASSERT_EQ(write->what.then.size(), 3U);
      EXPECT_EQ(write->what.then[1].rule, service::update_rule::append);
      EXPECT_EQ(write->what.then[2].number, -3);
      EXPECT_EQ(write->what.conditions[0].is, service::condition::kind::value_above);
    }
  }
}

TEST(Messages, a_request_that_was_cut_or_grew_is_refused) {
  for (const any_request& each : one_of_each()) {
    const auto number = static_cast<std::uint16_t>(wire::number_of(each));
    std::vector<std::byte> bytes = bytes_of(wire::encode_request(each));
    for (std::size_t length = 0; length < bytes.size(); ++length) {
      EXPECT_FALSE(wire::decode_request(number, std::span(bytes).first(length)))
          << wire::facts_of(number)->name << " with " << length << " of " << bytes.size() << " bytes";
    }
    bytes.push_back(std::byte{0});
    EXPECT_FALSE(wire::decode_request(number, bytes)) << wire::facts_of(number)->name << " with one byte more";
  }
}

namespace {

bool is_bare(std::uint32_t number) {
  const auto same = [&](const any_request& each) {
    return static_cast<std::uint32_t>(wire::number_of(each)) == number;
  };
  const std::vector<any_request> requests = one_of_each();
  const auto found = std::ranges::find_if(requests, same);
  return found != requests.end() && wire::encode_request(*found).empty();
}

}  // namespace

TEST(Messages, an_unknown_operation_is_refused) {
  for (std::uint32_t number = 0; number <= 300; ++number) {
    const bool known = wire::facts_of(static_cast<std::uint16_t>(number)) != nullptr;
    EXPECT_EQ(wire::decode_request(static_cast<std::uint16_t>(number), {}).has_value(), known && is_bare(number))
        << number;
  }
}

TEST(Messages, lengths_that_contradict_are_refused) {
  wire::byte_buffer payload;
  wire::field_writer out(payload);
  out.u32(0x7FFFFFFF).u8(0);  // a load of 2^31 rows, without their bytes
  EXPECT_FALSE(wire::decode_request(static_cast<std::uint16_t>(wire::operation_number::load), payload.view()));

  payload.clear();
  wire::field_writer(payload).u32(0xFFFFFFFF);  // a transaction of 2^32 - 1 conditions
  payload.append(std::vector<std::byte>(1000));
  EXPECT_FALSE(wire::decode_request(static_cast<std::uint16_t>(wire::operation_number::write), payload.view()));

  const auto two_keys_are_read = [&](std::uint32_t first_end, std::uint32_t second_end) {
    payload.clear();
    wire::field_writer(payload).u32(2).u32(2).u32(first_end).u32(second_end).u8('a').u8('b').u8(0);
    const auto number = static_cast<std::uint16_t>(wire::operation_number::get_many);
    return wire::decode_request(number, payload.view()).has_value();
  };
  // Ends of values that fall, pass their array, or leave bytes over.
  EXPECT_FALSE(two_keys_are_read(2, 1));
  EXPECT_FALSE(two_keys_are_read(1, 3));
  EXPECT_FALSE(two_keys_are_read(0, 1));
  EXPECT_TRUE(two_keys_are_read(1, 2));
}

TEST(Messages, what_no_client_may_ask_is_refused) {
  for (const auto kind : {service::operation::kind::grant_lease, service::operation::kind::end_lease,
                          service::operation::kind::compact}) {
    wire::write_request asked;
    asked.what.then.push_back({.what = kind, .key = "k"});
    const wire::byte_buffer payload = wire::encoded(asked);
    EXPECT_FALSE(wire::decode_request(static_cast<std::uint16_t>(wire::operation_number::write), payload.view()));
  }
}

TEST(Messages, any_bytes_are_read_or_refused) {
  std::mt19937_64 random(20);
  const std::vector<any_request> requests = one_of_each();
  std::size_t read = 0;
  for (int round = 0; round < 20'000; ++round) {
    const any_request& from = requests[random() % requests.size()];
    const auto number = static_cast<std::uint16_t>(wire::number_of(from));
    std::vector<std::byte> bytes = bytes_of(wire::encode_request(from));
    if (bytes.empty()) continue;
    for (std::size_t change = 0; change <= random() % 4; ++change) {
      bytes[random() % bytes.size()] = static_cast<std::byte>(random());
    }
    const std::optional<any_request> got = wire::decode_request(number, bytes);
    if (!got) continue;
    ++read;
    // What is read is written as the same bytes, so no two texts mean one request unseen (but blocks of rows, which may
    // tell one version for all rows in two ways).
    if (number != static_cast<std::uint16_t>(wire::operation_number::load)) {
      EXPECT_EQ(bytes_of(wire::encode_request(*got)), bytes) << wire::facts_of(number)->name;
    }
  }
  EXPECT_GT(read, 1000U);
}

TEST(Messages, answers_are_read_as_they_were_written) {
  round_trip(wire::failed_answer{.message = "no"});
  round_trip(wire::status_answer{.identity = "id",
                                 .name = "n",
                                 .program_version = "0.1",
                                 .place = {.name = "g", .index = 1, .size = 3},
                                 .not_ready = {{.name = "d", .code = 6, .why = "damaged"}}});
  round_trip(wire::group_answer{.dependent = true,
                                .map_number = 4,
                                .place = {.name = "g", .index = 0, .size = 2},
                                .members = {{.address = "a:1", .index = 0}, {.address = "b:2", .index = 1}}});
  round_trip(wire::snapshot_answer{.parts = {{.database = "d", .version = 3, .bytes = 4}}});
  round_trip(wire::open_database_answer{.handle = 3, .number = 9, .settings = {.name = "d"}});
  round_trip(wire::list_databases_answer{.databases = {{.name = "a"}, {.name = "b"}}});
  round_trip(wire::describe_database_answer{.status = {.settings = {.name = "d"}, .newest = 7, .medium = "disk"}});
  round_trip(wire::get_answer{.found = true, .version = 4, .size = 3, .value = "abc"});
  round_trip(wire::put_answer{.written = true, .version = 4});
  round_trip(wire::remove_answer{.removed = 2, .version = 4});
  round_trip(
      wire::update_answer{.is = service::operation_result::state::overlap, .version = 4, .size = 8, .number = -1});
  service::outcome done{.succeeded = false, .version = 8, .results = {}};
  done.results.push_back({.is = service::operation_result::state::no_number,
                          .previous = service::row{"k", "v", 3},
                          .rows = {{"a", "b", 1}, {"c", "d", 2}},
                          .more = true,
                          .count = 2,
                          .size = 9,
                          .number = 5});
  round_trip(wire::write_answer{.done = done});
  wire::get_many_answer many{.version = 3, .values = {}, .found = {1, 0}};
  many.values.add("x");
  many.values.add("");
  round_trip(many);
  round_trip(wire::load_answer{.written = 5});
  round_trip(wire::count_answer{.count = 5, .version = 6});
  round_trip(wire::rows_answer{.rows = 1, .block = 2, .end = true, .version = 6, .block_of_rows = some_rows()});
  round_trip(wire::changes_answer{.watch = 1, .told = 7, .changes = some_rows()});
  round_trip(wire::version_answer{.version = 5});
  round_trip(wire::list_tags_answer{.tags = {{.version = 3, .time_ns = -5, .name = "n", .note = ""}}});
  round_trip(wire::find_tag_answer{.tag = icecore::tag_info{.version = 3, .time_ns = 5, .name = "n", .note = "o"}});
  round_trip(wire::lease_answer{.lease = 3, .granted_ms = 4, .left_ms = 2, .keys = {"a", "b"}});
  round_trip(wire::revoke_lease_answer{.removed = 3, .version = 4});
  round_trip(wire::list_leases_answer{.leases = {1, 2, 3}});
}

TEST(Messages, rows_are_answered_and_read_without_a_copy_alike) {
  for (const bool with_rows : {true, false}) {
    wire::rows_answer told{.rows = 1, .block = 2, .end = false, .version = 6, .block_of_rows = {}};
    if (with_rows) told.block_of_rows = some_rows();
    const std::vector<std::byte> bytes = bytes_of(wire::encoded(told));
    wire::rows_answer_view seen;
    ASSERT_TRUE(wire::decoded(std::span(bytes), seen));
    EXPECT_EQ(std::tuple(seen.rows, seen.block, seen.end, seen.version), std::tuple(1U, 2U, false, 6U));
    const service::row_block& rows = told.block_of_rows;
    ASSERT_EQ(seen.block_of_rows.size(), rows.size());
    for (std::size_t i = 0; i < rows.size(); ++i) {
      EXPECT_EQ(seen.block_of_rows.key(i), rows.keys[i]);
      EXPECT_EQ(seen.block_of_rows.value(i), rows.values[i]);
      EXPECT_EQ(seen.block_of_rows.version(i), rows.versions[i]);
      EXPECT_EQ(seen.block_of_rows.removed(i), i < rows.removed.size() && rows.removed[i] == 1);
      const std::optional<std::string_view> before = seen.block_of_rows.before(i);
      EXPECT_EQ(before.has_value(), rows.before_absent[i] == 0);
      EXPECT_EQ(before.value_or(""), rows.before[i]);
    }
    for (std::size_t length = 0; length < bytes.size(); ++length) {
      EXPECT_FALSE(wire::decoded(std::span(bytes).first(length), seen)) << length << " of " << bytes.size();
    }
    wire::frame_payload sent = wire::encoded_rows(told);
    EXPECT_TRUE(told.block_of_rows.values.bytes.empty());
    sent.join();
    const std::span<const std::byte> joined = sent.from(0);
    EXPECT_EQ(std::vector<std::byte>(joined.begin(), joined.end()), bytes);
  }
}

TEST(Messages, one_version_of_all_rows_is_read_where_it_lies) {
  service::row_block rows;
  for (const char* key : {"a", "b", "c"}) rows.add(key, "value", 9);
  const std::vector<std::byte> bytes = bytes_of(wire::encoded(wire::rows_answer{.block_of_rows = rows}));
  wire::rows_answer_view seen;
  ASSERT_TRUE(wire::decoded(std::span(bytes), seen));
  for (std::size_t i = 0; i < rows.size(); ++i) {
    EXPECT_EQ(seen.block_of_rows.version(i), 9U);
    EXPECT_FALSE(seen.block_of_rows.removed(i));
    EXPECT_EQ(seen.block_of_rows.before(i), std::nullopt);
  }
}

TEST(Messages, a_value_is_answered_and_read_without_a_copy_alike) {
  const wire::byte_buffer payload = wire::encoded_get_answer(7, 10, "part");
  wire::get_answer copied;
  ASSERT_TRUE(wire::decoded(payload.view(), copied));
  EXPECT_TRUE(copied.found);
  EXPECT_EQ(copied.version, 7U);
  EXPECT_EQ(copied.size, 10U);
  EXPECT_EQ(copied.value, "part");
  wire::get_answer_view seen;
  ASSERT_TRUE(wire::decoded(payload.view(), seen));
  EXPECT_EQ(seen.value, "part");
  for (std::size_t length = 0; length < payload.size(); ++length) {
    EXPECT_FALSE(wire::decoded(payload.view().first(length), seen));
  }
}

TEST(Messages, only_what_is_idempotent_may_be_repeated) {
  EXPECT_TRUE(wire::may_repeat(wire::get_request{}));
  EXPECT_TRUE(wire::may_repeat(wire::put_request{.key = "k"}));
  EXPECT_FALSE(wire::may_repeat(wire::put_request{.key = "k", .only_new = true}));
  EXPECT_FALSE(wire::may_repeat(wire::update_request{}));
  EXPECT_FALSE(wire::may_repeat(wire::increment_request{}));
  EXPECT_FALSE(wire::may_repeat(wire::write_request{.what = some_transaction()}));
  wire::write_request reads;
  reads.what.then.push_back({.what = service::operation::kind::get, .key = "k"});
  EXPECT_TRUE(wire::may_repeat(reads));
}

TEST(Messages, keys_have_the_same_owner_for_ever) {
  // Data lies where these say: a change of the hash would lose it.
  EXPECT_EQ(wire::owner_of("", 1000), 934U);
  EXPECT_EQ(wire::owner_of("a", 1000), 821U);
  EXPECT_EQ(wire::owner_of("layer1/bias", 1000), 140U);
  EXPECT_EQ(wire::owner_of("user42", 1000), 575U);
  std::vector<std::size_t> counts(7);
  for (int i = 0; i < 70'000; ++i) ++counts[wire::owner_of("key" + std::to_string(i), 7)];
  for (const std::size_t count : counts) EXPECT_NEAR(static_cast<double>(count), 10'000, 500);
  EXPECT_EQ(wire::owner_of("layer1/bias", 1), 0U);
}
