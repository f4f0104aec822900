#include "line/version_name.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <utility>
#include <vector>

#include "icecore/changes.hpp"
#include "icecore/error.hpp"
#include "line/nearest.hpp"
#include "line/session.hpp"
#include "line/time.hpp"
#include "text/text.hpp"

namespace icecore::cli {
namespace {

constexpr std::size_t abbreviation_min = 4;
constexpr std::size_t name_columns = 80;

/// Finds versions by their names in one store.
class version_names {
 public:
  explicit version_names(const store& from) : from_(&from) {}

  [[nodiscard]] version named(std::string_view text) const {
    if (text.empty()) throw error(errc::invalid_argument, fmt::format("{}: the name of a version is empty", path()));
    if (text == "latest") return from_->latest().version();
    if (const auto number = number_of(text)) return existing(*number);
    if (text.starts_with(tag_prefix)) return of_tag(text.substr(tag_prefix.size()), text);
    if (const auto tag = from_->find_tag(text)) return tag->version;
    if (const auto back = steps_back_of(text)) return before(back->base, back->steps, text);
    if (text.starts_with(time_prefix)) return at_time(text.substr(time_prefix.size()));
    if (looks_like_time(text)) return at_time(text);
    return beginning_with(text);
  }

  [[nodiscard]] version at_time(std::string_view text) const {
    const std::int64_t time_ns = parse_when(text, now_ns());
    if (const auto tag = from_->find_tag_at_time(time_ns)) return tag->version;
    const auto tags = from_->tags();
    if (tags.empty()) {
      throw error(errc::unknown_tag,
                  fmt::format("{}: no version has a time, since there is no tag yet; `icecore tag {}` makes one",
                              path(), path()));
    }
    const auto oldest = std::ranges::min_element(tags, {}, &tag_info::time_ns);
    throw error(errc::unknown_tag,
                fmt::format("{}: every tag is newer than {} ({}); the oldest is of {}", path(),
                            shown(text, name_columns), format_time(time_ns), format_time(oldest->time_ns)));
  }

 private:
  static constexpr std::string_view tag_prefix = "tag:";
  static constexpr std::string_view time_prefix = "time:";

  struct steps_back {
    std::string_view base;
    std::uint64_t steps;
  };

  [[nodiscard]] std::string path() const { return from_->path().string(); }

  static std::optional<version> number_of(std::string_view text) {
    version number = 0;
    const char* const end = text.data() + text.size();
    const auto [stop, failure] = std::from_chars(text.data(), end, number);
    if (failure != std::errc{} || stop != end || number > version_max) return std::nullopt;
    return number;
  }

  [[nodiscard]] version existing(version number) const {
    const version newest = from_->latest().version();
    if (number <= newest) return number;
    throw error(errc::version_not_closed,
                fmt::format("{}: there is no version {} yet; the newest is {} (for a tag of that name, or one that "
                            "begins so, write tag:{})",
                            path(), number, newest, number));
  }

  /// What follows "tag:". A name that is not there as it is may end with ~N, or be the beginning of one.
  [[nodiscard]] version of_tag(std::string_view name, std::string_view text) const {
    if (const auto tag = from_->find_tag(name)) return tag->version;
    if (const auto back = steps_back_of(text)) return before(back->base, back->steps, text);
    return beginning_with(name);
  }

  /// "NAME~N" taken apart. A number of steps too large to be one is more than there can be tags.
  static std::optional<steps_back> steps_back_of(std::string_view text) {
    const std::size_t at = text.rfind('~');
    if (at == std::string_view::npos || at == 0) return std::nullopt;
    const std::string_view digits = text.substr(at + 1);
    if (digits.find_first_not_of("0123456789") != std::string_view::npos) return std::nullopt;
    return steps_back{text.substr(0, at), digits.empty() ? 1 : number_of(digits).value_or(version_max)};
  }

  /// The tag `steps` tags before the version that `base` names. Tags whose version a power cut took are not counted:
  /// nothing can be read there.
  [[nodiscard]] version before(std::string_view base, std::uint64_t steps, std::string_view text) const {
    const version start = named(base);
    if (steps == 0) return start;
    std::vector<version> earlier;  // oldest first
    for (const tag_info& tag : from_->tags()) {
      const bool is_gone = from_->lost_versions().contains(tag.version) || from_->is_expired(tag.version);
      if (tag.version <= start && !is_gone) earlier.push_back(tag.version);
    }
    const bool is_start =
        !earlier.empty() && (earlier.back() == start || (base == "latest" && is_present(earlier.back())));
    if (is_start) earlier.pop_back();
    if (steps > earlier.size()) {
      throw error(errc::unknown_tag,
                  fmt::format("{}: '{}' goes back {} tags, but before {} there {} only {}; `icecore log {}` lists them",
                              path(), shown(text, name_columns), steps, shown(base, name_columns),
                              earlier.size() == 1 ? "is" : "are", earlier.size(), path()));
    }
    return earlier[earlier.size() - steps];
  }

  /// Whether nothing was written since this version was closed.
  [[nodiscard]] bool is_present(version tagged) const {
    const version present = from_->latest().version();
    if (present <= tagged) return true;
    change_range since = from_->changes(tagged, present);
    return since.begin() == since.end();
  }

  [[nodiscard]] version beginning_with(std::string_view name) const {
    if (name.size() < abbreviation_min) fail_unknown(name, from_->tags());
    const auto tags = from_->tags();
    const auto matches = [&](const tag_info& tag) { return tag.name.starts_with(name); };
    const auto first = std::find_if(tags.begin(), tags.end(), matches);
    if (first == tags.end()) fail_unknown(name, tags);
    const auto second = std::find_if(first + 1, tags.end(), matches);
    if (second == tags.end()) return first->version;
    throw error(errc::unknown_tag,
                fmt::format("{}: '{}' could be '{}' or '{}'; give more of the name", path(), shown(name, name_columns),
                            shown(first->name, name_columns), shown(second->name, name_columns)));
  }

  [[noreturn]] void fail_unknown(std::string_view name, const std::vector<tag_info>& tags) const {
    std::vector<std::string> names;
    for (const tag_info& tag : tags) {
      if (!tag.name.empty()) names.push_back(tag.name);
    }
    std::string hint;
    if (const auto meant = nearest(name, names)) {
      hint = fmt::format("; the nearest is '{}'", shown(*meant, name_columns));
    } else if (name.size() < abbreviation_min) {
      hint = fmt::format("; of a longer name, such as a commit's hash, give at least the first {} letters",
                         abbreviation_min);
    }
    throw error(errc::unknown_tag, fmt::format("{}: no version or tag is named '{}'{}; `icecore log {}` lists the tags",
                                               path(), shown(name, name_columns), hint, path()));
  }

  const store* from_;
};

}  // namespace

version version_named(const store& from, std::string_view text) { return version_names(from).named(text); }

snapshot view_of(const store& from, const view_arguments& view) {
  if (!view.time.empty()) return from.at(version_names(from).at_time(view.time));
  const session* const shell = session::any();
  const std::string& at = view.at.empty() && shell != nullptr ? shell->at() : view.at;
  if (at.empty() || at == "latest") return from.latest();
  const version named = version_named(from, at);
  return named == from.latest().version() ? from.latest() : from.at(named);
}

}  // namespace icecore::cli
