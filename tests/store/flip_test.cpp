// Every bit of every byte that a store uses is flipped, one at a time: verify reports it, or nothing that is read
// changes. The counts of both are printed for each structure.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <fstream>
#include <string>
#include <vector>

#include "history/record.hpp"
#include "icecore/icecore.hpp"
#include "pool/format.hpp"
#include "support/damaging.hpp"
#include "support/file.hpp"
#include "support/process.hpp"
#include "support/scratch.hpp"
#include "support/sound_store.hpp"

namespace icecore::testing {
namespace {

/// What a byte of a pool file is part of. From older_root_page on, a flip need not be reported.
enum part : std::uint8_t {
  root_page,
  segment_header,
  fill,
  record_header,
  stamp,
  links,
  key,
  value,
  older_root_page,  // of an open store: its content is out of date
  live_page,
  recomputed,   // an entry's head and second version
  last_record,  // of a dead writer: like a write that the crash interrupted (docs/guarantees.md)
  stamp_top,    // with the persisted bit, which means nothing on media; the other seven belong to the check
  index,        // nodes and logs of an index in the file: verify does not check their unused bytes
  unused,
  parts
};
constexpr std::array names{
    "root page", "segment header",  "fill",        "record header", "stamp", "links", "key", "value", "older root",
    "live page", "head and second", "last record", "stamp, top",    "index", "unused"};
static_assert(names.size() == parts);

void mark(std::vector<part>& map, std::uint64_t from, std::uint64_t size, part what) {
  for (std::uint64_t i = from; i < from + size && i < map.size(); ++i) map[i] = what;
}

std::uint64_t mark_record(std::vector<part>& map, const record r, std::uint64_t at) {
  const record_layout layout = r.layout();
  mark(map, at, layout.size(), value);
  mark(map, at, layout.fixed_size(), links);
  mark(map, at, sizeof(format::record_header), record_header);
  mark(map, at + offsetof(format::record_header, stamp), 7, stamp);
  mark(map, at + offsetof(format::record_header, stamp) + 7, 1, stamp_top);
  if (r.is_entry()) mark(map, at + offsetof(format::entry_header, head), 16, recomputed);
  mark(map, at + layout.fixed_size(), layout.key_offset() - layout.fixed_size(), links);
  mark(map, at + layout.key_offset(), layout.value_offset() - layout.key_offset(), key);
  return at + layout.size();
}

/// Says for each byte what it is. `crashed`: the writer died, so each segment's last record is like an interrupted
/// write.
std::vector<part> map_of(std::string& bytes, bool crashed) {
  std::vector<part> map(bytes.size(), unused);
  auto* base = reinterpret_cast<std::byte*>(bytes.data());
  const auto sequence = [&](std::uint64_t page) { return reinterpret_cast<format::root*>(base + page)->sequence; };
  mark(map, 0, 2 * format::page_size, root_page);
  const bool a_is_older = sequence(format::root_a_offset) < sequence(format::root_b_offset);
  mark(map, a_is_older ? format::root_a_offset : format::root_b_offset, format::page_size, older_root_page);
  mark(map, format::live_page_offset, sizeof(format::live_page), live_page);
  for (std::uint64_t at = format::first_segment_offset; at < bytes.size();) {
    const auto& h = *reinterpret_cast<format::segment_header*>(base + at);
    if (h.magic == format::index_segment_magic) {
      mark(map, at, h.granules * format::granule_size, index);
      at += h.granules * format::granule_size;
      continue;
    }
    if (h.magic != format::segment_magic) break;
    mark(map, at, 16, segment_header);
    mark(map, at + offsetof(format::segment_header, fill), 8, fill);
    const std::uint64_t end = at + h.granules * format::granule_size;
    std::uint64_t position = at + sizeof h;
    std::uint64_t last = position;
    for (std::uint64_t next = position; next + sizeof(format::record_header) <= end;) {
      if (base[next] == std::byte{0}) {
        if ((next += 8) > position + format::record_padding_max) break;
        continue;
      }
      last = next;
      next = position = mark_record(map, record(base + next), next);
    }
    if (crashed) mark(map, last, position - last, last_record);
    at = end;
  }
  return map;
}

struct counts {
  std::atomic<std::uint64_t> reported;
  std::atomic<std::uint64_t> harmless;
};

class Flip : public ::testing::TestWithParam<setting> {
 protected:
  [[nodiscard]] bool all_is_right() const {
    options reading;
    reading.access = access::read_only;
    reading.accept_copy = true;
    try {
      const store opened(path_, reading);
      read_everything(opened, holds_);
      return true;
    } catch (const std::exception&) {
      return false;
    }
  }

  void flip_all(bool crashed) {
    std::string bytes = read_file(path_);
    const std::vector<part> map = map_of(bytes, crashed);
    std::vector<std::size_t> places;
    for (std::size_t i = 0; i < map.size(); ++i) {
      // take only a sample of the values' 5,000 equal bytes, and of unused ones
      const bool repeats = i > 64 && map[i] == map[i - 64] && bytes[i] == bytes[i - 64] && bytes[i] == bytes[i - 1];
      if (map[i] == unused || repeats ? i % 509 == 0 : true) places.push_back(i);
    }
    const shared<std::array<counts, parts>> log;
    for_each_place(places, [&](std::size_t at) {
      for (unsigned bit = 0; bit < 8; bit += every_bit_)
        flip(bytes, at, (bit + static_cast<unsigned>(at * 7 + at / 8)) % 8, map, *log);
    });
    std::printf("%-16s %10s %10s   (%s, %s)\n", "structure", "reported", "harmless", GetParam().name().c_str(),
                crashed ? "open when its writer died" : "closed");
    for (std::size_t i = 0; i < parts; ++i) {
      std::printf("%-16s %10zu %10zu\n", names[i], static_cast<std::size_t>((*log)[i].reported),
                  static_cast<std::size_t>((*log)[i].harmless));
    }
    for (const part covered : {root_page, segment_header, fill, record_header, stamp, links, key, value}) {
      EXPECT_GT((*log)[covered].reported, 0U) << names[covered];
      EXPECT_EQ((*log)[covered].harmless, 0U) << names[covered] << ": every bit of it is covered by a check";
    }
  }

  void flip(const std::string& bytes, std::size_t at, unsigned bit, const std::vector<part>& map,
            std::array<counts, parts>& log) const {
    write_byte(at, static_cast<char>(bytes[at] ^ (1 << bit)));
    const bool reported = !verify_file(path_).ok();
    const part what = map[at];
    const bool right = reported || all_is_right();
    write_byte(at, bytes[at]);
    (reported ? log[what].reported : log[what].harmless)++;
    promise(right || what == last_record, [&] {
      return "bit " + std::to_string(bit) + " of " + names[what] + " changes what is read and verify says nothing";
    });
  }

  void write_byte(std::size_t at, char byte) const {
    std::fstream file(path_, std::ios::binary | std::ios::in | std::ios::out);
    file.seekp(static_cast<std::streamoff>(at));
    file.put(byte);
  }

#ifdef ICECORE_LONG_TESTS
  unsigned every_bit_ = 1;
#else
  unsigned every_bit_ = 8;  // a different bit in each byte
#endif
  scratch folder_;
  std::filesystem::path path_ = folder_ / "flipped.ice";
  model holds_;
};

TEST_P(Flip, every_bit_of_a_closed_store_is_checked_or_means_nothing) {
  fill_small_store(path_, GetParam().options(), holds_).close();
  flip_all(false);
}

TEST_P(Flip, every_bit_of_what_a_dead_writer_left_is_checked_or_means_nothing) {
  const auto open = folder_ / "open.ice";
  {
    const store writer = fill_small_store(open, GetParam().options(), holds_);
    std::filesystem::copy_file(open, path_);
  }
  flip_all(true);
}

// G6: instant recovery reads no record before it is asked for. A key that leads searches to others must not hide them.
TEST(FlipInKey, hides_no_other_key_from_a_store_that_is_opened_at_once) {
  const scratch folder;
  const auto path = folder / "flipped.ice";
  constexpr unsigned keys = 700;  // two levels or more
  const auto key = [](unsigned i) { return "all begin alike " + std::to_string(1'000'000 + i); };
  options opening;
  opening.index = index_kind::persistent;
  {
    store s(path, opening);
    for (unsigned i = 0; i < keys; ++i) s.insert(key(i), std::to_string(i));
    s.close();
  }
  const std::string sound = read_file(path);
  options reading;
  reading.access = access::read_only;
  unsigned reported = 0;
  for (unsigned flipped = 0; flipped < keys; ++flipped) {
    std::string bad = sound;
    const std::size_t at = sound.find(key(flipped));
    ASSERT_NE(at, std::string::npos);
    bad[at + key(flipped).size() - 2] ^= 4;
    write_file(path, bad);
    const store opened(path, reading);
    ASSERT_TRUE(opened.stats().recovered_instantly);
    for (unsigned i = 0; i < keys; i += 3) {
      if (i == flipped) continue;
      try {
        ASSERT_EQ(opened.find(key(i)), std::to_string(i))
            << "key " << flipped << " is flipped, key " << i << " is hidden";
      } catch (const error& e) {
        ASSERT_EQ(e.code(), errc::damaged) << e.message();
        ++reported;
      }
    }
  }
  EXPECT_GT(reported, 0U);
}

INSTANTIATE_TEST_SUITE_P(EveryDurability, Flip, ::testing::ValuesIn(tmpfs_settings()),
                         [](const auto& about) { return about.param.name(); });

// G6, again after instant recovery: damage in a key's newest record.
class DamagedNewestRecord : public ::testing::Test {
 protected:
  DamagedNewestRecord() {
    opening_.index = index_kind::persistent;
    opening_.durability = durability::operation;
    opening_.emulate_durability = true;
  }

  /// A closed store whose key has two values; its bytes.
  std::string make(bool tagged) {
    store s(path_, opening_);
    s.insert("key", "an older value");
    s.insert("key", newest_);
    if (tagged) s.tag();
    s.close();
    std::string bytes = read_file(path_);
    const std::size_t value = bytes.find(newest_);
    EXPECT_NE(value, std::string::npos);
    record_ = value - sizeof(format::update_header);
    end_ = value + newest_.size();
    return bytes;
  }
  /// Opens what the damage has left: the newest value is found, before and after a tag, or the damage is reported.
  void read(const std::string& damaged) {
    write_file(path_, damaged);
    try {
      store s(path_, opening_);
      EXPECT_EQ(s.find("key"), newest_);
      s.tag();
      EXPECT_EQ(s.find("key"), newest_);
    } catch (const error& reported) {
      EXPECT_EQ(reported.code(), errc::damaged) << reported.what();
      ++reported_;
    }
  }

  scratch folder_;
  std::filesystem::path path_ = folder_ / "damaged.ice";
  std::string newest_ = "the newest value";
  options opening_;
  std::size_t record_ = 0;
  std::size_t end_ = 0;
  unsigned reported_ = 0;
};

// It is not taken for a write that a crash interrupted, which would show the value before it.
TEST_F(DamagedNewestRecord, by_a_flip_shows_no_older_value) {
  const std::string bytes = make(false);
  for (std::size_t at = record_; at < end_; ++at) {
    SCOPED_TRACE(at - record_);
    std::string damaged = bytes;
    damaged[at] = static_cast<char>(damaged[at] ^ (1 << at % 8));
    read(damaged);
  }
  EXPECT_GT(reported_, newest_.size());
}

// Zeros have no stamp. A reader must not give them one of today: then they would be trusted.
TEST_F(DamagedNewestRecord, by_zeros_is_reported) {
  const std::string bytes = make(true);
  for (const std::size_t size : {8U, 16U, 64U}) {
    for (std::size_t at = record_; at + size <= end_; at += 8) {
      SCOPED_TRACE(std::to_string(size) + " zeros at " + std::to_string(at - record_));
      read(std::string(bytes).replace(at, size, size, '\0'));
    }
  }
  EXPECT_GT(reported_, newest_.size() / 8);
}

}  // namespace
}  // namespace icecore::testing
