// An ordered map that never forgets: the stars of a small survey, catalogued in three nights.
//
//   ordered_map_with_a_past [FILE]       (default: survey.ice in the current folder, created anew)
#include <cstdio>
#include <filesystem>
#include <string>

#include "icecore/icecore.hpp"

int main(int argc, char** argv) try {
  const std::string path = argc > 1 ? argv[1] : "survey.ice";
  std::filesystem::remove(path);
  icecore::store store(path);
  icecore::map<std::string, double> magnitude(store);  // star -> apparent magnitude, in the order of the names

  magnitude.insert("Aldebaran", 0.87);
  magnitude.insert("Betelgeuse", 0.42);
  magnitude.insert("Sirius", -1.46);
  store.tag("night-1", "first light");

  magnitude.insert("Betelgeuse", 1.64);  // it dims; the first night keeps its value
  magnitude.insert("Vega", 0.03);
  store.tag("night-2");

  icecore::map<std::string, double>::batch corrections;  // readers and crashes see both or neither
  corrections.remove("Aldebaran");
  corrections.insert("Capella", 0.08);
  magnitude.apply(corrections);
  store.tag("night-3", "Aldebaran was Capella");

  for (const auto& tag : store.tags()) {
    std::printf("%s, %zu stars:", tag.name.c_str(), magnitude.at(tag.version).size());
    for (const auto& [star, seen] : magnitude.at(tag.version).range()) {
      std::printf("  %.*s %.2f", static_cast<int>(star.size()), star.data(), seen);
    }
    std::printf("\n");
  }

  std::printf("Betelgeuse, oldest first:");
  for (const auto& [version, seen] : magnitude.history_oldest_first("Betelgeuse")) {
    std::printf("  %.2f in version %llu", seen.value_or(0), static_cast<unsigned long long>(version));
  }
  std::printf("\nfrom night-1 to night-3:");
  for (const auto& [star, before, after] :
       magnitude.diff(store.at("night-1").version(), store.at("night-3").version())) {
    const char* what = !before ? "new" : !after ? "gone" : "changed";
    std::printf("  %.*s %s", static_cast<int>(star.size()), star.data(), what);
  }
  const auto night_1 = magnitude.at("night-1");
  std::printf("\nfirst star from C on, on night-1: %s\n", std::string(night_1.lower_bound("C")->key).c_str());
  store.close();
} catch (const icecore::error& failure) {
  std::fprintf(stderr, "ordered_map_with_a_past: %s\n", failure.what());
  return 1;
}
