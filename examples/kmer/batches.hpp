// Writes to a cluster in batches: many small items in few calls.
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "icecore/cluster.hpp"

namespace kmers {

/// The number of items written or looked up in one call.
inline constexpr std::size_t batch_items = 4096;

/// Collects items and inserts them when there are enough. flush() writes the rest.
class batch_writer {
 public:
  explicit batch_writer(icecore::cluster& c) : cluster_(c) {}

  void insert(std::string key, std::string value) {
    items_.emplace_back(std::move(key), std::move(value));
    if (items_.size() >= batch_items) flush();
  }

  void flush() {
    std::vector<icecore::item> views;
    views.reserve(items_.size());
    for (const auto& [key, value] : items_) views.push_back({key, value});
    cluster_.insert_many(views);
    items_.clear();
  }

 private:
  icecore::cluster& cluster_;
  std::vector<std::pair<std::string, std::string>> items_;
};

}  // namespace kmers
