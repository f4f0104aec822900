// Each structure owns what it points to, so that children may be moved out of their parent.
#include "icecore/arrow.hpp"

#include <array>
#include <cerrno>
#include <memory>
#include <string>
#include <utility>

namespace icecore {
namespace {

struct named_format {
  std::string name;
  const char* format;
};

const char* format_of(result_type type) noexcept {
  switch (type) {
    case result_type::boolean:
      return "b";
    case result_type::i64:
      return "l";
    case result_type::u64:
      return "L";
    case result_type::f64:
      return "g";
    case result_type::bytes:
      break;
  }
  return "Z";
}

/// What a schema points to.
struct schema_owner {
  std::string name;
  std::vector<ArrowSchema> children;
  std::vector<ArrowSchema*> places;
};
/// What an array points to; a batch has no values of its own.
struct array_owner {
  result_values values{};
  std::array<const void*, 3> buffers{};
  std::vector<ArrowArray> children;
  std::vector<ArrowArray*> places;
};

/// Releases the children that nobody moved away, then the owner.
template <class Structure, class Owner>
void release(Structure* released) {
  const std::unique_ptr<Owner> owner(static_cast<Owner*>(released->private_data));
  for (Structure& child : owner->children) {
    if (child.release != nullptr) child.release(&child);
  }
  released->release = nullptr;
}

/// Releases a structure unless it was handed over.
template <class Structure>
struct guarded {
  Structure made{};
  guarded() = default;
  guarded(const guarded&) = delete;
  guarded& operator=(const guarded&) = delete;
  ~guarded() {
    if (made.release != nullptr) made.release(&made);
  }
  [[nodiscard]] Structure take() noexcept { return std::exchange(made, Structure{}); }
};

ArrowSchema schema_of(const char* format, std::string name, std::int64_t flags, std::size_t children) {
  auto owner = std::make_unique<schema_owner>();
  owner->name = std::move(name);
  owner->children.resize(children);
  for (ArrowSchema& child : owner->children) owner->places.push_back(&child);
  ArrowSchema made{};
  made.format = format;
  made.name = owner->name.c_str();
  made.flags = flags;
  made.n_children = static_cast<std::int64_t>(children);
  made.children = children == 0 ? nullptr : owner->places.data();
  made.release = release<ArrowSchema, schema_owner>;
  made.private_data = owner.release();
  return made;
}

void fill_schema(const std::vector<named_format>& columns, guarded<ArrowSchema>& out) {
  out.made = schema_of("+s", "", 0, columns.size());
  for (std::size_t i = 0; i < columns.size(); ++i) {
    *out.made.children[i] = schema_of(columns[i].format, columns[i].name, ARROW_FLAG_NULLABLE, 0);
  }
}

ArrowArray array_of(result_values column) {
  static constexpr std::uint64_t nothing = 0;  // empty buffers have an address, too
  auto owner = std::make_unique<array_owner>();
  owner->values = std::move(column);
  const result_values& values = owner->values;
  const auto address = [](const auto& buffer) {
    return buffer.empty() ? static_cast<const void*>(&nothing) : static_cast<const void*>(buffer.data());
  };
  ArrowArray made{};
  owner->buffers[0] = values.nulls == 0 ? nullptr : values.validity.data();
  if (values.type == result_type::bytes) {
    owner->buffers[1] = address(values.offsets);
    owner->buffers[2] = address(values.bytes);
    made.n_buffers = 3;
  } else {
    owner->buffers[1] = address(values.words);
    made.n_buffers = 2;
  }
  made.length = static_cast<std::int64_t>(values.size);
  made.null_count = static_cast<std::int64_t>(values.nulls);
  made.buffers = owner->buffers.data();
  made.release = release<ArrowArray, array_owner>;
  made.private_data = owner.release();
  return made;
}

void fill_batch(std::vector<result_values> columns, guarded<ArrowArray>& out) {
  auto owner = std::make_unique<array_owner>();
  owner->children.resize(columns.size());
  for (ArrowArray& child : owner->children) owner->places.push_back(&child);
  ArrowArray& made = out.made;
  made.length = columns.empty() ? 0 : static_cast<std::int64_t>(columns.front().size);
  made.n_buffers = 1;  // of validity: no row is null as a whole
  made.n_children = static_cast<std::int64_t>(columns.size());
  made.buffers = owner->buffers.data();
  made.children = columns.empty() ? nullptr : owner->places.data();
  made.release = release<ArrowArray, array_owner>;
  made.private_data = owner.release();
  for (std::size_t i = 0; i < columns.size(); ++i) *made.children[i] = array_of(std::move(columns[i]));
}

std::vector<named_format> types_of(const std::vector<result_values>& columns) {
  std::vector<named_format> types;
  for (const result_values& column : columns) types.push_back({column.name, format_of(column.type)});
  return types;
}

struct stream_owner {
  std::vector<named_format> types;
  guarded<ArrowArray> batch;  // given away by the first get_next()

  static stream_owner& of(ArrowArrayStream* stream) noexcept {
    return *static_cast<stream_owner*>(stream->private_data);
  }

  static int get_schema(ArrowArrayStream* stream, ArrowSchema* out) noexcept {
    try {
      guarded<ArrowSchema> made;
      fill_schema(of(stream).types, made);
      *out = made.take();
      return 0;
    } catch (...) {
      return ENOMEM;
    }
  }
  static int get_next(ArrowArrayStream* stream, ArrowArray* out) noexcept {
    *out = of(stream).batch.take();  // the second time it is released: the end
    return 0;
  }
  static const char* get_last_error(ArrowArrayStream*) noexcept { return "out of memory"; }
  static void release(ArrowArrayStream* stream) noexcept {
    delete &of(stream);
    stream->release = nullptr;
  }
};

}  // namespace

void export_to_arrow(std::vector<result_values> columns, ArrowSchema& schema, ArrowArray& batch) {
  guarded<ArrowSchema> described;
  guarded<ArrowArray> made;
  fill_schema(types_of(columns), described);
  fill_batch(std::move(columns), made);
  schema = described.take();
  batch = made.take();
}

void export_to_arrow(std::vector<result_values> columns, ArrowArrayStream& stream) {
  auto owner = std::make_unique<stream_owner>();
  owner->types = types_of(columns);
  fill_batch(std::move(columns), owner->batch);
  stream.get_schema = stream_owner::get_schema;
  stream.get_next = stream_owner::get_next;
  stream.get_last_error = stream_owner::get_last_error;
  stream.release = stream_owner::release;
  stream.private_data = owner.release();
}

}  // namespace icecore
