// put, get, del: writing, reading and removing one key.
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>

#include "line/command_line.hpp"
#include "line/opening.hpp"
#include "line/version_name.hpp"
#include "text/file_error.hpp"
#include "text/json.hpp"
#include "text/output.hpp"
#include "text/text.hpp"
#include "verbs/data/put_many.hpp"

namespace icecore::cli {
namespace {

struct key_arguments {
  std::string store;
  read_arguments read;
  std::string key;
  bool key_given = false;
  hex_arguments hex;
  std::optional<std::string> value;
  std::string file;
  bool if_new = false;
  put_many_arguments many;
  write_arguments write;
  view_arguments view;
  cli::format format = cli::format::table;
};

/// All bytes of an open file. errc::value_too_large before the memory is allocated.
std::string read_all(int descriptor, const std::string& name) {
  constexpr std::size_t step = std::size_t{1} << 20U;
  std::string bytes;
  for (;;) {
    const std::size_t filled = bytes.size();
    if (filled > value_size_max) {
      throw error(errc::value_too_large,
                  fmt::format("{}: a value holds at most {} bytes; split it over several keys", name, value_size_max));
    }
    if (bytes.capacity() - filled < step) bytes.reserve(bytes.capacity() * 2 + step);
    bytes.resize(filled + step);
    const ssize_t count = ::read(descriptor, bytes.data() + filled, step);
    if (count < 0 && errno != EINTR) fail_on_file(name, "reading");
    bytes.resize(filled + static_cast<std::size_t>(std::max<ssize_t>(count, 0)));
    if (count == 0) return bytes;
  }
}

std::string read_file(const std::string& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) fail_on_file(path, "opening the value's file");
  struct closer {
    int descriptor;
    ~closer() { ::close(descriptor); }
  } const closing{descriptor};
  return read_all(descriptor, path);
}

std::string value_of(const key_arguments& a) {
  if (!a.file.empty()) return read_file(a.file);
  if (!a.value) {
    throw error(errc::invalid_argument,
                "put: no value; give it as an argument, give - to read standard input, or use --file");
  }
  if (*a.value != "-") return bytes_of(*a.value, a.hex.values());
  std::string bytes = read_all(STDIN_FILENO, "standard input");
  if (!a.hex.values()) return bytes;
  // echo and xxd -p write a newline, which is not a digit
  std::erase_if(bytes, [](char c) { return c == '\n' || c == '\r' || c == ' '; });
  return from_hex(bytes);
}

/// With -o json, what put and del did: in which version, or that they did nothing.
void print_written(const key_arguments& a, std::string_view key, std::optional<version> in, std::string_view what) {
  if (a.format != cli::format::json) return;
  json_object line;
  if (in) line.add("version", *in);
  out().line(line.bytes("key", key, a.hex.keys()).add(what, in.has_value()).text());
}

exit_code put(const key_arguments& a) {
  if (!a.many.file.empty()) return put_many(a.store, a.many, a.write, a.hex, a.format);
  if (!a.key_given) {
    throw error(errc::invalid_argument,
                "put: KEY is missing; write KEY and VALUE, or --many FILE for the lines of a file");
  }
  const std::string key = bytes_of(a.key, a.hex.keys());
  const std::string value = value_of(a);
  opened_store s = open_to_write(a.store, a.write, creation::open_or_create);
  const std::optional<version> written = a.if_new ? s.insert_new(key, value) : s.insert(key, value);
  s.close();
  print_written(a, key, written, "written");
  if (written) return exit_code::ok;
  fmt::print(stderr, "icecore: {}: key '{}' is there already\n", a.store, shown(key, 80));
  return exit_code::negative;
}

exit_code get(const key_arguments& a) {
  const std::string key = bytes_of(a.key, a.hex.keys());
  const opened_store s = open_to_read(a.store, a.read);
  const snapshot view = view_of(s, a.view);
  const auto value = view.find(key);
  if (!value) {
    fmt::print(stderr, "icecore: {}: no key '{}' in version {}\n", a.store, shown(key, 80), view.version());
    return exit_code::negative;
  }
  if (a.format == cli::format::json) {
    std::string line = fmt::format("{{\"version\":{},\"key\":", view.version());
    append_json(line, key, a.hex.keys());
    line += ",\"value\":";
    append_json(line, *value, a.hex.values());
    out().line(line + '}');
  } else if (a.hex.values()) {
    out().line(to_hex(*value));
  } else {
    out().write(*value);
    if (stdout_is_terminal() && !value->ends_with('\n')) out().write("\n");
  }
  return exit_code::ok;
}

exit_code del(const key_arguments& a) {
  const std::string key = bytes_of(a.key, a.hex.keys());
  opened_store s = open_to_write(a.store, a.write, creation::open_existing);
  const auto removed = s.remove(key);
  s.close();
  print_written(a, key, removed, "removed");
  if (removed) return exit_code::ok;
  fmt::print(stderr, "icecore: {}: no key '{}' to remove\n", a.store, shown(key, 80));
  return exit_code::negative;
}

void add_many_options(verb& verb, key_arguments& a, std::initializer_list<option> of_one) {
  const option many =
      verb.add_option("--many", a.many.file,
                      "Set the key and the value of each line of this file (- for standard input), all at one instant: "
                      "KEY, a tab and VALUE, as scan prints them, or JSON, as scan -o json prints it, with null as the "
                      "value of a key that is removed")
          .type_name("FILE")
          .completes(value_kind::file);
  for (const option one : of_one) many.excludes(one);
  const option json = verb.add_flag("--lines-json", a.many.json,
                                    "The lines are JSON (if not given: if the name ends with .jsonl, .ndjson or .json)")
                          .needs(many);
  verb.add_flag("--lines-tsv", a.many.tsv, "The lines have a tab, whatever the file's name is")
      .needs(many)
      .excludes(json);
  verb.add_option("--batch", a.many.batch,
                  "Write so many lines at one instant, and not all, so that a batch alone has to fit into memory")
      .type_name("LINES")
      .needs(many);
}

}  // namespace

void add_key_verbs(command_line& line) {
  const auto a = std::make_shared<key_arguments>();

  verb verb = line.add_verb("put", "Set the value of a key in the open version",
                            "  icecore put model.ice layer1/bias 0.5\n"
                            "  icecore put model.ice layer1/weight --file weight.bin\n"
                            "  date | icecore put model.ice when -\n"
                            "  icecore put --hex model.ice 00ff 68656c6c6f\n"
                            "  icecore put --hex-value model.ice greeting 68656c6c6f\n"
                            "  icecore put --if-new model.ice owner me\n"
                            "  icecore put model.ice --many pairs.tsv\n"
                            "  icecore scan other.ice -o json | icecore put model.ice --many - --lines-json\n"
                            "Exit code 1 if --if-new was given and the key exists.");
  verb.add_store(a->store, "The store's file; it is created if it does not exist");
  const option key = verb.add_option("KEY", a->key, "The key, at most 65,535 bytes").type_name("");
  const option value = verb.add_option("VALUE", a->value, "The value; - reads it from standard input").type_name("");
  const option file = verb.add_option("--file", a->file, "Read the value from this file")
                          .type_name("FILE")
                          .excludes(value)
                          .completes(value_kind::file);
  verb.add_hex(a->hex);
  const option if_new = verb.add_flag("--if-new", a->if_new, "Only if the key does not exist");
  add_many_options(verb, *a, {key, value, file, if_new});
  verb.add_writing(a->write);
  verb.add_format(a->format);
  verb.runs([a, key] {
    a->key_given = key.given();
    return put(*a);
  });

  verb = line.add_verb("get", "Write the value of a key to standard output, byte for byte",
                       "  icecore get model.ice layer1/bias\n"
                       "  icecore get model.ice layer1/weight --at epoch-3 > weight.bin\n"
                       "  icecore get model.ice layer1/bias --at latest~3            # three tags ago\n"
                       "  icecore get model.ice layer1/bias --at '2 days ago'\n"
                       "  icecore get model.ice layer1/bias --at-time 2024-05-01T12:00:00Z\n"
                       "Exit code 1 if the key does not exist.");
  verb.add_store(a->store);
  verb.add_reading(a->read);
  verb.add_option("KEY", a->key, "The key").required().type_name("");
  verb.add_view(a->view);
  verb.add_hex(a->hex);
  verb.add_format(a->format);
  verb.runs([a] { return get(*a); });

  verb = line.add_verb("del", "Remove a key in the open version; its history stays",
                       "  icecore del model.ice layer1/bias\n"
                       "Exit code 1 if the key did not exist.");
  verb.add_store(a->store);
  verb.add_option("KEY", a->key, "The key").required().type_name("");
  verb.add_hex(a->hex);
  verb.add_changing(a->write);
  verb.add_format(a->format);
  verb.runs([a] { return del(*a); });
}

}  // namespace icecore::cli
