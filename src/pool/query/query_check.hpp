// Looks for damage in all kept queries: lists, words, definitions, and each chunk that counts.
//
// Threads: any; beside queries that run, start and are dropped, check_queries_in_use(), or, in a process that only
// reads beside the one that writes, check_queries_beside(). Cost: reads every chunk once.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "pool/query/feed_places.hpp"
#include "pool/query/query_space.hpp"

namespace icecore {

struct query_damage {
  link at;
  std::string what;         ///< in words, with the query's name and the part where they are known
  bool definition_is_lost;  ///< nobody knows any more what was asked; otherwise the query can be computed again
};

struct query_findings {
  std::vector<query_damage> damages;
  std::uint64_t queries = 0;  ///< whose definitions are intact
};

/// Nobody starts or drops a query meanwhile.
[[nodiscard]] query_findings check_queries(pool_set& pools);
/// `changes`: the lock of those who do. It is held while a query is looked at: one that is dropped, and another one
/// that is written to its place, would look like damage. It is given up in between.
[[nodiscard]] query_findings check_queries_in_use(pool_set& pools, query_lock& changes);
/// `pools` are those of a reader beside the writer. It observes: so no query's space is used again while it looks, and
/// what words lead to does not change. Looks at none where the file system does not let it observe.
[[nodiscard]] query_findings check_queries_beside(pool_set& pools);

/// What is needed to ask the same again, to go on with a feed, or to hold the same version.
struct intact_definition {
  std::span<const std::byte> bytes;  ///< in the pool
  std::uint32_t parts;
  std::uint64_t keys_expected;
  std::optional<feed_places::place> place;  ///< of a feed; none of its places may be intact
  format::query_kind kind;
};
/// Of all queries, feeds and holds whose definitions are intact, oldest first.
[[nodiscard]] std::vector<intact_definition> intact_definitions(pool_set& pools);

}  // namespace icecore
