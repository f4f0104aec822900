// What a store was told, and what it must therefore hold: the truth that damage is measured by.
//
//   std::vector<operation> done = ...;
//   const truth all = truth_of(done, {});
//   const truth without_the_last = truth_of(done, {done.size() - 1});
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "icecore/icecore.hpp"

namespace icecore::damaging {

/// Bytes of a store's files.
struct place {
  unsigned file;
  std::uint64_t offset;
  std::uint64_t size;
  std::uint64_t segment;  ///< where its segment begins
  std::string key;        ///< of a record of a key
  bool is_update;         ///< of a key that was there
};

struct operation {
  enum class kind { write, batch, tick, tag };
  struct change_of_key {
    std::string key;
    std::optional<std::string> value;  ///< empty: removed
  };

  kind what;
  unsigned session;
  unsigned writer;
  std::vector<change_of_key> changes{};  ///< those that happened
  std::string name{};                    ///< of a tag
  version belongs_to = 0;
  std::vector<place> records{};  ///< in the order of their places
};

using items = std::map<std::string, std::string>;

struct truth {
  std::map<std::string, std::vector<std::pair<version, std::optional<std::string>>>> histories;
  std::map<version, items> closed;  ///< by version
  items now;
  std::vector<std::pair<std::string, version>> tags;
  version clock = 0;

  /// Takes in one more operation.
  void add(const operation& o);
};

/// What the operations leave, but for those with these numbers.
[[nodiscard]] truth truth_of(const std::vector<operation>& done, const std::set<std::size_t>& lost);

}  // namespace icecore::damaging
