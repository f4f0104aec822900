// Each structure owns what it points to, so that children may be moved out of their parent.
#include "icecore/arrow.hpp"

#include <array>
#include <cerrno>
#include <memory>
#include <utility>

namespace icecore {
namespace {

using shared_columns = std::shared_ptr<const result_columns>;

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

/// What a structure points to: buffers of the columns, and children.
template <class Structure>
struct owner_of {
  shared_columns columns;
  std::array<const void*, 3> buffers{};
  std::vector<Structure> children;
  std::vector<Structure*> places;
};

/// Releases the children that nobody moved away, then the owner.
template <class Structure>
void release_owner(Structure* released) noexcept {
  const std::unique_ptr<owner_of<Structure>> owner(static_cast<owner_of<Structure>*>(released->private_data));
  for (Structure& child : owner->children) {
    if (child.release != nullptr) child.release(&child);
  }
  released->release = nullptr;
}

/// Releases a structure unless it was handed over.
template <class Structure>
struct unless_taken {
  Structure made{};
  unless_taken() = default;
  unless_taken(const unless_taken&) = delete;
  unless_taken& operator=(const unless_taken&) = delete;
  ~unless_taken() {
    if (made.release != nullptr) made.release(&made);
  }
  [[nodiscard]] Structure take() noexcept { return std::exchange(made, Structure{}); }
};

/// A structure with an owner and unset children.
template <class Structure>
Structure owning(const shared_columns& columns, std::size_t children) {
  auto owner = std::make_unique<owner_of<Structure>>();
  owner->columns = columns;
  owner->children.resize(children);
  for (Structure& child : owner->children) owner->places.push_back(&child);
  Structure made{};
  made.n_children = static_cast<std::int64_t>(children);
  made.children = children == 0 ? nullptr : owner->places.data();
  made.release = release_owner<Structure>;
  made.private_data = owner.release();
  return made;
}

void describe(const shared_columns& columns, ArrowSchema& out) {
  unless_taken<ArrowSchema> whole;
  whole.made = owning<ArrowSchema>(columns, columns->size());
  whole.made.format = "+s";
  whole.made.name = "";
  for (std::size_t i = 0; i < columns->size(); ++i) {
    ArrowSchema& child = *whole.made.children[i];
    child = owning<ArrowSchema>(columns, 0);
    child.format = format_of((*columns)[i].type);
    child.name = (*columns)[i].name.c_str();
    child.flags = ARROW_FLAG_NULLABLE;
  }
  out = whole.take();
}

ArrowArray array_of(const shared_columns& columns, const result_values& values) {
  static constexpr std::uint64_t nothing = 0;  // empty buffers have an address, too
  const auto address = [](const auto& buffer) {
    return buffer.empty() ? static_cast<const void*>(&nothing) : static_cast<const void*>(buffer.data());
  };
  auto made = owning<ArrowArray>(columns, 0);
  auto& buffers = static_cast<owner_of<ArrowArray>*>(made.private_data)->buffers;
  buffers[0] = values.nulls == 0 ? nullptr : values.validity.data();
  if (values.type == result_type::bytes) {
    buffers[1] = address(values.offsets);
    buffers[2] = address(values.bytes);
    made.n_buffers = 3;
  } else {
    buffers[1] = address(values.words);
    made.n_buffers = 2;
  }
  made.length = static_cast<std::int64_t>(values.size);
  made.null_count = static_cast<std::int64_t>(values.nulls);
  made.buffers = buffers.data();
  return made;
}

void fill(const shared_columns& columns, ArrowArray& out) {
  unless_taken<ArrowArray> whole;
  whole.made = owning<ArrowArray>(columns, columns->size());
  whole.made.length = columns->empty() ? 0 : static_cast<std::int64_t>(columns->front().size);
  whole.made.n_buffers = 1;  // of validity: no row is null as a whole
  whole.made.buffers = static_cast<owner_of<ArrowArray>*>(whole.made.private_data)->buffers.data();
  for (std::size_t i = 0; i < columns->size(); ++i) *whole.made.children[i] = array_of(columns, (*columns)[i]);
  out = whole.take();
}

/// What the pointers of a stream lead to. The specification gives its functions an errno to return.
struct stream_state {
  shared_columns columns;
  bool given = false;

  static stream_state& of(ArrowArrayStream* stream) noexcept {
    return *static_cast<stream_state*>(stream->private_data);
  }
  static int get_schema(ArrowArrayStream* stream, ArrowSchema* out) noexcept {
    try {
      describe(of(stream).columns, *out);
      return 0;
    } catch (...) {
      return ENOMEM;
    }
  }
  static int get_next(ArrowArrayStream* stream, ArrowArray* out) noexcept {
    try {
      *out = {};  // the end
      if (!of(stream).given) fill(of(stream).columns, *out);
      of(stream).given = true;
      return 0;
    } catch (...) {
      return ENOMEM;
    }
  }
  static const char* get_last_error(ArrowArrayStream*) noexcept { return "out of memory"; }
  static void release(ArrowArrayStream* stream) noexcept {
    delete &of(stream);
    stream->release = nullptr;
  }
};

}  // namespace

void export_to_arrow(const shared_columns& columns, ArrowSchema& schema, ArrowArray& batch) {
  unless_taken<ArrowSchema> described;
  describe(columns, described.made);
  fill(columns, batch);
  schema = described.take();
}

void export_to_arrow(std::shared_ptr<const result_columns> columns, ArrowArrayStream& stream) {
  auto state = std::make_unique<stream_state>();
  state->columns = std::move(columns);
  stream.get_schema = stream_state::get_schema;
  stream.get_next = stream_state::get_next;
  stream.get_last_error = stream_state::get_last_error;
  stream.release = stream_state::release;
  stream.private_data = state.release();
}

}  // namespace icecore
