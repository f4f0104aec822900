#include "line/session.hpp"

#include <fmt/format.h>

#include "line/version_name.hpp"

namespace icecore::cli {
namespace {

session* only = nullptr;

}  // namespace

opened_store::~opened_store() {
  if (by_ == nullptr) return;
  by_->store_ = std::move(*this);
  by_->is_lent_ = false;
}

session::session(std::string path, store&& opened, bool writes)
    : path_(std::move(path)), store_(std::move(opened)), writes_(writes) {
  only = this;
}

session::~session() { only = nullptr; }

session* session::of(const std::string& path) noexcept {
  return only != nullptr && only->path_ == path ? only : nullptr;
}

session* session::any() noexcept { return only; }

opened_store session::lend() {
  if (is_lent_) throw error(errc::invalid_argument, fmt::format("{}: is in use by this command already", path_));
  is_lent_ = true;
  return {std::move(store_), this};
}

void session::show_newest() {
  if (!is_lent_ && store_.beside_writer()) static_cast<void>(store_.refresh());
}

opened_store session::lend_to_read() {
  show_newest();
  return lend();
}

opened_store session::lend_to_write() {
  if (!writes_) {
    throw error(errc::read_only,
                fmt::format("{}: this shell only reads the store, so that other processes may write it "
                            "meanwhile; `icecore shell --write` begins one that writes it",
                            path_));
  }
  return lend();
}

void session::set_at(const std::string& version) {
  if (version.empty() || version == "latest") {
    at_.clear();
    return;
  }
  show_newest();
  const icecore::version named = version_named(store_, version);
  static_cast<void>(store_.at(named));
  at_ = std::to_string(named);
}

}  // namespace icecore::cli
