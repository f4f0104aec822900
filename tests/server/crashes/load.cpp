#include "crashes/load.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <future>
#include <thread>

#include "icecore/error.hpp"

namespace icecore::service::crashes {
namespace {

using namespace std::chrono_literals;
namespace fs = std::filesystem;

constexpr std::uint64_t slots = 40;  // keys of a writer that take turns
constexpr std::uint64_t alive = 3;   // databases and users that are there at a time
constexpr std::uint64_t snapshots_kept = 2;

std::string name_of(const char* what, std::uint64_t number) { return fmt::format("{}{}", what, number); }
std::string slot_of(std::uint64_t writer, std::uint64_t i) { return fmt::format("slot{}/{}", writer, i % slots); }

void raise_to(counter& what, std::uint64_t value) {
  std::uint64_t before = what.load();
  while (before < value && !what.compare_exchange_weak(before, value)) {
  }
}

outcome write(database& db, transaction what) {
  std::promise<result<outcome>> promised;
  db.write(std::move(what), [&](result<outcome> came) { promised.set_value(std::move(came)); });
  result<outcome> came = promised.get_future().get();
  if (const auto* failed = std::get_if<failure>(&came)) raise(*failed);
  return std::get<outcome>(std::move(came));
}

std::uint64_t number_in(database& db, const std::string& key, const point& at = newest{}) {
  const auto found = db.find(key, at);
  return found ? std::stoull(std::string(found->value())) : 0;
}

// Some keys a transaction; each writer has its own. One of them tells what the next writer was answered before, so that
// a database without it would be one in which an effect is there and its cause is not.
void keep_writing(database& db, progress_of_database& progress, progress_page& page, unsigned w) {
  for (std::uint64_t i = progress.begun[w] + 1;; ++i) {
    const std::string value = std::to_string(i);
    transaction t;
    t.then = {operation::put(name_of("a", w), value), operation::put(slot_of(w, i), value),
              operation::put(name_of("cause", w), std::to_string(progress.answered[(w + 1) % writer_count])),
              operation::put(name_of("b", w), value)};
    progress.begun[w] = i;
    write(db, std::move(t));
    progress.answered[w] = i;
    ++page.answers;
    if (page.pause_us != 0) std::this_thread::sleep_for(std::chrono::microseconds(page.pause_us.load()));
  }
}

void keep_reading(database& db, progress_of_database& progress) {
  for (unsigned n = 0;; ++n) {
    const unsigned w = n % writer_count;
    raise_to(progress.shown[w], number_in(db, name_of("a", w)));
    if (n % 8 != 0) continue;
    const auto rows = db.scan({.bounds = {"a", "b"}});
    for (row_block block; rows->next(block, {});) {
      for (std::size_t i = 0; i < block.size(); ++i) {
        raise_to(progress.shown[static_cast<unsigned>(block.keys[i][1] - '0')],
                 std::stoull(std::string(block.values[i])));
      }
    }
  }
}

void keep_watching(database& db, progress_of_database& progress) {
  const auto watch = db.watch_changes({.bounds = {"a", "b"}});
  for (;;) {
    const watched came = watch->next({});
    for (std::size_t i = 0; i < came.changes.size(); ++i) {
      raise_to(progress.shown[static_cast<unsigned>(came.changes.keys[i][1] - '0')],
               std::stoull(std::string(came.changes.values[i])));
    }
    if (came.changes.empty()) std::this_thread::sleep_for(1ms);
  }
}

void keep_tagging(database& db, progress_of_database& progress) {
  for (std::uint64_t n = progress.tags_begun + 1;; ++n) {
    progress.tag_least[n % tags_checked] = progress.answered[0].load();
    progress.tags_begun = n;
    const std::string name = name_of("tag", n);
    db.tag({.name = name});
    progress.tag_most[n % tags_checked] = progress.begun[0].load();
    progress.tags_answered = n;
    const std::uint64_t number = progress.leases_answered + 1;
    try {
      db.grant(1h, number);
    } catch (const icecore::error& e) {  // begun before the kill
      if (e.code() != errc::invalid_argument) throw;
    }
    transaction t;
    t.then.push_back(operation::put(name_of("leased", number), "x"));
    t.then.back().lease = number;
    write(db, std::move(t));
    progress.leases_answered = number;
    std::this_thread::sleep_for(2ms);
  }
}

// What may be there already, or be gone already, because a process before this one began it.
template <typename Call>
void unless(errc expected, Call call) {
  try {
    call();
  } catch (const icecore::error& e) {
    if (e.code() != expected) throw;
  }
}

std::string user_name(std::uint64_t n) { return name_of("user", n); }

void make_one(service& s, progress_of_made& made) {
  const principal anyone = principal::anyone();
  const std::uint64_t n = made.answered + 1;
  made.begun = n;
  const std::string name = name_of("made", n);
  unless(errc::database_exists, [&] {
    s.create(anyone, {.name = name, .rule = version_rule::write, .durability = icecore::durability::operation});
  });
  transaction t;
  t.then = {operation::put("key", std::to_string(n))};
  write(*s.find_database(anyone, name), std::move(t));
  made.answered = n;
  if (n <= made.ended + alive) return;
  const std::uint64_t oldest = made.ended + 1;
  made.ending = oldest;
  unless(errc::denied, [&] { s.drop(anyone, name_of("made", oldest)); });
  made.ended = oldest;
}

// By certificates: to hash a password takes a tenth of a second.
void make_user(access& users, progress_of_made& made) {
  const principal anyone = principal::anyone();
  const std::uint64_t n = made.answered + 1;
  made.begun = n;
  unless(errc::invalid_argument, [&] { users.add_user(anyone, user_name(n), std::nullopt); });
  users.set_role(anyone, {name_of("role", n), {{"tag", {}, rights_of({right::read})}}});
  users.grant(anyone, user_name(n), name_of("role", n));
  made.answered = n;
  if (n <= made.ended + alive) return;
  const std::uint64_t oldest = made.ended + 1;
  made.ending = oldest;
  unless(errc::invalid_argument, [&] { users.remove_user(anyone, user_name(oldest)); });
  made.ended = oldest;
}

fs::path snapshot_of(const fs::path& folder, std::uint64_t n) { return folder / "snapshots" / std::to_string(n); }

void keep_administering(service& s, const fs::path& folder, progress_page& page) {
  for (;;) {
    make_user(s.users(), page.users);
    make_one(s, page.made);
    if (page.made.answered % 2 == 0) {
      const std::uint64_t number = page.snapshots_answered + 1;
      if (number > snapshots_kept) fs::remove_all(snapshot_of(folder, number - snapshots_kept));
      unless(errc::store_exists, [&] { s.write_snapshot(principal::anyone(), snapshot_of(folder, number)); });
      page.snapshots_answered = number;
    }
    std::this_thread::sleep_for(5ms);
  }
}

class problems {
 public:
  template <typename... Values>
  void add(bool wrong, fmt::format_string<const Values&...> text, const Values&... values) {
    if (wrong) all_.push_back(where_ + fmt::format(text, values...));
  }
  void where(const std::string& name) { where_ = name.empty() ? "" : name + ": "; }
  [[nodiscard]] std::vector<std::string> take() { return std::move(all_); }

 private:
  std::string where_;
  std::vector<std::string> all_;
};

// What a database of this durability keeps of what it has answered: of all promises, or of those of tags alone.
struct promises {
  bool operations;
  bool tags;
};
promises promises_of(unsigned d, after what) {
  const icecore::durability mode = settings_of(d).durability;
  if (what == after::kill) return {true, true};
  return {mode == icecore::durability::operation, mode != icecore::durability::none};
}

void compare_writer(database& db, const progress_of_database& progress, unsigned w, promises kept, problems& wrong) {
  const std::uint64_t last = number_in(db, name_of("a", w));
  if (kept.operations) {
    wrong.add(last < progress.answered[w], "an answered write is lost: writer {} has {} and was answered {}", w, last,
              progress.answered[w].load());
    wrong.add(last < progress.shown[w], "what was shown is lost: writer {} has {}, and {} was read", w, last,
              progress.shown[w].load());
  }
  wrong.add(last > progress.begun[w], "writer {} has {} and has begun {}", w, last, progress.begun[w].load());
  const std::uint64_t b = number_in(db, name_of("b", w));
  wrong.add(b != last, "half a transaction: writer {} has {} and {}", w, last, b);
  for (std::uint64_t i = last > slots ? last - slots + 1 : 1; i <= last; ++i) {
    const std::uint64_t there = number_in(db, slot_of(w, i));
    wrong.add(there != i, "a write between is lost: writer {} has {} for {}", w, there, i);
  }
  const unsigned next = (w + 1) % writer_count;
  const std::uint64_t cause = number_in(db, name_of("cause", w));
  wrong.add(number_in(db, name_of("a", next)) < cause, "writer {} knows {} of writer {}, which is not there", w, cause,
            next);
}

void compare_tags(database& db, const progress_of_database& progress, promises kept, problems& wrong) {
  const std::uint64_t last = progress.tags_answered;
  for (std::uint64_t n = last > tags_checked - 2 ? last - tags_checked + 2 : 1; n <= last; ++n) {
    const tag_name tag{name_of("tag", n)};
    if (!db.find_tag(tag)) {
      wrong.add(kept.tags, "{} is lost", tag.name);
      continue;
    }
    const std::uint64_t then = number_in(db, name_of("a", 0), tag);
    wrong.add(then < progress.tag_least[n % tags_checked], "{} shows {}, and {} was answered before it", tag.name, then,
              progress.tag_least[n % tags_checked].load());
    wrong.add(then > progress.tag_most[n % tags_checked], "{} shows {}, and {} was begun after it", tag.name, then,
              progress.tag_most[n % tags_checked].load());
    wrong.add(then != number_in(db, name_of("b", 0), tag), "{} shows half a transaction", tag.name);
  }
  if (last == 0 || !kept.tags) return;
  const std::uint64_t now = number_in(db, name_of("a", 0));
  wrong.add(now < progress.tag_least[last % tags_checked], "what was tagged is lost: {} of {}", now,
            progress.tag_least[last % tags_checked].load());
}

void compare_leases(database& db, const progress_of_database& progress, promises kept, problems& wrong) {
  const std::uint64_t last = progress.leases_answered;
  if (last == 0 || !kept.operations) return;
  wrong.add(db.leases().size() < last, "{} of {} leases are there", db.leases().size(), last);
  const lease_info info = db.lease(last, true);
  wrong.add(info.granted != 1h, "a lease of {} ms", info.granted.count());
  wrong.add(info.keys != std::vector<std::string>{name_of("leased", last)}, "lease {} has {} keys", last,
            info.keys.size());
}

void compare_made(service& s, const progress_of_made& made, problems& wrong) {
  std::vector<std::string> there;
  for (const database_settings& each : s.list(principal::anyone())) there.push_back(each.name);
  const auto is_there = [&](std::uint64_t n) { return std::ranges::find(there, name_of("made", n)) != there.end(); };
  for (std::uint64_t n = 1; n <= made.ended; ++n) wrong.add(is_there(n), "database made{} was dropped and is there", n);
  for (std::uint64_t n = made.ending + 1; n <= made.answered; ++n) {
    wrong.add(!is_there(n), "database made{} is lost", n);
    if (!is_there(n)) continue;
    const std::uint64_t value = number_in(*s.find_database(principal::anyone(), name_of("made", n)), "key");
    wrong.add(value != n, "database made{} has {}", n, value);
  }
}

void compare_users(access& users, const progress_of_made& made, problems& wrong) {
  const auto all = users.users(principal::anyone());
  const auto found = [&](std::uint64_t n) { return std::ranges::find(all, user_name(n), &user::name); };
  for (std::uint64_t n = 1; n <= made.ended; ++n) wrong.add(found(n) != all.end(), "{} was removed", user_name(n));
  for (std::uint64_t n = made.ending + 1; n <= made.answered; ++n) {
    wrong.add(found(n) == all.end(), "{} is lost", user_name(n));
    if (found(n) == all.end()) continue;
    wrong.add(found(n)->roles != std::vector<std::string>{name_of("role", n)}, "{} has lost the role", user_name(n));
  }
  const auto roles = users.roles(principal::anyone());
  wrong.add(roles.size() < made.answered, "{} roles of {}", roles.size(), made.answered.load());
}

void compare_all(const progress_page& page, service& s, after what, problems& wrong) {
  for (const auto& [name, why] : s.not_ready()) wrong.add(true, "{} is not served: {}", name, why.message);
  for (unsigned d = 0; d < database_count; ++d) {
    wrong.where(settings_of(d).name);
    const auto db = s.find_database(principal::anyone(), settings_of(d).name);
    const progress_of_database& progress = page.databases[d];
    const promises kept = promises_of(d, what);
    for (unsigned w = 0; w < writer_count; ++w) compare_writer(*db, progress, w, kept, wrong);
    compare_tags(*db, progress, kept, wrong);
    compare_leases(*db, progress, kept, wrong);
  }
  wrong.where({});
  compare_made(s, page.made, wrong);
  compare_users(s.users(), page.users, wrong);
}

void take_over(const counter& from, counter& to) { to = from.load(); }

}  // namespace

void copy(const progress_page& from, progress_page& to) {
  static_assert(sizeof(progress_page) % sizeof(counter) == 0 && alignof(progress_page) == alignof(counter));
  const auto* source = reinterpret_cast<const counter*>(&from);
  auto* target = reinterpret_cast<counter*>(&to);
  for (std::size_t i = 0; i < sizeof(progress_page) / sizeof(counter); ++i) take_over(source[i], target[i]);
}

database_settings settings_of(unsigned database) {
  static const database_settings all[database_count] = {
      {.name = "write", .rule = version_rule::write, .durability = icecore::durability::operation},
      {.name = "every",
       .rule = version_rule::every,
       .interval = 2ms,
       .durability = icecore::durability::operation,
       .compression = value_compression::zstd},
      {.name = "tag", .rule = version_rule::tag, .durability = icecore::durability::tag},
      {.name = "memory", .rule = version_rule::write, .durability = icecore::durability::none}};
  return all[database];
}

void make_databases(const fs::path& folder) {
  fs::create_directories(folder / "snapshots");
  service s({.data = folder / "data", .threads = 4});
  for (unsigned d = 0; d < database_count; ++d) s.create(principal::anyone(), settings_of(d));
  s.stop();
}

void serve(const fs::path& folder, progress_page& page) {
  try {
    service s({.data = folder / "data", .threads = 4});
    std::vector<std::thread> threads;
    const auto start = [&threads](auto what) {
      threads.emplace_back([what] {
        try {
          what();
        } catch (const std::exception& e) {
          std::fprintf(stderr, "the killed server: %s\n", e.what());
          ::_exit(7);
        }
      });
    };
    for (unsigned d = 0; d < database_count; ++d) {
      const auto db = s.find_database(principal::anyone(), settings_of(d).name);
      progress_of_database& progress = page.databases[d];
      for (unsigned w = 0; w < writer_count; ++w) {
        start([db, &progress, &page, w] { keep_writing(*db, progress, page, w); });
      }
      start([db, &progress] { keep_reading(*db, progress); });
      start([db, &progress] { keep_watching(*db, progress); });
      start([db, &progress] { keep_tagging(*db, progress); });
    }
    start([&] { keep_administering(s, folder, page); });
    for (std::thread& t : threads) t.join();
  } catch (const std::exception& e) {
    std::fprintf(stderr, "the killed server: %s\n", e.what());
  }
  ::_exit(7);
}

std::vector<std::string> compare(const progress_page& page, service& opened, after what) {
  problems wrong;
  try {
    compare_all(page, opened, what, wrong);
  } catch (const icecore::error& e) {
    wrong.add(true, "a read failed: {}", std::string(e.what()));
  }
  return wrong.take();
}

std::vector<std::string> compare_snapshots(const progress_page& page, const fs::path& folder) {
  problems wrong;
  const std::uint64_t last = page.snapshots_answered;
  wrong.add(last != 0 && !fs::exists(snapshot_of(folder, last)), "snapshot {} is lost", last);
  for (std::uint64_t n = last; n <= last + 1; ++n) {
    if (n == 0 || !fs::exists(snapshot_of(folder, n))) continue;
    const fs::path to = folder / ("restored-" + std::to_string(n));
    try {
      service::restore_snapshot(snapshot_of(folder, n), to);
      service s({.data = to, .threads = 2});
      for (const auto& [name, why] : s.not_ready()) wrong.add(true, "of snapshot {}: {}: {}", n, name, why.message);
      s.stop();
    } catch (const icecore::error& e) {
      wrong.add(true, "snapshot {} has its name and is not complete: {}", n, std::string(e.what()));
    }
    fs::remove_all(to);
  }
  return wrong.take();
}

void go_on_from(progress_page& page, service& opened) {
  for (unsigned d = 0; d < database_count; ++d) {
    progress_of_database& progress = page.databases[d];
    const auto db = opened.find_database(principal::anyone(), settings_of(d).name);
    for (unsigned w = 0; w < writer_count; ++w) {
      const std::uint64_t there = number_in(*db, name_of("a", w));
      progress.begun[w] = progress.answered[w] = there;
      progress.shown[w] = std::min(progress.shown[w].load(), there);
    }
    std::uint64_t tags = progress.tags_answered + 1;
    if (db->find_tag(tag_name{name_of("tag", tags)})) {
      progress.tag_most[tags % tags_checked] = progress.begun[0].load();
    } else {
      do --tags;
      while (tags > 0 && !db->find_tag(tag_name{name_of("tag", tags)}));
    }
    progress.tags_answered = tags;
    progress.tags_begun = tags;
    std::uint64_t leases = progress.leases_answered;
    while (leases > 0 && !db->find(name_of("leased", leases), newest{})) --leases;
    progress.leases_answered = leases;
  }
}

}  // namespace icecore::service::crashes
