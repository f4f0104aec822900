// G2: every reader of a version gets the same answer, at any time, in any thread or process, before or after a restart.
#include <gtest/gtest.h>

#include <map>
#include <mutex>
#include <random>

#include "icecore/icecore.hpp"
#include "support/fingerprint.hpp"
#include "support/model.hpp"
#include "support/process.hpp"
#include "support/scratch.hpp"

namespace icecore::testing {
namespace {

using namespace std::chrono_literals;

/// The first answer that each version gave; all later ones are compared with it.
class first_answers {
 public:
  void compare(version at, std::uint64_t answer) {
    const std::lock_guard lock(together_);
    const auto [place, first] = answers_.emplace(at, answer);
    promise(first || place->second == answer,
            [&] { return "version " + std::to_string(at) + " gave another answer than before"; });
  }
  [[nodiscard]] const std::map<version, std::uint64_t>& all() const { return answers_; }

 private:
  std::mutex together_;
  std::map<version, std::uint64_t> answers_;
};

class StableSnapshots : public ::testing::TestWithParam<setting> {
 protected:
  scratch folder_{GetParam().where};
  deadline deadline_{"stable snapshots", 100s};
};

TEST_P(StableSnapshots, reader_of_a_tag_never_sees_later_writes) {
  constexpr unsigned writers = 8;
  constexpr unsigned readers = 4;
  constexpr unsigned keys = 200;
  const auto path = folder_ / "stable.ice";
  store store(path, GetParam().options());
  first_answers answers;
  std::atomic<bool> stop{false};
  const auto write = [&](unsigned thread) {
    std::mt19937 random(thread + 1);
    batch some;
    for (std::uint64_t n = 0; !stop; ++n) {
      const std::string key = "key-" + std::to_string(random() % keys);
      const std::string value = std::to_string(thread) + ":" + std::to_string(n);
      switch (random() % 8) {
        case 0:
          static_cast<void>(store.remove(key));
          break;
        case 1:
          some.clear();
          for (unsigned i = 0; i < 4; ++i) some.insert("key-" + std::to_string(random() % keys), value);
          store.apply(some);
          break;
        case 2:
          store.tag();
          break;
        default:
          store.insert(key, value);
      }
    }
  };
  const auto read = [&](unsigned thread) {
    std::mt19937 random(thread + 100);
    while (!stop) {
      const version newest = store.clock() - 1;
      const version at = random() % 2 == 0 ? newest : random() % (newest + 1);
      answers.compare(at, fingerprint(store.at(at)));
    }
  };
  in_threads(writers + readers + 1, [&](unsigned thread) {
    if (thread == writers + readers) {
      std::this_thread::sleep_for(1500ms);
      stop = true;
      return;
    }
    try {
      thread < writers ? write(thread) : read(thread);
    } catch (...) {
      stop = true;
      throw;
    }
  });
  ASSERT_GT(answers.all().size(), 10U);
  for (const auto& [at, answer] : answers.all()) ASSERT_EQ(fingerprint(store.at(at)), answer) << "version " << at;
  store.close();
  options reading;
  reading.access = access::read_only;
  const icecore::store again(path, reading);
  for (const auto& [at, answer] : answers.all()) {
    ASSERT_EQ(fingerprint(again.at(at)), answer) << "version " << at << " after reopening";
  }
}

TEST_P(StableSnapshots, all_ways_to_read_one_version_agree_while_others_write) {
  store store(folder_ / "ways.ice", GetParam().options());
  std::atomic<bool> stop{false};
  in_threads(5, [&](unsigned thread) {
    std::mt19937 random(thread);
    if (thread > 0) {
      while (!stop) {
        const std::string key(1 + random() % 12, static_cast<char>('a' + random() % 26));
        if (random() % 3 == 0) {
          static_cast<void>(store.remove(key));
        } else {
          store.insert(key, std::to_string(random()));
        }
      }
      return;
    }
    try {
      const auto end = std::chrono::steady_clock::now() + 1s;
      while (std::chrono::steady_clock::now() < end) {
        const snapshot now = store.latest();
        const auto items = now.items(2);
        std::vector<item> walked;
        for (const auto& one : now.range()) walked.push_back(one);
        promise(walked == items, [] { return std::string("range() and items() differ"); });
        std::vector<item> backward;
        for (const auto& one : now.range().reversed()) backward.push_back(one);
        promise(std::equal(backward.rbegin(), backward.rend(), items.begin(), items.end()),
                [] { return std::string("reversed() and items() differ"); });
        promise(now.size(2) == items.size(), [] { return std::string("size() and items() differ"); });
        std::vector<std::string_view> keys;
        for (const auto& one : items) keys.push_back(one.key);
        std::vector<std::optional<std::string_view>> found(keys.size());
        now.find_many(keys, found);
        for (std::size_t i = 0; i < items.size(); ++i) {
          promise(found[i] == items[i].value && now.find(keys[i]) == items[i].value,
                  [&] { return "finds and items() differ at " + show(keys[i]); });
        }
        for (const auto& one : store.diff(now.version(), now.version())) {
          throw broken_promise("a version differs from itself at " + show(one.key));
        }
      }
    } catch (...) {
      stop = true;
      throw;
    }
    stop = true;
  });
}

TEST_P(StableSnapshots, differences_applied_to_one_version_make_the_other_while_others_write) {
  store store(folder_ / "diff.ice", GetParam().options());
  std::atomic<bool> stop{false};
  in_threads(5, [&](unsigned thread) {
    std::mt19937 random(thread);
    if (thread > 0) {
      while (!stop) {
        const std::string key = std::to_string(random() % 500);
        random() % 4 == 0 ? static_cast<void>(store.remove(key))
                          : static_cast<void>(store.insert(key, std::to_string(random() % 3)));
        if (random() % 50 == 0) store.tag();
      }
      return;
    }
    try {
      const auto end = std::chrono::steady_clock::now() + 1s;
      while (std::chrono::steady_clock::now() < end) {
        const version newest = store.clock() - 1;
        const version before = random() % (newest + 1);
        const version after = newest;
        std::map<std::string_view, std::string_view> patched;
        for (const auto& [key, value] : store.at(before).range()) patched.emplace(key, value);
        for (const auto& [key, old_value, new_value] : store.diff(before, after)) {
          promise(old_value != new_value, [&] { return "an equal value counts as a difference: " + show(key); });
          const auto place = patched.find(key);
          promise(place == patched.end() ? !old_value : place->second == old_value,
                  [&] { return "the value before a difference is wrong: " + show(key); });
          if (new_value) {
            patched[key] = *new_value;
          } else {
            patched.erase(key);
          }
        }
        std::map<std::string_view, std::string_view> wanted;
        for (const auto& [key, value] : store.at(after).range()) wanted.emplace(key, value);
        promise(patched == wanted, [] { return std::string("the differences do not lead to the other version"); });
      }
    } catch (...) {
      stop = true;
      throw;
    }
    stop = true;
  });
}

INSTANTIATE_TEST_SUITE_P(EveryDurability, StableSnapshots, ::testing::ValuesIn(tmpfs_settings()),
                         [](const auto& tested) { return tested.param.name(); });

}  // namespace
}  // namespace icecore::testing
