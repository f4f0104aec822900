#include "run/program/named_files.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string_view>

#include "doors/http/tls.hpp"
#include "icecore/error.hpp"
#include "run/program/translation.hpp"

namespace icecore::server {

std::string secret_in(const file_reference& file, std::size_t least) {
  constexpr std::size_t most = 4096;
  const std::filesystem::path path = file.path();
  std::ifstream in(path, std::ios::binary);
  if (!in) throw error(errc::io, fmt::format("{}: cannot be read: {}", path.native(), std::strerror(errno)));
  std::string text(std::istreambuf_iterator<char>(in), {});
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) text.pop_back();
  if (text.size() < least || text.size() > most) {
    throw error(errc::bad_input,
                fmt::format("{}: a secret is one line of at most {} and here at least {} bytes, and this has {}",
                            path.native(), most, least, text.size()));
  }
  return text;
}

void require_usable_files(const configuration& told) {
  std::string problems;
  const auto collect = [&problems](std::string_view key, const auto& look) {
    try {
      look();
    } catch (const error& wrong) {
      problems += fmt::format("{}{}: {}", problems.empty() ? "" : "\n", key, wrong.message());
    }
  };
  const auto secret = [&](std::string_view key, const file_reference& file, std::size_t least) {
    std::error_code failed;
    if (file.empty() || !std::filesystem::is_regular_file(file.path(), failed)) return;
    collect(key, [&] { static_cast<void>(secret_in(file, least)); });
  };
  if (!told.tls.certificate.empty()) collect("[tls]", [&] { static_cast<void>(http::make_tls(tls_files_of(told))); });
  secret("access.initial_administrator_password_file", told.access.initial_administrator_password_file, 1);
  secret("access.metrics_token_file", told.access.metrics_token_file, metrics_token_bytes_min);
  secret("ucx.token_file", told.ucx.token_file, job_token_bytes_min);
  if (!problems.empty()) throw error(errc::bad_input, problems);
}

}  // namespace icecore::server
