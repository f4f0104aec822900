#include "service/snapshot/manifest.hpp"

#include <fmt/format.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <system_error>

#include "icecore/error.hpp"
#include "service/snapshot/files.hpp"

namespace icecore::service {
namespace {

using json = nlohmann::json;
using std::filesystem::path;

json json_of(const std::vector<snapshot_file>& files) {
  json all = json::array();
  for (const snapshot_file& each : files) {
    all.push_back({{"file", each.file},
                   {"database", each.database},
                   {"version", each.version},
                   {"bytes", each.bytes},
                   {"sha256", each.sha256}});
  }
  return all;
}

std::vector<snapshot_file> list_of(const path& where, const json& all) {
  std::vector<snapshot_file> files;
  for (const json& next : all) {
    snapshot_file one{.file = next.at("file").get<std::string>(),
                      .database = next.at("database").get<std::string>(),
                      .version = next.at("version").get<icecore::version>(),
                      .bytes = next.at("bytes").get<std::uint64_t>(),
                      .sha256 = next.at("sha256").get<std::string>()};
    const path inside(one.file);
    bool climbs = inside.is_absolute() || inside.empty();
    for (const path& step : inside) climbs = climbs || step == "..";
    if (climbs) {
      throw icecore::error(errc::damaged,
                           fmt::format("{}: names the file '{}' outside of it", where.native(), one.file));
    }
    files.push_back(std::move(one));
  }
  return files;
}

template <typename Read>
auto understood(const path& where, std::string_view text, Read read) {
  try {
    const json whole = json::parse(text, nullptr, false);
    if (whole.is_discarded()) throw icecore::error(errc::damaged, fmt::format("{}: is no JSON", where.native()));
    return read(whole);
  } catch (const json::exception& e) {
    throw icecore::error(errc::damaged, fmt::format("{}: is not understood: {}", where.native(), e.what()));
  }
}

}  // namespace

std::vector<const snapshot_file*> snapshot_manifest::files_of(std::string_view database) const {
  std::vector<const snapshot_file*> found;
  for (const snapshot_file& each : files) {
    if (each.database == database) found.push_back(&each);
  }
  return found;
}

void write_manifest(const path& folder, const snapshot_manifest& what) {
  json whole{{"format", what.dependent ? 2 : 1},
             {"server", what.server},
             {"place", {{"name", what.place.name}, {"index", what.place.index}, {"size", what.place.size}}},
             {"files", json_of(what.files)}};
  if (what.dependent) whole["dependent"] = true;
  write_whole(folder / manifest_name, whole.dump(2) + "\n");
}

snapshot_manifest read_manifest(const path& folder) {
  const path file = folder / manifest_name;
  std::ifstream in(file, std::ios::binary);
  if (!in) {
    throw icecore::error(errc::bad_input,
                         fmt::format("{}: no snapshot of a service (it has no manifest.json)", folder.native()));
  }
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  return understood(file, text, [&](const json& whole) {
    const int format = whole.at("format").get<int>();
    if (format < 1 || format > 2) {
      throw icecore::error(errc::unsupported_format,
                           fmt::format("{}: a later icecore wrote this snapshot", file.native()));
    }
    snapshot_manifest found;
    found.server = whole.value("server", std::string());
    found.dependent = whole.value("dependent", false);
    if (whole.contains("place")) {
      const json& place = whole.at("place");
      found.place = {.name = place.at("name").get<std::string>(),
                     .index = place.at("index").get<std::uint32_t>(),
                     .size = place.at("size").get<std::uint32_t>()};
    }
    found.files = list_of(file, whole.at("files"));
    return found;
  });
}

std::string text_of(const std::vector<snapshot_file>& files) { return json_of(files).dump() + "\n"; }

std::vector<snapshot_file> files_in(const path& where, std::string_view text) {
  return understood(where, text, [&](const json& all) { return list_of(where, all); });
}

void check_file(const path& folder, const snapshot_file& what, const std::function<void(std::string_view)>& use) {
  const path source = folder / what.file;
  std::error_code missing;
  if (!std::filesystem::is_regular_file(source, missing)) {
    throw icecore::error(errc::damaged,
                         fmt::format("{}: the snapshot's manifest names it, and it is not there", source.native()));
  }
  const file_digest is = digest_of(source, use);
  if (is.bytes == what.bytes && is.sha256 == what.sha256) return;
  throw icecore::error(errc::damaged,
                       fmt::format("{}: has changed since the snapshot was written: {} bytes with SHA-256 {}, "
                                   "not {} with {}",
                                   source.native(), is.bytes, is.sha256, what.bytes, what.sha256));
}

}  // namespace icecore::service
