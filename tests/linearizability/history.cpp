// The text of a saved history; numbers are decimal, times are nanoseconds of the machine's monotonic clock.
//
//   icecore-history 1
//   origin TEXT
//   life END_NS
//   o CLIENT CALL KEY VALUE VERSION COUNT INVOKE_NS RETURN_NS
//   inspection BEGIN_NS END_NS CLOCK CLOSED_BY_OPENINGS
//   k KEY KNOWN [VERSION VALUE]...
//   t VERSION NAME
//   d VERSION GROUP DIGEST
#include "history.hpp"

#include <algorithm>
#include <array>
#include <fstream>
#include <sstream>
#include <stdexcept>

namespace icecore::testing {
namespace {

constexpr std::string_view first_line = "icecore-history 1";
constexpr std::array<std::string_view, calls> names = {
    "none", "insert", "remove", "batch",   "batch_insert", "batch_remove", "tag",    "latest",
    "sync", "clock",  "find",   "find_at", "digest_at",    "history",      "compact"};

class reader {
 public:
  explicit reader(const std::filesystem::path& path) : path_(path), in_(path) {
    if (!in_) throw std::runtime_error(path.string() + ": cannot be opened for reading");
  }

  [[nodiscard]] history read() {
    std::string line;
    if (!std::getline(in_, line) || line != first_line)
      fail("the first line is not \"" + std::string(first_line) + '"');
    while (std::getline(in_, line)) {
      ++line_;
      fields_.clear();
      fields_.str(line);
      read_line();
      if (!fields_.eof() && (fields_ >> std::ws, !fields_.eof())) fail("something is left at its end");
    }
    return std::move(h_);
  }

 private:
  void read_line() {
    std::string kind;
    fields_ >> kind;
    if (kind == "origin") {
      std::getline(fields_ >> std::ws, h_.origin);
    } else if (kind == "life") {
      h_.lives.emplace_back().end_ns = number<std::int64_t>();
    } else if (kind == "o") {
      read_operation();
    } else if (kind == "inspection") {
      auto& i = current_life().inspections.emplace_back();
      i.begin_ns = number<std::int64_t>();
      i.end_ns = number<std::int64_t>();
      i.clock = number<version>();
      i.closed_by_openings = number<std::uint32_t>();
    } else if (kind == "k") {
      read_key();
    } else if (kind == "t") {
      const auto at = number<version>();
      current_inspection().tags.push_back({at, number<std::uint64_t>()});
    } else if (kind == "d") {
      const auto at = number<version>();
      const auto group = number<std::uint32_t>();
      current_inspection().digests.push_back({at, group, number<std::uint64_t>()});
    } else {
      fail("begins with \"" + kind + '"');
    }
  }

  void read_operation() {
    auto& clients = current_life().clients;
    const auto client = number<std::uint32_t>();
    constexpr std::uint32_t clients_max = 1000;
    if (client >= clients_max) fail("names client " + std::to_string(client));
    if (client >= clients.size()) clients.resize(client + 1);
    std::string name;
    fields_ >> name;
    const auto place = std::ranges::find(names, name);
    if (place == names.end()) fail("no call is named \"" + name + '"');
    operation o{};
    o.what = static_cast<call>(place - names.begin());
    o.key = number<std::uint32_t>();
    o.value = number<std::uint64_t>();
    o.version = number<version>();
    o.count = number<std::uint32_t>();
    o.invoke_ns = number<std::int64_t>();
    o.return_ns = number<std::int64_t>();
    clients[client].push_back(o);
  }

  void read_key() {
    auto& k = current_inspection().keys.emplace_back();
    k.key = number<std::uint32_t>();
    k.known = number<std::uint64_t>();
    while (fields_ >> std::ws, !fields_.eof()) {
      const auto at = number<version>();
      k.more.push_back({at, number<std::uint64_t>()});
    }
  }

  template <class T>
  [[nodiscard]] T number() {
    T n{};
    if (!(fields_ >> n)) fail("a number is missing or too large");
    return n;
  }
  [[nodiscard]] life& current_life() {
    if (h_.lives.empty()) fail("belongs to no life");
    return h_.lives.back();
  }
  [[nodiscard]] inspection& current_inspection() {
    if (current_life().inspections.empty()) fail("belongs to no inspection");
    return current_life().inspections.back();
  }
  [[noreturn]] void fail(const std::string& what) const {
    throw std::runtime_error(path_.string() + ":" + std::to_string(line_) + ": " + what +
                             "; is this a history that kill_loop has saved?");
  }

  std::filesystem::path path_;
  std::ifstream in_;
  std::istringstream fields_;
  std::size_t line_ = 1;
  history h_;
};

void write_inspection(std::ostream& out, const inspection& i) {
  out << "inspection " << i.begin_ns << ' ' << i.end_ns << ' ' << i.clock << ' ' << i.closed_by_openings << '\n';
  for (const auto& k : i.keys) {
    out << "k " << k.key << ' ' << k.known;
    for (const auto& r : k.more) out << ' ' << r.version << ' ' << r.value;
    out << '\n';
  }
  for (const auto& t : i.tags) out << "t " << t.version << ' ' << t.name << '\n';
  for (const auto& d : i.digests) out << "d " << d.version << ' ' << d.group << ' ' << d.digest << '\n';
}

}  // namespace

std::string_view name_of(call what) { return names.at(static_cast<std::size_t>(what)); }

std::uint64_t digest_of(std::uint32_t key, std::uint64_t value) noexcept {
  return mix(mix(key + 0x9e3779b97f4a7c15U) + value);
}

std::uint64_t records_digest::term(const found_record& r) noexcept { return mix(mix(r.version) + r.value) | 1; }

void save_history(const history& h, const std::filesystem::path& path) {
  std::ofstream out(path, std::ios::trunc);
  out << first_line << "\norigin " << h.origin << '\n';
  for (const auto& l : h.lives) {
    out << "life " << l.end_ns << '\n';
    for (std::size_t client = 0; client < l.clients.size(); ++client) {
      for (const auto& o : l.clients[client]) {
        out << "o " << client << ' ' << name_of(o.what) << ' ' << o.key << ' ' << o.value << ' ' << o.version << ' '
            << o.count << ' ' << o.invoke_ns << ' ' << o.return_ns << '\n';
      }
    }
    for (const auto& i : l.inspections) write_inspection(out, i);
  }
  out.flush();
  if (!out) throw std::runtime_error(path.string() + ": could not be written; is there room?");
}

history load_history(const std::filesystem::path& path) { return reader(path).read(); }

}  // namespace icecore::testing
