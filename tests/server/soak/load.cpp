#include "soak/load.hpp"

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <functional>
#include <random>

#include "soak/model.hpp"

namespace icecore::soak {
namespace {

using namespace std::chrono_literals;
using remote::version_rule;
using ways::door;

constexpr double threads_of_a_round = 10;
constexpr std::size_t loaded_rows = 1000;
constexpr auto patience = 60s;

ways::door some_door(std::uint64_t number) { return number % 2 == 0 ? door::grpc : door::ucx; }

// ---- A writer of pairs, and readers who know nothing but that they are pairs ----

struct pairs {
  std::string name;
  std::atomic<std::uint64_t> begun{0};
  std::atomic<std::uint64_t> answered{0};
  std::atomic<bool> ended{false};
};

void write_pairs(const place& where, pairs& shared, clock::time_point until) {
  alternating database(where, shared.name);
  while (clock::now() < until) {
    const std::string value = std::to_string(++shared.begun);
    const version at = database.next().apply({{"a", value}, {"b", value}});
    shared.answered.store(shared.begun);
    if (shared.begun % 20 == 0) static_cast<void>(database.next().tag());
    static_cast<void>(at);
    pause_between_calls(where);
  }
}

std::uint64_t number_of(const std::string& text) { return std::stoull(text); }

void read_pairs(const place& where, pairs& shared, clock::time_point until, verdict& said) {
  alternating database(where, shared.name);
  std::uint64_t seen = 0;
  while (clock::now() < until) {
    const std::uint64_t least = std::max(seen, shared.answered.load());
    const ways::rows both = database.next().scan({"a", "c"});
    const std::uint64_t most = shared.begun;
    if (both.empty()) {
      said.require(least == 0, "{}: {} was written, and nothing is there", shared.name, least);
    } else {
      said.require(both.size() == 2 && both[0].second == both[1].second, "{}: half a transaction is there",
                   shared.name);
      seen = number_of(both[0].second);
      said.require(least <= seen && seen <= most, "{}: {} was read, of {} to {}", shared.name, seen, least, most);
      const auto later = database.next().get("b");
      said.require(later && number_of(*later) >= seen, "{}: {} was read, and then less", shared.name, seen);
    }
    pause_between_calls(where);
  }
}

// ---- Leases ----

void lease(const place& where, const std::string& name, clock::time_point until, verdict& said) {
  alternating database(where, name);
  for (std::uint64_t n = 0; clock::now() < until; ++n) {
    const std::string key = fmt::format("leased{}", n % 10);
    const std::uint64_t long_one = database.next().grant_lease(1h);
    database.next().insert(key, "x", long_one);
    database.next().keep_lease(long_one);
    said.require(database.next().get(key) == "x", "{}: a leased key is not there", name);
    said.require(database.next().revoke_lease(long_one) == 1, "{}: a lease had not one key", name);
    said.require(!database.next().get(key), "{}: a key has outlived its lease", name);
    try {
      const std::uint64_t short_one = database.next().grant_lease(1s);
      database.next().insert(key, "y", short_one);
    } catch (const error& e) {  // a busy machine may need longer for a call than the lease lasts
      said.require(e.code() == errc::no_such_lease, "{}: {}", name, e.message());
    }
    const auto limit = clock::now() + patience;
    while (database.next().get(key) && clock::now() < limit) std::this_thread::sleep_for(200ms);
    said.require(!database.next().get(key), "{}: a lease does not end", name);
    pause_between_calls(where);
  }
}

// ---- Many rows ----

ways::rows many_rows(std::uint64_t number) {
  ways::rows all;
  for (std::size_t i = 0; i < loaded_rows; ++i) {
    all.emplace_back(fmt::format("row{:06}", i), fmt::format("{} {}", number, std::string(i % 100, '-')));
  }
  return all;
}

void load(const place& where, const std::string& name, clock::time_point until, verdict& said) {
  alternating database(where, name);
  ways::rows before;
  version tagged = 0;
  for (std::uint64_t n = 0; n < 10 && clock::now() < until; ++n) {
    ways::rows all = many_rows(n);
    said.require(database.next().load(all) == all.size(), "{}: not all rows were written", name);
    said.require(database.next().scan({}) == all, "{}: a scan shows other rows than were loaded", name);
    if (tagged != 0) {
      said.require(database.next().scan({}, tagged) == before, "{}: the rows of a tag have changed", name);
    }
    tagged = database.next().tag();
    before = std::move(all);
    std::this_thread::sleep_for(1s);
  }
}

// ---- Connections that come and go, and what is no client at all ----

class raw_connection {
 public:
  explicit raw_connection(const std::string& address) : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(static_cast<std::uint16_t>(std::stoi(address.substr(address.rfind(':') + 1))));
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    connected_ = ::connect(socket_, reinterpret_cast<sockaddr*>(&to), sizeof to) == 0;
  }
  ~raw_connection() { ::close(socket_); }
  raw_connection(const raw_connection&) = delete;
  raw_connection& operator=(const raw_connection&) = delete;

  [[nodiscard]] bool connected() const noexcept { return connected_; }
  void send(const std::string& bytes) const { (void)!::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL); }
  [[nodiscard]] std::string all() const {
    std::string came;
    std::array<char, 4096> some{};
    for (ssize_t n = 0; (n = ::recv(socket_, some.data(), some.size(), 0)) > 0;) {
      came.append(some.data(), static_cast<std::size_t>(n));
    }
    return came;
  }

 private:
  int socket_;
  bool connected_ = false;
};

std::string page(const place& where, const std::string& path) {
  const raw_connection asking(where.http);
  asking.send("GET " + path + " HTTP/1.1\r\nHost: soak\r\nConnection: close\r\n\r\n");
  return asking.all();
}

void come_and_go(const place& where, const pairs& shared, clock::time_point until, verdict& said) {
  std::mt19937_64 random(17);
  const raw_connection silent_grpc(where.grpc);
  const raw_connection silent_ucx(where.ucx);
  silent_ucx.send("half");
  for (std::uint64_t n = 0; clock::now() < until; ++n) {
    const auto connection = ways::connect(to(some_door(n), where));
    static_cast<void>(connection->open(shared.name)->get("a"));
    std::string garbage;
    for (std::uint64_t i = 0, count = random() % 300; i < count; ++i) garbage.push_back(static_cast<char>(random()));
    for (const std::string* each : {&where.grpc, &where.ucx, &where.http}) {
      const raw_connection stranger(*each);
      said.require(stranger.connected(), "nobody listens at {}", *each);
      if (n % 2 == 0) stranger.send(garbage);
    }
    const std::string ready = page(where, "/readyz");
    said.require(ready.starts_with("HTTP/1.1 200 "), "the server is not ready: {}", ready);
    said.require(page(where, "/metrics").find("icecore_") != std::string::npos, "there are no metrics");
    std::this_thread::sleep_for(500ms);
  }
}

// ---- Requests that must be refused, with the right code ----

void ask_badly(const place& where, const std::string& name, clock::time_point until, verdict& said) {
  using bad = std::pair<errc, std::function<void(ways::connection&, ways::way&)>>;
  const std::vector<bad> all = {
      {errc::denied, [](auto& c, auto&) { static_cast<void>(c.open("no such database")->get("a")); }},
      {errc::denied, [](auto& c, auto&) { c.drop("no-such-database"); }},
      {errc::database_exists, [&](auto& c, auto&) { c.create(name, {}); }},
      {errc::invalid_argument, [](auto& c, auto&) { c.create("a/b", {}); }},
      {errc::version_not_closed, [](auto&, auto& w) { static_cast<void>(w.get("a", version{1} << 40U)); }},
      {errc::unknown_tag, [](auto&, auto& w) { static_cast<void>(w.get("a", "no such tag")); }},
      {errc::key_too_long, [](auto&, auto& w) { w.insert(std::string(70'000, 'k'), "v"); }},
      {errc::no_such_lease, [](auto&, auto& w) { w.insert("a", "v", 4711); }},
      {errc::no_such_lease, [](auto&, auto& w) { w.revoke_lease(4711); }},
  };
  for (std::uint64_t n = 0; clock::now() < until; ++n) {
    const auto connection = ways::connect(to(some_door(n), where));
    const auto database = connection->open(name);
    for (std::size_t i = 0; i < all.size(); ++i) {
      try {
        all[i].second(*connection, *database);
        said.add(fmt::format("{}: bad request {} was not refused", ways::name_of(some_door(n)), i));
      } catch (const error& e) {
        said.require(e.code() == all[i].first, "{}: bad request {}: {} ({})", ways::name_of(some_door(n)), i,
                     e.message(), e.code().value());
      }
      pause_between_calls(where);
    }
  }
}

}  // namespace

void verdict::add(const std::string& wrong) {
  const std::lock_guard lock(mutex_);
  wrong_.push_back(wrong);
}
std::vector<std::string> verdict::wrong() const {
  const std::lock_guard lock(mutex_);
  return wrong_;
}

void pause_between_calls(const place& where) {
  std::this_thread::sleep_for(std::chrono::duration<double>(threads_of_a_round / where.calls_per_second));
}

void run_round(const place& where, std::uint64_t round, clock::time_point until, verdict& said) {
  const auto administrator = ways::connect(to(some_door(round), where));
  std::vector<std::string> made;
  const auto create = [&](const std::string& what, version_rule rule) {
    made.push_back(fmt::format("{}-{}", what, round));
    administrator->create(made.back(), {.rule = rule,
                                        .interval = 200ms,
                                        .compression = rule == version_rule::tag ? remote::compression::zstd
                                                                                 : remote::compression::none});
    return made.back();
  };
  std::vector<std::thread> threads;
  const auto start = [&](auto work) {
    threads.emplace_back([&said, work] {
      try {
        work();
      } catch (const std::exception& e) {
        said.add(fmt::format("a call failed: {}", e.what()));
      }
    });
  };
  constexpr version_rule rules[] = {version_rule::write, version_rule::every, version_rule::tag};
  for (const version_rule rule : rules) {
    const std::string name = create(fmt::format("model{}", static_cast<int>(rule)), rule);
    start([&where, &said, rule, name, round, until] { work_on_model(where, rule, name, round, until, said); });
  }
  pairs shared{.name = create("pairs", rules[round % 3])};
  start([&] { write_pairs(where, shared, until); });
  for (int i = 0; i < 2; ++i) start([&] { read_pairs(where, shared, until, said); });
  start([&] { come_and_go(where, shared, until, said); });
  for (const auto& [what, work] :
       {std::pair{"leases", &lease}, std::pair{"rows", &load}, std::pair{"bad", &ask_badly}}) {
    const std::string name = create(what, work == &lease ? version_rule::write : rules[(round + 1) % 3]);
    start([&where, &said, work, name, until] { work(where, name, until, said); });
  }
  for (std::thread& each : threads) each.join();
  for (const std::string& each : made) administrator->drop(each);
}

lasting::lasting(const place& where, verdict& said) : said_(said) {
  for (const door each : {door::grpc, door::ucx}) {
    connections_.push_back(ways::connect(to(each, where)));
    if (each == door::grpc) connections_[0]->create("lasting", {.rule = version_rule::write});
    ways_.push_back(connections_.back()->open("lasting"));
    watchers_.push_back(ways_.back()->watch(0));
  }
}

void lasting::write_and_watch() {
  for (const auto& through : ways_) {
    const std::string value = std::to_string(++last_);
    through->insert("key", value);
    for (const auto& each : watchers_) {
      std::vector<ways::told_change> came;
      for (const auto limit = clock::now() + patience; came.empty() && clock::now() < limit;) came = each->next(1s);
      said_.require(came.size() == 1 && came[0].value == value, "a watch told not {} alone", value);
    }
  }
}

}  // namespace icecore::soak
