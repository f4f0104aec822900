// SKV's C++ interface: every function and flag, and what bad input gives.
#define SKV_CLIENT_UNI
#include <skv/client/skv_client.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include "test_server.hpp"

namespace {

constexpr auto both = static_cast<skv_pds_priv_t>(SKV_PDS_READ | SKV_PDS_WRITE);

skv_cmd_RIU_flags_t flags(unsigned which) { return static_cast<skv_cmd_RIU_flags_t>(which); }

/// A folder with the configuration of these servers, and a token in the environment.
class configured {
 public:
  configured(const std::vector<std::string>& servers, const std::string& more = {}) {
    std::string name = "/tmp/icecore-skv-test-XXXXXX";
    if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("no folder in /tmp");
    folder_ = name;
    std::ofstream machines(folder_ / "machines");
    for (const std::string& each : servers) {
      const std::size_t colon = each.rfind(':');
      machines << each.substr(0, colon) << ' ' << each.substr(colon + 1) << '\n';
    }
    machines << more;
    std::ofstream(file()) << "# of a test\nSKV_SERVER_PORT = 17002\nSKV_SERVER_MACHINE_FILE = "
                          << (folder_ / "machines").string() << "\n";
    setenv("ICECORE_TOKEN", test_server::token, 1);
  }
  ~configured() { std::filesystem::remove_all(folder_); }
  configured(const configured&) = delete;
  configured& operator=(const configured&) = delete;
  [[nodiscard]] std::string file() const { return (folder_ / "skv_server.conf").string(); }

 private:
  std::filesystem::path folder_;
};

struct Skv : testing::Test {
  void SetUp() override {
    ASSERT_EQ(client.Init(0, 0), SKV_SUCCESS);
    ASSERT_EQ(client.Connect(where.file().c_str(), 0), SKV_SUCCESS);
    ASSERT_EQ(open("set", SKV_COMMAND_OPEN_FLAGS_CREATE), SKV_SUCCESS);
  }
  skv_status_t open(std::string name, skv_cmd_open_flags_t how) { return client.Open(name.data(), both, how, &pds); }
  skv_status_t insert(std::string key, std::string value, int offset = 0, unsigned how = 0) {
    return client.Insert(&pds, key.data(), size(key), value.data(), size(value), offset, flags(how));
  }
  /// The whole value, or the status.
  std::string value(std::string key) {
    std::string buffer(4096, '?');
    int told = -1;
    const skv_status_t status =
        client.Retrieve(&pds, key.data(), size(key), buffer.data(), size(buffer), &told, 0, SKV_COMMAND_RIU_FLAGS_NONE);
    return status == SKV_SUCCESS ? buffer.substr(0, static_cast<std::size_t>(told)) : skv_status_to_string(status);
  }
  static int size(const std::string& text) { return static_cast<int>(text.size()); }

  test_server server;
  configured where{{server.host_and_port()}};
  skv_client_t client;
  skv_pds_id_t pds{};
};

/// All pairs that a cursor gives, "key=value ".
template <class First, class Next>
std::string walk(const First& first, const Next& next) {
  std::string all;
  char key[64];
  char value[64];
  int key_size = 0;
  int value_size = 0;
  skv_status_t status = first(key, &key_size, value, &value_size);
  while (status == SKV_SUCCESS) {
    all.append(key, static_cast<std::size_t>(key_size)).append("=");
    all.append(value, static_cast<std::size_t>(value_size)).append(" ");
    status = next(key, &key_size, value, &value_size);
  }
  return all + (status == SKV_ERRNO_END_OF_RECORDS ? "" : skv_status_to_string(status));
}

}  // namespace

TEST_F(Skv, a_pds_is_opened_as_its_flags_say) {
  EXPECT_EQ(open("none", SKV_COMMAND_OPEN_FLAGS_NONE), SKV_ERRNO_PDS_DOES_NOT_EXIST);
  EXPECT_EQ(open("none", SKV_COMMAND_OPEN_FLAGS_EXCLUSIVE), SKV_ERRNO_PDS_DOES_NOT_EXIST);
  EXPECT_EQ(open("set", SKV_COMMAND_OPEN_FLAGS_NONE), SKV_SUCCESS);
  EXPECT_EQ(open("set", SKV_COMMAND_OPEN_FLAGS_CREATE), SKV_SUCCESS);
  EXPECT_EQ(open("set", SKV_COMMAND_OPEN_FLAGS_EXCLUSIVE), SKV_ERRNO_PDS_ALREADY_EXISTS);
  EXPECT_EQ(open("set", SKV_COMMAND_OPEN_FLAGS_DUP), SKV_ERRNO_PDS_ALREADY_EXISTS);
  EXPECT_EQ(open("/another, with_what\x01 names have/", SKV_COMMAND_OPEN_FLAGS_DUP), SKV_SUCCESS);
  EXPECT_EQ(open(std::string(63, 'n'), SKV_COMMAND_OPEN_FLAGS_CREATE), SKV_SUCCESS);
  EXPECT_EQ(open(std::string(64, 'n'), SKV_COMMAND_OPEN_FLAGS_CREATE), SKV_ERRNO_KEY_TOO_LARGE);
  EXPECT_EQ(open("", SKV_COMMAND_OPEN_FLAGS_CREATE), SKV_SUCCESS);  // Lunchbox calls its own so
  EXPECT_EQ(open("", SKV_COMMAND_OPEN_FLAGS_NONE), SKV_SUCCESS);
  EXPECT_EQ(client.Open(nullptr, SKV_PDS_READ, SKV_COMMAND_OPEN_FLAGS_CREATE, &pds), SKV_ERRNO_UNSPECIFIED_ERROR);
}

TEST_F(Skv, an_identifier_is_good_in_a_client_that_has_not_opened_it) {
  ASSERT_EQ(insert("k", "v"), SKV_SUCCESS);
  skv_client_t other;
  ASSERT_EQ(other.Init(1, 0, where.file().c_str()), SKV_SUCCESS);
  ASSERT_EQ(other.Connect(nullptr, 0), SKV_SUCCESS);
  char buffer[8];
  int told = 0;
  char key[] = "k";
  EXPECT_EQ(other.Retrieve(&pds, key, 1, buffer, 8, &told, 0, SKV_COMMAND_RIU_FLAGS_NONE), SKV_SUCCESS);
  EXPECT_EQ(std::string(buffer, static_cast<std::size_t>(told)), "v");
  skv_pds_id_t unknown{1, 2};
  EXPECT_EQ(other.Retrieve(&unknown, key, 1, buffer, 8, &told, 0, SKV_COMMAND_RIU_FLAGS_NONE),
            SKV_ERRNO_PDS_DOES_NOT_EXIST);
}

TEST_F(Skv, an_insert_without_flags_needs_a_new_key) {
  EXPECT_EQ(insert("k", "abc"), SKV_SUCCESS);
  EXPECT_EQ(insert("k", "xyz"), SKV_ERRNO_RECORD_ALREADY_EXISTS);
  EXPECT_EQ(value("k"), "abc");
  EXPECT_EQ(insert("padded", "x", 2), SKV_SUCCESS);
  EXPECT_EQ(value("padded"), std::string("\0\0x", 3));
  EXPECT_EQ(insert("padded", "y", 1), SKV_ERRNO_RECORD_ALREADY_EXISTS);
  EXPECT_EQ(value("padded"), std::string("\0\0x", 3));
  EXPECT_EQ(insert("far", "x", std::numeric_limits<int>::max()), SKV_ERRNO_PENDING_COMMAND_LIMIT_REACHED)
      << "more than the server's memory for all requests: zeros that no client makes either";
  EXPECT_EQ(value("far"), "SKV_ERRNO_ELEM_NOT_FOUND");
  EXPECT_EQ(insert("empty", ""), SKV_SUCCESS);
  EXPECT_EQ(value("empty"), "");
  EXPECT_EQ(insert("locks", "1", 0,
                   SKV_COMMAND_RIU_INSERT_USE_RECORD_LOCKS | SKV_COMMAND_RIU_INSERT_KEY_FITS_IN_CTL_MSG |
                       SKV_COMMAND_RIU_INSERT_KEY_VALUE_FIT_IN_CTL_MSG),
            SKV_SUCCESS);
}

TEST_F(Skv, overwrite_stays_within_the_value) {
  constexpr unsigned how = SKV_COMMAND_RIU_INSERT_OVERWRITE_VALUE_ON_DUP;
  EXPECT_EQ(insert("k", "abc", 0, how), SKV_SUCCESS) << "a new key";
  EXPECT_EQ(insert("k", "XY", 0, how), SKV_SUCCESS);
  EXPECT_EQ(value("k"), "XYc");
  EXPECT_EQ(insert("k", "Z", 2, how), SKV_SUCCESS);
  EXPECT_EQ(value("k"), "XYZ");
  EXPECT_EQ(insert("k", "long", 0, how), SKV_ERRNO_VALUE_TOO_LARGE);
  EXPECT_EQ(insert("k", "zz", 2, how), SKV_ERRNO_VALUE_TOO_LARGE);
  EXPECT_EQ(value("k"), "XYZ");
}

TEST_F(Skv, expand_grows_behind_the_end_and_over_it_if_allowed) {
  constexpr unsigned how = SKV_COMMAND_RIU_INSERT_EXPANDS_VALUE;
  EXPECT_EQ(insert("k", "abc", 0, how), SKV_SUCCESS);
  EXPECT_EQ(insert("k", "B", 1, how), SKV_SUCCESS);
  EXPECT_EQ(value("k"), "aBc");
  EXPECT_EQ(insert("k", "xyz", 1, how), SKV_ERRNO_INSERT_OVERLAP);
  EXPECT_EQ(insert("k", "xyz", 1, how | SKV_COMMAND_RIU_INSERT_OVERLAPPING), SKV_SUCCESS);
  EXPECT_EQ(value("k"), "axyz");
  EXPECT_EQ(insert("k", "end", 4, how), SKV_SUCCESS);
  EXPECT_EQ(value("k"), "axyzend");
  EXPECT_EQ(insert("k", "!", 8, how), SKV_SUCCESS);
  EXPECT_EQ(value("k"), std::string("axyzend\0!", 9));
}

TEST_F(Skv, update_ends_the_value_with_the_part) {
  constexpr unsigned how = SKV_COMMAND_RIU_UPDATE;
  EXPECT_EQ(insert("k", "abcdef", 0, how), SKV_SUCCESS);
  EXPECT_EQ(insert("k", "X", 2, how), SKV_SUCCESS);
  EXPECT_EQ(value("k"), "abX");
  EXPECT_EQ(insert("k", "longer", 3, how), SKV_SUCCESS);
  EXPECT_EQ(value("k"), "abXlonger");
  EXPECT_EQ(insert("k", "x", 10, how), SKV_ERRNO_VALUE_TOO_LARGE);
  std::string key = "absent";
  std::string part = "p";
  EXPECT_EQ(client.Update(&pds, key.data(), size(key), part.data(), 1, 0, SKV_COMMAND_RIU_FLAGS_NONE),
            SKV_ERRNO_ELEM_NOT_FOUND);
  key = "k";
  EXPECT_EQ(client.Update(&pds, key.data(), 1, part.data(), 1, 0, SKV_COMMAND_RIU_FLAGS_NONE), SKV_SUCCESS);
  EXPECT_EQ(value("k"), "p");
}

TEST_F(Skv, append_adds_behind_the_end) {
  EXPECT_EQ(insert("k", "one", 0, SKV_COMMAND_RIU_APPEND), SKV_SUCCESS);
  EXPECT_EQ(insert("k", "two", 99, SKV_COMMAND_RIU_APPEND), SKV_SUCCESS);
  EXPECT_EQ(value("k"), "onetwo");
  EXPECT_EQ(insert("k", "x", 0, SKV_COMMAND_RIU_APPEND | SKV_COMMAND_RIU_UPDATE), SKV_ERRNO_NOT_IMPLEMENTED);
}

TEST_F(Skv, a_retrieve_copies_what_fits_and_tells_the_size) {
  ASSERT_EQ(insert("k", "abcdef"), SKV_SUCCESS);
  std::string key = "k";
  const auto retrieve = [&](int length, int offset, unsigned how, std::string& got) {
    got.assign(8, '?');
    int told = -1;
    const skv_status_t status = client.Retrieve(&pds, key.data(), 1, got.data(), length, &told, offset, flags(how));
    got += status == SKV_SUCCESS ? std::to_string(told) : skv_status_to_string(status);
    return got;
  };
  std::string got;
  EXPECT_EQ(retrieve(8, 0, 0, got), "abcdef??6");
  EXPECT_EQ(retrieve(4, 0, 0, got), "abcd????6");
  EXPECT_EQ(retrieve(4, 1, 0, got), "bcde????5");
  EXPECT_EQ(retrieve(4, 6, 0, got), "????????0");
  EXPECT_EQ(retrieve(4, 7, 0, got), "????????SKV_ERRNO_VALUE_TOO_LARGE");
  EXPECT_EQ(retrieve(3, 2, SKV_COMMAND_RIU_RETRIEVE_SPECIFIC_VALUE_LEN, got), "cde?????3");
  EXPECT_EQ(retrieve(5, 2, SKV_COMMAND_RIU_RETRIEVE_SPECIFIC_VALUE_LEN, got), "????????SKV_ERRNO_VALUE_TOO_LARGE");
  key = "n";
  EXPECT_EQ(retrieve(4, 0, SKV_COMMAND_RIU_RETRIEVE_VALUE_FIT_IN_CTL_MSG, got), "????????SKV_ERRNO_ELEM_NOT_FOUND");
}

TEST_F(Skv, a_removed_key_is_gone) {
  ASSERT_EQ(insert("k", "v"), SKV_SUCCESS);
  char key[] = "k";
  EXPECT_EQ(client.Remove(&pds, key, 1, SKV_COMMAND_REMOVE_KEY_FITS_IN_CTL_MSG), SKV_SUCCESS);
  EXPECT_EQ(client.Remove(&pds, key, 1, SKV_COMMAND_REMOVE_FLAGS_NONE), SKV_ERRNO_ELEM_NOT_FOUND);
  EXPECT_EQ(value("k"), "SKV_ERRNO_ELEM_NOT_FOUND");
}

TEST_F(Skv, commands_under_way_complete_one_by_one) {
  std::vector<std::string> keys;
  std::vector<std::string> values;
  for (int i = 0; i < 500; ++i) {
    keys.push_back("key" + std::to_string(i));
    values.push_back("value" + std::to_string(i));
  }
  std::vector<skv_client_cmd_ext_hdl_t> under_way(keys.size());
  for (std::size_t i = 0; i < keys.size(); ++i) {
    ASSERT_EQ(client.iInsert(&pds, keys[i].data(), size(keys[i]), values[i].data(), size(values[i]), 0,
                             SKV_COMMAND_RIU_FLAGS_NONE, &under_way[i]),
              SKV_SUCCESS);
  }
  for (const skv_client_cmd_ext_hdl_t each : under_way) EXPECT_EQ(client.Wait(each), SKV_SUCCESS);
  EXPECT_EQ(client.Wait(under_way[0]), SKV_ERRNO_NO_EVENT) << "a second time";
  EXPECT_EQ(client.Test(under_way[0]), SKV_ERRNO_NO_EVENT);

  std::vector<std::string> got(keys.size(), std::string(32, '?'));
  std::vector<int> sizes(keys.size());
  for (std::size_t i = 0; i < keys.size(); ++i) {
    ASSERT_EQ(client.iRetrieve(&pds, keys[i].data(), size(keys[i]), got[i].data(), 32, &sizes[i], 0,
                               SKV_COMMAND_RIU_FLAGS_NONE, &under_way[i]),
              SKV_SUCCESS);
  }
  std::vector<skv_client_cmd_ext_hdl_t> seen;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    skv_client_cmd_ext_hdl_t done = nullptr;
    EXPECT_EQ(client.WaitAny(&done), SKV_SUCCESS);
    seen.push_back(done);
  }
  std::sort(seen.begin(), seen.end());
  std::sort(under_way.begin(), under_way.end());
  EXPECT_EQ(seen, under_way) << "each once";
  for (std::size_t i = 0; i < keys.size(); ++i) {
    EXPECT_EQ(got[i].substr(0, static_cast<std::size_t>(sizes[i])), values[i]);
  }
  skv_client_cmd_ext_hdl_t done = nullptr;
  EXPECT_EQ(client.WaitAny(&done), SKV_ERRNO_NO_EVENT);
  EXPECT_EQ(client.TestAny(&done), SKV_ERRNO_NOT_DONE);
}

TEST_F(Skv, a_command_that_is_tested_has_its_own_status) {
  char key[] = "k";
  char part[] = "v";
  skv_client_cmd_ext_hdl_t handle = nullptr;
  ASSERT_EQ(client.iUpdate(&pds, key, 1, part, 1, 0, SKV_COMMAND_RIU_FLAGS_NONE, &handle), SKV_SUCCESS);
  skv_status_t status = SKV_ERRNO_NOT_DONE;
  while (status == SKV_ERRNO_NOT_DONE) status = client.Test(handle);
  EXPECT_EQ(status, SKV_ERRNO_ELEM_NOT_FOUND);
  ASSERT_EQ(client.iRemove(&pds, key, 1, SKV_COMMAND_REMOVE_FLAGS_NONE, &handle), SKV_SUCCESS);
  skv_client_cmd_ext_hdl_t done = nullptr;
  status = SKV_ERRNO_NOT_DONE;
  while (status == SKV_ERRNO_NOT_DONE) status = client.TestAny(&done);
  EXPECT_EQ(status, SKV_ERRNO_ELEM_NOT_FOUND);
  EXPECT_EQ(done, handle);
  std::string name = "later";
  skv_pds_id_t other{};
  ASSERT_EQ(client.iOpen(name.data(), both, SKV_COMMAND_OPEN_FLAGS_CREATE, &other, &handle), SKV_SUCCESS);
  EXPECT_EQ(client.Wait(handle), SKV_SUCCESS);
  skv_pds_attr_t attributes{};
  attributes.mPDSId = other;
  ASSERT_EQ(client.iPDScntl(SKV_PDSCNTL_CMD_STAT_GET, &attributes, &handle), SKV_SUCCESS);
  EXPECT_EQ(client.Wait(handle), SKV_SUCCESS);
  EXPECT_STREQ(attributes.mPDSName, "later");
  ASSERT_EQ(client.iClose(&other, &handle), SKV_SUCCESS);
  EXPECT_EQ(client.Wait(handle), SKV_SUCCESS);
}

TEST_F(Skv, more_commands_than_the_limit_are_refused) {
  std::vector<skv_client_cmd_ext_hdl_t> under_way;
  char key[] = "k";
  char got[4];
  skv_client_cmd_ext_hdl_t handle = nullptr;
  skv_status_t status = SKV_SUCCESS;
  for (int i = 0; i < 262'144 && status == SKV_SUCCESS; ++i) {
    status = client.iRetrieve(&pds, key, 1, got, 4, nullptr, 0, SKV_COMMAND_RIU_FLAGS_NONE, &handle);
    if (status == SKV_SUCCESS) under_way.push_back(handle);
  }
  EXPECT_EQ(status, SKV_SUCCESS);
  EXPECT_EQ(client.iRetrieve(&pds, key, 1, got, 4, nullptr, 0, SKV_COMMAND_RIU_FLAGS_NONE, &handle),
            SKV_ERRNO_COMMAND_LIMIT_REACHED);
  for (const skv_client_cmd_ext_hdl_t each : under_way) ASSERT_EQ(client.Wait(each), SKV_ERRNO_ELEM_NOT_FOUND);
  EXPECT_EQ(client.iRetrieve(&pds, key, 1, got, 4, nullptr, 0, SKV_COMMAND_RIU_FLAGS_NONE, &handle), SKV_SUCCESS);
}

TEST_F(Skv, cursors_give_each_pair_once_in_order) {
  for (const char* key : {"c", "a", "d", "b"}) ASSERT_EQ(insert(key, key), SKV_SUCCESS);
  skv_client_cursor_ext_hdl_t cursor = nullptr;
  ASSERT_EQ(client.OpenCursor(&pds, &cursor), SKV_SUCCESS);
  const auto first = [&](char* k, int* ks, char* v, int* vs) {
    return client.GetFirstElement(cursor, k, ks, 64, v, vs, 64, SKV_CURSOR_RETRIEVE_FIRST_ELEMENT_FLAG);
  };
  const auto next = [&](char* k, int* ks, char* v, int* vs) {
    insert("bb", "written meanwhile");
    return client.GetNextElement(cursor, k, ks, 64, v, vs, 64, SKV_CURSOR_NONE_FLAG);
  };
  EXPECT_EQ(walk(first, next), "a=a b=b c=c d=d ");
  const auto from = [&](char* k, int* ks, char* v, int* vs) {
    k[0] = 'b';
    k[1] = 'x';
    *ks = 2;
    return client.GetFirstElement(cursor, k, ks, 64, v, vs, 64, SKV_CURSOR_WITH_STARTING_KEY_FLAG);
  };
  EXPECT_EQ(walk(from, next), "c=c d=d ");
  EXPECT_EQ(client.CloseCursor(cursor), SKV_SUCCESS);
  EXPECT_EQ(client.CloseCursor(cursor), SKV_ERRNO_UNSPECIFIED_ERROR);
  char key[2];
  char value_buffer[2];
  int key_size = 0;
  int value_size = 0;
  EXPECT_EQ(client.GetNextElement(cursor, key, &key_size, 2, value_buffer, &value_size, 2, SKV_CURSOR_NONE_FLAG),
            SKV_ERRNO_UNSPECIFIED_ERROR);
}

TEST_F(Skv, a_cursor_stays_where_a_key_does_not_fit) {
  ASSERT_EQ(insert("long key", "long value"), SKV_SUCCESS);
  skv_client_cursor_ext_hdl_t cursor = nullptr;
  ASSERT_EQ(client.OpenLocalCursor(0, &pds, &cursor), SKV_SUCCESS);
  char key[64];
  char part[64];
  int key_size = 0;
  int value_size = 0;
  EXPECT_EQ(client.GetFirstLocalElement(cursor, key, &key_size, 4, part, &value_size, 4, SKV_CURSOR_NONE_FLAG),
            SKV_ERRNO_KEY_SIZE_OVERFLOW);
  EXPECT_EQ(key_size, 8);
  key_size = 65;  // of a key that is in a buffer of 64 bytes
  EXPECT_EQ(
      client.GetFirstLocalElement(cursor, key, &key_size, 64, part, &value_size, 4, SKV_CURSOR_WITH_STARTING_KEY_FLAG),
      SKV_ERRNO_UNSPECIFIED_ERROR);
  EXPECT_EQ(client.GetNextLocalElement(cursor, key, &key_size, 64, part, &value_size, 4, SKV_CURSOR_NONE_FLAG),
            SKV_SUCCESS);
  EXPECT_EQ(std::string(part, 4), "long");
  EXPECT_EQ(value_size, 10);
  EXPECT_EQ(client.GetNextLocalElement(cursor, key, &key_size, 64, part, &value_size, 4, SKV_CURSOR_NONE_FLAG),
            SKV_ERRNO_END_OF_RECORDS);
  EXPECT_EQ(client.CloseLocalCursor(cursor), SKV_SUCCESS);
  EXPECT_EQ(client.OpenLocalCursor(1, &pds, &cursor), SKV_ERRNO_NODE_NOT_OWNER);
}

TEST_F(Skv, bulk_inserts_keep_what_is_there) {
  ASSERT_EQ(insert("key5", "old"), SKV_SUCCESS);
  skv_client_bulk_inserter_ext_hdl_t inserter = nullptr;
  ASSERT_EQ(client.CreateBulkInserter(&pds, SKV_BULK_INSERTER_FLAGS_NONE, &inserter), SKV_SUCCESS);
  for (int i = 0; i < 20'000; ++i) {
    std::string key = "key" + std::to_string(i);
    std::string text(100, 'v');
    ASSERT_EQ(client.Insert(inserter, key.data(), size(key), text.data(), 100, SKV_BULK_INSERTER_FLAGS_NONE),
              SKV_SUCCESS);
  }
  EXPECT_EQ(client.Flush(inserter), SKV_SUCCESS);
  EXPECT_EQ(value("key19999"), std::string(100, 'v'));
  EXPECT_EQ(value("key5"), "old");
  EXPECT_EQ(client.CloseBulkInserter(inserter), SKV_SUCCESS);
  EXPECT_EQ(client.Flush(inserter), SKV_ERRNO_UNSPECIFIED_ERROR);
  EXPECT_EQ(client.CloseBulkInserter(inserter), SKV_ERRNO_UNSPECIFIED_ERROR);
}

TEST_F(Skv, attributes_are_kept_with_the_pds) {
  skv_pds_attr_t attributes{};
  attributes.mPDSId = pds;
  EXPECT_EQ(client.PDScntl(SKV_PDSCNTL_CMD_STAT_GET, &attributes), SKV_SUCCESS);
  EXPECT_EQ(attributes.mSize, 0U);
  EXPECT_STREQ(attributes.mPDSName, "set");
  attributes.mSize = 500;
  EXPECT_EQ(client.PDScntl(SKV_PDSCNTL_CMD_STAT_SET, &attributes), SKV_SUCCESS);
  attributes.mSize = 0;
  EXPECT_EQ(client.PDScntl(SKV_PDSCNTL_CMD_STAT_GET, &attributes), SKV_SUCCESS);
  EXPECT_EQ(attributes.mSize, 500U);
  EXPECT_EQ(client.PDScntl(SKV_PDSCNTL_CMD_CLOSE, &attributes), SKV_SUCCESS);
  EXPECT_EQ(client.Close(&pds), SKV_SUCCESS);
  attributes.mPDSId.Init(7, 8);
  EXPECT_EQ(client.PDScntl(SKV_PDSCNTL_CMD_STAT_GET, &attributes), SKV_ERRNO_PDS_DOES_NOT_EXIST);
}

TEST_F(Skv, an_image_and_a_dump_show_what_is_there) {
  ASSERT_EQ(insert("k\n", "v\x01 and more"), SKV_SUCCESS);
  testing::internal::CaptureStdout();
  EXPECT_EQ(client.DumpPDS(pds, 10, 3), SKV_SUCCESS);
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "\"k\\x0a\" = \"v\\x01 \"\n");
  std::string path = where.file() + ".image";
  EXPECT_EQ(client.DumpPersistentImage(path.data()), SKV_SUCCESS);
  EXPECT_TRUE(std::filesystem::exists(path));
  EXPECT_NE(client.DumpPersistentImage(path.data()), SKV_SUCCESS) << "it is there already";
  int* servers = nullptr;
  int count = 0;
  EXPECT_EQ(client.GetLocalServerRanks(&servers, &count), SKV_SUCCESS);
  ASSERT_EQ(count, 1);
  EXPECT_EQ(servers[0], 0);
}

TEST_F(Skv, bad_input_gives_a_status) {
  char key[] = "k";
  char text[] = "v";
  int told = 0;
  skv_client_cmd_ext_hdl_t handle = nullptr;

  EXPECT_EQ(client.Insert(nullptr, key, 1, text, 1, 0, SKV_COMMAND_RIU_FLAGS_NONE), SKV_ERRNO_UNSPECIFIED_ERROR);
  EXPECT_EQ(client.Insert(&pds, nullptr, 1, text, 1, 0, SKV_COMMAND_RIU_FLAGS_NONE), SKV_ERRNO_UNSPECIFIED_ERROR);
  EXPECT_EQ(client.Insert(&pds, key, 1, nullptr, 1, 0, SKV_COMMAND_RIU_FLAGS_NONE), SKV_ERRNO_UNSPECIFIED_ERROR);
  EXPECT_EQ(client.Insert(&pds, key, -1, text, 1, 0, SKV_COMMAND_RIU_FLAGS_NONE), SKV_ERRNO_UNSPECIFIED_ERROR);
  EXPECT_EQ(client.Insert(&pds, key, 1, text, -1, 0, SKV_COMMAND_RIU_FLAGS_NONE), SKV_ERRNO_UNSPECIFIED_ERROR);
  EXPECT_EQ(client.Insert(&pds, key, 1, text, 1, -1, SKV_COMMAND_RIU_FLAGS_NONE), SKV_ERRNO_UNSPECIFIED_ERROR);
  EXPECT_EQ(client.Retrieve(&pds, key, 1, nullptr, 4, &told, 0, SKV_COMMAND_RIU_FLAGS_NONE),
            SKV_ERRNO_UNSPECIFIED_ERROR);
  EXPECT_EQ(client.Open(nullptr, both, SKV_COMMAND_OPEN_FLAGS_CREATE, &pds), SKV_ERRNO_UNSPECIFIED_ERROR);
  EXPECT_EQ(client.Open(key, both, SKV_COMMAND_OPEN_FLAGS_CREATE, nullptr), SKV_ERRNO_UNSPECIFIED_ERROR);
  EXPECT_EQ(client.iInsert(&pds, key, 1, text, 1, 0, SKV_COMMAND_RIU_FLAGS_NONE, nullptr), SKV_ERRNO_UNSPECIFIED_ERROR);
  EXPECT_EQ(client.Wait(nullptr), SKV_ERRNO_NO_EVENT);
  EXPECT_EQ(client.Wait(reinterpret_cast<void*>(0x1234567)), SKV_ERRNO_NO_EVENT);
  EXPECT_EQ(client.WaitAny(nullptr), SKV_ERRNO_UNSPECIFIED_ERROR);
  EXPECT_EQ(client.PDScntl(SKV_PDSCNTL_CMD_STAT_GET, nullptr), SKV_ERRNO_UNSPECIFIED_ERROR);
  EXPECT_EQ(client.Flush(nullptr), SKV_ERRNO_UNSPECIFIED_ERROR);
  EXPECT_EQ(client.CloseCursor(nullptr), SKV_ERRNO_UNSPECIFIED_ERROR);
  EXPECT_EQ(client.DumpPersistentImage(nullptr), SKV_ERRNO_UNSPECIFIED_ERROR);
  EXPECT_EQ(client.Init(0, 0), SKV_ERRNO_STATE_MACHINE_ERROR) << "a second time";
  std::string long_key(65'536, 'k');
  EXPECT_EQ(client.Insert(&pds, long_key.data(), size(long_key), text, 1, 0, SKV_COMMAND_RIU_FLAGS_NONE),
            SKV_ERRNO_KEY_TOO_LARGE);

  ASSERT_EQ(client.iRetrieve(&pds, key, 1, text, 1, &told, 0, SKV_COMMAND_RIU_FLAGS_NONE, &handle), SKV_SUCCESS);
  skv_client_cursor_ext_hdl_t cursor = nullptr;
  ASSERT_EQ(client.OpenCursor(&pds, &cursor), SKV_SUCCESS);
  EXPECT_EQ(client.Disconnect(), SKV_SUCCESS);
  EXPECT_EQ(client.Disconnect(), SKV_ERRNO_CONN_FAILED);
  EXPECT_EQ(client.Wait(handle), SKV_ERRNO_NO_EVENT) << "it ended with the connection";
  EXPECT_EQ(client.Insert(&pds, key, 1, text, 1, 0, SKV_COMMAND_RIU_FLAGS_NONE), SKV_ERRNO_CONN_FAILED);
  int key_size = 0;
  EXPECT_EQ(client.GetFirstElement(cursor, key, &key_size, 1, text, &told, 1, SKV_CURSOR_NONE_FLAG),
            SKV_ERRNO_CONN_FAILED);
  EXPECT_EQ(client.Finalize(), SKV_SUCCESS);
  EXPECT_EQ(client.Finalize(), SKV_ERRNO_UNSPECIFIED_ERROR);
  EXPECT_EQ(client.Insert(&pds, key, 1, text, 1, 0, SKV_COMMAND_RIU_FLAGS_NONE), SKV_ERRNO_UNSPECIFIED_ERROR);
}

TEST(SkvGroup, independent_servers_are_one_pds) {
  test_server a({.name = "g", .index = 0, .size = 2});
  test_server b({.name = "g", .index = 1, .size = 2});
  const configured where({a.host_and_port(), b.host_and_port()}, "icecore independent g\n");
  skv_client_t client;
  ASSERT_EQ(client.Init(0, 0, where.file().c_str()), SKV_SUCCESS);
  ASSERT_EQ(client.Connect(nullptr, 0), SKV_SUCCESS);
  std::string name = "set";
  skv_pds_id_t pds{};
  ASSERT_EQ(client.Open(name.data(), both, SKV_COMMAND_OPEN_FLAGS_DUP, &pds), SKV_SUCCESS);
  std::string expected;
  for (int i = 0; i < 100; ++i) {
    std::string key = "k" + std::to_string(100 + i);
    ASSERT_EQ(client.Insert(&pds, key.data(), 4, key.data(), 4, 0, SKV_COMMAND_RIU_FLAGS_NONE), SKV_SUCCESS);
    expected += key + "=" + key + " ";
  }
  skv_client_cursor_ext_hdl_t cursor = nullptr;
  ASSERT_EQ(client.OpenCursor(&pds, &cursor), SKV_SUCCESS);
  const auto first = [&](char* k, int* ks, char* v, int* vs) {
    return client.GetFirstElement(cursor, k, ks, 64, v, vs, 64, SKV_CURSOR_NONE_FLAG);
  };
  const auto next = [&](char* k, int* ks, char* v, int* vs) {
    return client.GetNextElement(cursor, k, ks, 64, v, vs, 64, SKV_CURSOR_NONE_FLAG);
  };
  EXPECT_EQ(walk(first, next), expected) << "in key order over both servers";
  std::size_t pairs = 0;
  for (const int server : {0, 1}) {
    skv_client_cursor_ext_hdl_t local = nullptr;
    ASSERT_EQ(client.OpenLocalCursor(server, &pds, &local), SKV_SUCCESS);
    const auto local_first = [&](char* k, int* ks, char* v, int* vs) {
      return client.GetFirstLocalElement(local, k, ks, 64, v, vs, 64, SKV_CURSOR_NONE_FLAG);
    };
    const auto local_next = [&](char* k, int* ks, char* v, int* vs) {
      return client.GetNextLocalElement(local, k, ks, 64, v, vs, 64, SKV_CURSOR_NONE_FLAG);
    };
    const std::string part = walk(local_first, local_next);
    EXPECT_LT(part.size(), expected.size());
    pairs += static_cast<std::size_t>(std::count(part.begin(), part.end(), '='));
  }
  EXPECT_EQ(pairs, 100U);
}

TEST(SkvConfiguration, what_is_wrong_is_a_status) {
  test_server server({.name = "g", .index = 0, .size = 2});
  skv_client_t client;
  ASSERT_EQ(client.Init(0, 0), SKV_SUCCESS);
  EXPECT_NE(client.Connect("/no such file", 0), SKV_SUCCESS);
  EXPECT_NE(client.Connect(configured({}).file().c_str(), 0), SKV_SUCCESS) << "no server";
  EXPECT_NE(client.Connect(configured({"host:port"}).file().c_str(), 0), SKV_SUCCESS);
  EXPECT_NE(client.Connect(configured({server.host_and_port()}, "icecore together\n").file().c_str(), 0), SKV_SUCCESS);
  EXPECT_EQ(client.Connect(configured({server.host_and_port()}, "icecore independent g\n").file().c_str(), 0),
            SKV_ERRNO_CONNECTION_REQUEST_REFUSED)
      << "a server is missing";
  setenv("ICECORE_TOKEN", "of another job", 1);
  const configured where({server.host_and_port()});
  setenv("ICECORE_TOKEN", "of another job", 1);
  EXPECT_EQ(client.Connect(where.file().c_str(), 0), SKV_ERRNO_CONNECTION_REQUEST_REFUSED);
}

TEST(SkvStatus, numbers_and_names_are_those_of_skv) {
  EXPECT_EQ(SKV_ERRNO_COMMAND_LIMIT_REACHED, 10);
  EXPECT_EQ(SKV_ERRNO_PERMISSION_DENIED, 15);
  EXPECT_EQ(SKV_ERRNO_KEY_NOT_FOUND, 20);
  EXPECT_EQ(SKV_ERRNO_END_OF_RECORDS, 27);
  EXPECT_EQ(SKV_ERRNO_INSERT_OVERLAP, 37);
  EXPECT_EQ(SKV_ERRNO_UNSPECIFIED_ERROR, 41);
  EXPECT_STREQ(skv_status_to_string(SKV_ERRNO_INSERT_OVERLAP), "SKV_ERRNO_INSERT_OVERLAP");
  EXPECT_STREQ(skv_status_to_string(static_cast<skv_status_t>(42)), "SKV_ERRNO_UNKNOWN_STATE");
  EXPECT_STREQ(skv_status_to_string(static_cast<skv_status_t>(1000)), "SKV_ERRNO_UNKNOWN_STATE");
}
