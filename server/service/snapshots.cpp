#include "service/snapshots.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <openssl/evp.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <system_error>

#include "icecore/error.hpp"
#include "service/names.hpp"

namespace icecore::service {
namespace {

using json = nlohmann::json;
using std::filesystem::path;

class descriptor {
 public:
  descriptor(const path& of, int flags, mode_t mode = 0600) : number_(::open(of.c_str(), flags | O_CLOEXEC, mode)) {
    if (number_ < 0) failed_call(of, "open", errno);
  }
  ~descriptor() { ::close(number_); }
  descriptor(const descriptor&) = delete;
  descriptor& operator=(const descriptor&) = delete;
  [[nodiscard]] int number() const noexcept { return number_; }

 private:
  int number_;
};

void make_folder(const path& what) {
  std::error_code error;
  std::filesystem::create_directories(what, error);
  if (error) failed_call(what, "mkdir", error.value());
}

/// Reads the file to its end, gives each piece to `use`, and returns its SHA-256 as hexadecimal digits.
template <typename Use>
std::string digest_of(const path& file, Use use) {
  const descriptor open(file, O_RDONLY);
  const std::unique_ptr<EVP_MD_CTX, void (*)(EVP_MD_CTX*)> sum(EVP_MD_CTX_new(), EVP_MD_CTX_free);
  if (sum == nullptr || EVP_DigestInit_ex(sum.get(), EVP_sha256(), nullptr) != 1) {
    throw icecore::error(errc::io, "SHA-256 is not available");
  }
  std::vector<char> piece(std::size_t{1} << 20);
  for (;;) {
    const ssize_t got = ::read(open.number(), piece.data(), piece.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) failed_call(file, "read", errno);
    if (got == 0) break;
    EVP_DigestUpdate(sum.get(), piece.data(), static_cast<std::size_t>(got));
    use(std::string_view(piece.data(), static_cast<std::size_t>(got)));
  }
  std::array<unsigned char, EVP_MAX_MD_SIZE> bytes{};
  unsigned size = 0;
  EVP_DigestFinal_ex(sum.get(), bytes.data(), &size);
  std::string text;
  for (unsigned i = 0; i < size; ++i) text += fmt::format("{:02x}", bytes[i]);
  return text;
}

void write_whole(const path& to, std::string_view text) {
  const descriptor open(to, O_WRONLY | O_CREAT | O_TRUNC);
  while (!text.empty()) {
    const ssize_t put = ::write(open.number(), text.data(), text.size());
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) failed_call(to, "write", errno);
    text.remove_prefix(static_cast<std::size_t>(put));
  }
  if (::fsync(open.number()) != 0) failed_call(to, "fsync", errno);
}

// A folder that gets its name only when it is complete and durable.
class new_folder {
 public:
  explicit new_folder(path to) : to_(std::move(to)), partial_(to_) {
    if (!to_.has_filename()) to_ = to_.parent_path();
    partial_ = to_;
    partial_ += ".partial";
    std::error_code ignored;
    if (std::filesystem::exists(to_, ignored)) {
      throw icecore::error(errc::store_exists,
                           fmt::format("{}: something is there already; choose another folder", to_.native()));
    }
    std::filesystem::remove_all(partial_, ignored);
    make_folder(partial_);
  }
  ~new_folder() {
    std::error_code ignored;
    if (!complete_) std::filesystem::remove_all(partial_, ignored);
  }
  new_folder(const new_folder&) = delete;
  new_folder& operator=(const new_folder&) = delete;

  [[nodiscard]] const path& place() const noexcept { return partial_; }
  void complete() {
    for (const auto& found : std::filesystem::recursive_directory_iterator(partial_)) {
      if (found.is_directory()) keep_names_in(found.path());
    }
    keep_names_in(partial_);
    // Not rename(2): it would replace an empty folder that somebody has made there meanwhile.
    if (::renameat2(AT_FDCWD, partial_.c_str(), AT_FDCWD, to_.c_str(), RENAME_NOREPLACE) != 0) {
      if (errno != EINVAL) failed_call(to_, "rename", errno);
      if (::rename(partial_.c_str(), to_.c_str()) != 0)
        failed_call(to_, "rename", errno);  // file systems without the flag
    }
    complete_ = true;
    keep_names_in(to_.has_parent_path() ? to_.parent_path() : path("."));
  }

 private:
  path to_;
  path partial_;
  bool complete_ = false;
};

struct listed {
  std::string file;
  std::uint64_t bytes;
  std::string digest;
};

std::vector<listed> manifest_of(const path& folder) {
  const path file = folder / "manifest.json";
  std::ifstream in(file);
  if (!in) {
    throw icecore::error(errc::bad_input,
                         fmt::format("{}: no snapshot of a service (it has no manifest.json)", folder.native()));
  }
  const json manifest = json::parse(in, nullptr, false);
  std::vector<listed> files;
  try {
    if (manifest.is_discarded()) throw icecore::error(errc::damaged, fmt::format("{}: is no JSON", file.native()));
    if (manifest.at("format").get<int>() != 1) {
      throw icecore::error(errc::unsupported_format,
                           fmt::format("{}: a later icecore wrote this snapshot", file.native()));
    }
    for (const json& next : manifest.at("files")) {
      listed one{.file = next.at("file").get<std::string>(),
                 .bytes = next.at("bytes").get<std::uint64_t>(),
                 .digest = next.at("sha256").get<std::string>()};
      const path inside(one.file);
      bool climbs = inside.is_absolute() || inside.empty();
      for (const path& step : inside) climbs = climbs || step == "..";
      if (climbs)
        throw icecore::error(errc::damaged,
                             fmt::format("{}: names the file '{}' outside of it", file.native(), one.file));
      files.push_back(std::move(one));
    }
  } catch (const json::exception& e) {
    throw icecore::error(errc::damaged, fmt::format("{}: is not understood: {}", file.native(), e.what()));
  }
  return files;
}

}  // namespace

snapshot_report write_parts_of_snapshot(const std::vector<snapshot_part>& parts, const std::string& identity,
                                        const path& to, const icecore::progress_function& on_progress) {
  new_folder folder(to);
  snapshot_report report{.path = to, .parts = {}};
  json files = json::array();
  std::uint64_t done = 0;
  std::uint64_t total = 0;
  for (const snapshot_part& part : parts) total += part.taken.bytes();
  for (const snapshot_part& part : parts) {
    const path file = folder.place() / part.file;
    make_folder(file.parent_path());
    part.taken.write(file);
    std::uint64_t bytes = 0;
    const std::string digest = digest_of(file, [&](std::string_view piece) { bytes += piece.size(); });
    files.push_back({{"file", part.file},
                     {"database", part.name},
                     {"version", part.taken.version()},
                     {"bytes", bytes},
                     {"sha256", digest}});
    if (!part.name.empty())
      report.parts.push_back({.database = part.name, .version = part.taken.version(), .bytes = bytes});
    done += part.taken.bytes();
    if (on_progress) on_progress({.what = "writing the snapshot", .done = done, .total = total, .unit = "bytes"});
  }
  write_whole(folder.place() / "manifest.json",
              json{{"format", 1}, {"server", identity}, {"files", files}}.dump(2) + "\n");
  folder.complete();
  return report;
}

void restore_parts_of_snapshot(const path& from, const path& to, const icecore::progress_function& on_progress) {
  const std::vector<listed> files = manifest_of(from);
  new_folder folder(to);
  std::uint64_t done = 0;
  std::uint64_t total = 0;
  for (const listed& next : files) total += next.bytes;
  for (const listed& next : files) {
    const path source = from / next.file;
    const path copy = folder.place() / next.file;
    std::error_code missing;
    if (!std::filesystem::is_regular_file(source, missing)) {
      throw icecore::error(errc::damaged,
                           fmt::format("{}: the snapshot's manifest names it, and it is not there", source.native()));
    }
    make_folder(copy.parent_path());
    std::uint64_t bytes = 0;
    std::string digest;
    {
      const descriptor out(copy, O_WRONLY | O_CREAT | O_EXCL);
      digest = digest_of(source, [&](std::string_view piece) {
        bytes += piece.size();
        while (!piece.empty()) {
          const ssize_t put = ::write(out.number(), piece.data(), piece.size());
          if (put < 0 && errno == EINTR) continue;
          if (put < 0) failed_call(copy, "write", errno);
          piece.remove_prefix(static_cast<std::size_t>(put));
        }
        if (on_progress) on_progress({.what = "restoring", .done = done + bytes, .total = total, .unit = "bytes"});
      });
      if (::fsync(out.number()) != 0) failed_call(copy, "fsync", errno);
    }
    if (bytes != next.bytes || digest != next.digest) {
      throw icecore::error(errc::damaged,
                           fmt::format("{}: has changed since the snapshot was written: {} bytes with SHA-256 {}, "
                                       "not {} with {}",
                                       source.native(), bytes, digest, next.bytes, next.digest));
    }
    done += bytes;
  }
  make_folder(folder.place() / "databases");
  folder.complete();
}

}  // namespace icecore::service
