// What is generated from the table of keys for people: the manual page and the table of docs/server.md.
#include <fmt/format.h>

#include "icecore/version.hpp"
#include "run/configuration/command_line.hpp"
#include "run/configuration/keys.hpp"
#include "run/configuration/reading.hpp"

namespace icecore::server {

namespace {

/// Text for troff, in which backslashes, leading dots and hyphens have a meaning.
std::string troff(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '\\') {
      out += "\\e";
    } else if (c == '"') {
      out += "\\(dq";
    } else if (c == '-') {
      out += "\\-";
    } else if ((c == '.' || c == '\'') && (out.empty() || out.back() == '\n')) {
      out += std::string("\\&") + c;
    } else {
      out += c;
    }
  }
  return out;
}

/// Text for a cell of a Markdown table.
std::string cell(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '|') out += '\\';
    out += c;
  }
  return out;
}

constexpr std::string_view manual_head = R"(.SH NAME
icecore\-server \- a key\-value service that keeps every version
.SH SYNOPSIS
.B icecore\-server
[\fB\-c\fR \fIFILE\fR] [\fB\-\-check\fR | \fB\-\-print\-configuration\fR | \fB\-\-restore\fR \fIFOLDER\fR] [\fIFLAG\fR \fIVALUE\fR]...
.SH DESCRIPTION
icecore\-server serves ordered key\-value databases that keep every version of themselves. It reads a TOML file; each key
of the file has a flag, which overrides it. Without TLS and users it listens on the loopback interface alone.
.SH OPTIONS
.TP
\fB\-c\fR, \fB\-\-configuration\fR \fIFILE\fR
Read this file.
.TP
\fB\-\-check\fR
Check the configuration and the files that it names, and end.
.TP
\fB\-\-print\-configuration\fR
Print the configuration that file and flags make, as TOML, and end. It holds no secrets: they are in files of their own.
.TP
\fB\-\-restore\fR \fIFOLDER\fR
Make the data folder, which must not be there yet, from this snapshot of a service, and end.
.TP
\fB\-\-help\fR, \fB\-\-version\fR
Print the flags, or the version, and end.
.SH CONFIGURATION
Sizes are written as "64 MiB", durations as "250 ms". A file can be given as "credential:NAME": the file NAME in the
folder that systemd's LoadCredential= has filled.
)";

constexpr std::string_view manual_tail = R"(.SH SIGNALS
.TP
SIGTERM, SIGINT
Stop: no new connections, running requests are answered, databases are closed, at most until server.shutdown_limit has
passed. A second one ends the process at once; what was acknowledged stays.
.TP
SIGHUP
Open the file of the log anew, after it was rotated.
.SH EXIT STATUS
0: stopped cleanly. 1: an error at run time. 2: the arguments or the configuration are wrong.
3: stopping was cut short. 4: another server uses the folder.
.SH FILES
/etc/icecore/icecore.toml, /var/lib/icecore
)";

}  // namespace

std::string manual_page() {
  const configuration defaults;
  std::string out =
      fmt::format(".TH ICECORE\\-SERVER 8 \"\" \"icecore {}\" \"System administration\"\n", library_version());
  out += manual_head;
  std::string_view section;
  for (const key& k : keys()) {
    if (k.section != section) {
      section = k.section;
      out += fmt::format(".SS \"[{}]: {}\"\n", troff(section), troff(section_purpose(section)));
    }
    out += fmt::format(".TP\n\\fB{}\\fR = {} (\\fB{}\\fR)\n{}\nAllowed: {}.\n", troff(k.name), troff(k.toml(defaults)),
                       troff(k.flag()), troff(k.help), troff(k.allowed));
  }
  out += manual_tail;
  return out;
}

std::string sample_configuration() {
  configuration packaged;
  packaged.server.data = "/var/lib/icecore";
  return "# The configuration of icecore-server; icecore-server(8) describes it. What is a comment has its default.\n"
         "# After a change: icecore-server --configuration /etc/icecore/icecore.toml --check\n"
         "#                 systemctl restart icecore-server\n\n" +
         configuration_toml(packaged, toml_style::commented);
}

std::string reference_table() {
  const configuration defaults;
  std::string out = "| key | default | what it is | allowed |\n|---|---|---|---|\n";
  for (const key& k : keys()) {
    out += fmt::format("| `{}` | `{}` | {} | {} |\n", k.path(), k.toml(defaults), cell(k.help), cell(k.allowed));
  }
  return out;
}

}  // namespace icecore::server
