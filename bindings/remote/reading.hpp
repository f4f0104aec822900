// Reads that a store and a snapshot have in common.
//
// Threads: any. Errors: as database::ask. Cost: one message each way for each server that has a part.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "rows.hpp"

namespace icecore::remote::detail {

[[nodiscard]] std::optional<value> find(const database& of, std::string_view key, const service::point& at,
                                        std::chrono::milliseconds deadline);
/// `at`: one point for each part.
[[nodiscard]] std::vector<std::optional<value>> find_many(const database& of, std::span<const std::string_view> keys,
                                                          std::span<const service::point> at,
                                                          std::chrono::milliseconds deadline);
/// The snapshot that this point shows, of each part.
[[nodiscard]] snapshot resolve(const std::shared_ptr<database>& of, const service::point& at,
                               std::chrono::milliseconds deadline);

}  // namespace icecore::remote::detail
