// A saved history is the same when it is loaded again; what is none is refused, naming file and line.
#include "history.hpp"

#include <gtest/gtest.h>

#include "support/file.hpp"
#include "support/scratch.hpp"

namespace icecore::testing {
namespace {

[[nodiscard]] history small() {
  history h;
  h.origin = "by hand, with blanks";
  operation o;
  o.what = call::insert;
  o.key = 7;
  o.value = 99;
  o.version = 3;
  o.invoke_ns = 10;
  o.return_ns = 20;
  h.lives.push_back(
      {1000, {{o}, {}, {o}}, {{2000, 3000, 5, {{7, 0, {{3, 99}, {4, 0}}}, {8, 2, {}}}, {{4, 55}}, {{4, 255, 77}}}}});
  h.lives.push_back({5000, {}, {}});
  return h;
}

TEST(SavedHistory, is_the_same_when_loaded_again) {
  const scratch folder;
  save_history(small(), folder / "one");
  const history loaded = load_history(folder / "one");
  save_history(loaded, folder / "two");
  EXPECT_EQ(read_file(folder / "one"), read_file(folder / "two"));
  EXPECT_EQ(loaded.origin, small().origin);
  ASSERT_EQ(loaded.lives.size(), 2U);
  ASSERT_EQ(loaded.lives[0].clients.size(), 3U);
  EXPECT_EQ(loaded.lives[0].clients[2][0].value, 99U);
  EXPECT_EQ(loaded.lives[0].inspections[0].keys[0].more, small().lives[0].inspections[0].keys[0].more);
}

TEST(SavedHistory, what_is_none_is_refused_with_its_line) {
  const scratch folder;
  const auto expect_refused = [&](const std::string& text, const std::string& part) {
    write_file(folder / "bad", text);
    try {
      static_cast<void>(load_history(folder / "bad"));
      ADD_FAILURE() << "loaded: " << text;
    } catch (const std::runtime_error& failure) {
      EXPECT_NE(std::string(failure.what()).find(part), std::string::npos) << failure.what();
    }
  };
  const std::string first = "icecore-history 1\n";
  expect_refused("", "bad:1");
  expect_refused("icecore-history 2\n", "bad:1");
  expect_refused(first + "x 1\n", "bad:2: begins with \"x\"");
  expect_refused(first + "o 0 insert 1 2 3 0 10 20\n", "bad:2: belongs to no life");
  expect_refused(first + "life 5\no 0 put 1 2 3 0 10 20\n", "bad:3: no call is named \"put\"");
  expect_refused(first + "life 5\no 0 insert 1 2 3 0 10\n", "bad:3: a number is missing");
  expect_refused(first + "life 5\no 0 insert 1 2 3 0 10 20 30\n", "bad:3: something is left");
  expect_refused(first + "life 5\no 4000000000 insert 1 2 3 0 10 20\n", "bad:3: names client");
  expect_refused(first + "life 5\nk 1 0\n", "bad:3: belongs to no inspection");
  expect_refused(first + "life 99999999999999999999\n", "bad:2: a number is missing or too large");
  EXPECT_THROW(static_cast<void>(load_history(folder / "none")), std::runtime_error);
}

}  // namespace
}  // namespace icecore::testing
