// Orders of a group whose MPI fails at one rank: whoever gave one gets an answer.
#include <atomic>

#include "group/control.hpp"
#include "group_support.hpp"

namespace {

std::atomic<bool> messages_fail{false};  // of this rank
std::atomic<bool> closing_fails{false};  // of this rank: servers cannot ask each other whether something was written

}  // namespace

// In place of MPI's own, which this one calls.
extern "C" int MPI_Improbe(int source, int tag, MPI_Comm comm, int* flag, MPI_Message* message, MPI_Status* status) {
  if (messages_fail) return MPI_ERR_OTHER;
  return PMPI_Improbe(source, tag, comm, flag, message, status);
}

extern "C" int MPI_Allreduce(const void* from, void* to, int count, MPI_Datatype type, MPI_Op how, MPI_Comm comm) {
  if (closing_fails && how == MPI_LOR) return MPI_ERR_OTHER;
  return PMPI_Allreduce(from, to, count, type, how, comm);
}

namespace icecore::server::group {
namespace {

class Control : public icecore::testing::ClusterTest {
 protected:
  // What an order ended with; no order is waited for forever.
  static errc ask(control& of, const std::string& order) {
    auto answer = std::async(std::launch::async, [&] { return code_of([&] { of.everywhere(order); }); });
    if (answer.wait_for(60s) != std::future_status::ready) {
      ADD_FAILURE() << "an order was not answered";
      MPI_Abort(MPI_COMM_WORLD, 1);
    }
    return answer.get();
  }
};

TEST_F(Control, answers_every_order_if_messages_fail_at_one_rank) {
  for (int failing = 0; failing < ranks(); ++failing) {
    control orders(MPI_COMM_WORLD);
    orders.begin([&](const std::string& order) {
      if (order == "break" && rank() == failing) messages_fail = true;
      return order;
    });
    EXPECT_EQ(ask(orders, "first"), errc{});
    MPI_Barrier(MPI_COMM_WORLD);
    // One order of each rank is under way, and others are in the queue behind it.
    std::vector<std::future<errc>> more;
    for (int i = 0; i < 4; ++i) more.push_back(std::async(std::launch::async, [&] { return ask(orders, "break"); }));
    for (auto& each : more) {
      const errc came = each.get();
      EXPECT_TRUE(came == errc{} || came == errc::mpi || came == errc::unavailable) << static_cast<int>(came);
    }
    // Rank 0 learns of it with the next order at the latest.
    const errc after = ask(orders, "after");
    EXPECT_TRUE(after == errc::mpi || after == errc::unavailable) << static_cast<int>(after);
    orders.end();
    EXPECT_EQ(ask(orders, "later"), errc::unavailable);
    MPI_Barrier(MPI_COMM_WORLD);
    messages_fail = false;
  }
}

TEST_F(Control, answers_what_is_under_way_when_the_group_ends) {
  for (int round = 0; round < 20; ++round) {
    control orders(MPI_COMM_WORLD);
    orders.begin([](const std::string& order) { return order; });
    std::vector<std::future<errc>> all;
    for (int i = 0; i < 3; ++i) all.push_back(std::async(std::launch::async, [&] { return ask(orders, "order"); }));
    orders.end();
    for (auto& each : all) {
      const errc came = each.get();
      EXPECT_TRUE(came == errc{} || came == errc::unavailable) << static_cast<int>(came);
    }
  }
}

TEST_F(Control, knows_the_first_rank_of_its_node) {
  const control orders(MPI_COMM_WORLD);
  EXPECT_EQ(orders.leads_node(), rank() == 0) << "the ranks of a test share a node";
}

// A read of the present closes the open version. If that fails, what was written is not forgotten: the next one closes.
TEST_F(ServerGroup, a_close_that_has_failed_is_done_by_the_next_read) {
  start();
  const auto db = create("one");
  for (int owner = 0; owner < ranks(); ++owner) {
    if (rank() == 0) put(*db, key_at(owner, 1), "v");
    closing_fails = true;
    meet();
    if (rank() == 0) {
      EXPECT_EQ(code_of([&] { (void)db->scan({}); }), errc::mpi);
    }
    meet();
    closing_fails = false;
    meet();
    if (rank() == 0) {
      EXPECT_EQ(rows(*db->scan({})).size(), static_cast<std::size_t>(owner) + 1);
    }
    meet();
  }
  stop();
}

}  // namespace
}  // namespace icecore::server::group
