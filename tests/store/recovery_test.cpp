// States that a crash may leave in the file, made by hand: a kill would not hit such short windows reliably.
#include <gtest/gtest.h>

#include <csignal>
#include <cstring>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "history/record.hpp"
#include "icecore/store.hpp"
#include "pool/format.hpp"
#include "support/process.hpp"
#include "support/scratch.hpp"

namespace icecore::testing {
namespace {

using bytes = std::vector<char>;

bytes read_file(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

void write_file(const std::filesystem::path& path, const bytes& content) {
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  out.write(content.data(), static_cast<std::streamsize>(content.size()));
}

/// Visits the records of the first segment in place.
void for_each_record(bytes& file, const std::function<void(record)>& visit) {
  auto* base = reinterpret_cast<std::byte*>(file.data());
  std::uint64_t at = format::first_segment_offset + sizeof(format::segment_header);
  while (at + sizeof(format::record_header) < file.size()) {
    std::uint64_t start = at;
    while (start < at + format::record_padding_max && start + 8 < file.size() && base[start] == std::byte{0})
      start += 8;
    const record r(base + start);
    if (!r.layout().plausible()) return;
    at = start + r.layout().size();
    visit(r);
  }
}

TEST(Recovery, a_batch_killed_between_its_stamp_and_its_records_own_is_whole) {
  const scratch folder;
  const auto path = folder / "store.ice";
  version applied = 0;
  {
    store s(path);
    s.insert("a", "before");
    s.insert("b", "before");
    s.tag();
    batch both;
    both.insert("a", "after");
    both.insert("b", "after");
    both.insert("c", "after");
    applied = s.apply(both);
    s.tag();
    s.insert("a", "later");
    s.close();
  }
  bytes file = read_file(path);
  int cleared = 0;
  for_each_record(file, [&](record r) {
    if (!r.batched()) return;
    r.header().stamp.store(0);  // the batch record has its stamp, this record does not have it yet
    ++cleared;
  });
  ASSERT_EQ(cleared, 3);
  write_file(path, file);
  EXPECT_TRUE(verify_file(path).ok());
  const store s(path);
  for (const char* key : {"a", "b", "c"}) EXPECT_EQ(s.find(key, applied), "after") << key;
  EXPECT_EQ(s.find("a", applied - 1), "before");
  EXPECT_EQ(s.find("a"), "later");
  EXPECT_TRUE(s.verify().ok());
}

TEST(Recovery, a_file_that_a_growth_cut_off_left_longer_opens_as_it_was) {
  constexpr std::uintmax_t cut_off = std::uintmax_t{8} << 20;  // holes: on a full device a store to them ends in SIGBUS
  const scratch folder;
  const auto path = folder / "store.ice";
  { store(path).insert("key", "value"); }  // closed: the file is as short as it can be
  const auto size = std::filesystem::file_size(path);
  child writer([&] {
    store s(path);
    s.insert("key", "newer");
    return raise(SIGKILL);
  });
  ASSERT_EQ(writer.wait(), -SIGKILL);
  ASSERT_EQ(std::filesystem::file_size(path), size);
  std::filesystem::resize_file(path, size + cut_off);
  {
    options reading;
    reading.access = access::read_only;
    const store s(path, reading);
    EXPECT_EQ(s.find("key"), "newer");
    EXPECT_TRUE(s.verify().ok());
    EXPECT_EQ(std::filesystem::file_size(path), size + cut_off) << "a reader changes nothing";
  }
  store s(path);
  EXPECT_EQ(s.find("key"), "newer");
  EXPECT_TRUE(s.stats().recovered_from_crash);
  EXPECT_EQ(std::filesystem::file_size(path), size);
  EXPECT_EQ(s.stats().file_bytes, size);
  const std::string large(1 << 20, 'v');
  for (int i = 0; i < 12; ++i) s.insert("large " + std::to_string(i), large);
  for (int i = 0; i < 12; ++i) EXPECT_EQ(s.find("large " + std::to_string(i)), large);
  EXPECT_TRUE(s.verify().ok());
}

TEST(Recovery, what_entries_recompute_is_put_right) {
  const scratch folder;
  const auto path = folder / "store.ice";
  {
    store s(path);
    s.insert("a", "1");
    s.insert("b", "1");
    s.insert("c", "1");
    s.tag();
    s.insert("a", "2");
    s.remove("c");
    s.tag();
    s.insert("a", "3");
    s.close();
  }
  const link right = 1;  // as it was when closed
  for (const link head : {right, link{0}, link{65544}, link{65536 + 64}, link{1} << 50, ~link{7}}) {
    for (const bool flagged : {false, true}) {
      for (const version second : {version{0}, version{1}, version{3}, ~version{0}}) {
        bytes file = read_file(path);
        for_each_record(file, [&](record r) {
          if (!r.is_entry()) return;
          auto& e = r.as_entry();
          if (head != right) e.head.store(head);
          e.head.store(flagged ? e.head | format::head_is_second_removal : e.head & ~format::head_is_second_removal);
          e.cached_second_version().store(second);
        });
        write_file(path, file);
        store s(path);
        const std::string what = "head " + std::to_string(head) + (flagged ? "" : " not") +
                                 " flagged, second version " + std::to_string(second);
        EXPECT_EQ(s.find("a", 1), "1") << what;
        EXPECT_EQ(s.find("a", 2), "2") << what;
        EXPECT_EQ(s.find("a"), "3") << what;
        EXPECT_EQ(s.find("b", 1), "1") << what;
        EXPECT_EQ(s.find("b"), "1") << what;
        EXPECT_EQ(s.find("c", 1), "1") << what;
        EXPECT_EQ(s.find("c", 2), std::nullopt) << what;
        EXPECT_EQ(s.find("c"), std::nullopt) << what;
        s.close();
        bytes closed = read_file(path);
        for_each_record(closed, [&](record r) {
          if (!r.is_entry()) return;
          EXPECT_EQ(r.as_entry().cached_second_version(), r.key() == "b" ? 0U : 2U) << what;
        });
      }
    }
  }
}

TEST(Recovery, a_lost_record_is_damage_though_every_checksum_is_right) {
  const scratch folder;
  const auto path = folder / "store.ice";
  {
    store s(path);
    s.insert("a", "1");
    s.insert("b", "1");
    s.close();
  }
  bytes file = read_file(path);
  record last(nullptr);
  for_each_record(file, [&](record r) { last = r; });
  std::memset(last.address(), 0, last.layout().size());
  write_file(path, file);
  EXPECT_FALSE(verify_file(path).ok());
  EXPECT_THROW(store{path}, error);
}

}  // namespace
}  // namespace icecore::testing
