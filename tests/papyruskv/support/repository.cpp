#include "support/repository.hpp"

namespace icecore::testing {
namespace {

int by_first_letter(const char* key, std::size_t keylen, std::size_t nranks) {
  return keylen == 0 ? 0 : static_cast<int>(static_cast<std::size_t>(*key - 'a') % nranks);
}

}  // namespace

void PapyrusTest::SetUp() {
  ClusterTest::SetUp();
  setenv("PAPYRUSKV_DESTROY_REPOSITORY", "0", 1);
  ASSERT_EQ(papyruskv_init(nullptr, nullptr, repository().c_str()), PAPYRUSKV_OK) << papyruskv_error_message();
}

void PapyrusTest::TearDown() {
  EXPECT_EQ(papyruskv_finalize(), PAPYRUSKV_OK) << papyruskv_error_message();
  ClusterTest::TearDown();
}

void PapyrusTest::restart_program() {
  ASSERT_EQ(papyruskv_finalize(), PAPYRUSKV_OK) << papyruskv_error_message();
  ASSERT_EQ(papyruskv_init(nullptr, nullptr, repository().c_str()), PAPYRUSKV_OK) << papyruskv_error_message();
}

int open(const char* name, int flags, std::size_t value_size) {
  papyruskv_option_t option{0, value_size, by_first_letter};
  int db = 0;
  EXPECT_EQ(papyruskv_open(name, flags, &option, &db), PAPYRUSKV_OK) << papyruskv_error_message();
  return db;
}

std::string key_of(int owner, int number) {
  std::string key(1, static_cast<char>('a' + owner));
  return key.append(std::to_string(number));
}

int put(int db, std::string_view key, std::string_view value) {
  return papyruskv_put(db, key.data(), key.size(), value.data(), value.size());
}

int remove(int db, std::string_view key) { return papyruskv_delete(db, key.data(), key.size()); }

std::optional<std::string> get(int db, std::string_view key) {
  char* value = nullptr;
  std::size_t length = 0;
  if (papyruskv_get(db, key.data(), key.size(), &value, &length) != PAPYRUSKV_OK) {
    EXPECT_EQ(value, nullptr);
    return std::nullopt;
  }
  std::string copy(value, length);
  EXPECT_EQ(papyruskv_free(&value), PAPYRUSKV_OK);
  EXPECT_EQ(value, nullptr);
  return copy;
}

int local_keys(int db) {
  int count = 0;
  papyruskv_iter_t at = nullptr;
  EXPECT_EQ(papyruskv_iter_local(db, &at), PAPYRUSKV_OK) << papyruskv_error_message();
  while (at != nullptr) {
    ++count;
    if (papyruskv_iter_next(db, &at) != PAPYRUSKV_OK) {
      ADD_FAILURE() << papyruskv_error_message();
      return count;
    }
  }
  return count;
}

}  // namespace icecore::testing
