#include "judge/target.hpp"

#include <future>

namespace icecore::judge {
namespace {

class watch_of_database : public target_watch {
 public:
  explicit watch_of_database(std::unique_ptr<service::watch> held) : held_(std::move(held)) {}
  watch_part next() override {
    service::watched came = held_->next({.rows = 64});
    return {std::move(came.changes), came.told};
  }

 private:
  std::unique_ptr<service::watch> held_;
};

}  // namespace

service::outcome database_target::write(service::transaction what) {
  std::promise<service::result<service::outcome>> promised;
  db_.write(std::move(what),
            [&promised](service::result<service::outcome> came) { promised.set_value(std::move(came)); });
  service::result<service::outcome> came = promised.get_future().get();
  if (const auto* failed = std::get_if<service::failure>(&came)) service::raise(*failed);
  return std::get<service::outcome>(std::move(came));
}

std::optional<service::row> database_target::find(const std::string& key) {
  const auto found = db_.find(key, service::newest{});
  if (!found) return std::nullopt;
  return service::row{key, std::string(found->value()), found->version()};
}

scanned database_target::scan(const icecore::key_bounds& bounds) {
  scanned all;
  const auto stream = db_.scan({.bounds = bounds, .versions = true});
  all.version = stream->version();
  for (service::row_block block; stream->next(block, {.rows = 7});) {
    for (std::size_t i = 0; i < block.size(); ++i) {
      all.rows.push_back({std::string(block.keys[i]), std::string(block.values[i]), block.versions[i]});
    }
  }
  return all;
}

std::unique_ptr<target_watch> database_target::watch(icecore::version after, const icecore::key_bounds& bounds) {
  return std::make_unique<watch_of_database>(db_.watch_changes({.after = after, .bounds = bounds}));
}

void database_target::tag() { db_.tag({}); }

}  // namespace icecore::judge
