#include "icecore/cluster_snapshot.hpp"

#include <utility>

#include "cluster/cluster_core.hpp"
#include "cluster/read/merge.hpp"

namespace icecore {

cluster_cursor::cluster_cursor(const mpi::cluster_core& core, icecore::version at, key_bounds bounds)
    : core_(&core), at_(at), bounds_(std::move(bounds)) {}
cluster_cursor::~cluster_cursor() = default;
cluster_cursor::cluster_cursor(cluster_cursor&&) noexcept = default;
cluster_cursor& cluster_cursor::operator=(cluster_cursor&&) noexcept = default;

template <typename Move>
void cluster_cursor::move(Move&& how) {
  if (!merge_) merge_ = std::make_unique<mpi::merge>(*core_, at_, bounds_);
  valid_ = false;  // in case fetching fails
  how(*merge_);
  valid_ = merge_->valid();
  if (valid_) current_ = merge_->current();
}

// Keys are copied, because the caller's key may be the current one, in a block that seeking releases.
void cluster_cursor::seek_first() { seek({}); }
void cluster_cursor::seek_last() {
  move([](mpi::merge& all) { all.seek_before(std::nullopt); });
}
void cluster_cursor::seek(std::string_view key) {
  move([key = std::string(key)](mpi::merge& all) { all.seek(key); });
}
void cluster_cursor::seek_after(std::string_view key) {
  move([key = std::string(key)](mpi::merge& all) { all.seek(key, true); });
}
void cluster_cursor::seek_before(std::string_view key) {
  move([key = std::string(key)](mpi::merge& all) { all.seek_before(key); });
}

void cluster_cursor::step(bool backward) {
  if (merge_->backward() == backward) {
    move([](mpi::merge& all) { all.next(); });
    return;
  }
  backward ? seek_before(current_.key) : seek_after(current_.key);
}

void cluster_cursor::next() { step(false); }
void cluster_cursor::previous() { step(true); }

std::optional<std::string> cluster_snapshot::find(std::string_view key) const { return core_->find(key, at_); }
bool cluster_snapshot::contains(std::string_view key) const { return core_->contains(key, at_); }
std::vector<std::optional<std::string>> cluster_snapshot::find_many(std::span<const std::string_view> keys) const {
  return core_->find_many(keys, at_);
}
std::uint64_t cluster_snapshot::size() const { return core_->count(at_); }
std::uint64_t cluster_snapshot::count(const filter& condition) const { return core_->count(at_, condition); }
cluster_page cluster_snapshot::page(const filter& condition, const page_limits& limits, std::string_view token) const {
  return core_->page(at_, condition, limits, token);
}
extracted_pairs cluster_snapshot::extract(extraction_method method, const extraction_options& how) const {
  return core_->extract(at_, method, how);
}
void cluster_snapshot::stream(const extraction_sink& sink, const extraction_options& how) const {
  core_->stream(at_, sink, how);
}
std::optional<std::string> cluster_snapshot::find_by_broadcast(std::string_view key, int root) const {
  return core_->find_by_broadcast(key, at_, root);
}

}  // namespace icecore
