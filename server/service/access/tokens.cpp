#include "service/access/tokens.hpp"

#include <fmt/format.h>
#include <openssl/sha.h>

#include <algorithm>
#include <vector>

#include "icecore/error.hpp"
#include "service/access/password.hpp"

namespace icecore::service {

namespace {
constexpr std::size_t token_bytes = 32;
constexpr std::size_t token_letters = 43;
}  // namespace

token_table::digest token_table::digest_of(std::string_view token) {
  digest hash{};
  SHA256(reinterpret_cast<const unsigned char*>(token.data()), token.size(), hash.data());
  return hash;
}

access_token token_table::make() const {
  std::string secret(token_bytes, '\0');
  fill_random(reinterpret_cast<unsigned char*>(secret.data()), secret.size());
  return {to_base64url(secret), lives_};
}

std::string token_table::kept_of(std::string_view token) {
  const digest hash = digest_of(token);
  return {reinterpret_cast<const char*>(hash.data()), hash.size()};
}

bool token_table::read(std::string_view kept, digest& into) noexcept {
  if (kept.size() != into.size()) return false;
  std::memcpy(into.data(), kept.data(), into.size());
  return true;
}

access_token token_table::issue(const std::string& name, time now) {
  access_token given = make();
  add(name, kept_of(given.text), now);
  return given;
}

void token_table::add(const std::string& name, std::string_view kept, time now) {
  digest hash{};
  if (!read(kept, hash)) throw error(errc::invalid_argument, "what is kept of a token has 32 bytes");
  if (tokens_.size() >= all_max_) end_those_over(now);
  auto& mine = of_user_[name];
  if (mine.size() >= of_one_user_max_) {
    tokens_.erase(mine.front());
    mine.pop_front();
  }
  if (tokens_.size() >= all_max_) {
    if (mine.empty()) of_user_.erase(name);
    throw error(errc::limit_reached,
                fmt::format("there are {} tokens already, which is the limit; log out, or try again later", all_max_));
  }
  mine.push_back(hash);
  tokens_.insert_or_assign(hash, entry{name, now + lives_});
}

void token_table::end_kept(std::string_view kept) {
  digest hash{};
  if (read(kept, hash)) end(hash);
}

const std::string* token_table::find(std::string_view token, time now) const {
  if (token.size() != token_letters) return nullptr;
  const auto at = tokens_.find(digest_of(token));
  if (at == tokens_.end() || at->second.ends <= now) return nullptr;
  return &at->second.name;
}

void token_table::end(const digest& which) {
  const auto at = tokens_.find(which);
  if (at == tokens_.end()) return;
  const auto user = of_user_.find(at->second.name);
  std::erase(user->second, which);
  if (user->second.empty()) of_user_.erase(user);
  tokens_.erase(at);
}

void token_table::end(std::string_view token) {
  if (token.size() == token_letters) end(digest_of(token));
}

void token_table::end_all_of(const std::string& name) {
  const auto user = of_user_.find(name);
  if (user == of_user_.end()) return;
  for (const digest& each : user->second) tokens_.erase(each);
  of_user_.erase(user);
}

void token_table::end_those_over(time now) {
  std::vector<digest> over;
  for (const auto& [hash, what] : tokens_) {
    if (what.ends <= now) over.push_back(hash);
  }
  for (const digest& each : over) end(each);
}

}  // namespace icecore::service
