#include "soak/model.hpp"

#include <algorithm>

namespace icecore::soak {
namespace {

using namespace std::chrono_literals;
using remote::version_rule;

constexpr int key_count = 50;
constexpr std::size_t points_kept = 8;
constexpr std::size_t log_bytes_max = 2048;
constexpr std::uint64_t calls_of_a_connection = 500;
constexpr auto watch_patience = 60s;

using content = std::map<std::string, std::string>;
ways::rows rows_of(const content& of) { return {of.begin(), of.end()}; }

class model {
 public:
  model(const place& where, version_rule rule, std::string name, std::uint64_t seed, verdict& said)
      : where_(where), rule_(rule), name_(std::move(name)), random_(seed), said_(said), database_(where, name_) {}

  void work(clock::time_point until) {
    const auto through = random_() % 2 == 0 ? ways::door::grpc : ways::door::ucx;
    const auto connection = ways::connect(to(through, where_));
    const auto watched = connection->open(name_)->watch(0);
    while (clock::now() < until) {
      step_once();
      take(watched->next(0ms));
      pause_between_calls(where_);
    }
    if (where_.wrong_model) now_["wrong"] = "never written";
    const version last = database_.next().tag();
    for (const auto limit = clock::now() + watch_patience; watched->told() < last && clock::now() < limit;) {
      take(watched->next(100ms));
    }
    said_.require(watched->told() >= last, "{}: the watch told {} of {}", name_, watched->told(), last);
    compare_watch();
    said_.require(database_.next().scan({}, last) == rows_of(now_), "{}: the last tag shows something else", name_);
    compact();
  }

 private:
  struct state {
    ways::point at;
    icecore::version version;
    content rows;
  };

  std::string key() { return fmt::format("key{}", random_() % key_count); }
  std::string fresh() { return fmt::format("{}:{}", ++writes_, std::string(random_() % 200, 'x')); }

  void wrote(const std::string& key, std::optional<std::string> value) {
    if (value) {
      now_[key] = *value;
    } else {
      now_.erase(key);
    }
    all_.emplace_back(key, std::move(value));
  }
  // A version that is closed shows this for ever.
  void remember(ways::point at, version closed) {
    points_.push_back({std::move(at), closed, now_});
    if (points_.size() > points_kept)
      points_.erase(points_.begin() + static_cast<std::ptrdiff_t>(random_() % points_.size()));
  }

  void step_once() {
    const auto choice = random_() % 100;
    if (choice < 35) {
      transaction();
    } else if (choice < 55) {
      write_one(choice);
    } else if (choice < 70) {
      const std::string asked = key();
      said_.require(database_.next().get(asked) == value_in(now_, asked), "{}: {} has another value", name_, asked);
    } else if (choice < 80) {
      tag();
    } else if (choice < 94) {
      read_past(choice < 87);
    } else if (choice < 97) {
      said_.require(database_.next().scan({}) == rows_of(now_), "{}: a scan shows something else", name_);
    } else {
      history();
    }
  }
  static std::optional<std::string> value_in(const content& of, const std::string& key) {
    const auto found = of.find(key);
    return found == of.end() ? std::nullopt : std::optional(found->second);
  }

  void transaction() {
    std::map<std::string, std::optional<std::string>> together;  // changes of one version are told in this order
    for (std::uint64_t i = 0, count = 1 + random_() % 3; i < count; ++i) {
      const std::string which = key();
      const bool removes = random_() % 5 == 0 && now_.contains(which);
      together[which] = removes ? std::nullopt : std::optional(fresh());
    }
    std::vector<ways::step> steps;
    for (const auto& [which, value] : together) steps.push_back({which, value});
    const version at = database_.next().apply(steps);
    for (auto& [which, value] : together) wrote(which, std::move(value));
    if (rule_ == version_rule::write && random_() % 10 == 0) remember(at, at);
  }
  void write_one(std::uint64_t choice) {
    ways::way& through = database_.next();
    const std::string which = key();
    if (choice < 40) {
      const std::string value = fresh();
      through.insert(which, value);
      wrote(which, value);
    } else if (choice < 45) {
      const std::string value = fresh();
      const bool written = through.insert_new(which, value);
      said_.require(written != now_.contains(which), "{}: insert_new of {} said {}", name_, which, written);
      if (written) wrote(which, value);
    } else if (choice < 50) {
      ++number_;
      said_.require(through.increment("number") == number_, "{}: not {} increments", name_, number_);
      wrote("number", std::to_string(number_));
    } else {
      append(through);
    }
  }
  void append(ways::way& through) {
    std::string log = value_in(now_, "log").value_or("");
    if (log.size() > log_bytes_max) {
      through.insert("log", "");
      log.clear();
      wrote("log", log);
    }
    const std::string part = fresh();
    log += part;
    said_.require(through.append("log", part) == log.size(), "{}: the log has not {} bytes", name_, log.size());
    wrote("log", log);
  }
  void tag() {
    const std::string name = random_() % 2 == 0 ? fmt::format("tag{}", ++tags_) : "";
    const version at = database_.next().tag(name);
    remember(name.empty() ? ways::point(at) : ways::point(name), at);
  }
  void read_past(bool one) {
    if (points_.empty()) return;
    const state& then = points_[random_() % points_.size()];
    if (one) {
      const std::string asked = key();
      said_.require(database_.next().get(asked, then.at) == value_in(then.rows, asked), "{}: {} had another value",
                    name_, asked);
    } else {
      said_.require(database_.next().scan({}, then.at) == rows_of(then.rows), "{}: version {} shows something else",
                    name_, then.version);
    }
  }
  // Under the rule `write` each write is a record of its own.
  void history() {
    const std::string asked = key();
    const auto told = database_.next().history(asked);
    std::vector<std::optional<std::string>> expected;
    for (auto each = all_.rbegin(); each != all_.rend(); ++each) {
      if (each->first == asked) expected.push_back(each->second);
    }
    if (rule_ == version_rule::write) {
      said_.require(told == expected, "{}: {} has {} records of {}", name_, asked, told.size(), expected.size());
    } else {
      said_.require(told.empty() == expected.empty() && (told.empty() || told.front() == expected.front()),
                    "{}: the newest record of {} is another one", name_, asked);
    }
  }

  void take(std::vector<ways::told_change> came) {
    for (ways::told_change& each : came) {
      said_.require(each.version >= told_last_, "{}: the watch told version {} after {}", name_, each.version,
                    told_last_);
      told_last_ = each.version;
      said_.require(told_keys_.emplace(each.version, each.key).second, "{}: the watch told {} of version {} twice",
                    name_, each.key, each.version);
      if (each.value) {
        told_now_[each.key] = *each.value;
      } else {
        told_now_.erase(each.key);
      }
      told_.emplace_back(std::move(each.key), std::move(each.value));
    }
  }
  void compare_watch() {
    said_.require(told_now_ == now_, "{}: what the watch told is another state", name_);
    if (rule_ == version_rule::write) {
      said_.require(told_ == all_, "{}: the watch told {} changes of {}, or others", name_, told_.size(), all_.size());
    }
  }
  void compact() {
    if (points_.size() < 2) return;
    std::ranges::sort(points_, {}, &state::version);
    const state& kept = points_[points_.size() / 2];
    const state& given_up = points_.front();
    if (given_up.version == kept.version) return;
    database_.next().compact(kept.version);
    said_.require(database_.next().scan({}, kept.at) == rows_of(kept.rows), "{}: compaction changed version {}", name_,
                  kept.version);
    try {
      static_cast<void>(database_.next().get("key0", given_up.version));
      said_.add(fmt::format("{}: version {} was given up and is read", name_, given_up.version));
    } catch (const error& e) {
      said_.require(e.code() == errc::version_expired, "{}: of an expired version: {}", name_, e.message());
    }
  }

  const place& where_;
  const version_rule rule_;
  const std::string name_;
  std::mt19937_64 random_;
  verdict& said_;
  alternating database_;
  content now_;
  std::vector<std::pair<std::string, std::optional<std::string>>> all_, told_;
  std::vector<state> points_;
  content told_now_;
  version told_last_ = 0;
  std::set<std::pair<version, std::string>> told_keys_;
  std::uint64_t writes_ = 0;
  std::uint64_t tags_ = 0;
  std::int64_t number_ = 0;
};

}  // namespace

ways::destination to(ways::door through, const place& where) {
  return {.through = through, .address = through == ways::door::ucx ? where.ucx : where.grpc, .deadline = 60s};
}

void alternating::renew() {
  ways_.clear();
  connections_.clear();
  for (const ways::door each : {ways::door::grpc, ways::door::ucx}) {
    connections_.push_back(ways::connect(to(each, where_)));
    ways_.push_back(connections_.back()->open(database_));
  }
}

ways::way& alternating::next() {
  if (++calls_ % calls_of_a_connection == 0) renew();
  return *ways_[calls_ % 2];
}

void work_on_model(const place& where, version_rule rule, const std::string& name, std::uint64_t seed,
                   clock::time_point until, verdict& said) {
  model(where, rule, name, seed, said).work(until);
}

}  // namespace icecore::soak
