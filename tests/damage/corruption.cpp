#include "corruption.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <random>

#include "pool/format.hpp"

namespace icecore::damaging {
namespace {

using bytes = std::vector<std::byte>;
using files = std::array<bytes, crash::files_max>;

files copy_of(const crash::kept_files& kept) {
  files all;
  const auto view = kept.view();
  for (unsigned n = 0; n < crash::files_max; ++n) all[n].assign(view[n].bytes.begin(), view[n].bytes.end());
  return all;
}

struct unit {
  const char* name;
  std::uint64_t bytes;
};
constexpr unit units[] = {
    {"word", 8}, {"line", 64}, {"sector", 512}, {"page", 4096}, {"segment", format::granule_size}};

class draw_damage {
 public:
  draw_damage(const subject& s, std::uint64_t seed) : subject_(s), random_(seed), now_(copy_of(s.files)) {}

  corruption run() {
    file_ = static_cast<unsigned>(draw(subject_.kind.files));
    switch (draw(16)) {
      case 0:
      case 1:
      case 2:
        flip();
        break;
      case 3:
        add();
        break;
      case 4:
        resize();
        break;
      default:
        replace();
    }
    crash::left_files view;
    for (unsigned n = 0; n < subject_.kind.files; ++n) view[n] = {true, now_[n]};
    return {what_, detail_, crash::kept_files(view)};
  }

 private:
  std::uint64_t draw(std::uint64_t below) { return random_() % below; }

  /// A place in a file: among its first pages, beside something that is not zero, or anywhere.
  std::uint64_t somewhere(const bytes& in) {
    const std::uint64_t words = in.size() / 8;
    const std::uint64_t dice = draw(16);
    if (dice < 4) return draw(std::min<std::uint64_t>(words, 3 * format::page_size / 8)) * 8;
    std::uint64_t at = draw(words);
    if (dice == 4) return at * 8;
    for (std::uint64_t i = 0; i < words; ++i, at = at + 1 == words ? 0 : at + 1) {
      std::uint64_t word;
      std::memcpy(&word, in.data() + at * 8, 8);
      if (word != 0) break;
      if (i % 64 == 63) at = draw(words);  // else what follows a hole would be met most often
    }
    return at * 8;
  }

  std::span<std::byte> piece(bytes& of, std::uint64_t at, std::uint64_t size) {
    at = at / size * size;
    return std::span(of).subspan(at, std::min<std::uint64_t>(size, of.size() - at));
  }

  void tell(const std::string& what, std::uint64_t at) {
    what_ = what;
    detail_ = what + " at byte " + std::to_string(at) + " of file " + std::to_string(file_);
  }

  void flip() {
    const std::uint64_t at = somewhere(now_[file_]) + draw(8);
    now_[file_][at] ^= std::byte{1} << draw(8);
    tell("bit", at);
  }

  void add() {
    constexpr std::int64_t by[] = {1, -1, 8, -8, 64, 56, -56, std::int64_t{1} << 32, 65536};
    const std::uint64_t at = somewhere(now_[file_]);
    std::uint64_t word;
    std::memcpy(&word, now_[file_].data() + at, 8);
    word += static_cast<std::uint64_t>(by[draw(std::size(by))]);
    std::memcpy(now_[file_].data() + at, &word, 8);
    tell("word off", at);
  }

  void resize() {
    bytes& of = now_[file_];
    if (draw(2) == 0) {
      std::uint64_t size = draw(of.size());
      if (draw(2) == 0) size = size / format::page_size * format::page_size;
      of.resize(size);
      tell("cut", size);
    } else {
      const std::uint64_t before = of.size();
      of.resize(before + 1 + draw(70'000), draw(3) == 0 ? std::byte{0} : static_cast<std::byte>(draw(256)));
      tell("grown", before);
    }
  }

  /// A piece is zero, random, of another time, of another place, or of another store.
  void replace() {
    const unit& u = units[draw(std::size(units))];
    const std::uint64_t at = somewhere(now_[file_]) / u.bytes * u.bytes;
    const auto to = piece(now_[file_], at, u.bytes);
    const std::uint64_t dice = draw(12);
    if (dice < 2) {
      std::ranges::fill(to, std::byte{0});
      tell(u.name + std::string(" zeroed"), at);
    } else if (dice == 2) {
      for (std::byte& b : to) b = static_cast<std::byte>(random_());
      tell(u.name + std::string(" random"), at);
    } else if (dice < 7) {
      if (subject_.older.empty()) return flip();
      files old = copy_of(subject_.older[draw(subject_.older.size())]);
      copy(old[file_], at, to);
      tell(u.name + std::string(" stale"), at);
    } else if (dice == 7) {
      files other = copy_of(subject_.foreign);
      copy(other[file_], draw(2) == 0 ? at : somewhere(other[file_]) / u.bytes * u.bytes, to);
      tell(u.name + std::string(" foreign"), at);
    } else {
      bytes& from = now_[draw(subject_.kind.files)];  // of this file or the other one
      const std::uint64_t other = somewhere(from) / u.bytes * u.bytes;
      const auto there = piece(from, other, u.bytes);
      if (there.size() != to.size() || there.data() == to.data()) return flip();
      const bytes before(to.begin(), to.end());
      std::memcpy(to.data(), there.data(), to.size());
      if (dice > 9) std::memcpy(there.data(), before.data(), to.size());
      tell(u.name + std::string(dice > 9 ? " swapped" : " moved"), at);
      detail_ += ", byte " + std::to_string(other) + " of file " + std::to_string(&from - now_.data());
    }
  }

  static void copy(const bytes& from, std::uint64_t at, std::span<std::byte> to) {
    if (at + to.size() <= from.size()) std::memcpy(to.data(), from.data() + at, to.size());
  }

  const subject& subject_;
  std::mt19937_64 random_;
  files now_;
  unsigned file_ = 0;
  std::string what_;
  std::string detail_;
};

}  // namespace

corruption corrupt(const subject& s, std::uint64_t seed) { return draw_damage(s, seed).run(); }

}  // namespace icecore::damaging
