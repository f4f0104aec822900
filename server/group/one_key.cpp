#include "group/one_key.hpp"

#include <cstring>
#include <type_traits>
#include <vector>

#include "icecore/error.hpp"

namespace icecore::server::group {
namespace {

using service::condition;
using service::operation;
using service::operation_result;
using service::outcome;
using service::row;
using service::transaction;

class writer {
 public:
  template <typename Number>
    requires std::is_trivially_copyable_v<Number>
  writer& number(Number value) {
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
    return *this;
  }
  writer& text(std::string_view value) {
    number<std::uint64_t>(value.size());
    bytes_.append(value);
    return *this;
  }
  [[nodiscard]] std::string take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

class reader {
 public:
  explicit reader(std::string_view bytes) : rest_(bytes) {}
  template <typename Number>
    requires std::is_trivially_copyable_v<Number>
  reader& number(Number& value) {
    if (good_ && rest_.size() >= sizeof value) {
      std::memcpy(&value, rest_.data(), sizeof value);
      rest_.remove_prefix(sizeof value);
    } else {
      good_ = false;
    }
    return *this;
  }
  reader& text(std::string& value) {
    std::uint64_t size = 0;
    number(size);
    if (good_ && size <= rest_.size()) {
      value.assign(rest_.substr(0, size));
      rest_.remove_prefix(size);
    } else {
      good_ = false;
    }
    return *this;
  }
  /// How many follow: each takes at least one byte.
  [[nodiscard]] std::uint64_t count() {
    std::uint64_t size = 0;
    number(size);
    if (size > rest_.size()) good_ = false;
    return good_ ? size : 0;
  }
  [[nodiscard]] bool good() const noexcept { return good_; }
  [[nodiscard]] bool finished() const noexcept { return good_ && rest_.empty(); }

 private:
  std::string_view rest_;
  bool good_ = true;
};

void write(writer& to, const row& what) { to.text(what.key).text(what.value).number(what.version); }
void read(reader& from, row& what) { from.text(what.key).text(what.value).number(what.version); }

}  // namespace

std::string_view key_of(const transaction& what) {
  std::optional<std::string_view> key;
  const auto name = [&](std::string_view next) {
    if (key && *key != next) {
      throw error(
          errc::invalid_argument,
          "the transaction names several keys: in a group of dependent servers a transaction names one key, because "
          "keys have different owners");
    }
    key = next;
  };
  for (const condition& c : what.conditions) name(c.key);
  for (const auto* list : {&what.then, &what.otherwise}) {
    for (const operation& o : *list) {
      if (o.names_range()) {
        throw error(
            errc::invalid_argument,
            "the transaction names a range of keys: in a group of dependent servers a transaction names one key");
      }
      if (o.lease != 0) {
        throw error(errc::invalid_argument,
                    "leases are kept by servers that stand alone, not by groups of dependent servers");
      }
      name(o.key);
    }
  }
  return key.value_or(std::string_view());
}

std::string packed(const transaction& what) {
  writer to;
  to.number<std::uint64_t>(what.conditions.size());
  for (const condition& c : what.conditions) to.number(c.is).text(c.key).number(c.version).text(c.value);
  for (const auto* list : {&what.then, &what.otherwise}) {
    to.number<std::uint64_t>(list->size());
    for (const operation& o : *list) {
      to.number(o.what).text(o.key).text(o.value).number(o.rule).number(o.offset).number(o.number).number(o.previous);
    }
  }
  to.number(what.allowed.read_bytes_max);
  return to.take();
}

std::optional<transaction> unpacked_transaction(std::string_view bytes) {
  reader from(bytes);
  transaction what;
  for (std::uint64_t left = from.count(); left > 0 && from.good(); --left) {
    condition& c = what.conditions.emplace_back();
    from.number(c.is).text(c.key).number(c.version).text(c.value);
  }
  for (auto* list : {&what.then, &what.otherwise}) {
    for (std::uint64_t left = from.count(); left > 0 && from.good(); --left) {
      operation& o = list->emplace_back();
      from.number(o.what).text(o.key).text(o.value).number(o.rule).number(o.offset).number(o.number).number(o.previous);
    }
  }
  from.number(what.allowed.read_bytes_max);
  if (!from.finished()) return std::nullopt;
  return what;
}

std::string packed(const outcome& what) {
  writer to;
  to.number(what.succeeded).number(what.version).number<std::uint64_t>(what.results.size());
  for (const operation_result& r : what.results) {
    to.number(r.is).number(r.more).number(r.count).number(r.size).number(r.number).number(r.previous.has_value());
    if (r.previous) write(to, *r.previous);
    to.number<std::uint64_t>(r.rows.size());
    for (const row& next : r.rows) write(to, next);
  }
  return to.take();
}

std::optional<outcome> unpacked_outcome(std::string_view bytes) {
  reader from(bytes);
  outcome what;
  from.number(what.succeeded).number(what.version);
  for (std::uint64_t left = from.count(); left > 0 && from.good(); --left) {
    operation_result& r = what.results.emplace_back();
    bool previous = false;
    from.number(r.is).number(r.more).number(r.count).number(r.size).number(r.number).number(previous);
    if (previous) read(from, r.previous.emplace());
    for (std::uint64_t rows = from.count(); rows > 0 && from.good(); --rows) read(from, r.rows.emplace_back());
  }
  if (!from.finished()) return std::nullopt;
  return what;
}

}  // namespace icecore::server::group
