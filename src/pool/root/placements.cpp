#include "pool/root/placements.hpp"

#include <algorithm>
#include <cstring>
#include <string>
#include <string_view>

#include "base/raise.hpp"

namespace icecore {
namespace {

namespace fs = std::filesystem;

/// Resolves symbolic links as far as possible.
fs::path resolved(const fs::path& path) {
  const fs::path absolute = fs::absolute(path);
  std::error_code failed;
  fs::path canonical = fs::weakly_canonical(absolute, failed);
  return failed ? absolute.lexically_normal() : canonical;
}

fs::path folder_of(const fs::path& first) { return resolved(first).parent_path(); }

}  // namespace

bool same_place(const fs::path& a, const fs::path& b) { return resolved(a) == resolved(b); }

fs::path default_path(const fs::path& first, std::uint16_t number) {
  return first.native() + "." + std::to_string(number);
}

std::vector<placement> files_of(const fs::path& path, const options& opening) {
  std::vector<placement> files{{path, -1}};
  for (const placement& p : opening.placements) {
    if (p.path.empty()) raise(errc::invalid_argument, "{}: a placement has no path", path.native());
    if (same_place(p.path, path)) {
      files.front().node = p.node;
      continue;
    }
    for (const placement& other : files) {
      if (!same_place(p.path, other.path)) continue;
      raise(errc::invalid_argument, "{}: two placements name the same file, {}", path.native(), p.path.native());
    }
    if (files.size() == format::files_max) {
      raise(errc::invalid_argument, "{}: more than {} files, the maximum for a store", path.native(),
            format::files_max);
    }
    files.push_back(p);
  }
  return files;
}

std::uint16_t file_for(std::span<const int> nodes, int running_on, unsigned writer) noexcept {
  for (const int node : {running_on, -1}) {
    const auto count = static_cast<unsigned>(std::ranges::count(nodes, node));
    if (count == 0) continue;
    unsigned skip = writer % count;
    for (std::size_t n = 0; n < nodes.size(); ++n) {
      if (nodes[n] == node && skip-- == 0) return static_cast<std::uint16_t>(n);
    }
  }
  return static_cast<std::uint16_t>(writer % nodes.size());
}

bool is_unfinished(const format::root& r) noexcept {
  return r.pool_count > 1 && r.pool_number == 0 && r.files.path_size[1] == 0 && r.files.session == 0 && r.clock == 1 &&
         r.state == format::root_state::clean && r.used_end == format::first_segment_offset;
}

bool has_sound_paths(const format::root& r) noexcept {
  std::size_t bytes = 0;
  bool ended = false;
  for (std::size_t i = 1; i < format::files_max; ++i) {
    const std::size_t size = r.files.path_size[i];
    if (size != 0 && (ended || r.pool_number != 0 || i >= r.pool_count)) return false;
    ended = ended || size == 0;
    bytes += size;
  }
  bytes += r.files.path_size[0];
  const bool all_named =
      r.pool_count == 1 || r.pool_number != 0 || is_unfinished(r) || r.files.path_size[r.pool_count - 1U] != 0;
  return all_named && bytes <= sizeof r.files.paths && std::memchr(r.files.paths, '\0', bytes) == nullptr;
}

std::vector<placement> named_files(const format::root& r, const fs::path& first) {
  const auto node_of = [&](std::size_t i) { return static_cast<int>(r.files.node_plus_1[i]) - 1; };
  std::vector<placement> files{{first, node_of(0)}};
  if (r.pool_count == 1) return files;
  const fs::path folder = folder_of(first);
  const char* at = r.files.paths;
  for (std::size_t i = 1; i < r.pool_count; ++i) {
    const std::size_t size = r.files.path_size[i];
    files.push_back({folder / std::string_view(at, size), node_of(i)});
    at += size;
  }
  return files;
}

void name_files(format::root& r, const std::vector<placement>& files) {
  format::root_files named{};
  named.session = r.files.session;
  named.session_before = r.files.session_before;
  const fs::path folder = folder_of(files.front().path);
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < files.size(); ++i) {
    named.node_plus_1[i] = static_cast<std::uint16_t>(files[i].node + 1);
    if (i == 0) continue;
    const fs::path absolute = resolved(files[i].path);
    const fs::path relative = absolute.lexically_relative(folder);
    const bool beneath = *relative.begin() != "..";  // never empty for two absolute paths
    const std::string text = beneath ? relative.native() : absolute.native();
    if (bytes + text.size() > sizeof named.paths) {
      raise(errc::invalid_argument,
            "{}: the paths of the store's files take more than the available {} bytes; use shorter paths",
            files.front().path.native(), sizeof named.paths);
    }
    std::memcpy(named.paths + bytes, text.data(), text.size());
    named.path_size[i] = static_cast<std::uint16_t>(text.size());
    bytes += text.size();
  }
  r.files = named;
}

void name_first(format::root& r, const fs::path& first) {
  std::memset(r.files.paths, 0, sizeof r.files.paths);
  r.files.path_size[0] = 0;
  std::error_code failed;
  const std::string text = fs::absolute(first, failed).native();
  if (failed || text.size() > sizeof r.files.paths) return;
  std::memcpy(r.files.paths, text.data(), text.size());
  r.files.path_size[0] = static_cast<std::uint16_t>(text.size());
}

}  // namespace icecore
