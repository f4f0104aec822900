// How the parts of the checker name an operation, and how they say what is wrong.
#pragma once

#include <cstdint>
#include <limits>
#include <stdexcept>
#include <string>

#include "history.hpp"

namespace icecore::testing {

/// Thrown by the parts of the checker, caught by check().
class violation : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// An operation's place in its history; or an inspection's, or none.
struct place_of_call {
  static constexpr std::uint32_t an_inspection = std::numeric_limits<std::uint32_t>::max();
  static constexpr std::uint32_t nowhere = an_inspection - 1;

  std::uint32_t life = 0;
  std::uint32_t client = nowhere;
  std::uint32_t index = 0;
};

[[nodiscard]] inline const operation& operation_at(const history& h, place_of_call p) {
  return h.lives[p.life].clients[p.client][p.index];
}

/// The last instant at which it may have taken effect.
[[nodiscard]] inline std::int64_t end_of(const history& h, place_of_call p) {
  const operation& o = operation_at(h, p);
  return o.return_ns != 0 ? o.return_ns : h.lives[p.life].end_ns;
}

/// "insert of value 77 to key 5 (client 2 of life 3, called at 1200 ns, returned version 9 at 1450 ns)".
[[nodiscard]] std::string describe(const history& h, place_of_call p);
[[nodiscard]] std::string describe_key(std::uint32_t key);
[[nodiscard]] std::string describe_record(const found_record& r);

/// Calls visit(place, operation) for each operation of each life.
template <class Visit>
void for_each_operation(const history& h, Visit visit) {
  for (std::uint32_t l = 0; l < h.lives.size(); ++l) {
    for (std::uint32_t c = 0; c < h.lives[l].clients.size(); ++c) {
      const auto& client = h.lives[l].clients[c];
      for (std::uint32_t i = 0; i < client.size(); ++i) visit(place_of_call{l, c, i}, client[i]);
    }
  }
}

}  // namespace icecore::testing
