#include "ways/server_process.hpp"
#include "ways/way.hpp"

namespace icecore::ways {
namespace {

class ucx_watcher final : public watcher {
 public:
  explicit ucx_watcher(remote::watch from) : from_(std::move(from)) {}
  std::vector<told_change> next(std::chrono::milliseconds wait) override {
    remote::watch::batch came = from_.next(wait);
    told_ = std::max(told_, came.told);
    std::vector<told_change> all;
    for (remote::watched_change& each : came.changes) {
      all.push_back({std::move(each.key), each.version, std::move(each.value)});
    }
    return all;
  }
  [[nodiscard]] version told() const override { return told_; }

 private:
  remote::watch from_;
  version told_ = 0;
};

std::optional<std::string> text_of(std::optional<remote::value> found) {
  if (!found) return std::nullopt;
  return std::move(*found).take();
}

class ucx_way final : public way {
 public:
  explicit ucx_way(remote::store of) : store_(std::move(of)) {}

  version insert(const std::string& key, const std::string& value, std::uint64_t lease) override {
    return store_.insert(key, value, lease);
  }
  bool insert_new(const std::string& key, const std::string& value) override {
    return store_.insert_new(key, value).has_value();
  }
  version apply(const std::vector<step>& all) override {
    batch together;
    for (const step& each : all) {
      if (each.value) {
        together.insert(each.key, *each.value);
      } else {
        together.remove(each.key);
      }
    }
    return store_.apply(together);
  }
  std::int64_t increment(const std::string& key) override { return store_.increment(key).number; }
  std::uint64_t append(const std::string& key, const std::string& part) override {
    return store_.append(key, part).size;
  }
  std::uint64_t load(const rows& all) override {
    std::vector<item> items;
    for (const auto& [key, value] : all) items.push_back({key, value});
    return store_.insert_many(items);
  }
  std::optional<std::string> get(const std::string& key, const point& at) override {
    if (const auto* closed = std::get_if<version>(&at)) return text_of(store_.find(key, *closed));
    if (const auto* tag = std::get_if<std::string>(&at)) return text_of(store_.find(key, *tag));
    return text_of(store_.find(key));
  }
  rows scan(const key_bounds& bounds, const point& at) override {
    remote::snapshot state = state_at(at);
    rows all;
    auto range = state.range(bounds);
    for (const auto& [key, value] : range) all.emplace_back(key, value);
    return all;
  }
  std::vector<std::optional<std::string>> history(const std::string& key) override {
    std::vector<std::optional<std::string>> all;
    auto range = store_.history(key);
    for (const change& each : range) {
      all.push_back(each.value ? std::optional(std::string(*each.value)) : std::nullopt);
    }
    return all;
  }
  version tag(const std::string& name) override { return store_.tag(name); }
  void compact(version oldest_kept) override { store_.compact(oldest_kept); }
  std::unique_ptr<watcher> watch(std::optional<version> after) override {
    return std::make_unique<ucx_watcher>(store_.watch({.after = after}));
  }
  std::uint64_t grant_lease(std::chrono::milliseconds time) override { return store_.grant_lease(time).number; }
  void keep_lease(std::uint64_t lease) override { store_.keep_lease(lease); }
  std::uint64_t revoke_lease(std::uint64_t lease) override { return store_.revoke_lease(lease); }

 private:
  [[nodiscard]] remote::snapshot state_at(const point& at) const {
    if (const auto* closed = std::get_if<version>(&at)) return store_.at(*closed);
    if (const auto* tag = std::get_if<std::string>(&at)) return store_.at(*tag);
    return store_.latest();
  }

  remote::store store_;
};

class ucx_connection final : public connection {
 public:
  explicit ucx_connection(const destination& to)
      : client_("ucx://" + to.address,
                {.token = job_token, .connect_limit = to.connect_limit, .network_devices = to.network_devices}),
        deadline_(to.deadline) {}
  void create(const std::string& name, const remote::settings& with) override { client_.create(name, with); }
  void drop(const std::string& name) override { client_.drop(name); }
  std::unique_ptr<way> open(const std::string& name) override {
    return std::make_unique<ucx_way>(client_.open(name).with_deadline(deadline_));
  }
  void write_snapshot(const std::string& folder) override { client_.write_snapshot(folder); }

 private:
  remote::client client_;
  std::chrono::milliseconds deadline_;
};

}  // namespace

std::unique_ptr<connection> connect_ucx(const destination& to) { return std::make_unique<ucx_connection>(to); }

std::unique_ptr<connection> connect(const destination& to) {
  return to.through == door::ucx ? connect_ucx(to) : connect_grpc(to);
}

const char* name_of(door which) { return which == door::ucx ? "ucx" : "grpc"; }

bool lost(const error& e) noexcept {
  const errc code = static_cast<errc>(e.code().value());
  return code == errc::unavailable || code == errc::outcome_unknown || code == errc::deadline_exceeded ||
         code == errc::cancelled;
}

}  // namespace icecore::ways
