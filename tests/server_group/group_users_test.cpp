// Users, roles, tokens and the catalog of a dependent group: what one server knows, all know.
#include "group_support.hpp"

namespace icecore::server::group {
namespace {

using service::right;
using service::rights_of;

class GroupUsers : public ServerGroup {
 protected:
  void begin() {
    start(path(), ranks(), true);
    users().ensure_root("secret");  // as every server does at its start
    meet();
  }
  [[nodiscard]] service::access& users() { return service_->users(); }
  [[nodiscard]] bool knows(const std::string& token) {
    return code_of([&] { static_cast<void>(users().recognise(token)); }) == errc{};
  }
};

TEST_F(GroupUsers, a_change_at_any_server_is_valid_at_all_and_after_a_restart) {
  begin();
  const int last = ranks() - 1;
  if (rank() == last) {
    users().add_user(root_, "ann", "first");
    users().set_role(root_, {"readers", {{"weights*", {}, rights_of({right::read})}}});
    users().grant(root_, "ann", "readers");
  }
  meet();
  EXPECT_EQ(users().users(root_).size(), 2U);
  const std::string token = of_rank(last, rank() == last ? users().log_in("ann", "first").text : "");
  EXPECT_TRUE(knows(token)) << "of another server";
  {
    const service::principal ann = users().recognise(token);
    EXPECT_TRUE(ann.allows("weights1", "", "key", right::read));
    EXPECT_FALSE(ann.allows("weights1", "", "key", right::write));
    meet();
    if (rank() == 0) users().set_role(root_, {"readers", {{"weights*", {}, rights_of({right::write})}}});
    meet();
    EXPECT_FALSE(ann.is_current()) << "a principal that a door keeps is refused";
    EXPECT_TRUE(users().recognise(token).allows("weights1", "", "key", right::write));
  }
  meet();
  if (rank() == 0) users().log_out(token);
  meet();
  EXPECT_FALSE(knows(token));
  const std::string second = of_rank(0, rank() == 0 ? users().log_in("ann", "first").text : "");
  if (rank() == last) users().set_password(users().recognise(second), "ann", "second");  // her own
  meet();
  EXPECT_FALSE(knows(second)) << "the user was changed";
  if (rank() == last) {
    EXPECT_EQ(code_of([&] { static_cast<void>(users().log_in("ann", "first")); }), errc::unauthenticated);
  }
  stop();
  begin();
  EXPECT_FALSE(knows(second));
  if (rank() == last) {
    EXPECT_NO_THROW(static_cast<void>(users().log_in("ann", "second")));
    EXPECT_NO_THROW(static_cast<void>(users().log_in("root", "secret")));
  }
  EXPECT_EQ(users().users(root_).size(), 2U);
  EXPECT_EQ(users().roles(root_).size(), 1U);
  meet();
  if (rank() == 0) users().remove_user(root_, "ann");
  meet();
  if (rank() == last) {
    EXPECT_EQ(code_of([&] { static_cast<void>(users().log_in("ann", "second")); }), errc::unauthenticated);
  }
  stop();
}

TEST_F(GroupUsers, of_changes_at_once_all_servers_refuse_the_same) {
  begin();
  const errc added = code_of([&] { users().add_user(root_, "ann", std::nullopt); });
  int made = added == errc{} ? 1 : 0;
  EXPECT_TRUE(made == 1 || added == errc::invalid_argument);
  MPI_Allreduce(MPI_IN_PLACE, &made, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  EXPECT_EQ(made, 1);
  meet();
  // Each server would take the role root from one of two users: one of them keeps it.
  if (rank() == 0) {
    users().set_password(root_, "ann", "x");
    users().grant(root_, "ann", "root");
  }
  meet();
  const errc taken = code_of([&] { users().withdraw(root_, rank() % 2 == 0 ? "ann" : "root", "root"); });
  EXPECT_TRUE(taken == errc{} || taken == errc::invalid_argument);
  meet();
  int roots = 0;
  for (const auto& each : users().users(root_)) roots += static_cast<int>(each.roles.size());
  EXPECT_EQ(roots, 1);
  stop();
}

TEST_F(GroupUsers, a_server_that_missed_a_change_learns_it_at_the_start) {
  begin();
  const auto db = create("one");
  put(*db, "key" + std::to_string(rank()), "1");
  stop();
  if (rank() == ranks() - 1 && rank() != 0) {  // as if it was killed before it wrote its records
    service::catalog missed(path() / ("rank-" + std::to_string(rank())) / "catalog.ice");
    missed.remove("one");
    missed.store().remove("user/root");
    static_cast<void>(missed.store().latest());
    missed.put({.number = 7, .settings = {.name = "never"}});
    missed.close();
  }
  if (rank() == 0) std::filesystem::create_directories(path() / "group/77/cluster");  // a database that was being made
  meet();
  begin();
  const auto again = service_->find_database(root_, "one");
  EXPECT_FALSE(std::filesystem::exists(path() / "group/77")) << "nobody names it";
  for (int r = 0; r < ranks(); ++r) EXPECT_EQ(read(*again, "key" + std::to_string(r)), "1");
  EXPECT_EQ(service_->list(root_).size(), 1U);
  EXPECT_EQ(users().users(root_).size(), 1U);
  stop();
}

TEST_F(GroupUsers, a_first_server_with_a_new_folder_takes_nothing_from_the_others) {
  if (ranks() == 1) return;
  begin();
  create("one");
  stop();
  if (rank() == 0) std::filesystem::rename(path() / "rank-0", path() / "away");
  meet();
  EXPECT_EQ(code_of([&] { begin(); }), errc::damaged) << "there are databases, and no catalog";
  service_.reset();
  link_.reset();
  MPI_Comm_free(&comm_);
  meet();
  if (rank() == 0) {
    std::filesystem::remove_all(path() / "rank-0");
    std::filesystem::rename(path() / "away", path() / "rank-0");
  }
  meet();
  begin();
  EXPECT_EQ(service_->list(root_).size(), 1U);
  stop();
}

}  // namespace
}  // namespace icecore::server::group
