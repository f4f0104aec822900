#include "run/program/page_callers.hpp"

#include <fmt/format.h>
#include <openssl/crypto.h>
#include <openssl/sha.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "icecore/error.hpp"
#include "run/program/named_files.hpp"

namespace icecore::server {
namespace {

constexpr std::string_view scheme = "bearer ";

/// The scheme's letters may be large or small (RFC 9110, section 11.1).
std::string_view token_in(std::string_view authorization) {
  const auto small = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; };
  const bool bears = authorization.size() > scheme.size() &&
                     std::equal(scheme.begin(), scheme.end(), authorization.begin(),
                                [&](char wanted, char shown) { return wanted == small(shown); });
  if (!bears) throw error(errc::unauthenticated, "the field Authorization must be \"Bearer \" and a token");
  return authorization.substr(scheme.size());
}

}  // namespace

page_callers::page_callers(configuration::access_section told) : told_(std::move(told)) { reload(); }

void page_callers::reload() {
  if (told_.metrics_token_file.empty()) return;
  const digest is = digest_of(secret_in(told_.metrics_token_file, metrics_token_bytes_min));
  const std::lock_guard lock(mutex_);
  token_ = is;
}

page_callers::digest page_callers::digest_of(std::string_view text) {
  digest is{};
  SHA256(reinterpret_cast<const unsigned char*>(text.data()), text.size(), is.data());
  return is;
}

// Digests are compared, in a time that does not depend on where they differ: it tells nothing of the token.
bool page_callers::is_of_metrics(std::string_view token) const {
  if (told_.metrics_token_file.empty()) return false;
  const digest shown = digest_of(token);
  const std::lock_guard lock(mutex_);
  return CRYPTO_memcmp(shown.data(), token_.data(), shown.size()) == 0;
}

seen_databases page_callers::seen_by(const http::caller& asking, service::service& from) const {
  if (!told_.users) return {.all = true};
  std::optional<service::principal> who;
  if (!asking.authorization.empty()) {
    const std::string_view token = token_in(asking.authorization);
    if (is_of_metrics(token)) return {.all = true};
    who = from.users().recognise(token);
  } else if (!asking.certified.empty()) {
    try {
      who = from.users().certified(asking.certified);
    } catch (const error& unknown) {
      if (unknown.code() != errc::unauthenticated) throw;
    }
  }
  seen_databases seen;
  if (!who) return seen;
  for (const service::database_settings& settings : from.list(*who)) seen.names.insert(settings.name);
  return seen;
}

}  // namespace icecore::server
