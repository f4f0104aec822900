// Tags and versions.
#include <memory>
#include <vector>

#include "support.hpp"

namespace {

using namespace icecore::c;

/// What icecore_find_tag*() hand out: the structure that C sees, with the texts it points to behind it.
struct owned_tag : icecore_tag {
  explicit owned_tag(icecore::tag_info from) : icecore_tag{}, info(std::move(from)) {
    version = info.version;
    time_ns = info.time_ns;
    name = bytes(std::string_view(info.name));
    note = bytes(std::string_view(info.note));
  }
  owned_tag(const owned_tag&) = delete;
  owned_tag& operator=(const owned_tag&) = delete;

  icecore::tag_info info;
};

void hand_out(std::optional<icecore::tag_info> found, icecore_tag** tag) {
  if (found) *tag = new owned_tag(std::move(*found));
}

icecore_tag_options default_tag_options() noexcept {
  icecore_tag_options defaults{};
  defaults.struct_size = sizeof(defaults);
  defaults.time_ns = ICECORE_TIME_NOW;
  return defaults;
}

}  // namespace

struct icecore_tags {
  std::vector<std::unique_ptr<owned_tag>> all;
  std::size_t next = 0;
};

extern "C" {

void icecore_tag_options_init(icecore_tag_options* options, size_t struct_size) {
  if (options == nullptr || struct_size < sizeof(size_t)) return;
  std::memset(options, 0, struct_size);
  options->struct_size = struct_size;
  write_structure(options, default_tag_options());
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
    const icecore_tag_options set = read_structure(options, default_tag_options(), "icecore_tag_with");
    icecore::tag_options label;
    label.name = view(set.name.data, set.name.size, "icecore_tag_with", "name");
    label.note = view(set.note.data, set.note.size, "icecore_tag_with", "note");
    if (set.time_ns != ICECORE_TIME_NOW) label.time_ns = set.time_ns;
    const icecore_version version = store->store.tag(label);
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
    auto list = std::make_unique<icecore_tags>();
    for (auto& info : store->store.tags()) list->all.push_back(std::make_unique<owned_tag>(std::move(info)));
    *tags = list.release();
  });
}

size_t icecore_tags_count(const icecore_tags* tags) { return tags == nullptr ? 0 : tags->all.size(); }

const icecore_tag* icecore_tags_next(icecore_tags* tags) {
  if (tags == nullptr || tags->next >= tags->all.size()) return nullptr;
  return tags->all[tags->next++].get();
}

void icecore_tags_close(icecore_tags* tags) { delete tags; }

}  // extern "C"
