// Which place is taken out, and which are reached: linked into the programs of schemata.py.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>

#include "schemata.hpp"

namespace icecore_mutants {
namespace {

constexpr unsigned places_max = 4096;
unsigned chosen = 0;
volatile unsigned char in_this_process[places_max];
volatile unsigned char* reached = in_this_process;

/// Before all other constructors. A process that was forked, and one that is killed, enters what it reaches, too.
[[gnu::constructor(101)]] void begin() {
  if (const char* number = std::getenv("ICECORE_MUTANT")) chosen = static_cast<unsigned>(std::atoi(number));
  const char* path = std::getenv("ICECORE_MUTANTS_REACHED");
  if (path == nullptr) return;
  const int file = open(path, O_RDWR | O_CREAT, 0644);
  if (file < 0 || ftruncate(file, places_max) != 0) std::abort();
  void* at = mmap(nullptr, places_max, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (at == MAP_FAILED) std::abort();
  close(file);
  reached = static_cast<volatile unsigned char*>(at);
}

}  // namespace

bool out(unsigned place) noexcept {
  if (reached[place] == 0) reached[place] = 1;
  return place == chosen;
}

}  // namespace icecore_mutants
