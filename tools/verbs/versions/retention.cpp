// retention and forget: which versions a store keeps, and what it is to have no version of.
#include <fmt/format.h>

#include <memory>

#include "icecore/forgetting.hpp"
#include "icecore/retention.hpp"
#include "line/command_line.hpp"
#include "line/opening.hpp"
#include "line/time.hpp"
#include "text/json.hpp"
#include "text/output.hpp"
#include "text/retention_text.hpp"
#include "text/text.hpp"

namespace icecore::cli {
namespace {

struct retention_arguments {
  std::string store;
  bool all = false;
  bool tagged = false;
  std::uint64_t newest = 0;
  std::string younger_than;
  unsigned hourly = 0;
  unsigned daily = 0;
  unsigned weekly = 0;
  write_arguments write;
  cli::format format = cli::format::table;
};

constexpr std::int64_t second_ns = 1'000'000'000;

std::chrono::seconds age_of(const std::string& text) {
  if (text.empty()) return std::chrono::seconds(0);
  const std::int64_t now = now_ns();
  std::int64_t then = now;
  try {
    then = parse_when(text + " ago", now);
  } catch (const error&) {  // it would tell of times
  }
  if (then >= now) {
    throw error(errc::invalid_argument,
                fmt::format("--younger-than {}: an age is a number and a unit, as in '30 days', '12 hours' or "
                            "'1 week 3 days'",
                            shown(text)));
  }
  return std::chrono::seconds((now - then) / second_ns);
}

retention asked_for(const retention_arguments& a) {
  return {.tagged = a.tagged,
          .newest = a.newest,
          .younger_than = age_of(a.younger_than),
          .hourly = a.hourly,
          .daily = a.daily,
          .weekly = a.weekly};
}

void print(const retention& kept, cli::format format) {
  if (format == cli::format::json) {
    out().line(retention_json(kept).text());
  } else {
    out().line(in_words(kept));
  }
}

void print_holds(const store& s, cli::format format) {
  for (const held_version& h : known_holds(s)) {
    out().line(format == cli::format::json
                   ? json_object().add("hold", hold_json(h)).text()
                   : fmt::format("version {}, held as '{}'", grouped(h.version), shown(h.name)));
  }
}

exit_code keep(const retention_arguments& a) {
  const retention asked = asked_for(a);
  if (a.all && !asked.keeps_all()) {
    throw error(errc::invalid_argument, "retention: --all keeps all versions: give it alone");
  }
  if (!a.all && asked.keeps_all()) {
    read_arguments read;
    read.placements = a.write.placements;
    const store s = open_to_read(a.store, read);
    print(s.retention(), a.format);
    print_holds(s, a.format);
    return exit_code::ok;
  }
  store s = open_to_write(a.store, a.write, creation::open_existing);
  s.set_retention(asked);
  s.close();
  print(asked, a.format);
  return exit_code::ok;
}

struct forget_arguments {
  std::string store;
  std::vector<std::string> keys;
  std::vector<std::string> prefixes;
  bool all = false;
  std::string note;
  hex_arguments hex;
  write_arguments write;
  cli::format format = cli::format::table;
};

forget_request asked_for(const forget_arguments& a) {
  forget_request what;
  what.note = a.note;
  if (a.all) {
    if (!a.keys.empty() || !a.prefixes.empty()) {
      throw error(errc::invalid_argument,
                  fmt::format("forget {}: --all names every key: give it without KEY and --prefix", shown(a.store)));
    }
    what.prefixes.emplace_back();
    return what;
  }
  for (const std::string& key : a.keys) what.keys.push_back(bytes_of(key, a.hex.keys()));
  for (const std::string& prefix : a.prefixes) {
    what.prefixes.push_back(bytes_of(prefix, a.hex.keys()));
    // as of a variable of a script that is not set
    if (what.prefixes.back().empty()) {
      throw error(errc::invalid_argument,
                  fmt::format("forget {}: a --prefix is empty, and every key begins with that; nothing is forgotten. "
                              "Give --all if all keys of the store are to go",
                              shown(a.store)));
    }
  }
  return what;
}

exit_code forget(const forget_arguments& a) {
  const forget_request what = asked_for(a);
  store s = open_to_write(a.store, a.write, creation::open_existing);
  const forget_report done = s.forget(what);
  s.close();
  if (a.format == cli::format::json) {
    out().line(json_object().add("keys", done.keys).add("up_to", done.up_to).bytes("tag", done.tag).text());
    return exit_code::ok;
  }
  out().line(fmt::format("{}: {} {} removed, and to be erased from all versions up to {}; tag '{}'", shown(a.store),
                         grouped(done.keys), done.keys == 1 ? "key is" : "keys are", done.up_to, done.tag));
  out().line(fmt::format("older versions show them until `icecore compact {}` has run", shown(a.store)));
  return exit_code::ok;
}

}  // namespace

void add_retention_verbs(command_line& line) {
  const auto r = std::make_shared<retention_arguments>();
  verb verb = line.add_verb(
      "retention", "Show or set which closed versions a store keeps when it is compacted",
      "  icecore retention model.ice                                  # shows it\n"
      "  icecore retention model.ice --tagged --newest 100            # tagged versions, and the newest hundred\n"
      "  icecore retention model.ice --younger-than '30 days' --weekly 52\n"
      "  icecore expire model.ice --dry-run                           # what would go\n"
      "  icecore retention model.ice --all\n"
      "  icecore hold model.ice paper --at epoch-90                   # this version stays, whatever the retention\n"
      "A version stays if any option wants it. The others expire when the store is compacted next, for ever; nothing\n"
      "goes before that.");
  verb.add_store(r->store);
  verb.add_flag("--all", r->all, "Keep all versions: what a new store does");
  verb.add_flag("--tagged", r->tagged, "Keep versions that have a tag");
  verb.add_option("--newest", r->newest, "Keep so many of the newest closed versions").type_name("N");
  verb.add_option("--younger-than", r->younger_than,
                  "Keep versions younger than this, as in '30 days'; tags say how old they are")
      .type_name("AGE");
  verb.add_option("--hourly", r->hourly, "Keep the newest tag of each of so many hours that have one").type_name("N");
  verb.add_option("--daily", r->daily, "The same for days").type_name("N");
  verb.add_option("--weekly", r->weekly, "The same for weeks").type_name("N");
  verb.add_changing(r->write);
  verb.add_format(r->format);
  verb.runs([r] { return keep(*r); });

  const auto f = std::make_shared<forget_arguments>();
  verb =
      line.add_verb("forget", "Remove keys, and have the next compaction erase them from all versions",
                    "  icecore forget model.ice user/17 --note 'case 4711'\n"
                    "  icecore forget model.ice --prefix user/17/\n"
                    "  icecore compact model.ice            # from here on no byte of them is in the store's files\n"
                    "Checkpoints, dumps and other copies keep what they have. The compaction also drops the store's\n"
                    "kept queries.");
  verb.add_store(f->store);
  verb.add_arguments("KEY", f->keys, "The keys");
  verb.add_list("--prefix", f->prefixes, "All keys that begin with this; may be repeated, but not empty", "PREFIX");
  verb.add_flag("--all", f->all, "Every key of the store");
  verb.add_option("--note", f->note, "Why; the tag that tells of it has this note. Do not name the keys in it")
      .type_name("TEXT");
  verb.add_hex(f->hex);
  verb.add_changing(f->write);
  verb.add_format(f->format);
  verb.runs([f] { return forget(*f); });
}

}  // namespace icecore::cli
