#include "report.hpp"

#include <sys/utsname.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>

namespace icecore::bench {

std::string fixed(double number, int digits) {
  char text[64];
  std::snprintf(text, sizeof text, "%.*f", digits, number);
  return text;
}

void table::print() const {
  std::vector<std::size_t> widths(rows_.front().size(), 0);
  for (const auto& row : rows_) {
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  for (const auto& row : rows_) {
    for (std::size_t i = 0; i < row.size(); ++i) {
      const int width = static_cast<int>(widths[i]);
      std::printf("%s%*s", i == 0 ? "" : "  ", i == 0 ? -width : width, row[i].c_str());
    }
    std::printf("\n");
  }
}

json machine() {
  json about;
  std::ifstream processors("/proc/cpuinfo");
  for (std::string line; std::getline(processors, line);) {
    if (line.starts_with("model name")) {
      about["processor"] = line.substr(line.find(':') + 2);
      break;
    }
  }
  about["hardware_threads"] = std::thread::hardware_concurrency();
  utsname names{};
  if (uname(&names) == 0) about["kernel"] = names.release;
  std::string huge_pages;
  std::getline(std::ifstream("/sys/kernel/mm/transparent_hugepage/enabled"), huge_pages);
  about["transparent_huge_pages"] = huge_pages;
  return about;
}

void tell(const std::string& what) {
  static const bool terminal = isatty(STDERR_FILENO) == 1;
  if (terminal) std::fprintf(stderr, "\r\x1b[K%s", what.c_str());
}

}  // namespace icecore::bench
