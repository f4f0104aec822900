// Load on the UCX doors of one or more servers, by any number of clients; prints one line of JSON for each thing that
// it was asked to do. What figures 2 to 9 of the SKV paper measure (inserts by synchronous clients), and its announced
// next step: asynchronous and bulk inserts, retrieves, cursors.
//
//   icecore_ucx_load 127.0.0.1:7482 --token-file token --clients 2 --records 1000000 --do insert,retrieve,cursor
//   icecore_ucx_load 127.0.0.1:7482,127.0.0.1:7483 --token-file token --grouping independent --do insert
//
// Each client is a thread with connections of its own to all servers. The records are shared out to the clients; keys
// are 64-bit numbers in an order like chance, values are of one size. The database is made new, and dropped at the end.
// The rate is records / the time from when all clients begin until the last one is done.
#include <CLI/CLI.hpp>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <deque>
#include <exception>
#include <fstream>
#include <future>
#include <iostream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "wire/client/client_endpoint.hpp"
#include "wire/messages/answers.hpp"
#include "wire/messages/requests.hpp"

namespace {

using namespace icecore;
using clock_type = std::chrono::steady_clock;

struct arguments {
  std::string servers;
  std::string token_file;
  std::string user;
  std::string password_file;
  std::string work = "insert,retrieve";
  std::string grouping = "dependent";
  std::string transport = "automatic";
  std::string database = "ucx_load";
  std::string rule = "tag";
  unsigned clients = 1;
  std::uint64_t records = 1'000'000;
  std::uint32_t value_bytes = 8;
  unsigned window = 256;       ///< asynchronous calls under way, of each client
  unsigned block_rows = 4096;  ///< of a bulk insert
  unsigned block_bytes = 256U << 10;
  unsigned blocks_ahead = 8;  ///< that a cursor asks for before it has read the last one
  bool keep = false;
  bool straight = true;  ///< to a key's owner; else client i asks server i
};

std::string first_line(const std::string& path) {
  std::ifstream in(path);
  std::string line;
  if (!std::getline(in, line)) throw std::runtime_error(path + ": cannot be read, or is empty");
  return line;
}

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> all;
  std::size_t begin = 0;
  for (;;) {
    const std::size_t comma = text.find(',', begin);
    all.push_back(text.substr(begin, comma - begin));
    if (comma == std::string::npos) return all;
    begin = comma + 1;
  }
}

/// A permutation of all 64-bit numbers: keys that are different, in an order like chance.
std::uint64_t scattered(std::uint64_t number) {
  number += 0x9E3779B97F4A7C15U;
  number = (number ^ (number >> 30)) * 0xBF58476D1CE4E5B9U;
  number = (number ^ (number >> 27)) * 0x94D049BB133111EBU;
  return number ^ (number >> 31);
}

void key_of(std::uint64_t record, std::string& key) {
  const std::uint64_t number = __builtin_bswap64(scattered(record));
  key.assign(reinterpret_cast<const char*>(&number), sizeof number);
}

constexpr auto never = wire::steady_time::max();

/// One client's connections.
class client {
 public:
  client(const arguments& told, unsigned number) : told_(told), number_(number), value_(told.value_bytes, 'v') {
    for (const std::string& server : split(told.servers)) {
      wire::client_settings settings;
      settings.address = wire::parse_address(server);
      settings.token = first_line(told.token_file);
      settings.user = told.user;
      if (!told.password_file.empty()) settings.secret = first_line(told.password_file);
      settings.name = "icecore_ucx_load";
      settings.ucx.way = told.transport == "shared_memory" ? wire::transport::shared_memory
                         : told.transport == "tcp"         ? wire::transport::tcp
                                                           : wire::transport::automatic;
      servers_.push_back(std::make_unique<wire::client_endpoint>(std::move(settings)));
    }
  }

  template <typename Answer, typename Request>
  Answer ask(std::size_t server, std::uint32_t handle, const Request& what) {
    const wire::answer got =
        servers_[server]->call(static_cast<std::uint16_t>(Request::number), handle, wire::encoded(what), never);
    return read<Answer>(got);
  }

  void make_database() {
    const std::size_t places = told_.grouping == "independent" ? servers_.size() : 1;
    for (std::size_t s = 0; s < places; ++s) {
      wire::create_database_request made{.settings = {.name = told_.database}};
      made.settings.rule = told_.rule == "write"   ? wire::wire_rule::write
                           : told_.rule == "every" ? wire::wire_rule::every
                                                   : wire::wire_rule::tag;
      ask<wire::database_answer>(s, 0, made);
    }
  }
  void drop_database() {
    const std::size_t places = told_.grouping == "independent" ? servers_.size() : 1;
    for (std::size_t s = 0; s < places; ++s) {
      check(servers_[s]->call(static_cast<std::uint16_t>(wire::operation_number::drop_database), 0,
                              wire::encoded(wire::drop_database_request{.name = told_.database}), never));
    }
  }
  void open_database() {
    handles_.clear();
    for (std::size_t s = 0; s < servers_.size(); ++s) {
      handles_.push_back(
          ask<wire::open_database_answer>(s, 0, wire::open_database_request{.name = told_.database}).handle);
    }
  }

  /// What this client has to do, by the name of the work.
  void work(const std::string& what) {
    if (what == "insert") {
      worst_ = {};
      auto before = clock_type::now();
      return each([&](const std::string& key) {
        insert(key);
        const auto now = clock_type::now();
        worst_ = std::max(worst_, now - before);
        before = now;
      });
    }
    if (what == "retrieve") return each([&](const std::string& key) { retrieve(key); });
    if (what == "insert_asynchronous") {
      each([&](const std::string& key) { start(key, wire::operation_number::put, put_of(key)); });
      return drain();
    }
    if (what == "retrieve_asynchronous") {
      each([&](const std::string& key) {
        start(key, wire::operation_number::get, wire::encoded(wire::get_request{.key = key}));
      });
      return drain();
    }
    if (what == "bulk") return bulk();
    if (what == "cursor") return cursor();
    throw std::runtime_error("--do " + what + ": there is no such work");
  }
  /// Records that the last cursor has read.
  [[nodiscard]] std::uint64_t seen() const noexcept { return seen_; }
  /// The longest that one of the last inserts has taken.
  [[nodiscard]] clock_type::duration worst() const noexcept { return worst_; }

 private:
  template <typename Answer>
  static Answer read(const wire::answer& got) {
    check(got);
    Answer told;
    if (!wire::decoded(got.payload.view(), told)) throw std::runtime_error("an answer is damaged");
    return told;
  }
  static void check(const wire::answer& got) {
    if (got.how != wire::outcome::answered) throw std::runtime_error("the connection to a server broke");
    if (got.status == 0) return;
    wire::failed_answer why;
    static_cast<void>(wire::decoded(got.payload.view(), why));
    throw std::runtime_error("a server refused (status " + std::to_string(got.status) + "): " + why.message);
  }

  [[nodiscard]] std::size_t server_of(const std::string& key) const {
    if (!told_.straight && told_.grouping != "independent") return number_ % servers_.size();
    return wire::owner_of(key, static_cast<std::uint32_t>(servers_.size()));
  }
  template <typename Visit>
  void each(Visit visit) {
    std::string key;
    for (std::uint64_t i = number_; i < told_.records; i += told_.clients) {
      key_of(i, key);
      visit(key);
    }
  }

  [[nodiscard]] wire::byte_buffer put_of(const std::string& key) const {
    wire::byte_buffer payload;
    payload.reserve(key.size() + value_.size() + 32);
    // As put_request tells its fields, without copies of the strings.
    wire::field_writer(payload).text(key).text(value_).u8(0).u64(0);
    return payload;
  }
  void insert(const std::string& key) {
    const std::size_t s = server_of(key);
    const wire::answer got =
        servers_[s]->call(static_cast<std::uint16_t>(wire::operation_number::put), handles_[s], put_of(key), never);
    check(got);
  }
  void retrieve(const std::string& key) {
    const std::size_t s = server_of(key);
    const wire::answer got = servers_[s]->call(static_cast<std::uint16_t>(wire::operation_number::get), handles_[s],
                                               wire::encoded(wire::get_request{.key = key}), never);
    check(got);
    wire::get_answer_view is;
    if (!wire::decoded(got.payload.view(), is) || !is.found) throw std::runtime_error("a record is missing");
  }

  void start(const std::string& key, wire::operation_number number, wire::byte_buffer payload) {
    const std::size_t s = server_of(key);
    if (under_way_.load(std::memory_order_relaxed) >= told_.window) {
      // Room for half a window, so that requests leave in rows.
      while (under_way_.load(std::memory_order_relaxed) > told_.window / 2) {
        for (const auto& server : servers_) server->progress();
      }
    }
    under_way_.fetch_add(1, std::memory_order_relaxed);
    servers_[s]->start(
        static_cast<std::uint16_t>(number), handles_[s], std::move(payload),
        [this](wire::answer&& got) {
          if (got.how != wire::outcome::answered || got.status != 0) failed_.store(true, std::memory_order_relaxed);
          under_way_.fetch_sub(1, std::memory_order_relaxed);
        },
        never);
  }
  void drain() {
    for (const auto& server : servers_) static_cast<void>(server->drain(never));
    if (failed_.load(std::memory_order_relaxed)) throw std::runtime_error("an asynchronous call failed");
  }

  void bulk() {
    std::vector<wire::load_request> filling(servers_.size());
    std::deque<std::pair<std::size_t, std::future<wire::answer>>> ahead;
    const auto send = [&](std::size_t s) {
      if (filling[s].rows.empty()) return;
      if (ahead.size() >= 2 * servers_.size()) {
        check(ahead.front().second.get());
        ahead.pop_front();
      }
      ahead.emplace_back(s, servers_[s]->send(static_cast<std::uint16_t>(wire::operation_number::load), handles_[s],
                                              wire::encoded(filling[s]), never));
      filling[s].rows.clear();
    };
    each([&](const std::string& key) {
      const std::size_t s = server_of(key);
      filling[s].rows.keys.add(key);
      filling[s].rows.values.add(value_);
      if (filling[s].rows.size() >= told_.block_rows) send(s);
    });
    for (std::size_t s = 0; s < servers_.size(); ++s) send(s);
    for (auto& [s, waits] : ahead) check(waits.get());
  }

  /// The part of the keys that is this client's, of all servers (of dependent ones: of one).
  void cursor() {
    seen_ = 0;
    key_bounds bounds;
    const std::uint64_t step = UINT64_MAX / told_.clients;
    const auto edge = [&](std::uint64_t of) {
      const std::uint64_t number = __builtin_bswap64(of * step);
      return std::string(reinterpret_cast<const char*>(&number), sizeof number);
    };
    if (number_ > 0) bounds.from = edge(number_);
    if (number_ + 1 < told_.clients) bounds.to = edge(number_ + 1);
    const bool all = told_.grouping == "independent";
    for (std::size_t s = 0; s < servers_.size(); ++s) {
      if (!all && s != number_ % servers_.size()) continue;
      scan(s, bounds);
    }
  }
  void scan(std::size_t s, const key_bounds& bounds) {
    const auto next_block = [&](std::uint32_t rows, std::uint64_t block) {
      return servers_[s]->send(static_cast<std::uint16_t>(wire::operation_number::next_rows), handles_[s],
                               wire::encoded(wire::next_rows_request{.rows = rows, .block = block}), never);
    };
    wire::answer got = servers_[s]->call(
        static_cast<std::uint16_t>(wire::operation_number::open_scan), handles_[s],
        wire::encoded(wire::open_scan_request{.bounds = bounds, .block_bytes = told_.block_bytes}), never);
    auto told = read<wire::rows_answer_view>(got);
    const std::uint32_t rows = told.rows;
    std::uint64_t asked = 1;
    std::deque<std::future<wire::answer>> ahead;
    while (!told.end && ahead.size() < told_.blocks_ahead) ahead.push_back(next_block(rows, asked++));
    for (;;) {
      seen_ += told.block_of_rows.size();
      if (told.end) break;
      servers_[s]->wait([&] { return ahead.front().wait_for(std::chrono::seconds(0)) == std::future_status::ready; },
                        never);
      got = ahead.front().get();
      ahead.pop_front();
      told = read<wire::rows_answer_view>(got);
      if (!told.end) ahead.push_back(next_block(rows, asked++));
    }
    for (auto& late : ahead) late.wait();
  }

  const arguments& told_;
  const unsigned number_;
  const std::string value_;
  std::vector<std::unique_ptr<wire::client_endpoint>> servers_;
  std::vector<std::uint32_t> handles_;
  std::atomic<std::uint64_t> under_way_{0};  // relaxed: a count alone
  std::atomic<bool> failed_{false};          // relaxed: looked at after drain(), which orders it
  std::uint64_t seen_ = 0;
  clock_type::duration worst_{};
};

/// All clients begin at once; the time until the last one is done.
double run(std::vector<std::unique_ptr<client>>& clients, const std::string& what) {
  std::barrier begin(static_cast<std::ptrdiff_t>(clients.size()) + 1);
  std::vector<std::exception_ptr> failures(clients.size());
  std::vector<std::jthread> threads;
  for (std::size_t i = 0; i < clients.size(); ++i) {
    threads.emplace_back([&, i] {
      begin.arrive_and_wait();
      try {
        clients[i]->work(what);
      } catch (...) {
        failures[i] = std::current_exception();
      }
    });
  }
  begin.arrive_and_wait();
  const auto began = clock_type::now();
  for (std::jthread& thread : threads) thread.join();
  const double seconds = std::chrono::duration<double>(clock_type::now() - began).count();
  for (const std::exception_ptr& failed : failures) {
    if (failed) std::rethrow_exception(failed);
  }
  return seconds;
}

void measure(const arguments& told) {
  std::vector<std::unique_ptr<client>> clients;
  for (unsigned i = 0; i < told.clients; ++i) clients.push_back(std::make_unique<client>(told, i));
  clients.front()->make_database();
  for (const auto& each : clients) each->open_database();
  for (const std::string& what : split(told.work)) {
    const double seconds = run(clients, what);
    std::uint64_t records = told.records;
    if (what == "cursor") {
      std::uint64_t seen = 0;
      for (const auto& each : clients) seen += each->seen();
      if (seen != records) {
        throw std::runtime_error("cursors have read " + std::to_string(seen) + " of " + std::to_string(records) +
                                 " records");
      }
    }
    nlohmann::ordered_json line{{"work", what},
                                {"servers", split(told.servers).size()},
                                {"clients", told.clients},
                                {"grouping", told.grouping},
                                {"transport", told.transport},
                                {"rule", told.rule},
                                {"records", records},
                                {"key_bytes", 8},
                                {"value_bytes", told.value_bytes},
                                {"seconds", seconds},
                                {"records_per_second", static_cast<double>(records) / seconds}};
    if (what == "insert") {
      clock_type::duration worst{};
      for (const auto& each : clients) worst = std::max(worst, each->worst());
      line["worst_ms"] = std::chrono::duration<double, std::milli>(worst).count();
    }
    std::cout << line.dump() << std::endl;
  }
  if (!told.keep) clients.front()->drop_database();
}

}  // namespace

int main(int count, char** given) {
  arguments told;
  CLI::App app("Load on the UCX doors of icecore-servers; prints a line of JSON for each work.");
  app.add_option("servers", told.servers, "HOST:PORT, or several with commas, in the order of their numbers")
      ->required();
  app.add_option("--token-file", told.token_file, "The job's token")->required();
  app.add_option("--user", told.user, "Where the servers have users");
  app.add_option("--password-file", told.password_file, "The user's password");
  app.add_option("--do", told.work,
                 "In this order: insert, retrieve, insert_asynchronous, retrieve_asynchronous, bulk, cursor")
      ->capture_default_str();
  app.add_option("--clients", told.clients, "Threads with connections of their own")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  app.add_option("--records", told.records, "Of all clients together")->capture_default_str();
  app.add_option("--value-bytes", told.value_bytes, "Of each value")->capture_default_str();
  app.add_option("--grouping", told.grouping, "How the servers belong together")
      ->check(CLI::IsMember({"dependent", "independent"}))
      ->capture_default_str();
  app.add_option("--transport", told.transport, "What UCX may use")
      ->check(CLI::IsMember({"automatic", "shared_memory", "tcp"}))
      ->capture_default_str();
  app.add_option("--rule", told.rule, "The database's version rule")
      ->check(CLI::IsMember({"tag", "every", "write"}))
      ->capture_default_str();
  app.add_option("--database", told.database, "Its name; it must not be there")->capture_default_str();
  app.add_option("--window", told.window, "Asynchronous calls under way, of each client")->capture_default_str();
  app.add_option("--block-rows", told.block_rows, "Records of one bulk insert")->capture_default_str();
  app.add_option("--block-bytes", told.block_bytes, "Of a cursor's block")->capture_default_str();
  app.add_option("--blocks-ahead", told.blocks_ahead, "Blocks that a cursor asks for ahead")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  app.add_flag("--keep", told.keep, "Leaves the database there");
  app.add_flag("!--anywhere", told.straight, "Client i asks server i, which forwards; dependent servers alone");
  CLI11_PARSE(app, count, given);
  try {
    measure(told);
  } catch (const std::exception& e) {
    std::cerr << "icecore_ucx_load: " << e.what() << std::endl;
    return 1;
  }
}
