#include "service/snapshot/files.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <openssl/evp.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <memory>
#include <system_error>
#include <vector>

#include "icecore/error.hpp"
#include "service/names.hpp"

namespace icecore::service {

using std::filesystem::path;

open_file::open_file(const path& of, int flags, mode_t mode) : number_(::open(of.c_str(), flags | O_CLOEXEC, mode)) {
  if (number_ < 0) failed_call(of, "open", errno);
}
open_file::~open_file() { ::close(number_); }

void make_folder(const path& what) {
  std::error_code error;
  std::filesystem::create_directories(what, error);
  if (error) failed_call(what, "mkdir", error.value());
}

void write_all(const open_file& to, const path& name, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t put = ::write(to.number(), bytes.data(), bytes.size());
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) failed_call(name, "write", errno);
    bytes.remove_prefix(static_cast<std::size_t>(put));
  }
}

void write_whole(const path& to, std::string_view text) {
  const open_file open(to, O_WRONLY | O_CREAT | O_TRUNC);
  write_all(open, to, text);
  if (::fsync(open.number()) != 0) failed_call(to, "fsync", errno);
}

file_digest digest_of(const path& file, const std::function<void(std::string_view)>& use) {
  const open_file open(file, O_RDONLY);
  const std::unique_ptr<EVP_MD_CTX, void (*)(EVP_MD_CTX*)> sum(EVP_MD_CTX_new(), EVP_MD_CTX_free);
  if (sum == nullptr || EVP_DigestInit_ex(sum.get(), EVP_sha256(), nullptr) != 1) {
    throw icecore::error(errc::io, "SHA-256 is not available");
  }
  file_digest told;
  std::vector<char> piece(std::size_t{1} << 20);
  for (;;) {
    const ssize_t got = ::read(open.number(), piece.data(), piece.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) failed_call(file, "read", errno);
    if (got == 0) break;
    EVP_DigestUpdate(sum.get(), piece.data(), static_cast<std::size_t>(got));
    told.bytes += static_cast<std::uint64_t>(got);
    if (use) use(std::string_view(piece.data(), static_cast<std::size_t>(got)));
  }
  std::array<unsigned char, EVP_MAX_MD_SIZE> bytes{};
  unsigned size = 0;
  EVP_DigestFinal_ex(sum.get(), bytes.data(), &size);
  for (unsigned i = 0; i < size; ++i) told.sha256 += fmt::format("{:02x}", bytes[i]);
  return told;
}

path new_folder::partial_of(path to) {
  if (!to.has_filename()) to = to.parent_path();
  to += ".partial";
  return to;
}

new_folder::new_folder(path to) : to_(std::move(to)), partial_(partial_of(to_)) {
  if (!to_.has_filename()) to_ = to_.parent_path();
  std::error_code ignored;
  if (std::filesystem::exists(to_, ignored)) {
    throw icecore::error(errc::store_exists,
                         fmt::format("{}: something is there already; choose another folder", to_.native()));
  }
  std::filesystem::remove_all(partial_, ignored);
  make_folder(partial_);
}

new_folder::~new_folder() {
  std::error_code ignored;
  if (!complete_) std::filesystem::remove_all(partial_, ignored);
}

void new_folder::complete() {
  for (const auto& found : std::filesystem::recursive_directory_iterator(partial_)) {
    if (found.is_directory()) keep_names_in(found.path());
  }
  keep_names_in(partial_);
  // Not rename(2): it would replace an empty folder that somebody has made there meanwhile.
  if (::renameat2(AT_FDCWD, partial_.c_str(), AT_FDCWD, to_.c_str(), RENAME_NOREPLACE) != 0) {
    if (errno != EINVAL) failed_call(to_, "rename", errno);
    if (::rename(partial_.c_str(), to_.c_str()) != 0) failed_call(to_, "rename", errno);  // where the flag is unknown
  }
  complete_ = true;
  keep_names_in(to_.has_parent_path() ? to_.parent_path() : path("."));
}

}  // namespace icecore::service
