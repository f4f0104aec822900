// How a database's values lie in its store: as they are, or compressed.
//
//   std::unique_ptr<value_codec> codec = make_codec(value_compression::zstd);
//   std::string room;
//   s.insert(key, codec->encode(value, room));
//   std::string_view value = codec->decode(*s.find(key), room);
//
// A compressed database puts one byte before each value: 0, the value as it is; 1, a zstd frame that tells its size.
// Values that do not become shorter stay as they are.
// Threads: any number. Lifetime: what is returned views the argument or `room`.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "service/database.hpp"

namespace icecore::service {

class value_codec {
 public:
  value_codec() = default;
  value_codec(const value_codec&) = delete;
  value_codec& operator=(const value_codec&) = delete;
  virtual ~value_codec() = default;
  /// errc::value_too_large if the store could not hold it.
  [[nodiscard]] virtual std::string_view encode(std::string_view value, std::string& room) const = 0;
  /// errc::damaged if these are no bytes that encode() makes.
  [[nodiscard]] virtual std::string_view decode(std::string_view stored, std::string& room) const = 0;
  /// Whether decode() returns a view of its argument.
  [[nodiscard]] virtual bool plain() const noexcept = 0;
};

[[nodiscard]] std::unique_ptr<value_codec> make_codec(value_compression how);

}  // namespace icecore::service
