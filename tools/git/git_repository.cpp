#include "git/git_repository.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <limits>

#include "icecore/error.hpp"
#include "text/text.hpp"

namespace icecore::cli {
namespace {

/// Deeper trees could overflow the stack; git itself refuses them.
constexpr std::ptrdiff_t depth_max = 2048;

/// Trees up to this size stay in libgit2's cache, because neighbouring commits share nearly all of theirs.
constexpr std::size_t cached_tree_bytes = std::size_t{1} << 20U;

/// What libgit2 may hold, of all threads together: objects, and parts of packs that it maps. Its own limits are 256 MiB
/// and all of the packs.
constexpr ssize_t cache_bytes_max = ssize_t{96} << 20U;
constexpr std::size_t mapped_part_bytes = std::size_t{16} << 20U;
constexpr std::size_t mapped_bytes_max = std::size_t{128} << 20U;

bool is_tree(const git_tree_entry* entry) { return git_tree_entry_type(entry) == GIT_OBJECT_TREE; }

/// libgit2 frees a thread's memory when the thread ends, unless libgit2 was shut down before. So libgit2 is never shut
/// down before the process ends.
void start_library() {
  struct library {
    library() {
      git_libgit2_init();
      git_libgit2_opts(GIT_OPT_SET_CACHE_OBJECT_LIMIT, GIT_OBJECT_TREE, cached_tree_bytes);
      git_libgit2_opts(GIT_OPT_SET_CACHE_MAX_SIZE, cache_bytes_max);
      git_libgit2_opts(GIT_OPT_SET_MWINDOW_SIZE, mapped_part_bytes);
      git_libgit2_opts(GIT_OPT_SET_MWINDOW_MAPPED_LIMIT, mapped_bytes_max);
    }
    library(const library&) = delete;
    library& operator=(const library&) = delete;
    ~library() { git_libgit2_shutdown(); }
  };
  static const library started;
}

/// The end of a line that git takes for white space is not part of a subject.
std::string_view without_white_end(std::string_view line) {
  const std::size_t last = line.find_last_not_of(" \t\n\r");
  return line.substr(0, last == std::string_view::npos ? 0 : last + 1);
}

/// The first paragraph of a message as one line, byte for byte as `git log --format=%s` shows it: blank lines before it
/// are passed, each line loses the white space at its end, and a space joins the lines.
std::string subject_of(std::string_view message) {
  std::string subject;
  bool begun = false;
  while (!message.empty()) {
    const std::size_t end = std::min(message.find('\n'), message.size());
    const std::string_view line = without_white_end(message.substr(0, end));
    message.remove_prefix(std::min(message.size(), end + 1));
    if (line.empty() && begun) break;
    if (line.empty()) continue;
    if (begun) subject += ' ';
    subject += line;
    begun = true;
  }
  return subject;
}

/// The bytes of all files below a folder; those that go meanwhile count nothing.
std::uint64_t bytes_below(const std::filesystem::path& folder) {
  std::uint64_t bytes = 0;
  std::error_code failure;
  auto file = std::filesystem::recursive_directory_iterator(folder, failure);
  while (!failure && file != std::filesystem::recursive_directory_iterator()) {
    std::error_code gone;
    if (file->is_regular_file(gone)) {
      const std::uint64_t size = file->file_size(gone);
      if (!gone) bytes += size;
    }
    file.increment(failure);
  }
  return bytes;
}

}  // namespace

std::string hash_text(const git_oid& id) {
  char digits[GIT_OID_HEXSZ + 1];
  return git_oid_tostr(digits, sizeof digits, &id);
}

void git_reader::fail(int code, std::string_view what) const {
  const git_error* last = git_error_last();
  std::string why = last != nullptr && last->message != nullptr ? last->message : fmt::format("libgit2 error {}", code);
  if (code == GIT_EOWNER) {
    why = fmt::format("it belongs to another user; to trust it: git config --global --add safe.directory {}", path_);
  }
  throw error(errc::bad_input, fmt::format("{}: {}: {}", path_, what, why));
}

git_reader::git_reader(const std::string& path) : path_(path) {
  start_library();
  ::git_repository* opened = nullptr;
  if (const int code = git_repository_open_ext(&opened, path.c_str(), GIT_REPOSITORY_OPEN_NO_SEARCH, nullptr);
      code != 0) {
    fail(code, "cannot be opened as a git repository");
  }
  repository_.reset(opened);
  git_odb* odb = nullptr;
  if (const int code = git_repository_odb(&odb, opened); code != 0) fail(code, "its objects cannot be read");
  odb_.reset(odb);
}

git_reader::commit_pointer git_reader::commit_of(const git_oid& id) const {
  git_commit* commit = nullptr;
  if (const int code = git_commit_lookup(&commit, repository_.get(), &id); code != 0) {
    fail(code, fmt::format("commit {} cannot be read (git fsck shows more)", hash_text(id)));
  }
  return commit_pointer(commit);
}

git_reader::tree_pointer git_reader::tree_of(const git_oid& id) const {
  git_tree* tree = nullptr;
  if (const int code = git_tree_lookup(&tree, repository_.get(), &id); code != 0) {
    fail(code, fmt::format("tree {} cannot be read (git fsck shows more)", hash_text(id)));
  }
  return tree_pointer(tree);
}

git_reader::tree_pointer git_reader::tree_of_commit(const git_oid& commit) const {
  return tree_of(*git_commit_tree_id(commit_of(commit).get()));
}

/// The commits at the end of a shallow clone's history, whose parents it does not have.
std::set<std::string> git_reader::shallow_commits() const {
  std::set<std::string> commits;
  std::ifstream file(std::string(git_repository_commondir(repository_.get())) + "shallow");
  for (std::string line; std::getline(file, line);) commits.insert(line);
  return commits;
}

std::vector<git_oid> git_reader::first_parent_chain(const std::string& ref) const {
  if (ref == "HEAD" && git_repository_head_unborn(repository_.get()) == 1) {
    throw error(errc::bad_input, fmt::format("{}: HEAD names a branch without commits; is the repository empty? "
                                             "--ref REF chooses another branch (git branch --all lists them)",
                                             path_));
  }
  git_object* named = nullptr;
  if (const int code = git_revparse_single(&named, repository_.get(), ref.c_str()); code != 0) {
    fail(code, fmt::format("there is no ref or commit '{}' (git branch --all lists the branches)", shown(ref, 80)));
  }
  git_object* peeled = nullptr;
  const int code = git_object_peel(&peeled, named, GIT_OBJECT_COMMIT);
  git_object_free(named);
  if (code != 0) fail(code, fmt::format("'{}' does not name a commit", shown(ref, 80)));
  git_oid id = *git_object_id(peeled);
  git_object_free(peeled);

  const std::set<std::string> shallow = shallow_commits();
  std::vector<git_oid> chain;
  for (;;) {
    chain.push_back(id);
    const commit_pointer commit = commit_of(id);
    if (git_commit_parentcount(commit.get()) == 0) break;
    if (!shallow.empty() && shallow.contains(hash_text(id))) break;
    id = *git_commit_parent_id(commit.get(), 0);
  }
  std::reverse(chain.begin(), chain.end());
  return chain;
}

std::uint64_t git_reader::object_bytes() const {
  const auto objects = std::filesystem::path(git_repository_commondir(repository_.get())) / "objects";
  std::uint64_t bytes = bytes_below(objects);
  std::ifstream others(objects / "info" / "alternates");
  for (std::string line; std::getline(others, line);) {
    // a relative path begins at the folder of the objects
    if (!line.empty() && line.front() != '#') bytes += bytes_below(objects / line);
  }
  return bytes;
}

git_commit_info git_reader::info(const git_oid& id) const {
  constexpr std::int64_t ns_per_second = 1'000'000'000;
  constexpr std::int64_t limit = std::numeric_limits<std::int64_t>::max() / ns_per_second;
  const commit_pointer commit = commit_of(id);
  // Some histories contain times millions of years away; they become the first or last time that fits.
  const std::int64_t seconds = std::clamp<std::int64_t>(git_commit_time(commit.get()), -limit, limit);
  const char* message = git_commit_message_raw(commit.get());
  return {seconds * ns_per_second, subject_of(message == nullptr ? "" : message)};
}

void git_reader::changes(const git_oid* before, const git_oid& after, const git_change_visitor& visit) const {
  const tree_pointer new_tree = tree_of_commit(after);
  const tree_pointer old_tree = before != nullptr ? tree_of_commit(*before) : nullptr;
  std::string path;
  compare(old_tree.get(), new_tree.get(), path, visit);
}

/// Compares two trees side by side; both are in git's order, in which a folder's name ends with a slash.
void git_reader::compare(const git_tree* before, const git_tree* after, std::string& path,
                         const git_change_visitor& visit) const {
  if (std::count(path.begin(), path.end(), '/') > depth_max)
    fail(0, fmt::format("folders are nested too deep: {}", shown(path, 80)));
  const std::size_t before_count = before != nullptr ? git_tree_entrycount(before) : 0;
  const std::size_t after_count = after != nullptr ? git_tree_entrycount(after) : 0;
  std::size_t i = 0;
  std::size_t j = 0;
  while (i < before_count || j < after_count) {
    const git_tree_entry* old_entry = i < before_count ? git_tree_entry_byindex(before, i) : nullptr;
    const git_tree_entry* new_entry = j < after_count ? git_tree_entry_byindex(after, j) : nullptr;
    const int order = old_entry == nullptr ? 1 : new_entry == nullptr ? -1 : git_tree_entry_cmp(old_entry, new_entry);
    if (order < 0) {
      visit_entry(old_entry, true, path, visit);
    } else if (order > 0) {
      visit_entry(new_entry, false, path, visit);
    } else if (is_tree(old_entry) && is_tree(new_entry)) {
      if (git_oid_equal(git_tree_entry_id(old_entry), git_tree_entry_id(new_entry)) == 0) {
        descend(old_entry, new_entry, path, visit);
      }
    } else if (git_oid_equal(git_tree_entry_id(old_entry), git_tree_entry_id(new_entry)) == 0 ||
               git_tree_entry_filemode(old_entry) != git_tree_entry_filemode(new_entry)) {
      visit_entry(new_entry, false, path, visit);
    }
    i += order <= 0 ? 1 : 0;
    j += order >= 0 ? 1 : 0;
  }
}

/// Visits a file, or all files below a folder, that only one side has or that differs.
void git_reader::visit_entry(const git_tree_entry* entry, bool removed, std::string& path,
                             const git_change_visitor& visit) const {
  if (is_tree(entry)) {
    descend(removed ? entry : nullptr, removed ? nullptr : entry, path, visit);
    return;
  }
  const std::size_t folder = path.size();
  path += git_tree_entry_name(entry);
  const git_oid& id = *git_tree_entry_id(entry);
  if (removed) {
    visit({path, std::nullopt});
  } else if (git_tree_entry_type(entry) == GIT_OBJECT_COMMIT) {
    const std::string submodule = hash_text(id);
    visit({path, submodule});
  } else {
    git_odb_object* blob = nullptr;
    if (const int code = git_odb_read(&blob, odb_.get(), &id); code != 0) {
      fail(code, fmt::format("blob {} of {} cannot be read (if this is a partial clone, fetch the rest: git fetch "
                             "--refetch --no-filter; otherwise git fsck shows more)",
                             hash_text(id), shown(path, 80)));
    }
    const std::unique_ptr<git_odb_object, deleter<git_odb_object, ::git_odb_object_free>> owner(blob);
    visit({path, std::string_view(static_cast<const char*>(git_odb_object_data(blob)), git_odb_object_size(blob))});
  }
  path.resize(folder);
}

void git_reader::descend(const git_tree_entry* before, const git_tree_entry* after, std::string& path,
                         const git_change_visitor& visit) const {
  const std::size_t folder = path.size();
  path += git_tree_entry_name(before != nullptr ? before : after);
  path += '/';
  const tree_pointer old_tree = before != nullptr ? tree_of(*git_tree_entry_id(before)) : nullptr;
  const tree_pointer new_tree = after != nullptr ? tree_of(*git_tree_entry_id(after)) : nullptr;
  compare(old_tree.get(), new_tree.get(), path, visit);
  path.resize(folder);
}

}  // namespace icecore::cli
