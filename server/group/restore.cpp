#include "group/restore.hpp"

#include <fmt/format.h>

#include <exception>
#include <nlohmann/json.hpp>
#include <optional>
#include <system_error>

#include "group/cluster_database.hpp"
#include "group/control.hpp"
#include "icecore/error.hpp"
#include "service/read/hidden_keys.hpp"
#include "service/snapshot/files.hpp"
#include "service/snapshot/placing.hpp"
#include "service/steps.hpp"

namespace icecore::server::group {
namespace {

using json = nlohmann::json;
using service::new_folder;
using service::restore_notes;
using service::restore_request;
using std::filesystem::path;

class restorer {
 public:
  restorer(MPI_Comm servers, const restore_request& what)
      : servers_(servers),
        control_(servers),
        steps_([this](const auto& failed) { control_.agree(failed); }),
        what_(what),
        partial_(new_folder::partial_of(what.to)) {}

  restore_notes run() {
    steps_.agree([&] {
      if (control_.rank() == 0) plan();
    });
    const json plan = json::parse(control_.of_first(plan_.dump()));
    steps_.agree([&] {
      std::error_code ignored;
      const bool makes = control_.leads_node() && control_.rank() != 0;
      if (makes && !std::filesystem::exists(mark(), ignored)) folder_.emplace(what_.to);
    });
    for (const json& database : plan) restore(database);
    steps_.agree([&] {
      if (control_.rank() != 0 && folder_) folder_->complete();
    });
    steps_.agree([&] {
      if (control_.rank() != 0) return;
      std::filesystem::remove_all(partial_ / "merged");
      folder_->complete();
    });
    return std::move(notes_);
  }

 private:
  // What only the first server has made; a server that sees it shares that folder.
  [[nodiscard]] path mark() const { return partial_ / "rank-0" / service::catalog_name; }

  // By the first server.
  void plan() {
    const service::restore_source source(what_.from);
    source.require_all();
    source.check(what_.on_progress);
    folder_.emplace(what_.to);
    service::make_folder(mark().parent_path());
    service::catalog known = source.copy_catalog(mark(), std::nullopt);
    for (service::catalog_entry& entry : known.databases()) {
      const std::string& name = entry.settings.name;
      if (entry.settings.rule == service::version_rule::write) {
        entry.settings.rule = service::version_rule::every;
        known.put(entry);
        notes_.push_back(
            fmt::format("database '{}': its rule `write` is `every {} ms` now; a dependent group has no other", name,
                        entry.settings.interval.count()));
      }
      json stores = json::array();
      if (source.each_counts()) {  // versions are made those of one database first
        const path merged = partial_ / "merged" / fmt::format("{}.ice", entry.number);
        service::make_folder(merged.parent_path());
        service::append_notes(name,
                              service::place_records({.parts = source.parts_of(name),
                                                      .each_counts = true,
                                                      .leases = false,
                                                      .to = merged,
                                                      .on_progress = what_.on_progress}),
                              notes_);
        stores.push_back(merged.native());
      } else {
        for (const path& part : source.parts_of(name)) stores.push_back(std::filesystem::absolute(part).native());
      }
      plan_.push_back({{"number", entry.number},
                       {"name", name},
                       {"settings", service::text_of(entry.settings)},
                       {"stores", std::move(stores)}});
    }
    known.close();
  }

  void restore(const json& database) {
    const std::string name = database.at("name").get<std::string>();
    const path to = partial_ / "group" / std::to_string(database.at("number").get<std::uint64_t>()) / "cluster";
    icecore::checkpoint_source from;
    for (const json& store : database.at("stores")) from.stores.emplace_back(store.get<std::string>());
    const auto settings = service::settings_of(name, database.at("settings").get<std::string>());
    icecore::cluster_options opening = cluster_options_of(settings);
    opening.store.durability = icecore::durability::best_available;  // it opens as the database says
    icecore::cluster made = icecore::cluster::restore(servers_, from, to, opening);
    bool any = false;
    steps_.agree([&] {
      for (const std::string_view prefix : {service::lease_prefix, service::leased_prefix}) {
        for (const std::string_view key : made.local().keys(icecore::key_bounds::of_prefix(prefix))) {
          if (!made.local().contains(key)) continue;
          any = true;
          made.remove(key);
        }
      }
    });
    const bool none = control_.everywhere_is(!any);
    if (!none && control_.rank() == 0) service::append_notes(name, {.leases_left_out = true}, notes_);
    made.close();
  }

  MPI_Comm servers_;
  control control_;
  service::steps steps_;
  const restore_request& what_;
  path partial_;
  std::optional<new_folder> folder_;  // of the first server, and of each node that does not share that one's
  json plan_ = json::array();
  restore_notes notes_;
};

}  // namespace

restore_notes restore_group(MPI_Comm servers, const restore_request& what) { return restorer(servers, what).run(); }

}  // namespace icecore::server::group
