#include "network/journal.hpp"

#include <gtest/gtest.h>

#include <sstream>

namespace icecore::network {

using namespace std::chrono_literals;

journal::journal(ways::destination to, std::string database, int number)
    : to_(std::move(to)),
      name_(ways::name_of(to_.through) + std::to_string(number)),
      connection_(ways::connect(to_)),
      database_(connection_->open(database)) {}

void journal::start() {
  thread_ = std::thread([this] { work(); });
}

void journal::stop() {
  ending_ = true;
  if (thread_.joinable()) thread_.join();
}

void journal::work() {
  for (std::uint64_t n = 1; !ending_; ++n) {
    try {
      step(n);
    } catch (const std::exception& e) {
      wrong_.push_back(e.what());
      return;
    }
  }
}

// Whether it was answered. What fails otherwise than by the network is thrown.
template <typename Call>
bool journal::call(asked& of, std::uint64_t n, const Call& what) {
  const auto begun = clock::now();
  bool done = true;
  try {
    what();
  } catch (const error& e) {
    if (!ways::lost(e)) throw;
    done = false;
  }
  longest_ = std::max(longest_, clock::now() - begun);
  (done ? of.acknowledged : of.unknown).insert(n);
  if (done) {
    ++answered_;
    last_begun_ = begun.time_since_epoch().count();
  } else {
    ++lost_;
    std::this_thread::sleep_for(20ms);
  }
  return done;
}

void journal::step(std::uint64_t n) {
  bool written = true;
  call(only_, n, [&] { written = database_->insert_new(key_of(n), std::to_string(n)); });
  if (!written) wrong_.push_back("the key of " + std::to_string(n) + " was there before: a call took effect twice");
  call(appended_, n, [&] { database_->append(key("log"), std::to_string(n) + ";"); });
  std::int64_t count = 0;
  if (call(counted_, n, [&] { count = database_->increment(key("count")); })) {
    if (count <= last_count_) wrong_.push_back("one number was given twice: " + std::to_string(count));
    last_count_ = count;
  }
  call(pairs_, n, [&] { database_->apply({{key("a"), std::to_string(n)}, {key("b"), std::to_string(n)}}); });
}

void journal::compare(ways::way& shown) const {
  for (const std::string& each : wrong_) ADD_FAILURE() << name_ << ": " << each;
  for (const std::uint64_t n : only_.acknowledged) {
    ASSERT_EQ(shown.get(key_of(n)), std::to_string(n)) << name_ << ": an acknowledged write is lost";
  }
  compare_log(shown.get(key("log")).value_or(""));
  const auto count = std::stoull(shown.get(key("count")).value_or("0"));
  EXPECT_GE(count, counted_.acknowledged.size()) << name_ << ": an acknowledged increment is lost";
  EXPECT_LE(count, counted_.acknowledged.size() + counted_.unknown.size()) << name_ << ": one has counted twice";
  EXPECT_GE(static_cast<std::int64_t>(count), last_count_) << name_;
  const auto a = shown.get(key("a"));
  EXPECT_EQ(a, shown.get(key("b"))) << name_ << ": half a transaction";
  EXPECT_TRUE(pairs_.acknowledged.empty() || a) << name_ << ": an acknowledged transaction is lost";
}

void journal::compare_log(const std::string& log) const {
  std::set<std::uint64_t> there;
  std::istringstream parts(log);
  for (std::string part; std::getline(parts, part, ';');) {
    const std::uint64_t n = std::stoull(part);
    EXPECT_TRUE(there.insert(n).second) << name_ << ": " << n << " was appended twice";
    EXPECT_TRUE(appended_.acknowledged.contains(n) || appended_.unknown.contains(n))
        << name_ << ": nobody appended " << n;
  }
  for (const std::uint64_t n : appended_.acknowledged) {
    ASSERT_TRUE(there.contains(n)) << name_ << ": " << n << ", whose append was acknowledged, is lost";
  }
}

}  // namespace icecore::network
