// stat: the content of a store, how it is stored, and what it costs.
#include <fmt/format.h>

#include <memory>

#include "line/command_line.hpp"
#include "line/opening.hpp"
#include "text/json.hpp"
#include "text/output.hpp"
#include "text/retention_text.hpp"
#include "text/text.hpp"

namespace icecore::cli {
namespace {

struct stat_arguments {
  std::string store;
  read_arguments read;
  cli::format format = cli::format::table;
};

std::string_view name_of(durability mode) {
  switch (mode) {
    case durability::best_available:
      return "best";
    case durability::none:
      return "none";
    case durability::tag:
      return "tag";
    case durability::operation:
      return "operation";
  }
  return "?";
}

std::string_view name_of(medium m) {
  switch (m) {
    case medium::persistent_memory:
      return "persistent memory";
    case medium::block_device:
      return "block device";
    case medium::memory:
      return "memory";
  }
  return "?";
}

/// The mode that durability::best_available selects on a medium.
durability best_on(medium m) {
  switch (m) {
    case medium::persistent_memory:
      return durability::operation;
    case medium::block_device:
      return durability::tag;
    case medium::memory:
      break;
  }
  return durability::none;
}

std::string bytes_in_words(std::uint64_t count) {
  return count < 1000 ? fmt::format("{} B", count)
                      : fmt::format("{} B ({})", grouped(count), human_bytes(static_cast<double>(count)));
}

double bytes_a_key(std::uint64_t bytes, const statistics& s) {
  return s.keys == 0 ? 0 : static_cast<double>(bytes) / static_cast<double>(s.keys);
}

std::string packed_in_words(const statistics& s) {
  if (s.strata == 0) return "none";
  const std::string strata = s.strata == 1 ? "1 stratum" : fmt::format("{} strata", s.strata);
  const std::string compressed =
      s.packed_bytes == s.packed_inflated_bytes
          ? ""
          : fmt::format(", compressed, {} inflated", bytes_in_words(s.packed_inflated_bytes));
  return fmt::format("{} of the records, {} in {}{}", grouped(s.packed_records), bytes_in_words(s.packed_bytes), strata,
                     compressed);
}

std::string pins_in_words(const statistics& s) {
  std::string text = "none in this process";
  if (s.oldest_pin) {
    text = fmt::format("of version {} or later, at most {:.0f} s old", grouped(*s.oldest_pin), s.oldest_pin_seconds);
  }
  if (s.oldest_held) text += fmt::format("; queries, feeds and holds keep version {}", grouped(*s.oldest_held));
  return text;
}

std::string written_in_words(const statistics& s) {
  if (s.given_bytes == 0) return "nothing since it was opened";
  return fmt::format("{} for {} given since it was opened, {:.2f} times", bytes_in_words(s.written_bytes),
                     bytes_in_words(s.given_bytes), s.write_amplification());
}

/// What a store keeps, and what it does not have any more.
struct kept_versions {
  std::span<const version_range> lost;
  std::vector<version_range> expired;
  retention policy;
  std::vector<held_version> holds;
};

void print_json(const statistics& s, const kept_versions& versions) {
  json_object durability;
  durability.bytes("mode", name_of(s.durability.mode)).bytes("best", name_of(best_on(s.durability.medium)));
  durability.bytes("medium", name_of(s.durability.medium)).add("emulated", s.durability.emulated);
  durability.bytes("filesystem", s.durability.filesystem);

  json_object line;
  line.bytes("path", s.path).bytes("pool_id", s.pool_id);
  line.bytes("format", fmt::format("{}.{}", s.format_major, s.format_minor)).bytes("index", index_name(s.index));
  line.add("clock", s.clock).add("keys", s.keys).add("keys_at_least", s.keys_at_least).add("records", s.records);
  line.add("inserts", s.records - s.removes).add("removes", s.removes).add("tags", s.tags);
  line.add("key_bytes", s.key_bytes).add("value_bytes", s.value_bytes).add("used_bytes", s.used_bytes);
  line.add("file_bytes", s.file_bytes)
      .add("free_bytes", s.free_bytes)
      .add("live_bytes", s.live_bytes)
      .add("garbage_bytes", s.garbage_bytes)
      .add("waiting_bytes", s.waiting_bytes)
      .add("index_bytes", s.index_bytes)
      .add("huge_page_bytes", process_huge_page_bytes());
  line.add("used_bytes_a_key", bytes_a_key(s.used_bytes, s)).add("index_bytes_a_key", bytes_a_key(s.index_bytes, s));
  line.add("packed_keys", s.packed_keys).add("packed_records", s.packed_records);
  line.add("packed_bytes", s.packed_bytes).add("strata", s.strata);
  line.add("packed_inflated_bytes", s.packed_inflated_bytes).add("block_cache_bytes_max", s.block_cache_bytes_max);
  line.add("block_cache_bytes", s.block_cache_bytes);
  line.add("block_cache_hits", s.block_cache_hits).add("block_cache_misses", s.block_cache_misses);
  line.add("pins", s.pins);
  if (s.oldest_pin) line.add("oldest_pin", *s.oldest_pin).add("oldest_pin_seconds", s.oldest_pin_seconds);
  if (s.oldest_held) line.add("oldest_held", *s.oldest_held);
  line.add("given_bytes", s.given_bytes).add("written_bytes", s.written_bytes);
  line.add("write_amplification", s.write_amplification());
  line.add("retention", retention_json(versions.policy));
  line.add("recovered_from_crash", s.recovered_from_crash).add("recovered_instantly", s.recovered_instantly);
  line.add("opening_seconds", s.recovery_seconds);
  out().line(line.add("durability", durability).text());
  for (const version_range& r : versions.lost) out().line(range_line("lost_versions", r));
  for (const version_range& r : versions.expired) out().line(range_line("expired_versions", r));
  for (const held_version& h : versions.holds) out().line(json_object().add("hold", hold_json(h)).text());
  if (s.files.size() == 1) return;
  for (const file_statistics& f : s.files) {
    json_object file;
    file.bytes("path", f.path).add("file_bytes", f.file_bytes).add("used_bytes", f.used_bytes);
    if (f.node >= 0) file.add("node", static_cast<std::uint64_t>(f.node));
    out().line(json_object().add("file", file).text());
  }
}

/// More of them would bury the rest; -o json has all.
constexpr std::size_t lines_max = 10;

void print_table(const statistics& s, const kept_versions& versions) {
  const auto line = [](std::string_view what, const std::string& value) {
    out().line(fmt::format("{:<22}{}", what, value));
  };
  const std::uint64_t content = s.key_bytes + s.value_bytes;
  line("store", fmt::format("{}  (pool {}, format {}.{})", shown(s.path), s.pool_id, s.format_major, s.format_minor));
  line("open version", grouped(s.clock));
  for (const version_range& r : versions.lost) line("  lost versions", in_words(r) + ", in a power cut");
  for (const version_range& r :
       std::span<const version_range>(versions.expired).first(std::min(versions.expired.size(), lines_max))) {
    line("  expired versions", in_words(r));
  }
  if (versions.expired.size() > lines_max) {
    line("", fmt::format("and {} more ranges", grouped(versions.expired.size() - lines_max)));
  }
  line("keeps", in_words(versions.policy));
  for (std::size_t i = 0; i < std::min(versions.holds.size(), lines_max); ++i) {
    const held_version& h = versions.holds[i];
    line("  holds", fmt::format("version {}, as '{}'", grouped(h.version), shown(h.name)));
  }
  if (versions.holds.size() > lines_max) {
    line("", fmt::format("and {} more", grouped(versions.holds.size() - lines_max)));
  }
  line("keys", s.keys == s.keys_at_least ? grouped(s.keys)
                                         : fmt::format("{} to {}", grouped(s.keys_at_least), grouped(s.keys)));
  line("records", fmt::format("{}  ({} inserts, {} removes)", grouped(s.records), grouped(s.records - s.removes),
                              grouped(s.removes)));
  line("tags", fmt::format("{}  (named or timed)", grouped(s.tags)));
  line("key bytes", bytes_in_words(s.key_bytes));
  line("value bytes", bytes_in_words(s.value_bytes));
  line("overhead", bytes_in_words(s.used_bytes > content ? s.used_bytes - content : 0));
  line("used in the file",
       fmt::format("{}, {:.1f} B a key", bytes_in_words(s.used_bytes), bytes_a_key(s.used_bytes, s)));
  line("live, garbage",
       fmt::format(
           "{}, {}{}", bytes_in_words(s.live_bytes), bytes_in_words(s.garbage_bytes),
           s.waiting_bytes == 0 ? "" : fmt::format(", {} of it in use by readers", bytes_in_words(s.waiting_bytes))));
  line("file size", fmt::format("{}, {} of it free", bytes_in_words(s.file_bytes), bytes_in_words(s.free_bytes)));
  for (const file_statistics& f : s.files) {
    if (s.files.size() == 1) break;
    line("  file", fmt::format("{}: {}, {} used{}", shown(f.path), bytes_in_words(f.file_bytes),
                               bytes_in_words(f.used_bytes), f.node < 0 ? "" : fmt::format(", NUMA node {}", f.node)));
  }
  line("oldest pin", pins_in_words(s));
  line("written", written_in_words(s));
  line("packed", packed_in_words(s));
  if (s.block_cache_bytes_max != 0) {
    line("block cache",
         fmt::format("{} of {}, {}, {}", bytes_in_words(s.block_cache_bytes), bytes_in_words(s.block_cache_bytes_max),
                     counted(s.block_cache_hits, "hit", "hits"), counted(s.block_cache_misses, "miss", "misses")));
  }
  line("index", fmt::format("{}, {}, {:.1f} B a key", index_name(s.index), bytes_in_words(s.index_bytes),
                            bytes_a_key(s.index_bytes, s)));
  const std::uint64_t huge_page_bytes = process_huge_page_bytes();
  line("huge pages", huge_page_bytes == 0 ? "none" : bytes_in_words(huge_page_bytes));
  line("durability", fmt::format("{}{} for the last writer; the best here is {}", name_of(s.durability.mode),
                                 s.durability.emulated ? " (emulated)" : "", name_of(best_on(s.durability.medium))));
  line("medium", fmt::format("{} ({})", name_of(s.durability.medium), s.durability.filesystem));
  line("opening", fmt::format("{:.3f} s{}{}", s.recovery_seconds, s.recovered_instantly ? ", instant recovery" : "",
                              s.recovered_from_crash ? ", recovered: the last writer had not closed it" : ""));
}

exit_code stat(const stat_arguments& a) {
  const opened_store s = open_to_read(a.store, a.read);
  const statistics statistics = s.stats();
  const kept_versions versions{s.lost_versions().ranges(), s.expired_versions(), s.retention(), known_holds(s)};
  if (a.format == cli::format::json) {
    print_json(statistics, versions);
  } else {
    print_table(statistics, versions);
  }
  return exit_code::ok;
}

}  // namespace

void add_stat_verb(command_line& line) {
  const auto a = std::make_shared<stat_arguments>();
  verb verb = line.add_verb(
      "stat", "Show what a store holds, how durable it is and what it costs",
      "  icecore stat model.ice\n"
      "  icecore stat model.ice -o json | jq .keys\n"
      "The durability shown is that of the last writer, beside the best that the device can give.\n"
      "Index, huge pages, block cache, oldest pin and what was written are those of this process: `stat` in\n"
      "`icecore shell --write` shows those of a shell that writes.");
  verb.add_store(a->store);
  verb.add_reading(a->read);
  verb.add_format(a->format);
  verb.runs([a] { return stat(*a); });
}

}  // namespace icecore::cli
