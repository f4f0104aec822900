// Tags and versions.
#include "tags.hpp"

namespace {

using namespace icecore::c;

icecore_tag_options default_tag_options() noexcept {
  icecore_tag_options defaults{};
  defaults.struct_size = sizeof(defaults);
  defaults.time_ns = ICECORE_TIME_NOW;
  return defaults;
}

}  // namespace

namespace icecore::c {

void hand_out(std::optional<tag_info> found, icecore_tag** tag) {
  if (found) *tag = new owned_tag(std::move(*found));
}

icecore_tags* list_of(std::vector<tag_info> found) {
  auto list = std::make_unique<icecore_tags>();
  for (auto& info : found) list->all.push_back(std::make_unique<owned_tag>(std::move(info)));
  return list.release();
}

tag_options label_of(const icecore_tag_options* options, const char* function) {
  const icecore_tag_options set = read_structure(options, default_tag_options(), function);
  tag_options label;
  label.name = view(set.name.data, set.name.size, function, "name");
  label.note = view(set.note.data, set.note.size, function, "note");
  if (set.time_ns != ICECORE_TIME_NOW) label.time_ns = set.time_ns;
  return label;
}

}  // namespace icecore::c

extern "C" {

void icecore_tag_options_init(icecore_tag_options* options, size_t struct_size) {
  initialise(options, struct_size, default_tag_options());
}

int icecore_tag_now(icecore_store* store, icecore_version* closed) {
  if (closed != nullptr) *closed = 0;
  return guarded([&] {
    require(store, "icecore_tag_now", "store");
    const icecore_version version = store->store.tag();
    if (closed != nullptr) *closed = version;
  });
}

int icecore_tag_with(icecore_store* store, const icecore_tag_options* options, icecore_version* closed) {
  if (closed != nullptr) *closed = 0;
  return guarded([&] {
    require(store, "icecore_tag_with", "store");
    const icecore_version version = store->store.tag(label_of(options, "icecore_tag_with"));
    if (closed != nullptr) *closed = version;
  });
}

int icecore_clock(const icecore_store* store, icecore_version* clock) {
  if (clock != nullptr) *clock = 0;
  return guarded([&] {
    require(store, "icecore_clock", "store");
    require(clock, "icecore_clock", "clock");
    *clock = store->store.clock();
  });
}

int icecore_durable_version(const icecore_store* store, icecore_version* durable) {
  if (durable != nullptr) *durable = 0;
  return guarded([&] {
    require(store, "icecore_durable_version", "store");
    require(durable, "icecore_durable_version", "durable");
    *durable = store->store.durable_version();
  });
}

int icecore_find_tag(const icecore_store* store, const void* name, size_t name_size, icecore_tag** tag) {
  if (tag != nullptr) *tag = nullptr;
  return guarded([&] {
    require(store, "icecore_find_tag", "store");
    require(tag, "icecore_find_tag", "tag");
    hand_out(store->store.find_tag(view(name, name_size, "icecore_find_tag", "name")), tag);
  });
}

int icecore_find_tag_of_version(const icecore_store* store, icecore_version version, icecore_tag** tag) {
  if (tag != nullptr) *tag = nullptr;
  return guarded([&] {
    require(store, "icecore_find_tag_of_version", "store");
    require(tag, "icecore_find_tag_of_version", "tag");
    hand_out(store->store.find_tag(version), tag);
  });
}

int icecore_find_tag_at_time(const icecore_store* store, int64_t time_ns, icecore_tag** tag) {
  if (tag != nullptr) *tag = nullptr;
  return guarded([&] {
    require(store, "icecore_find_tag_at_time", "store");
    require(tag, "icecore_find_tag_at_time", "tag");
    hand_out(store->store.find_tag_at_time(time_ns), tag);
  });
}

void icecore_tag_free(icecore_tag* tag) { delete static_cast<owned_tag*>(tag); }

int icecore_tags_open(const icecore_store* store, icecore_tags** tags) {
  if (tags != nullptr) *tags = nullptr;
  return guarded([&] {
    require(store, "icecore_tags_open", "store");
    require(tags, "icecore_tags_open", "tags");
    *tags = list_of(store->store.tags());
  });
}

size_t icecore_tags_count(const icecore_tags* tags) { return tags == nullptr ? 0 : tags->all.size(); }

const icecore_tag* icecore_tags_next(icecore_tags* tags) {
  if (tags == nullptr || tags->next >= tags->all.size()) return nullptr;
  return tags->all[tags->next++].get();
}

void icecore_tags_close(icecore_tags* tags) { delete tags; }

}  // extern "C"
