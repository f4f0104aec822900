#include "icecore/cluster_snapshot.hpp"

#include <utility>

#include "cluster/cluster_core.hpp"
#include "cluster/merge.hpp"

namespace icecore {

cluster_cursor::cluster_cursor(const mpi::cluster_core& core, icecore::version at, key_bounds bounds)
    : core_(&core), at_(at), bounds_(std::move(bounds)) {}
cluster_cursor::~cluster_cursor() = default;
cluster_cursor::cluster_cursor(cluster_cursor&&) noexcept = default;
cluster_cursor& cluster_cursor::operator=(cluster_cursor&&) noexcept = default;

void cluster_cursor::seek_first() { seek({}); }

void cluster_cursor::seek(std::string_view key) {
  if (!merge_) merge_ = std::make_unique<mpi::merge>(*core_, at_, bounds_);
  valid_ = false;
  merge_->seek(key);
  show();
}

void cluster_cursor::next() {
  valid_ = false;  // should fetching fail
  merge_->next();
  show();
}

void cluster_cursor::show() {
  valid_ = merge_->valid();
  if (valid_) current_ = merge_->current();
}

std::optional<std::string> cluster_snapshot::find(std::string_view key) const { return core_->find(key, at_); }
bool cluster_snapshot::contains(std::string_view key) const { return core_->contains(key, at_); }
std::vector<std::optional<std::string>> cluster_snapshot::find_many(std::span<const std::string_view> keys) const {
  return core_->find_many(keys, at_);
}
std::uint64_t cluster_snapshot::size() const { return core_->count(at_); }

}  // namespace icecore
