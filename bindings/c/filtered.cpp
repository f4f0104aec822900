// What a filter finds in a snapshot: walks, totals, columns and pages.
#include "icecore/filtered.hpp"

#include <chrono>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include "filter.hpp"
#include "icecore/arrow.hpp"

using namespace icecore::c;

struct icecore_filtered_items {
  range_walk<icecore::filtered_items> walk;
};

namespace {

/// The page that icecore_page_free() frees: the structure that C sees, and what it points to.
struct owned_page : icecore_page {
  explicit owned_page(icecore::page found) : icecore_page{}, page(std::move(found)) {
    seen.reserve(page.items.size());
    for (const icecore::item& item : page.items) seen.push_back(item_of(item));
    count = seen.size();
    items = seen.data();
    token = bytes(std::string_view(page.token));
    examined = page.examined;
    end = page.end ? 1 : 0;
  }
  owned_page(const owned_page&) = delete;
  owned_page& operator=(const owned_page&) = delete;

  icecore::page page;
  std::vector<icecore_item> seen;
};

icecore_page_limits default_page_limits() noexcept {
  icecore_page_limits defaults{};
  defaults.struct_size = sizeof(defaults);
  defaults.matches = icecore::page_limits{}.matches;
  return defaults;
}

icecore::page_limits limits_of(const icecore_page_limits* limits) {
  icecore_page_limits set = default_page_limits();
  if (limits != nullptr) set = read_structure(limits, set, "icecore_snapshot_page");
  icecore::page_limits made{.matches = set.matches, .reverse = set.reverse != 0};
  made.secret = view(set.secret, set.secret_size, "icecore_snapshot_page", "secret");
  if (set.examined != 0) made.examined = set.examined;
  if (set.time_us != 0) made.time = std::chrono::microseconds(set.time_us);
  return made;
}

using total = std::optional<icecore::result_number> (icecore::snapshot::*)(const icecore::filter&, std::string_view,
                                                                           unsigned) const;

int total_of(total which, const icecore_snapshot* snapshot, const icecore_filter* filter, const char* expression,
             unsigned threads, icecore_number* number, const char* function) noexcept {
  if (number != nullptr) *number = {};
  return guarded([&] {
    require(snapshot, function, "snapshot");
    require(filter, function, "filter");
    require(number, function, "the number");
    const auto text = text_of(expression, function, "expression");
    *number = number_of((snapshot->snapshot.*which)(filter->filter, text, threads));
  });
}

}  // namespace

extern "C" {

int icecore_snapshot_where(const icecore_snapshot* snapshot, const icecore_filter* filter,
                           icecore_filtered_items** items) {
  if (items != nullptr) *items = nullptr;
  return guarded([&] {
    require(snapshot, "icecore_snapshot_where", "snapshot");
    require(filter, "icecore_snapshot_where", "filter");
    require(items, "icecore_snapshot_where", "items");
    *items = new icecore_filtered_items{range_walk(snapshot->snapshot.where(filter->filter))};
  });
}

int icecore_filtered_items_next(icecore_filtered_items* items, icecore_item* item) {
  if (item != nullptr) *item = {{nullptr, 0}, {nullptr, 0}};
  return guarded([&] {
    require(items, "icecore_filtered_items_next", "items");
    require(item, "icecore_filtered_items_next", "item");
    if (const icecore::item* const found = items->walk.next()) *item = item_of(*found);
  });
}

void icecore_filtered_items_close(icecore_filtered_items* items) { delete items; }

int icecore_snapshot_count(const icecore_snapshot* snapshot, const icecore_filter* filter, unsigned threads,
                           uint64_t* count) {
  if (count != nullptr) *count = 0;
  return guarded([&] {
    require(snapshot, "icecore_snapshot_count", "snapshot");
    require(filter, "icecore_snapshot_count", "filter");
    require(count, "icecore_snapshot_count", "count");
    *count = snapshot->snapshot.count(filter->filter, threads);
  });
}

int icecore_snapshot_sum(const icecore_snapshot* snapshot, const icecore_filter* filter, const char* expression,
                         unsigned threads, icecore_number* sum) {
  return total_of(&icecore::snapshot::sum, snapshot, filter, expression, threads, sum, "icecore_snapshot_sum");
}

int icecore_snapshot_min(const icecore_snapshot* snapshot, const icecore_filter* filter, const char* expression,
                         unsigned threads, icecore_number* least) {
  return total_of(&icecore::snapshot::min, snapshot, filter, expression, threads, least, "icecore_snapshot_min");
}

int icecore_snapshot_max(const icecore_snapshot* snapshot, const icecore_filter* filter, const char* expression,
                         unsigned threads, icecore_number* greatest) {
  return total_of(&icecore::snapshot::max, snapshot, filter, expression, threads, greatest, "icecore_snapshot_max");
}

int icecore_snapshot_extract_arrow(const icecore_snapshot* snapshot, const icecore_filter* filter,
                                   const char* const* select, size_t select_count, unsigned threads,
                                   struct ArrowSchema* schema, struct ArrowArray* batch) {
  if (schema != nullptr) *schema = {};
  if (batch != nullptr) *batch = {};
  return guarded([&] {
    constexpr const char* function = "icecore_snapshot_extract_arrow";
    require(snapshot, function, "snapshot");
    require(filter, function, "filter");
    require(schema, function, "schema");
    require(batch, function, "batch");
    if (select_count != 0) require(select, function, "select");
    std::vector<std::string> wanted;
    for (std::size_t i = 0; i < select_count; ++i) wanted.emplace_back(text_of(select[i], function, "an expression"));
    icecore::result_columns found = snapshot->snapshot.extract(filter->filter, wanted, threads);
    icecore::export_to_arrow(std::make_shared<const icecore::result_columns>(std::move(found)), *schema, *batch);
  });
}

void icecore_page_limits_init(icecore_page_limits* limits, size_t struct_size) {
  initialise(limits, struct_size, default_page_limits());
}

int icecore_snapshot_page(const icecore_snapshot* snapshot, const icecore_filter* filter,
                          const icecore_page_limits* limits, const void* token, size_t token_size,
                          icecore_page** page) {
  if (page != nullptr) *page = nullptr;
  return guarded([&] {
    require(snapshot, "icecore_snapshot_page", "snapshot");
    require(filter, "icecore_snapshot_page", "filter");
    require(page, "icecore_snapshot_page", "page");
    const auto from = view(token, token_size, "icecore_snapshot_page", "token");
    *page = new owned_page(snapshot->snapshot.page(filter->filter, limits_of(limits), from));
  });
}

void icecore_page_free(icecore_page* page) { delete static_cast<owned_page*>(page); }

}  // extern "C"
