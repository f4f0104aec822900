#include "line/opening.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <memory>

#include "line/time.hpp"
#include "text/progress.hpp"
#include "text/text.hpp"

namespace icecore::cli {
namespace {

constexpr std::size_t abbreviation_min = 4;

options with_progress(options opening) {
  opening.on_progress = [bar = std::make_shared<progress_bar>("opening", 0, "")](const progress& p) {
    bar->retitle(p.what, p.total, p.unit == "bytes" ? "B" : p.unit);
    bar->update(p.done);
    if (p.total != 0 && p.done >= p.total) bar->finish();
  };
  return opening;
}

[[noreturn]] void fail_unknown(const store& from, std::string_view text) {
  throw error(errc::unknown_tag, fmt::format("{}: no version or tag is named '{}'; `icecore log {}` lists the tags",
                                             from.path().string(), shown(text, 80), from.path().string()));
}

version tag_named(const store& from, std::string_view name) {
  if (const auto tag = from.find_tag(name)) return tag->version;
  if (name.size() < abbreviation_min) {
    throw error(errc::unknown_tag,
                fmt::format("{}: no version or tag is named '{}'; of a longer name, such as a commit's hash, give at "
                            "least the first {} letters; `icecore log {}` lists the tags",
                            from.path().string(), shown(name, 80), abbreviation_min, from.path().string()));
  }
  const auto tags = from.tags();
  const auto matches = [&](const tag_info& tag) { return tag.name.starts_with(name); };
  const auto first = std::find_if(tags.begin(), tags.end(), matches);
  if (first == tags.end()) fail_unknown(from, name);
  const auto second = std::find_if(first + 1, tags.end(), matches);
  if (second != tags.end()) {
    throw error(errc::unknown_tag,
                fmt::format("{}: '{}' could be '{}' or '{}'; give more of the name", from.path().string(),
                            shown(name, 80), shown(first->name, 80), shown(second->name, 80)));
  }
  return first->version;
}

}  // namespace

store open_to_read(const std::string& path, const read_arguments& read) {
  options opening;
  opening.accept_copy = read.accept_copy;
  opening.accept_damage = read.accept_damage;
  opening.crash = read.crash;
  opening.placements = placements_of(read.placements);
  opening.access = access::read_only;
  opening.creation = creation::open_existing;
  return store(path, with_progress(opening));
}

store open_to_write(const std::string& path, const write_arguments& write, creation creation) {
  options opening;
  opening.creation = creation;
  opening.durability = write.durability;
  opening.emulate_durability = write.emulate;
  opening.crash = write.crash;
  opening.index = write.index;
  opening.change_index = write.change_index;
  opening.placements = placements_of(write.placements);
  return store(path, with_progress(opening));
}

version version_named(const store& from, std::string_view text) {
  if (text == "latest") return from.latest().version();
  if (text.starts_with("tag:")) return tag_named(from, text.substr(4));
  version number = 0;
  const char* end = text.data() + text.size();
  const auto [stop, failure] = std::from_chars(text.data(), end, number);
  const bool is_number = failure == std::errc{} && stop == end && number <= version_max;
  if (!is_number) return tag_named(from, text);
  const version latest = from.latest().version();
  if (number > latest) {
    throw error(errc::version_not_closed,
                fmt::format("{}: there is no version {} yet; the newest is {} (for a tag of that name, write tag:{})",
                            from.path().string(), number, latest, number));
  }
  return number;
}

snapshot view_of(const store& from, const view_arguments& view) {
  if (!view.time.empty()) {
    const auto tag = from.find_tag_at_time(parse_time(view.time));
    if (!tag) {
      throw error(errc::unknown_tag,
                  fmt::format("{}: every tag is newer than {}; `icecore log --reverse --limit 1` shows the oldest",
                              from.path().string(), view.time));
    }
    return from.at(tag->version);
  }
  if (view.at.empty() || view.at == "latest") return from.latest();
  const version named = version_named(from, view.at);
  return named == from.latest().version() ? from.latest() : from.at(named);
}

}  // namespace icecore::cli
