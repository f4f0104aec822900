#include "model.hpp"

#include <mpi.h>

#include <algorithm>

namespace icecore::ranks::testing {
namespace {

std::size_t below(std::mt19937_64& random, std::size_t bound) { return random() % bound; }

std::string random_item(std::mt19937_64& random, item_shape shape) {
  std::string item(shape.width != 0 ? shape.width : below(random, shape.width_max + 1), '\0');
  // Few different bytes: so that keys have common prefixes, and heads that are equal.
  for (char& c : item) c = static_cast<char>(below(random, 4) * 85);
  return item;
}

void append(byte_column& column, const std::string& item) {
  column.bytes.insert(column.bytes.end(), item.begin(), item.end());
  column.offsets.push_back(column.bytes.size());
}

}  // namespace

map random_map(std::mt19937_64& random, std::size_t count, item_shape keys, item_shape values) {
  map all;
  for (std::size_t i = 0; i < count; ++i) all[random_item(random, keys)] = random_item(random, values);
  return all;
}

std::vector<map> spread_over(std::mt19937_64& random, const map& all, int ranks, spread how) {
  const auto n = static_cast<std::size_t>(ranks);
  std::vector<map> parts(n);
  const std::size_t chosen = below(random, n);
  std::size_t place = 0;
  for (const auto& [key, value] : all) {
    std::size_t owner = below(random, n);
    if (how == spread::by_range) owner = place * n / all.size();
    if (how == spread::on_one_rank) owner = chosen;
    if (how == spread::on_some) owner = owner / 2 * 2;
    parts[owner][key] = value;
    ++place;
  }
  return parts;
}

part_columns::part_columns(const map& part, std::size_t key_width, std::size_t value_width)
    : key_width_(key_width), value_width_(value_width) {
  columns_.keys.offsets.push_back(0);
  columns_.values.offsets.push_back(0);
  for (const auto& [key, value] : part) {
    append(columns_.keys, key);
    append(columns_.values, value);
  }
}

pairs_view part_columns::view() const noexcept {
  pairs_view made = view_of(columns_);
  if (key_width_ != 0) made.keys = {key_width_, nullptr, columns_.keys.bytes.data()};
  if (value_width_ != 0) made.values = {value_width_, nullptr, columns_.values.bytes.data()};
  return made;
}

items items_of(const pairs_view& view) {
  items made;
  for (std::size_t i = 0; i < view.count; ++i) made.emplace_back(view.keys[i], view.values[i]);
  return made;
}

items items_of(const map& of) { return {of.begin(), of.end()}; }

int own_rank() {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  return rank;
}

int all_ranks() {
  int ranks = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  return ranks;
}

}  // namespace icecore::ranks::testing
