// Filters: of texts, of functions, of several.
#include "filter.hpp"

#include <array>
#include <cstdlib>
#include <new>
#include <vector>

namespace {

using namespace icecore::c;

/// Calls the C function for up to 64 items at a time, which is what scans have in a block.
icecore::block_function block_function_of(icecore_filter_function function, void* context) {
  return [function, context](std::span<const icecore::item> items, std::span<bool> flags) {
    constexpr std::size_t block_size_max = 64;
    std::array<icecore_item, block_size_max> seen;
    std::array<unsigned char, block_size_max> matches;
    for (std::size_t first = 0; first < items.size(); first += block_size_max) {
      const std::size_t size = std::min(block_size_max, items.size() - first);
      for (std::size_t i = 0; i < size; ++i) seen[i] = item_of(items[first + i]);
      matches.fill(0);
      if (function(context, size, seen.data(), matches.data()) != 0) throw stopped_by_callback{};
      for (std::size_t i = 0; i < size; ++i) flags[first + i] = matches[i] != 0;
    }
  };
}

/// A copy that icecore_text_free() releases.
char* text_for_c(const std::string& text) {
  auto* const copy = static_cast<char*>(std::malloc(text.size() + 1));
  if (copy == nullptr) throw std::bad_alloc();
  std::memcpy(copy, text.c_str(), text.size() + 1);
  return copy;
}

int joined_filter(const icecore_filter* const* filters, std::size_t count, icecore_filter** filter,
                  const char* function, icecore::filter (*join)(const std::vector<icecore::filter>&)) {
  if (filter != nullptr) *filter = nullptr;
  return guarded([&] {
    require(filter, function, "filter");
    if (count != 0) require(filters, function, "filters");
    std::vector<icecore::filter> all;
    for (std::size_t i = 0; i < count; ++i) {
      require(filters[i], function, "a filter");
      all.push_back(filters[i]->filter);
    }
    *filter = new icecore_filter{join(all)};
  });
}

}  // namespace

extern "C" {

int icecore_filter_new(const char* expression, const char* layout, icecore_filter** filter) {
  if (filter != nullptr) *filter = nullptr;
  return guarded([&] {
    require(filter, "icecore_filter_new", "filter");
    const auto text = text_of(expression, "icecore_filter_new", "expression");
    const icecore::layout columns = layout == nullptr ? icecore::layout() : icecore::layout(layout);
    *filter = new icecore_filter{icecore::filter(text, columns)};
  });
}

int icecore_filter_of_function(const void* name, size_t name_size, uint64_t revision, icecore_filter_function function,
                               void* context, icecore_filter** filter) {
  if (filter != nullptr) *filter = nullptr;
  return guarded([&] {
    require(filter, "icecore_filter_of_function", "filter");
    if (function == nullptr) throw_null("icecore_filter_of_function", "function");
    const auto called = view(name, name_size, "icecore_filter_of_function", "name");
    icecore::caller_function known{std::string(called), revision, block_function_of(function, context)};
    icecore::filter made = icecore::filter::of(called, revision, known.evaluate);
    *filter = new icecore_filter{std::move(made), std::move(known)};
  });
}

int icecore_filter_all_of(const icecore_filter* const* filters, size_t count, icecore_filter** filter) {
  return joined_filter(filters, count, filter, "icecore_filter_all_of", icecore::filter::all_of);
}

int icecore_filter_any_of(const icecore_filter* const* filters, size_t count, icecore_filter** filter) {
  return joined_filter(filters, count, filter, "icecore_filter_any_of", icecore::filter::any_of);
}

int icecore_filter_with_layout(const icecore_filter* given, const char* layout, icecore_filter** filter) {
  if (filter != nullptr) *filter = nullptr;
  return guarded([&] {
    require(given, "icecore_filter_with_layout", "given");
    require(filter, "icecore_filter_with_layout", "filter");
    const icecore::layout columns(text_of(layout, "icecore_filter_with_layout", "layout"));
    *filter = new icecore_filter{given->filter.with_columns(columns), given->function};
  });
}

void icecore_filter_free(icecore_filter* filter) { delete filter; }

int icecore_filter_matches(const icecore_filter* filter, const void* key, size_t key_size, const void* value,
                           size_t value_size, int* matches) {
  if (matches != nullptr) *matches = 0;
  return guarded([&] {
    require(filter, "icecore_filter_matches", "filter");
    require(matches, "icecore_filter_matches", "matches");
    const auto of_key = view(key, key_size, "icecore_filter_matches", "key");
    const auto of_value = view(value, value_size, "icecore_filter_matches", "value");
    *matches = filter->filter.matches(of_key, of_value) ? 1 : 0;
  });
}

int icecore_filter_explain(const icecore_filter* filter, char** text) {
  if (text != nullptr) *text = nullptr;
  return guarded([&] {
    require(filter, "icecore_filter_explain", "filter");
    require(text, "icecore_filter_explain", "text");
    *text = text_for_c(filter->filter.explain());
  });
}

int icecore_snapshot_explain(const icecore_snapshot* snapshot, const icecore_filter* filter, char** text) {
  if (text != nullptr) *text = nullptr;
  return guarded([&] {
    require(snapshot, "icecore_snapshot_explain", "snapshot");
    require(filter, "icecore_snapshot_explain", "filter");
    require(text, "icecore_snapshot_explain", "text");
    *text = text_for_c(snapshot->snapshot.explain(filter->filter));
  });
}

void icecore_text_free(char* text) { std::free(text); }

}  // extern "C"
