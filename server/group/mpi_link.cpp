#include "group/mpi_link.hpp"

#include <fmt/format.h>

#include <chrono>
#include <nlohmann/json.hpp>
#include <vector>

#include "icecore/error.hpp"
#include "service/steps.hpp"

namespace icecore::server::group {

using json = nlohmann::json;

mpi_link::mpi_link(MPI_Comm servers, std::filesystem::path data)
    : servers_(servers), data_(std::move(data)), control_(servers) {}

mpi_link::~mpi_link() = default;

std::filesystem::path mpi_link::folder(std::uint64_t number) const { return data_ / "group" / std::to_string(number); }

std::shared_ptr<service::database> mpi_link::open(const std::filesystem::path& folder,
                                                  const service::database_settings& settings,
                                                  const service::database_environment& around) {
  if (settings.rule == service::version_rule::write) {
    throw error(errc::invalid_argument,
                "a group of dependent servers has the rules `every` and `tag`: a version of `write` "
                "would be one cut of all servers for each transaction");
  }
  auto made = std::make_shared<cluster_database>(
      servers_, folder / "cluster", settings, around, service::steps(this),
      [this, name = settings.name](const std::string& order) {
        return control_.everywhere(json{{"do", "in"}, {"database", name}, {"with", order}}.dump());
      });
  const std::lock_guard lock(mutex_);
  databases_[settings.name] = made;
  return made;
}

std::string mpi_link::everywhere(const std::string& order) { return control_.everywhere(order); }

void mpi_link::executes(std::function<std::string(const std::string&)> how) {
  service_executes_ = std::move(how);
  control_.begin([this](const std::string& order) { return execute(order); });
  if (rank() == 0) timer_ = std::thread([this] { close_versions(); });
}

std::shared_ptr<cluster_database> mpi_link::find(const std::string& name) {
  const std::lock_guard lock(mutex_);
  const auto known = databases_.find(name);
  auto open = known == databases_.end() ? nullptr : known->second.lock();
  if (open == nullptr) throw error(errc::unavailable, fmt::format("the database '{}' is closed", name));
  return open;
}

std::string mpi_link::execute(const std::string& order) {
  const json what = json::parse(order);
  const std::string kind = what.at("do").get<std::string>();
  if (kind == "stop") {
    if (stopping_) stopping_();
    return {};
  }
  if (kind == "in") return find(what.at("database").get<std::string>())->execute(what.at("with").get<std::string>());
  return service_executes_(order);
}

void mpi_link::ask_to_stop() {
  try {
    static_cast<void>(control_.everywhere(json{{"do", "stop"}}.dump()));
  } catch (const error& e) {
    if (e.code() != errc::unavailable) throw;  // the others have asked already
  }
}

void mpi_link::end() {
  {
    const std::lock_guard lock(mutex_);
    timer_over_ = true;
  }
  timer_wakes_.notify_all();
  if (timer_.joinable()) timer_.join();
  control_.end();
}

void mpi_link::close_versions() {
  using clock = std::chrono::steady_clock;
  constexpr std::chrono::milliseconds tick{20};
  std::map<std::string, clock::time_point> due;
  std::unique_lock lock(mutex_);
  while (!timer_wakes_.wait_for(lock, tick, [this] { return timer_over_; })) {
    std::vector<std::shared_ptr<cluster_database>> open;
    for (const auto& [name, known] : databases_) {
      if (auto is = known.lock()) open.push_back(std::move(is));
    }
    lock.unlock();
    for (const auto& next : open) {
      try {
        const service::database_settings settings = next->settings();
        if (settings.rule != service::version_rule::every) continue;
        clock::time_point& when = due[settings.name];
        if (clock::now() < when) continue;
        next->close_version();
        when = clock::now() + settings.interval;
      } catch (const error&) {  // it was closed or dropped meanwhile; the next look knows
      }
    }
    lock.lock();
  }
}

}  // namespace icecore::server::group
