// Reads a git repository for load --git: the first-parent chain of a ref, and what each commit changed.
//
// Reads objects with libgit2: SHA-1 repositories, with or without a work tree, complete or shallow. Replacement refs
// and grafts are not followed. Threads: each thread needs its own object; several objects may read one repository at
// the same time. Errors: errc::bad_input, which names the repository and the part that could not be read.
#pragma once

#include <git2.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace icecore::cli {

/// The contents of a commit object.
struct git_commit_info {
  std::int64_t time_ns;  ///< the committer's time
  std::string subject;   ///< the first paragraph of the message as one line, as git log --format=%s shows it
};

/// One path that differs between two trees. Views are valid during the visit.
struct git_change {
  std::string_view path;
  std::optional<std::string_view> value;  ///< empty: the path was deleted
};
using git_change_visitor = std::function<void(const git_change&)>;

/// A commit's hash as 40 hexadecimal digits.
[[nodiscard]] std::string hash_text(const git_oid& id);

class git_reader {
 public:
  /// `path`: a work tree's root, its .git, or a bare repository.
  explicit git_reader(const std::string& path);

  /// The commits from the root (or from where a shallow clone's history ends) to the commit that `ref` names.
  [[nodiscard]] std::vector<git_oid> first_parent_chain(const std::string& ref) const;

  [[nodiscard]] git_commit_info info(const git_oid& commit) const;

  /// The bytes of the files in which git holds the objects of all refs: packs with their indexes, single objects, and
  /// those of the repositories that this one borrows from.
  [[nodiscard]] std::uint64_t object_bytes() const;

  /// Visits each path whose content, kind or mode differs between the trees of two commits (no `before`: an empty
  /// tree). The value is the blob's bytes; for a symbolic link its target; for a submodule the 40 digits of its commit.
  void changes(const git_oid* before, const git_oid& after, const git_change_visitor& visit) const;

 private:
  template <typename Object, void (*Free)(Object*)>
  struct deleter {
    void operator()(Object* object) const noexcept { Free(object); }
  };
  using repository_pointer = std::unique_ptr<::git_repository, deleter<::git_repository, ::git_repository_free>>;
  using odb_pointer = std::unique_ptr<git_odb, deleter<git_odb, ::git_odb_free>>;
  using tree_pointer = std::unique_ptr<git_tree, deleter<git_tree, ::git_tree_free>>;
  using commit_pointer = std::unique_ptr<git_commit, deleter<git_commit, ::git_commit_free>>;

  [[nodiscard]] commit_pointer commit_of(const git_oid& id) const;
  [[nodiscard]] tree_pointer tree_of(const git_oid& id) const;
  [[nodiscard]] tree_pointer tree_of_commit(const git_oid& commit) const;
  [[nodiscard]] std::set<std::string> shallow_commits() const;
  void compare(const git_tree* before, const git_tree* after, std::string& path, const git_change_visitor& visit) const;
  void visit_entry(const git_tree_entry* entry, bool removed, std::string& path, const git_change_visitor& visit) const;
  void descend(const git_tree_entry* before, const git_tree_entry* after, std::string& path,
               const git_change_visitor& visit) const;
  [[noreturn]] void fail(int code, std::string_view what) const;

  std::string path_;
  repository_pointer repository_;
  odb_pointer odb_;
};

}  // namespace icecore::cli
