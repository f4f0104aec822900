// Names of partitioned data sets as names of databases, and their identifiers.
//
//   database_of("my/set")       // "skv.my_2Fset"
//   identifier_of("my/set")     // the same in every process, so a process may use one that it got from another
//
// A database's name has letters, digits and "._-"; what else a PDS's name has is told as '_' and two hexadecimal
// digits, and so is '_'. An identifier is 64 bits of a hash of the name. Threads: no state. Cost: O(bytes).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <skv/common/skv_types_ext.hpp>

namespace icecore::skv {

[[nodiscard]] std::string database_of(std::string_view pds);
/// Empty: the database is no PDS's.
[[nodiscard]] std::optional<std::string> pds_of(std::string_view database);
[[nodiscard]] skv_pds_id_t identifier_of(std::string_view pds) noexcept;

}  // namespace icecore::skv
