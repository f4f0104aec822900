// What verbs have in common on the command line.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "exit_code.hpp"
#include "icecore/snapshot.hpp"

namespace icecore::cli {

/// What the chosen verb does once the whole command line is understood.
using action = std::function<exit_code()>;

enum class format : std::uint8_t { table, json };

/// Which version is read. Neither: the present.
struct view_arguments {
  std::string at;
  std::string time;
};

/// Which keys.
struct bounds_arguments {
  std::optional<std::string> prefix;
  std::optional<std::string> from;
  std::optional<std::string> to;
};

/// What is wrong with a store and may be so, when it is read.
struct read_arguments {
  bool accept_copy = false;
  bool accept_damage = false;
};

struct write_arguments {
  icecore::durability durability = icecore::durability::best_available;
  bool emulate = false;
  icecore::index_kind index = icecore::index_kind::btree;
};

/// A verb of `app` with its one-line description and its examples, one a line.
CLI::App* add_verb(CLI::App& app, const std::string& name, const std::string& description, const std::string& examples);

void add_store(CLI::App* verb, std::string& path, const std::string& what = "The store's file");
void add_format(CLI::App* verb, cli::format& format);
void add_hex(CLI::App* verb, bool& hex);
void add_view(CLI::App* verb, view_arguments& view);
void add_bounds(CLI::App* verb, bounds_arguments& bounds);
/// How a store is opened to be read.
void add_reading(CLI::App* verb, read_arguments& read);
/// How a store is opened to be written.
void add_writing(CLI::App* verb, write_arguments& write);

/// The bytes an argument stands for: itself, or what its hexadecimal digits say.
[[nodiscard]] std::string bytes_of(const std::string& argument, bool hex);

/// The bounds that satisfy --prefix, --from and --to at once.
[[nodiscard]] key_bounds bounds_of(const bounds_arguments& bounds, bool hex);

// Each adds its verbs to the command line; a chosen verb sets `chosen`.
void add_key_verbs(CLI::App& app, action& chosen);  // put get del
void add_scan_verb(CLI::App& app, action& chosen);
void add_tag_verbs(CLI::App& app, action& chosen);  // tag log
void add_history_verb(CLI::App& app, action& chosen);
void add_diff_verb(CLI::App& app, action& chosen);
void add_stat_verb(CLI::App& app, action& chosen);
void add_verify_verb(CLI::App& app, action& chosen);
void add_repair_verb(CLI::App& app, action& chosen);
void add_dump_verb(CLI::App& app, action& chosen);
void add_load_verb(CLI::App& app, action& chosen);
void add_bench_verb(CLI::App& app, action& chosen);

}  // namespace icecore::cli
