// The layouts are those of https://arrow.apache.org/docs/format/Columnar.html.
#include "arrow_batch.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <memory>
#include <utility>

namespace icecore::python {
namespace {

// Values of at least this size stay in the pool, where they are aligned to 64 bytes.
constexpr std::size_t pooled_bytes_min = 4096;
constexpr std::size_t view_bytes = 16;
constexpr std::size_t short_bytes_max = 12;  // of an item inside its view

/// What a structure points to.
template <class Structure>
struct owned {
  pin holds;
  std::string name;
  std::string format;
  std::vector<std::uint64_t> validity;
  std::vector<std::int64_t> offsets;
  std::vector<char> bytes;
  std::vector<char> copied;
  std::vector<std::int64_t> sizes;  // of the buffers that views lead into
  std::vector<const void*> buffers;
  std::vector<Structure> children;
  std::vector<Structure*> places;
};

template <class Structure>
void release_owned(Structure* released) noexcept {
  const std::unique_ptr<owned<Structure>> owner(static_cast<owned<Structure>*>(released->private_data));
  for (Structure& child : owner->children) {
    if (child.release != nullptr) child.release(&child);
  }
  released->release = nullptr;
}

/// The structure that owns `owner`, whose children are the owner's.
template <class Structure>
Structure owning(std::unique_ptr<owned<Structure>> owner) {
  for (Structure& child : owner->children) owner->places.push_back(&child);
  Structure made{};
  made.n_children = static_cast<std::int64_t>(owner->children.size());
  made.children = owner->children.empty() ? nullptr : owner->places.data();
  made.release = release_owned<Structure>;
  made.private_data = owner.release();
  return made;
}

ArrowSchema described(std::string name, std::string format, bool nullable, std::vector<ArrowSchema> children = {}) {
  auto owner = std::make_unique<owned<ArrowSchema>>();
  owner->name = std::move(name);
  owner->format = std::move(format);
  owner->children = std::move(children);
  const auto& kept = *owner;
  ArrowSchema made = owning(std::move(owner));
  made.name = kept.name.c_str();
  made.format = kept.format.c_str();
  made.flags = nullable ? ARROW_FLAG_NULLABLE : 0;
  return made;
}

ArrowSchema described(const arrow_field& field) {
  const arrow_type& type = field.type;
  switch (type.kind) {
    case arrow_kind::bytes:
      return described(field.name, "Z", field.nullable);
    case arrow_kind::text:
      return described(field.name, "U", field.nullable);
    case arrow_kind::view:
      return described(field.name, "vz", field.nullable);
    case arrow_kind::version:
      return described(field.name, "L", field.nullable);
    case arrow_kind::flag:
      return described(field.name, "b", field.nullable);
    case arrow_kind::fixed:
      break;
  }
  if (type.list_size == 0) return described(field.name, type.format, field.nullable);
  return described(field.name, "+w:" + std::to_string(type.list_size), field.nullable,
                   {described("item", type.format, false)});
}

/// An array of one buffer, without nulls.
ArrowArray plain(std::vector<char> bytes, std::size_t length) {
  auto owner = std::make_unique<owned<ArrowArray>>();
  owner->bytes = std::move(bytes);
  owner->buffers = {nullptr, owner->bytes.data()};
  auto& kept = *owner;
  ArrowArray made = owning(std::move(owner));
  made.length = static_cast<std::int64_t>(length);
  made.n_buffers = 2;
  made.buffers = kept.buffers.data();
  return made;
}

/// The length of the sequence of UTF-8 at the beginning of `text`; 0 if it begins with none (RFC 3629).
std::size_t sequence_length(std::string_view text) noexcept {
  const auto at = [&](std::size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0U; };
  const auto follows = [&](std::size_t i, unsigned from = 0x80, unsigned to = 0xBF) {
    return at(i) >= from && at(i) <= to;
  };
  const unsigned first = at(0);
  if (first < 0x80) return 1;
  if (first >= 0xC2 && first <= 0xDF) return follows(1) ? 2 : 0;
  if (first >= 0xE0 && first <= 0xEF) {
    const unsigned from = first == 0xE0 ? 0xA0 : 0x80;  // no longer than needed
    const unsigned to = first == 0xED ? 0x9F : 0xBF;    // no surrogate
    return follows(1, from, to) && follows(2) ? 3 : 0;
  }
  if (first >= 0xF0 && first <= 0xF4) {
    const unsigned from = first == 0xF0 ? 0x90 : 0x80;
    const unsigned to = first == 0xF4 ? 0x8F : 0xBF;  // at most U+10FFFF
    return follows(1, from, to) && follows(2) && follows(3) ? 4 : 0;
  }
  return 0;
}

void append_number(std::vector<char>& to, std::int32_t number) {
  const auto* const first = reinterpret_cast<const char*>(&number);
  to.insert(to.end(), first, first + sizeof number);
}

}  // namespace

void describe_fields(const std::vector<arrow_field>& fields, ArrowSchema& out) {
  std::vector<ArrowSchema> children;
  for (const arrow_field& field : fields) children.push_back(described(field));
  out = described("", "+s", false, std::move(children));
}

void arrow_column::refuse(std::uint64_t row, const std::string& why) const {
  throw error(errc::invalid_argument, "row " + std::to_string(row) + " of the column '" + field_->name + "' " + why);
}

void arrow_column::append(const std::optional<std::string_view>& item, std::uint64_t row) {
  if (size_ % 64 == 0) validity_.push_back(0);
  if (item) {
    validity_.back() |= std::uint64_t{1} << size_ % 64;
  } else {
    ++nulls_;
  }
  const std::string_view shown = item.value_or(std::string_view{});
  switch (field_->type.kind) {
    case arrow_kind::text:
      require_text(shown, row);
      [[fallthrough]];
    case arrow_kind::bytes:
      bytes_.insert(bytes_.end(), shown.begin(), shown.end());
      offsets_.push_back(static_cast<std::int64_t>(bytes_.size()));
      break;
    case arrow_kind::view:
      append_view(shown, row);
      break;
    case arrow_kind::fixed:
      if (item) {
        append_fixed(shown, row);
      } else {
        bytes_.resize(bytes_.size() + field_->type.item_bytes);
      }
      break;
    case arrow_kind::flag:
      append_flag(!shown.empty());
      break;
    case arrow_kind::version:
      break;  // append_version
  }
  ++size_;
}

void arrow_column::append_version(icecore::version number) {
  const std::uint64_t wide = number;
  const auto* const first = reinterpret_cast<const char*>(&wide);
  bytes_.insert(bytes_.end(), first, first + sizeof wide);
  ++size_;
}

void arrow_column::require_text(std::string_view item, std::uint64_t row) const {
  for (std::size_t i = 0; i < item.size();) {
    const std::size_t length = sequence_length(item.substr(i));
    if (length == 0) {
      refuse(row, "is not UTF-8 at its byte " + std::to_string(i) + ": read it as 'binary'");
    }
    i += length;
  }
}

void arrow_column::append_view(std::string_view item, std::uint64_t row) {
  if (item.size() > static_cast<std::size_t>(std::numeric_limits<std::int32_t>::max())) {
    refuse(row, "has " + std::to_string(item.size()) + " bytes, more than a binary_view holds: read it as 'binary'");
  }
  append_number(bytes_, static_cast<std::int32_t>(item.size()));
  if (item.size() <= short_bytes_max) {
    bytes_.insert(bytes_.end(), item.begin(), item.end());
    bytes_.resize(bytes_.size() + short_bytes_max - item.size());
    return;
  }
  bytes_.insert(bytes_.end(), item.begin(), item.begin() + 4);
  if (item.size() >= pooled_bytes_min) {  // buffer 0 is that of the copied ones
    append_number(bytes_, static_cast<std::int32_t>(pooled_.size() + 1));
    append_number(bytes_, 0);
    pooled_.push_back(item);
  } else {
    append_number(bytes_, 0);
    append_number(bytes_, static_cast<std::int32_t>(copied_.size()));
    copied_.insert(copied_.end(), item.begin(), item.end());
  }
  viewed_bytes_ += item.size();
}

void arrow_column::append_fixed(std::string_view item, std::uint64_t row) {
  const arrow_type& type = field_->type;
  if (item.size() != type.item_bytes) {
    refuse(row, "has " + std::to_string(item.size()) + " bytes, but its type has " + std::to_string(type.item_bytes) +
                    ": choose another type, or 'binary'");
  }
  const std::size_t at = bytes_.size();
  bytes_.insert(bytes_.end(), item.begin(), item.end());
  if (type.reversed_bytes == 0) return;
  for (std::size_t i = at; i < bytes_.size(); i += type.reversed_bytes) {
    const auto first = bytes_.begin() + static_cast<std::ptrdiff_t>(i);
    std::reverse(first, first + static_cast<std::ptrdiff_t>(type.reversed_bytes));
  }
}

void arrow_column::append_flag(bool set) {
  if (size_ % 8 == 0) bytes_.push_back(0);
  if (set) bytes_.back() = static_cast<char>(static_cast<unsigned char>(bytes_.back()) | 1U << size_ % 8);
}

ArrowArray arrow_column::take(const pin& holds) {
  const arrow_type& type = field_->type;
  auto owner = std::make_unique<owned<ArrowArray>>();
  owner->validity = std::move(validity_);
  owner->offsets = std::move(offsets_);
  owner->bytes = std::move(bytes_);
  owner->copied = std::move(copied_);
  owner->bytes.reserve(1);  // buffers without bytes have an address, too
  owner->copied.reserve(1);
  owner->buffers = {nulls_ == 0 ? nullptr : owner->validity.data()};
  if (type.kind == arrow_kind::fixed && type.list_size > 0) {
    owner->children.push_back(plain(std::move(owner->bytes), size_ * type.list_size));
  } else if (type.kind == arrow_kind::view) {
    owner->holds = holds;
    owner->buffers.push_back(owner->bytes.data());
    owner->buffers.push_back(owner->copied.data());
    owner->sizes.push_back(static_cast<std::int64_t>(owner->copied.size()));
    for (const std::string_view item : pooled_) {
      owner->buffers.push_back(item.data());
      owner->sizes.push_back(static_cast<std::int64_t>(item.size()));
    }
    owner->buffers.push_back(owner->sizes.data());
  } else {
    if (type.kind == arrow_kind::bytes || type.kind == arrow_kind::text)
      owner->buffers.push_back(owner->offsets.data());
    owner->buffers.push_back(owner->bytes.data());
  }
  auto& kept = *owner;
  ArrowArray made = owning(std::move(owner));
  made.length = static_cast<std::int64_t>(size_);
  made.null_count = static_cast<std::int64_t>(nulls_);
  made.n_buffers = static_cast<std::int64_t>(kept.buffers.size());
  made.buffers = kept.buffers.data();
  *this = arrow_column(*field_);
  return made;
}

ArrowArray batch_of(std::vector<arrow_column>& columns, const pin& holds) {
  auto owner = std::make_unique<owned<ArrowArray>>();
  const std::size_t rows = columns.front().size();
  for (arrow_column& column : columns) owner->children.push_back(column.take(holds));
  owner->buffers = {nullptr};  // no row is null as a whole
  auto& kept = *owner;
  ArrowArray made = owning(std::move(owner));
  made.length = static_cast<std::int64_t>(rows);
  made.n_buffers = 1;
  made.buffers = kept.buffers.data();
  return made;
}

}  // namespace icecore::python
