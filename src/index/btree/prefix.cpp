// The prefix that a node leaves out of its heads (N3): when it grows, when it must shrink.
//
// Any prefix up to the common one is correct, but a longer one costs reading every key of the node. So it grows only if
// heads are equal, which those of integer keys never are, and only at a split, when the fences get closer.
#include "index/btree/btree.hpp"

namespace icecore::index {
namespace {

bool has_equal_heads(const node& n) noexcept {
  const unsigned count = n.form.load().count;
  for (unsigned i = 1; i < count; ++i) {
    if (n.heads[i - 1].load() == n.heads[i].load()) return true;
  }
  return false;
}

}  // namespace

/// The longest prefix that N3 allows.
std::size_t longest_prefix(const node& n, const key_source& source) noexcept {
  const node_form form = n.form.load();
  if (!form.open) return common_prefix(source.key_of(n.low.load()), source.key_of(n.high.load()));
  if (form.count == 0) return 0;
  return common_prefix(source.key_of(n.links[0].load()), source.key_of(n.links[form.count - 1].load()));
}

/// After a split: sets the prefix as N3 demands, and a longer one if that may separate equal heads. Inside the node's
/// lock.
void btree::refresh_prefix(node& n, bool was_open) noexcept {
  const node_form form = n.form.load();
  const bool may_be_too_long = was_open && !form.open && form.prefix_length != 0;
  if (!may_be_too_long && !has_equal_heads(n)) return;
  const std::size_t prefix_length = longest_prefix(n, source_);
  if (prefix_length != form.prefix_length) set_prefix(n, prefix_length);
}

/// Called before `key` is added to `n`: an open node's prefix shrinks to what its links have in common with `key`.
/// Inside the node's lock.
void btree::admit_to_prefix(node& n, std::string_view key) noexcept {
  const node_form form = n.form.load();
  if (!form.open || form.prefix_length == 0) return;
  const std::size_t common = common_prefix(key, source_.key_of(n.links[0].load()));
  if (common < form.prefix_length) set_prefix(n, common);
}

void btree::set_prefix(node& n, std::size_t prefix_length) noexcept {
  node_form form = n.form.load();
  for (unsigned i = 0; i < form.count; ++i) source_.prefetch(n.links[i].load());
  for (unsigned i = 0; i < form.count; ++i) {
    n.heads[i].store(head_of(source_.key_of(n.links[i].load()), prefix_length));
  }
  form.prefix_length = static_cast<std::uint16_t>(prefix_length);
  n.form.store(form);
}

}  // namespace icecore::index
