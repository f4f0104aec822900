#include "examination.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace icecore::damaging {
namespace {

using found = std::optional<std::string_view>;

std::string shown(const found& v) {
  return v ? fmt::format("'{}' of {} bytes", v->substr(0, 24), v->size()) : "nothing";
}
found in(const items& all, const std::string& key) {
  const auto there = all.find(key);
  return there == all.end() ? found() : found(there->second);
}

class examination {
 public:
  examination(const store& s, const truth& t, const allowance& allowed) : store_(s), truth_(t), allowed_(allowed) {}

  answers run() {
    std::vector<version> versions;
    for (const auto& [v, items] : truth_.closed) versions.push_back(v);
    for (const auto& [key, history] : truth_.histories) key_is_right(key, history, versions);
    for (std::size_t i = 0; i < versions.size(); i += 1 + versions.size() / 3) version_is_right(versions[i]);
    if (!versions.empty()) version_is_right(versions.back());
    if (versions.size() > 2) ask("diff", [&] { return differences(versions[versions.size() / 3], versions.back()); });
    ask("tags", [&] { return tags(); });
    for (const auto& [name, v] : truth_.tags) {
      ask("find_tag", [&] {
        const auto tag = store_.find_tag(name);
        return (allowed_.missing && !tag) || (tag && tag->version == v) ? std::string() : fmt::format("tag {}", name);
      });
    }
    ask("keys", [&] { return keys(); });
    ask("clock", [&] {
      if (allowed_.clock_behind || store_.clock() >= truth_.clock) return std::string();
      return fmt::format("{} was {}", store_.clock(), truth_.clock);
    });
    return all_;
  }

 private:
  [[nodiscard]] bool doubted(const std::string& key) const { return allowed_.any_value.contains(key); }
  [[nodiscard]] bool is_exact() const noexcept {
    return !allowed_.missing && allowed_.any_value.empty() && allowed_.unlisted.empty();
  }
  /// Whether another key may be listed in the place of one.
  [[nodiscard]] bool may_be_displaced(const items& wanted, std::string_view key, std::string_view value) const {
    return !allowed_.unlisted.empty() && in(wanted, std::string(key)) == found(value);
  }
  [[nodiscard]] bool ever_had(const std::string& key, const found& value) const {
    const auto had = truth_.histories.find(key);
    return had != truth_.histories.end() &&
           std::ranges::any_of(had->second, [&](const auto& c) { return found(c.second) == value; });
  }

  template <class Question>
  void ask(const char* what, const Question& question) {
    try {
      const std::string wrong = question();
      if (wrong.empty()) {
        ++all_.right;
      } else if (all_.wrong.empty()) {
        all_.wrong = std::string(what) + ": " + wrong;
      }
    } catch (const error& failure) {
      if (allowed_.clock_behind && failure.code() == errc::version_not_closed) return;
      ++all_.errors;
      if (all_.first_error.empty()) all_.first_error = failure.what();
      if (!reports_damage(failure) && all_.wrong.empty())
        all_.wrong = std::string(what) + ": an error that tells of no damage: " + failure.what();
    }
  }

  /// One answer for a key in one version.
  [[nodiscard]] std::string compared(const std::string& key, const found& got, const found& wanted) const {
    if (got == wanted || (!got && (allowed_.missing || doubted(key)))) return {};
    if (doubted(key) && ever_had(key, got)) return {};
    return key + " is " + shown(got) + ", not " + shown(wanted);
  }

  void key_is_right(const std::string& key, const std::vector<std::pair<version, std::optional<std::string>>>& history,
                    const std::vector<version>& versions) {
    ask("find", [&] { return compared(key, store_.find(key), in(truth_.now, key)); });
    ask("history", [&] { return history_of(key, history); });
    for (std::size_t i = 0; i < versions.size(); i += 1 + versions.size() / 5) {
      const version v = versions[i];
      ask("find in a version", [&] {
        const std::string wrong = compared(key, store_.find(key, v), in(truth_.closed.at(v), key));
        return wrong.empty() ? wrong : fmt::format("version {}: {}", v, wrong);
      });
    }
  }

  std::string history_of(const std::string& key,
                         const std::vector<std::pair<version, std::optional<std::string>>>& wanted) const {
    std::size_t next = 0;
    for (const change& c : store_.history(key).oldest_first()) {
      const auto is_same = [&](const auto& w) { return w.first == c.version && found(w.second) == found(c.value); };
      if (doubted(key)) {
        if (c.value && !ever_had(key, found(c.value))) return key + " has a value that it never had";
        continue;
      }
      if (allowed_.missing) {
        if (c.value && std::ranges::none_of(wanted, is_same)) return key + " has what never was";
        continue;
      }
      if (next == wanted.size() || !is_same(wanted[next])) return key + " differs in record " + std::to_string(next);
      ++next;
    }
    const bool all = next == wanted.size() || allowed_.missing || doubted(key);
    return all ? "" : key + " has " + std::to_string(next) + " records";
  }

  void version_is_right(version v) {
    const items& wanted = truth_.closed.at(v);
    const auto reported = [v](const std::string& what) { return fmt::format("version {}: {}", v, what); };
    ask("scan", [&] {
      auto next = wanted.begin();
      const auto may_be_passed = [&] {
        return allowed_.missing || doubted(next->first) || allowed_.unlisted.contains(next->first);
      };
      for (const auto& [key, value] : store_.at(v).range()) {
        while (next != wanted.end() && next->first < key && may_be_passed()) ++next;
        const bool is_next = next != wanted.end() && next->first == key;
        if (!is_next && may_be_displaced(wanted, key, value)) continue;
        if (doubted(std::string(key)) ? !ever_had(std::string(key), value) : !is_next || value != next->second)
          return reported(std::string(key));
        if (is_next) ++next;
      }
      while (next != wanted.end() && may_be_passed()) ++next;
      return next == wanted.end() ? "" : reported(next->first + " is missing");
    });
    if (!is_exact()) return;
    ask("reversed scan", [&] {
      auto next = wanted.rbegin();
      for (const auto& [key, value] : store_.at(v).range().reversed()) {
        if (next == wanted.rend() || key != next->first || value != next->second) return reported(std::string(key));
        ++next;
      }
      return next == wanted.rend() ? "" : reported(next->first + " is missing");
    });
    ask("size", [&] { return store_.at(v).size(1) == wanted.size() ? "" : reported("another number of keys"); });
  }

  std::string differences(version before, version after) const {
    const items& a = truth_.closed.at(before);
    const items& b = truth_.closed.at(after);
    std::size_t count = 0;
    for (const difference& d : store_.diff(before, after)) {
      const std::string key(d.key);
      if (doubted(key)) continue;
      const bool right = (d.before == in(a, key) || (allowed_.missing && !d.before)) &&
                         (d.after == in(b, key) || (allowed_.missing && !d.after));
      if (!right) return key + ": " + shown(d.before) + " to " + shown(d.after);
      if (d.before != d.after) ++count;
    }
    std::size_t wanted = 0;
    for (const auto& [key, history] : truth_.histories) wanted += in(a, key) != in(b, key) ? 1 : 0;
    return !is_exact() || count == wanted ? "" : std::to_string(count) + " keys, not " + std::to_string(wanted);
  }

  std::string tags() const {
    const auto got = store_.tags();
    if (!allowed_.missing && got.size() != truth_.tags.size()) {
      return std::to_string(got.size()) + ", not " + std::to_string(truth_.tags.size());
    }
    std::size_t next = 0;
    for (const tag_info& tag : got) {
      while (allowed_.missing && next < truth_.tags.size() && truth_.tags[next].second < tag.version) ++next;
      if (next == truth_.tags.size() || tag.name != truth_.tags[next].first ||
          tag.version != truth_.tags[next].second || tag.note != "note")
        return fmt::format("tag {}", tag.name);
      ++next;
    }
    return {};
  }

  std::string keys() const {
    const auto got = store_.keys();
    const std::set<std::string_view> there(got.begin(), got.end());
    for (const auto& [key, history] : truth_.histories) {
      const bool may_be = allowed_.missing || allowed_.unlisted.contains(key);
      if (!may_be && !there.contains(key)) return key + " is missing";
    }
    return {};
  }

  const store& store_;
  const truth& truth_;
  const allowance& allowed_;
  answers all_;
};

}  // namespace

answers examine(const store& s, const truth& t, const allowance& allowed) { return examination(s, t, allowed).run(); }

bool reports_damage(const error& failure) {
  const auto code = static_cast<errc>(failure.code().value());
  return code == errc::damaged || code == errc::not_a_store || code == errc::truncated ||
         code == errc::unsupported_format || code == errc::copied || code == errc::missing_file ||
         code == errc::crash_unknown || code == errc::no_such_store;  // of a file cut to nothing
}

}  // namespace icecore::damaging
