// A store was left open, and nothing shows whether the machine stopped or only the process: nothing that is there is
// lost without a word. Made by hand: what the page cache had, under a root of another boot and the name of another
// machine.
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "failing_calls.hpp"
#include "icecore/icecore.hpp"
#include "pool/format.hpp"
#include "support/expect.hpp"
#include "support/file.hpp"
#include "support/roots.hpp"
#include "support/scratch.hpp"

namespace icecore::testing {
namespace {

std::string key(int i) { return "key " + std::to_string(i); }

std::string of_another_boot(const std::string& image) {
  return with_roots_changed(image, [](format::root& r) { r.boot_id[0] = static_cast<std::uint8_t>(~r.boot_id[0]); });
}
std::string of_no_known_boot(const std::string& image) {
  return with_roots_changed(image, [](format::root& r) { std::memset(r.boot_id, 0, sizeof r.boot_id); });
}
std::string of_another_machine(std::string image) {
  constexpr std::size_t host = format::live_page_offset + offsetof(format::live_page, writer_host);
  image.replace(host, sizeof "node-7", "node-7", sizeof "node-7");
  return image;
}

class UnknownCrash : public ::testing::TestWithParam<setting> {
 protected:
  UnknownCrash() : folder_(GetParam().where) {}

  [[nodiscard]] std::filesystem::path path() const { return folder_ / "store.ice"; }
  [[nodiscard]] options how(crash_kind ended_by = crash_kind::unknown) const {
    options o = GetParam().options();
    o.crash = ended_by;
    return o;
  }
  [[nodiscard]] options reading(crash_kind ended_by = crash_kind::unknown) const {
    options o;
    o.access = access::read_only;
    o.crash = ended_by;
    return o;
  }
  [[nodiscard]] bool keeps_each_write() const { return GetParam().keeps_each_write(); }
  /// Enough for several segments, except where each write waits for the device.
  [[nodiscard]] int keys() const { return keeps_each_write() ? 50 : 3000; }

  /// What a writer left: one durable key, and others behind its durable point.
  [[nodiscard]] std::string left_open() const { return left_open(keys()); }
  [[nodiscard]] std::string left_open(int count) const {
    store s(path(), how());
    s.insert("durable", "1");
    s.tag("durable");
    s.sync();
    for (int i = 0; i < count; ++i) s.insert(key(i), "not durable yet");
    return read_file(path());
  }
  [[nodiscard]] int found(const store& s) const {
    int n = 0;
    for (int i = 0; i < keys(); ++i) n += s.contains(key(i)) ? 1 : 0;
    return n;
  }
  void expect_all_of(const std::string& image) const {
    write_file(path(), image);
    EXPECT_EQ(found(store(path(), reading())), keys());
    EXPECT_EQ(found(store(path(), how())), keys());
  }
  /// Every access is refused, and changes nothing.
  void expect_asked(const std::string& image) const {
    write_file(path(), image);
    for (const options& o : {how(), reading()}) {
      expect_error(errc::crash_unknown, "behind the durable point", [&] { const store s(path(), o); });
      EXPECT_TRUE(read_file(path()) == image);
    }
  }

 private:
  scratch folder_;
};

TEST_P(UnknownCrash, loses_nothing_that_is_there_without_being_asked) {
  const std::string image = left_open();
  for (const std::string& left : {of_another_machine(of_another_boot(image)),
                                  of_another_machine(of_no_known_boot(image)), of_no_known_boot(image)}) {
    if (keeps_each_write()) {  // there is nothing to ask: all of it was promised
      expect_all_of(left);
      continue;
    }
    expect_asked(left);
    expect_asked(left);  // asking does not decide anything

    write_file(path(), left);
    EXPECT_EQ(found(store(path(), reading(crash_kind::process))), keys());
    version clock = 0;
    {
      store s(path(), how(crash_kind::process));
      EXPECT_EQ(found(s), keys());
      EXPECT_TRUE(s.verify().ok());
      s.tag("kept");
      clock = s.clock();
    }
    {
      const store again(path(), how());
      EXPECT_EQ(found(again), keys());
      EXPECT_GE(again.clock(), clock);
    }

    write_file(path(), left);
    EXPECT_EQ(found(store(path(), reading(crash_kind::machine))), 0);
    const store dropped(path(), how(crash_kind::machine));
    EXPECT_EQ(found(dropped), 0);
    EXPECT_EQ(dropped.find("durable"), "1");
    EXPECT_EQ(dropped.tags().size(), 1U);
  }
}

TEST_P(UnknownCrash, is_none_where_the_boot_or_the_machine_tells) {
  const std::string image = left_open();
  write_file(path(), image);
  EXPECT_EQ(found(store(path(), how(crash_kind::machine))), keys()) << "it is still the same boot";
  write_file(path(), of_another_boot(image));
  EXPECT_EQ(found(store(path(), reading())), keeps_each_write() ? keys() : 0) << "this machine has been started anew";
  EXPECT_EQ(found(store(path(), reading(crash_kind::process))), keys());
}

TEST_P(UnknownCrash, does_not_matter_where_all_is_durable) {
  std::string image;
  {
    store s(path(), how());
    s.insert("durable", "1");
    s.tag("durable");
    s.sync();
    image = read_file(path());
  }
  write_file(path(), of_another_machine(of_another_boot(image)));
  EXPECT_EQ(store(path(), reading()).find("durable"), "1");
  EXPECT_EQ(store(path(), how()).find("durable"), "1");
}

TEST_P(UnknownCrash, asks_who_accepts_damage_and_repair_too) {
  const std::string image = of_another_machine(of_another_boot(left_open()));
  const auto repaired = path().string() + ".repaired";
  const auto accepting = [&](crash_kind ended_by) {
    options o = reading(ended_by);
    o.accept_damage = true;
    return o;
  };
  write_file(path(), image);
  if (!keeps_each_write()) {
    expect_error(errc::crash_unknown, "", [&] { const store s(path(), accepting(crash_kind::unknown)); });
    expect_error(errc::crash_unknown, "", [&] { static_cast<void>(repair({.from = path(), .to = repaired})); });
    EXPECT_FALSE(std::filesystem::exists(repaired));
    EXPECT_EQ(found(store(path(), accepting(crash_kind::machine))), 0);
  }
  EXPECT_EQ(found(store(path(), accepting(crash_kind::process))), keys());
  EXPECT_TRUE(repair({.from = path(), .to = repaired, .crash = crash_kind::process}).complete());
  EXPECT_EQ(found(store(repaired, reading())), keys());
}

TEST_P(UnknownCrash, is_asked_about_where_only_later_writes_are_there) {
  if (keeps_each_write()) return expect_all_of(left_open());
  std::string image = of_another_machine(of_another_boot(left_open(50)));  // one segment
  constexpr std::size_t key_in_entry = sizeof(format::entry_header);
  image.replace(image.find(key(0)) - key_in_entry, 512, 512, '\0');
  expect_asked(image);
}

TEST_P(UnknownCrash, does_not_matter_where_nothing_whole_is_behind_the_durable_point) {
  if (keeps_each_write()) return expect_all_of(left_open());
  std::string image = of_another_machine(of_another_boot(left_open()));
  for (std::size_t at = 0; (at = image.find("not durable yet", at)) != std::string::npos; ++at) image[at] = 'x';
  write_file(path(), image);
  EXPECT_EQ(found(store(path(), reading())), 0);
  const store s(path(), how());
  EXPECT_EQ(s.find("durable"), "1");
  EXPECT_FALSE(s.lost_versions().empty());
}

// A memory file system that still has a file has been up since the file was made.
TEST_P(UnknownCrash, is_none_where_the_boot_is_hidden_while_memory_lasts) {
  const scratch memory;
  const hidden_boot hidden(memory.path());
  const std::string image = left_open();
  expect_all_of(image);
  const auto numbers = [&] {
    std::vector<std::filesystem::path> all;
    for (const auto& each : std::filesystem::directory_iterator(memory.path())) all.push_back(each.path());
    return all;
  };
  ASSERT_EQ(numbers().size(), 1U) << "one number, and nothing else is left";
  if (keeps_each_write()) return;

  std::filesystem::permissions(numbers().front(), std::filesystem::perms::others_write,
                               std::filesystem::perm_options::add);
  expect_asked(image);
  std::filesystem::permissions(numbers().front(), std::filesystem::perms::owner_read);
  expect_all_of(image);

  std::filesystem::remove(numbers().front());  // the system was started anew, or this is another container
  expect_asked(image);
  ASSERT_EQ(numbers().size(), 1U);
  expect_asked(of_another_machine(image));
}

TEST_P(UnknownCrash, is_asked_about_where_a_number_would_stand_that_outlasts_the_machine) {
  const scratch disk(place::disk);
  const hidden_boot hidden(disk.path());
  const std::string image = left_open();
  keeps_each_write() ? expect_all_of(image) : expect_asked(image);
}

TEST_P(UnknownCrash, is_no_crash_of_the_machine_where_one_of_two_boots_was_hidden) {
  std::string image;
  {
    const scratch memory;
    const hidden_boot hidden(memory.path());
    image = left_open();
  }
  keeps_each_write() ? expect_all_of(image) : expect_asked(image);
}

TEST_P(UnknownCrash, that_is_said_to_be_of_the_process_and_was_not_is_damage) {
  std::string image = of_another_machine(of_another_boot(left_open()));
  const std::size_t hit = image.find(key(keys() / 2)) / 512 * 512;
  image.replace(hit, 512, 512, '\0');  // a sector that did not reach the device
  write_file(path(), image);
  expect_error(errc::damaged, "missing", [&] { const store s(path(), reading(crash_kind::process)); });
}

INSTANTIATE_TEST_SUITE_P(EveryDurability, UnknownCrash, ::testing::ValuesIn(all_settings()),
                         [](const auto& instance) { return instance.param.name(); });

}  // namespace
}  // namespace icecore::testing
