#include "icecore/cluster.hpp"

#include <utility>

#include "cluster/cluster_core.hpp"

namespace icecore {

cluster::cluster(MPI_Comm comm, const std::filesystem::path& path) : cluster(comm, path, cluster_options()) {}
cluster::cluster(MPI_Comm comm, const std::filesystem::path& path, const cluster_options& opening)
    : core_(std::make_unique<mpi::cluster_core>(comm, path, opening)) {}
cluster::cluster(std::unique_ptr<mpi::cluster_core> core) noexcept : core_(std::move(core)) {}
cluster::~cluster() = default;
cluster::cluster(cluster&&) noexcept = default;
cluster& cluster::operator=(cluster&&) noexcept = default;

mpi::cluster_core& cluster::core() const {
  if (core_ == nullptr) throw error(errc::closed, "the cluster is closed");
  return *core_;
}

void cluster::close() {
  const std::unique_ptr<mpi::cluster_core> closing = std::move(core_);
  if (closing) closing->close();
}

version cluster::insert(std::string_view key, std::string_view value) { return core().write({key, value}); }
version cluster::remove(std::string_view key) { return core().write({key, std::nullopt}); }
version cluster::insert_many(std::span<const item> items) { return core().insert_many(items); }
version cluster::apply(const batch& operations) { return core().apply(operations); }
std::optional<version> cluster::insert_new(std::string_view key, std::string_view value) {
  batch one;
  one.insert_new(key, value);
  return core().apply_if(one);
}
std::optional<version> cluster::replace(std::string_view key, std::string_view value, version expected) {
  if (expected == 0) return std::nullopt;  // no record has that version
  batch one;
  one.replace(key, value, expected);
  return core().apply_if(one);
}
std::optional<version> cluster::apply_if(const batch& operations) { return core().apply_if(operations); }
void cluster::define_update(int number, update_function change) { core().define_update(number, std::move(change)); }
std::string cluster::update(std::string_view key, int number, std::string_view input) {
  return core().update(key, number, input);
}
version cluster::insert_in_turn(std::string_view key, std::string_view value) {
  return core().insert_in_turn(key, value);
}

std::optional<std::string> cluster::find(std::string_view key) const { return core().find(key, std::nullopt); }
std::optional<std::string> cluster::find(std::string_view key, version at) const { return core().find(key, at); }
bool cluster::visit(std::string_view key, const std::function<void(std::string_view)>& use) const {
  return core().visit(key, use);
}
bool cluster::contains(std::string_view key) const { return core().contains(key, std::nullopt); }
bool cluster::contains(std::string_view key, version at) const { return core().contains(key, at); }
std::vector<std::optional<std::string>> cluster::find_many(std::span<const std::string_view> keys) const {
  return core().find_many(keys, std::nullopt);
}
std::vector<std::optional<std::string>> cluster::find_many(std::span<const std::string_view> keys, version at) const {
  return core().find_many(keys, at);
}
std::vector<versioned_value> cluster::history(std::string_view key) const { return core().history(key); }

cluster_snapshot cluster::at(version closed) const {
  core().check_closed(closed);
  return {core(), closed};
}

cluster_snapshot cluster::at(std::string_view tag_name) const {
  if (const auto tag = find_tag(tag_name)) return at(tag->version);
  throw error(errc::unknown_tag, "no tag is named '" + std::string(tag_name) + "'");
}

version cluster::tag() { return core().tag({}); }
version cluster::tag(std::string_view name, std::string_view note) { return core().tag({name, note, std::nullopt}); }
version cluster::tag(const tag_options& label) { return core().tag(label); }
version cluster::clock() const { return core().clock(); }
std::vector<tag_info> cluster::tags() const { return core().tags(std::nullopt); }
std::optional<tag_info> cluster::find_tag(std::string_view name) const {
  std::vector<tag_info> found = core().tags(name);
  if (found.empty()) return std::nullopt;
  return std::move(found.front());
}

void cluster::fence(barrier_level level) { core().fence(level); }
void cluster::barrier(barrier_level level) { core().barrier(level); }
checkpoint_event cluster::checkpoint(const std::filesystem::path& folder) { return core().checkpoint(folder); }
compaction_report cluster::compact(const compaction_options& how) { return core().compact(how); }
void cluster::set_retention(const icecore::retention& which) { core().set_retention(which); }
retention cluster::retention() { return core().retention(); }
version cluster::hold_version(std::string_view name, std::optional<version> at) {
  return core().hold_version(name, at);
}
void cluster::release_version(std::string_view name) { core().release_version(name); }
std::vector<held_version> cluster::held_versions() const { return core().local().held_versions(); }
forget_report cluster::forget(const forget_request& what) { return core().forget(what); }
void cluster::consistency(icecore::consistency mode) { core().change(mode); }
void cluster::protect(icecore::protection allowed) { core().change(allowed); }
consistency cluster::consistency() const { return core().consistency(); }
protection cluster::protection() const { return core().allowed(); }
void cluster::signal_notify(int signum, std::span<const int> ranks) { core().signal_notify(signum, ranks); }
void cluster::signal_wait(int signum, std::span<const int> ranks) { core().signal_wait(signum, ranks); }

cluster_query cluster::start(const query_request& what) { return {core(), core().start_query(what)}; }
cluster_query cluster::query(std::string_view name, const function_resolver& functions) {
  return {core(), core().find_query(name, functions)};
}
cluster_feed cluster::feed(const feed_request& what) const { return {core(), what}; }
void cluster::drop_query(std::string_view name) { core().drop_query(name); }

int cluster::rank() const { return core().rank(); }
int cluster::size() const { return core().ranks(); }
int cluster::owner_of(std::string_view key) const { return core().owner_of(key); }
int cluster::group_of(int rank) const { return core().group_of(rank); }
bool cluster::reaches_directly(int rank) const { return core().reaches_directly(rank); }
bool cluster::has_progress_thread() const { return core().has_thread(); }
const store& cluster::local() const { return core().local(); }
const std::filesystem::path& cluster::path() const { return core().path(); }

}  // namespace icecore
