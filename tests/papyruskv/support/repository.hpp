// Tests of PapyrusKV's interface, which every rank of an MPI job runs.
//
//   using Things = icecore::testing::PapyrusTest;
//   TEST_F(Things, hold) { const int db = open("things"); ... }
//
// Each test has a repository of its own, empty at first, which papyruskv_finalize keeps: PAPYRUSKV_DESTROY_REPOSITORY
// is 0. What is open at the end papyruskv_finalize closes.
#pragma once

#include <papyrus/kv.h>

#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>

#include "support/ranks.hpp"

namespace icecore::testing {

class PapyrusTest : public ClusterTest {
 protected:
  void SetUp() override;
  void TearDown() override;

  [[nodiscard]] std::string repository() const { return path().string(); }
  /// A path beside the repository, gone after the test.
  [[nodiscard]] std::string beside(const std::string& name) const { return (path().parent_path() / name).string(); }
  /// Ends and begins again, as the next program of a job would.
  void restart_program();

  [[nodiscard]] static int next() { return (rank() + 1) % ranks(); }
  [[nodiscard]] static int previous() { return (rank() + ranks() - 1) % ranks(); }
};

constexpr int usual_flags = PAPYRUSKV_CREATE | PAPYRUSKV_RELAXED | PAPYRUSKV_RDWR;

/// Opens with these flags; a key beginning with the letter 'a' + r belongs to rank r.
[[nodiscard]] int open(const char* name, int flags = usual_flags, std::size_t value_size = 0);

/// A key of that rank in a database of `open`.
[[nodiscard]] std::string key_of(int owner, int number = 0);

int put(int db, std::string_view key, std::string_view value);
int remove(int db, std::string_view key);
/// The value, in memory that the library allocates; empty if the result is PAPYRUSKV_ERR.
[[nodiscard]] std::optional<std::string> get(int db, std::string_view key);

/// An environment variable, until the end of the scope.
class variable {
 public:
  variable(const char* name, const std::string& value) : name_(name) { setenv(name, value.c_str(), 1); }
  ~variable() { unsetenv(name_); }
  variable(const variable&) = delete;
  variable& operator=(const variable&) = delete;

 private:
  const char* name_;
};

/// How many keys this rank holds.
[[nodiscard]] int local_keys(int db);

}  // namespace icecore::testing
