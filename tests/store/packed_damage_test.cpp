// Damage of packed blocks that nobody reads: verify_file() reads all of them, and says where it is.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>

#include "icecore/icecore.hpp"
#include "pool/manifest/manifest.hpp"
#include "store/core.hpp"
#include "store/packed/open_strata.hpp"
#include "support/expect.hpp"
#include "support/file.hpp"
#include "support/scratch.hpp"

namespace icecore::testing {
namespace {

class DamagedBlocks : public ::testing::TestWithParam<compression> {
 protected:
  /// Values that do not shrink, of which a block, or a frame, holds some.
  DamagedBlocks() {
    options how;
    how.durability = durability::none;
    std::mt19937_64 random(1);
    {
      store s(path_, how);
      for (unsigned i = 0; i < 400; ++i) {
        std::string value(1000, '\0');
        for (char& c : value) c = static_cast<char>(random());
        s.insert("key-" + std::to_string(1000 + i), value);
      }
    }
    static_cast<void>(compact(path_, how, {.compression = GetParam(), .on_progress = {}}));
    const store s(path_, how);
    packing_ = s.core().packing();
    for (std::uint32_t e = 0; e < s.core().packed()->extents(); ++e) {
      const auto& extent = s.core().packed()->extent_at(e);
      const std::uint64_t begin = link_offset(packing_.extents[e].segment) + sizeof(format::segment_header);
      for (std::uint32_t b = 0; b < extent.blocks(); ++b) places_.push_back(begin + extent.media_place(b));
    }
    places_.erase(std::unique(places_.begin(), places_.end()), places_.end());
  }

  scratch folder_{place::tmpfs};
  std::filesystem::path path_ = folder_ / "store.ice";
  manifest packing_;
  std::vector<std::uint64_t> places_;  // in the file, of blocks or of the frames that have them
};

TEST_P(DamagedBlocks, are_named_each_although_opening_reads_the_first_alone) {
  const std::string sound = read_file(path_);
  ASSERT_TRUE(verify_file(path_).ok());
  ASSERT_GE(places_.size(), 4U);
  for (const std::uint64_t at : places_) {
    std::string broken = sound;
    broken[at + 100] = static_cast<char>(broken[at + 100] ^ 0x41);
    write_file(path_, broken);
    const verify_report report = verify_file(path_);
    EXPECT_TRUE(std::ranges::any_of(report.damages,
                                    [&](const damage& d) {
                                      return d.structure == "packed" && d.offset <= at + 100 &&
                                             at + 100 < d.offset + (std::uint64_t{1} << 20);
                                    }))
        << "byte " << at + 100;
  }
}

TEST_P(DamagedBlocks, are_met_by_every_cursor_that_comes_to_them) {
  const std::string sound = read_file(path_);
  options reading;
  reading.access = access::read_only;
  for (const std::uint64_t at : places_) {
    std::string broken = sound;
    broken[at + 100] = static_cast<char>(broken[at + 100] ^ 0x41);
    write_file(path_, broken);
    SCOPED_TRACE(at + 100);
    expect_error(errc::damaged, "records): checksum mismatch", [&] {
      const store s(path_, reading);
      const snapshot all = s.at(1);
      auto c = all.cursor();
      for (c.seek_first(); c.valid();) c.next();
    });
  }
}

INSTANTIATE_TEST_SUITE_P(Each, DamagedBlocks, ::testing::Values(compression::none, compression::zstd));

}  // namespace
}  // namespace icecore::testing
