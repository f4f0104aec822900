// checkout: the keys of a version as files below a folder.
#include <fmt/format.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "folder/new_files.hpp"
#include "icecore/store.hpp"
#include "line/command_line.hpp"
#include "line/opening.hpp"
#include "line/version_name.hpp"
#include "text/json.hpp"
#include "text/output.hpp"
#include "text/progress.hpp"
#include "text/text.hpp"

namespace icecore::cli {
namespace {

struct checkout_arguments {
  std::string store;
  std::string folder;
  read_arguments read;
  view_arguments view;
  bounds_arguments bounds;
  hex_arguments hex;
  bool force = false;
  bool skip_unfit = false;
  cli::format format = cli::format::table;
};

/// Finds the keys that cannot become files. Keys come in order.
class fitness {
 public:
  fitness(const snapshot& of, const key_bounds& bounds, const new_files& files)
      : of_(&of), bounds_(&bounds), files_(&files) {}

  /// Why this key cannot; empty if it can.
  std::optional<std::string> unfit(std::string_view key) {
    if (auto why = why_no_path(key)) return why;
    if (const auto file = file_above(key))
      return fmt::format("the key '{}' is a file, and would be its folder", shown(*file, 80));
    return files_->in_the_way(key);
  }

 private:
  [[nodiscard]] bool within_bounds(std::string_view key) const {
    return (!bounds_->from || key >= *bounds_->from) && (!bounds_->to || key < *bounds_->to);
  }

  /// A key that names one of the folders of this one.
  std::optional<std::string> file_above(std::string_view key) {
    const std::size_t end = key.rfind('/');
    if (end == std::string_view::npos) return std::nullopt;
    const std::string_view folder = key.substr(0, end);
    if (folder == folder_) return answer_;  // as that of the key before
    folder_ = folder;
    answer_.reset();
    for (std::size_t at = folder.find('/'); !answer_; at = folder.find('/', at + 1)) {
      const std::string_view above = folder.substr(0, at);
      if (within_bounds(above) && of_->contains(above)) answer_ = above;
      if (at == std::string_view::npos) break;
    }
    return answer_;
  }

  const snapshot* of_;
  const key_bounds* bounds_;
  const new_files* files_;
  std::string folder_;
  std::optional<std::string> answer_;
};

struct checkout_tally {
  std::uint64_t files = 0;
  std::uint64_t bytes = 0;
  std::uint64_t unfit = 0;
};

/// Looks at all keys before anything is written. Without --skip-unfit, one that is unfit ends the checkout here.
void check_keys(const snapshot& of, const key_bounds& bounds, const new_files& files, const checkout_arguments& a,
                checkout_tally& t) {
  fitness fits(of, bounds, files);
  std::string first;
  item_range items = of.range(bounds);
  for (const item& i : items) {
    const auto why = fits.unfit(i.key);
    if (!why) continue;
    ++t.unfit;
    const std::string line = fmt::format("key '{}' cannot be a file: {}", shown(i.key, 80), *why);
    if (a.skip_unfit) fmt::print(stderr, "icecore: {}: {}; it is passed over\n", a.store, line);
    if (first.empty()) first = line;
  }
  if (t.unfit == 0 || a.skip_unfit) return;
  const std::string others = t.unfit > 1 ? fmt::format(", and {} others cannot", t.unfit - 1) : "";
  throw error(errc::invalid_argument,
              fmt::format("{}: {}{}; nothing was written; --skip-unfit writes the rest", a.store, first, others));
}

void write_files(const snapshot& of, const key_bounds& bounds, new_files& files, const checkout_arguments& a,
                 checkout_tally& t) {
  progress_bar bar("writing", 0, "files");
  fitness fits(of, bounds, files);
  item_range items = of.range(bounds);
  for (const item& i : items) {
    if (t.unfit > 0 && fits.unfit(i.key)) continue;
    try {
      files.write(i.key, i.value);
    } catch (const error& failure) {
      throw error(static_cast<errc>(failure.code().value()),
                  fmt::format("{}; {} files were written to {} before", failure.message(), t.files, a.folder));
    }
    ++t.files;
    t.bytes += i.value.size();
    bar.update(t.files);
  }
}

exit_code checkout(const checkout_arguments& a) {
  const key_bounds bounds = bounds_of(a.bounds, a.hex.keys());
  const opened_store s = open_to_read(a.store, a.read);
  const snapshot of = view_of(s, a.view);
  new_files files(a.folder, a.force);
  checkout_tally t;
  check_keys(of, bounds, files, a, t);
  write_files(of, bounds, files, a, t);
  if (a.format == cli::format::json) {
    json_object line;
    line.add("version", of.version()).bytes("folder", a.folder).add("files", t.files).add("bytes", t.bytes);
    out().line(line.add("passed_over", t.unfit).text());
  } else {
    out().line(fmt::format("{}: {} files of version {}, {}{}", shown(a.folder), grouped(t.files), of.version(),
                           human_bytes(static_cast<double>(t.bytes)),
                           t.unfit > 0 ? fmt::format("; {} keys were passed over", grouped(t.unfit)) : ""));
  }
  return t.unfit == 0 ? exit_code::ok : exit_code::negative;
}

}  // namespace

void add_checkout_verb(command_line& line) {
  const auto a = std::make_shared<checkout_arguments>();
  verb verb = line.add_verb(
      "checkout", "Write the keys of one version as files below a folder",
      "  icecore checkout history.ice /tmp/then --at '2 days ago'\n"
      "  icecore checkout model.ice layers --prefix layer1/ --at epoch-3\n"
      "  icecore checkout history.ice worktree --force            # replaces files that are there\n"
      "A slash in a key divides folders. Nothing is written if one key cannot be a file, and nothing outside of the\n"
      "folder: not for keys with .. or a leading /, and through no symbolic link. Exit code 1 if keys were passed "
      "over.");
  verb.add_store(a->store);
  verb.add_option("DIR", a->folder, "The folder; it is made if it does not exist")
      .required()
      .type_name("")
      .completes(value_kind::folder);
  verb.add_reading(a->read);
  verb.add_view(a->view);
  verb.add_bounds(a->bounds);
  verb.add_hex(a->hex);
  verb.add_flag("--force", a->force, "Replace files that are there; others stay");
  verb.add_flag("--skip-unfit", a->skip_unfit, "Pass over keys that cannot be files, and name them on standard error");
  verb.add_format(a->format);
  verb.runs([a] { return checkout(*a); });
}

}  // namespace icecore::cli
