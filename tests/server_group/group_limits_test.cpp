// Limits of a dependent group: what one server may not do, or has no room for.
#include <fstream>

#include "group_support.hpp"

namespace icecore::server::group {
namespace {

constexpr std::size_t megabyte = std::size_t{1} << 20;

class GroupLimits : public ServerGroup {
 protected:
  // Writes values at this server's keys until it is refused, and returns how many were written.
  static int fill(service::database& db, int server, int most) {
    for (int i = 0; i < most; ++i) {
      const errc why = code_of([&] { put(db, key_at(server, i), std::string(megabyte, 'x')); });
      if (why == errc{}) continue;
      EXPECT_EQ(why, errc::no_space);
      return i;
    }
    return most;
  }
};

TEST_F(GroupLimits, what_one_server_cannot_make_no_server_makes) {
  const int last = ranks() - 1;
  if (rank() == last) limits_.databases = 1;
  start();
  create("one");
  for (int by : {0, last}) {
    if (rank() == by) {
      service::database_settings two;
      two.name = "two";
      EXPECT_EQ(code_of([&] { service_->create(root_, two); }), errc::limit_reached);
    }
    meet();
    EXPECT_EQ(service_->list(root_).size(), 1U);
    EXPECT_FALSE(std::filesystem::exists(path() / "group/2"));
    meet();
  }
  if (rank() == last) service_->drop(root_, "one");
  meet();
  const auto again = create("two", last);
  put(*again, "key" + std::to_string(rank()), "1");
  meet();
  EXPECT_EQ(again->count({}, service::newest{}), static_cast<std::uint64_t>(ranks()));
  stop();
  start();
  EXPECT_EQ(service_->find_database(root_, "two")->count({}, service::newest{}), static_cast<std::uint64_t>(ranks()));
  stop();
}

TEST_F(GroupLimits, a_folder_that_cannot_be_made_is_no_database_of_any_server) {
  start();
  if (rank() == 0) {
    std::filesystem::create_directories(path() / "group");
    std::ofstream(path() / "group/1") << "in the way";
  }
  meet();
  if (rank() == ranks() - 1) {
    service::database_settings one;
    one.name = "one";
    EXPECT_EQ(code_of([&] { service_->create(root_, one); }), errc::io);
  }
  meet();
  EXPECT_TRUE(service_->list(root_).empty());
  meet();
  const auto db = create("one");
  put(*db, "key", "1");
  stop();
}

TEST_F(GroupLimits, what_a_key_takes_of_memory_is_bounded_at_its_owner) {
  limits_.in_flight_bytes = 64 * megabyte;
  start();
  const int last = ranks() - 1;
  const auto db = create("one");
  if (rank() == 0) {
    using service::operation;
    const std::string key = key_at(last, 0);
    // Forty bytes that would make a value of a gigabyte.
    const auto part_at = [&](std::uint64_t offset) {
      operation part{.what = operation::kind::upsert, .key = key, .value = "x"};
      part.rule = service::update_rule::expand_overlap;
      part.offset = offset;
      return code_of([&] { one(*db, part); });
    };
    EXPECT_EQ(part_at(std::uint64_t{1} << 30), errc::limit_reached);
    EXPECT_EQ(read(*db, key), "(none)");
    EXPECT_EQ(part_at(2 * megabyte), errc{});
    EXPECT_EQ(read(*db, key).size(), 2 * megabyte + 1);

    service::transaction reads;
    reads.then.push_back({.what = operation::kind::get, .key = key});
    reads.allowed.read_bytes_max = megabyte;
    EXPECT_EQ(code_of([&] { write(*db, reads); }), errc::limit_reached);
    reads.allowed.read_bytes_max = 3 * megabyte;
    EXPECT_EQ(code_of([&] { write(*db, reads); }), errc{});
  }
  stop();
}

TEST_F(GroupLimits, a_quota_holds_at_the_owner_of_a_key) {
  start();
  const int last = ranks() - 1;
  const auto quota = 8 * megabyte * static_cast<std::uint64_t>(ranks());
  const auto db = create("one", 0, {.quota_bytes = quota});
  EXPECT_EQ(db->settings().quota_bytes, quota);
  if (rank() == 0) {  // a server that has the request, and for the last one's keys forwards it
    const int written = fill(*db, last, 16);
    EXPECT_GT(written, 0);
    EXPECT_LT(written, 8);
    EXPECT_EQ(read(*db, key_at(last, 0)).size(), megabyte) << "reads go on";
    service::row_block rows;
    rows.add(key_at(last, 100), std::string(megabyte, 'x'), 0);
    EXPECT_EQ(code_of([&] { db->load(rows, false); }), errc::no_space);
    EXPECT_EQ(one(*db, service::operation::remove(key_at(last, 0))).is, service::operation_result::state::done);
    if (last != 0) put(*db, key_at(0, 0), std::string(megabyte, 'x'));  // it has room
  }
  meet();
  if (rank() == last) {
    EXPECT_EQ(code_of([&] { put(*db, key_at(last, 100), std::string(megabyte, 'x')); }), errc::no_space) << "its own";
    service::changed_settings larger;
    larger.quota_bytes = 2 * quota;
    service_->change(root_, "one", larger);
  }
  meet();
  if (rank() == 0) {
    EXPECT_GT(fill(*db, last, 16), 0) << "the quota was raised";
  }
  stop();
  start();
  const auto again = service_->find_database(root_, "one");
  if (rank() == 0) {
    EXPECT_EQ(fill(*again, last, 16), 0) << "after a restart, too";
  }
  stop();
}

TEST_F(GroupLimits, a_server_whose_device_is_full_refuses_its_own_keys) {
  const int last = ranks() - 1;
  start();
  create("one");
  stop();
  if (rank() == last) limits_.free_disk_bytes = std::uint64_t{1} << 60;
  start();
  if (rank() == 0) {
    service::database_settings two;
    two.name = "two";
    EXPECT_EQ(code_of([&] { service_->create(root_, two); }), errc::no_space) << "nothing is made there any more";
  }
  meet();
  const auto db = service_->find_database(root_, "one");
  for (int server = 0; server < ranks(); ++server) {
    const std::string key = key_at(server, rank());
    EXPECT_EQ(code_of([&] { put(*db, key, "1"); }), server == last ? errc::no_space : errc{}) << server;
    EXPECT_EQ(read(*db, key), server == last ? "(none)" : "1");
    EXPECT_EQ(code_of([&] { one(*db, service::operation::remove(key)); }), errc{}) << "removals go on";
  }
  stop();
}

}  // namespace
}  // namespace icecore::server::group
