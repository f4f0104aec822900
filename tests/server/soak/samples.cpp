#include "soak/samples.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace icecore::soak {
namespace {

std::int64_t median_of(std::vector<std::int64_t> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

std::int64_t processor_ms_of(const std::string& folder) {
  std::ifstream in(folder + "/stat");
  std::string text((std::istreambuf_iterator<char>(in)), {});
  std::istringstream fields(text.substr(text.rfind(')') + 1));  // a program's name may have spaces
  std::string skipped;
  for (int i = 0; i < 11; ++i) fields >> skipped;
  std::int64_t user = 0;
  std::int64_t system = 0;
  fields >> user >> system;
  return (user + system) * 1000 / ::sysconf(_SC_CLK_TCK);
}

}  // namespace

sample sample_of(pid_t process) {
  const std::string folder = "/proc/" + std::to_string(process);
  sample what;
  std::ifstream in(folder + "/status");
  for (std::string line; std::getline(in, line);) {
    std::istringstream words(line);
    std::string name;
    std::int64_t value = 0;
    words >> name >> value;
    if (name == "VmRSS:") what.resident_kib = value;
    if (name == "RssAnon:") what.anonymous_kib = value;
    if (name == "Threads:") what.threads = value;
  }
  const std::filesystem::directory_iterator open(folder + "/fd");
  what.descriptors = std::distance(begin(open), end(open));
  what.processor_ms = processor_ms_of(folder);
  return what;
}

std::string text_of(const sample& what) {
  return fmt::format("{} KiB resident, {} KiB of them anonymous, {} descriptors, {} threads, {} ms of processor",
                     what.resident_kib, what.anonymous_kib, what.descriptors, what.threads, what.processor_ms);
}

double growth_of(const std::vector<std::int64_t>& series) {
  std::vector<double> slopes;
  for (std::size_t i = 0; i < series.size(); ++i) {
    for (std::size_t j = i + 1; j < series.size(); ++j) {
      slopes.push_back(static_cast<double>(series[j] - series[i]) / static_cast<double>(j - i));
    }
  }
  if (slopes.empty()) return 0;
  const auto middle = slopes.begin() + static_cast<std::ptrdiff_t>(slopes.size() / 2);
  std::ranges::nth_element(slopes, middle);
  return *middle * static_cast<double>(series.size() - 1);
}

std::vector<std::string> what_grows(const std::vector<sample>& at_rest) {
  std::vector<std::string> wrong;
  const auto judge = [&](const char* name, std::int64_t sample::*member, double least) {
    std::vector<std::int64_t> series;
    for (std::size_t i = at_rest.size() / 4; i < at_rest.size(); ++i) series.push_back(at_rest[i].*member);
    if (series.empty()) return;
    const double allowed = std::max(least, member == &sample::descriptors || member == &sample::threads
                                               ? 0
                                               : static_cast<double>(median_of(series)) / 50);
    const double grown = growth_of(series);
    if (grown >= allowed) {
      wrong.push_back(fmt::format("{} are not level: they grew by {:.1f} in {} samples, from {} to {}", name, grown,
                                  series.size(), series.front(), series.back()));
    }
  };
  judge("KiB resident", &sample::resident_kib, 4096);
  judge("KiB of anonymous memory", &sample::anonymous_kib, 4096);
  judge("descriptors", &sample::descriptors, 1);
  judge("threads", &sample::threads, 1);
  return wrong;
}

}  // namespace icecore::soak
