// What a transaction finds: the newest state of the database, just before it.
//
//   newest_present now(store, codec, leases);
//   if (const auto was = now.find("lock")) ...           // was->value, was->version
//
// A key whose lease's time is over is not there, though nobody has removed it yet.
// Threads: one at a time, and nobody changes what is read: the write path sees to that.
// Lifetime: views are valid until the next call.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "icecore/store.hpp"
#include "service/read/value_codec.hpp"
#include "service/write/leases.hpp"

namespace icecore::service {

struct present_value {
  std::string_view value;
  icecore::version version;
};

class present {
 public:
  present() = default;
  present(const present&) = delete;
  present& operator=(const present&) = delete;
  virtual ~present() = default;
  [[nodiscard]] virtual std::optional<present_value> find(std::string_view key) = 0;
  /// The keys between the bounds, in their order, until `visit` returns false. `visit` may call find().
  virtual void for_each(const icecore::key_bounds& bounds, const std::function<bool(std::string_view)>& visit) = 0;
};

/// Where each write is in the store once it was made. Reading what is not durable yet waits until it is.
class newest_present final : public present {
 public:
  newest_present(const icecore::store& from, const value_codec& codec, const lease_table& of)
      : store_(&from), codec_(&codec), leases_(&of) {}
  [[nodiscard]] std::optional<present_value> find(std::string_view key) override;
  void for_each(const icecore::key_bounds& bounds, const std::function<bool(std::string_view)>& visit) override;

 private:
  const icecore::store* store_;
  const value_codec* codec_;
  const lease_table* leases_;
  std::optional<icecore::key_history> shown_;
  std::string room_;
};

/// What was written and is not durable yet, by key: the newest value, or its removal.
struct undurable_value {
  std::optional<std::string> value;
  icecore::version version;
};
using undurable_values = std::map<std::string, undurable_value, std::less<>>;

/// A durable version with what was written since: reading waits for no device.
class durable_present final : public present {
 public:
  durable_present(icecore::snapshot durable, const undurable_values& since, const value_codec& codec,
                  const lease_table& of)
      : durable_(std::move(durable)), since_(&since), codec_(&codec), leases_(&of) {}
  [[nodiscard]] std::optional<present_value> find(std::string_view key) override;
  void for_each(const icecore::key_bounds& bounds, const std::function<bool(std::string_view)>& visit) override;

 private:
  icecore::snapshot durable_;
  const undurable_values* since_;
  const value_codec* codec_;
  const lease_table* leases_;
  std::optional<icecore::key_history> shown_;
  std::string room_;
};

}  // namespace icecore::service
