#include "service/read/value_codec.hpp"

#include <fmt/format.h>
#include <zstd.h>

#include "icecore/error.hpp"

namespace icecore::service {
namespace {

class plain_values final : public value_codec {
 public:
  [[nodiscard]] std::string_view encode(std::string_view value, std::string&) const override { return value; }
  [[nodiscard]] std::string_view decode(std::string_view stored, std::string&) const override { return stored; }
  [[nodiscard]] bool plain() const noexcept override { return true; }
};

class zstd_values final : public value_codec {
 public:
  [[nodiscard]] std::string_view encode(std::string_view value, std::string& room) const override {
    if (value.size() >= icecore::value_size_max) {
      throw icecore::error(errc::value_too_large,
                           fmt::format("a value of {} bytes: a compressed database holds at most {}", value.size(),
                                       icecore::value_size_max - 1));
    }
    if (value.size() > shortest) {
      room.resize(1 + ZSTD_compressBound(value.size()));
      room[0] = compressed;
      const std::size_t size = ZSTD_compress(room.data() + 1, room.size() - 1, value.data(), value.size(), level);
      if (ZSTD_isError(size) == 0 && size < value.size()) {
        room.resize(1 + size);
        return room;
      }
    }
    room.assign(1, as_it_is);
    room.append(value);
    return room;
  }

  [[nodiscard]] std::string_view decode(std::string_view stored, std::string& room) const override {
    if (stored.empty()) raise("it is empty");
    if (stored[0] == as_it_is) return stored.substr(1);
    if (stored[0] != compressed) raise("its first byte is neither 0 nor 1");
    const std::string_view frame = stored.substr(1);
    const unsigned long long size = ZSTD_getFrameContentSize(frame.data(), frame.size());
    // A frame of zstd expands at most so much: more is a frame that encode() did not make.
    if (size == ZSTD_CONTENTSIZE_ERROR || size == ZSTD_CONTENTSIZE_UNKNOWN || size >= icecore::value_size_max) {
      raise("its frame does not tell a possible size");
    }
    room.resize(size);
    const std::size_t got = ZSTD_decompress(room.data(), room.size(), frame.data(), frame.size());
    if (ZSTD_isError(got) != 0 || got != size) raise("its frame is damaged");
    return room;
  }
  [[nodiscard]] bool plain() const noexcept override { return false; }

 private:
  static constexpr char as_it_is = 0;
  static constexpr char compressed = 1;
  static constexpr std::size_t shortest = 64;
  static constexpr int level = 1;  // the fastest: the device is what compression saves

  [[noreturn]] static void raise(const char* what) {
    throw icecore::error(errc::damaged, fmt::format("a value of a compressed database cannot be read: {}", what));
  }
};

}  // namespace

std::unique_ptr<value_codec> make_codec(value_compression how) {
  if (how == value_compression::zstd) return std::make_unique<zstd_values>();
  return std::make_unique<plain_values>();
}

}  // namespace icecore::service
