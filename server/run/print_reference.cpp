// Prints what is generated from the table of keys: icecore_server_reference manual|table|sample.
#include <cstdio>
#include <string>
#include <string_view>

#include "run/configuration/command_line.hpp"

int main(int count, char** arguments) {
  using namespace icecore::server;
  const std::string_view wanted = count == 2 ? arguments[1] : "";
  std::string text;
  if (wanted == "manual") {
    text = manual_page();
  } else if (wanted == "table") {
    text = reference_table();
  } else if (wanted == "sample") {
    text = sample_configuration();
  } else {
    std::fputs("usage: icecore_server_reference manual|table|sample\n", stderr);
    return 2;
  }
  return std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0 ? 0 : 1;
}
