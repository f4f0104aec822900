// File descriptors: as many as the configured connections and databases need, or a word that they are too few.
//
//   if (const auto problem = raise_descriptor_limit(descriptors_needed(configuration))) log(*problem);
//
// Threads: once, in main. Errors: none; the server can start with fewer, and then refuses connections earlier.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "run/configuration/configuration.hpp"

namespace icecore::server {

/// For every connection one, for every database its files, and some for doors, logs and libraries.
[[nodiscard]] std::uint64_t descriptors_needed(const configuration& of);

/// Raises this process's limit to at least `needed`, as far as its hard limit lets it. Text: it is too low, and what to
/// do.
[[nodiscard]] std::optional<std::string> raise_descriptor_limit(std::uint64_t needed);

}  // namespace icecore::server
