// docs/errors.md says what a user sees of each fault. This test makes each fault and requires its line there, word for
// word. With ICECORE_PRINT_ERRORS set it prints the lines, to be copied there.
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <cstring>
#include <functional>

#include "base/checksum.hpp"
#include "icecore/icecore.hpp"
#include "pool/format.hpp"
#include "support/expect.hpp"
#include "support/file.hpp"
#include "support/roots.hpp"
#include "support/scratch.hpp"

namespace icecore::testing {
namespace {

class Errors : public ::testing::Test {
 protected:
  void make_store() const {
    std::filesystem::remove(path_);
    store made(path_);
    made.insert("a", "1");
    made.tag("one");
    made.close();
  }
  void change_roots(const std::function<void(format::root&)>& change) const {
    make_store();
    std::string file = read_file(path_);
    for (const std::uint64_t offset : {format::root_a_offset, format::root_b_offset}) {
      format::root root;
      std::memcpy(&root, file.data() + offset, sizeof root);
      change(root);
      root.crc = crc32c(0, &root, offsetof(format::root, crc));
      std::memcpy(file.data() + offset, &root, sizeof root);
    }
    write_file(path_, file);
  }
  static options reading() {
    options opening;
    opening.access = access::read_only;
    return opening;
  }

  /// The message as the table has it: names stand for what differs between machines.
  [[nodiscard]] std::string general(std::string text) const {
    const auto replace = [&](const std::string& what, const char* by) {
      for (auto at = text.find(what); at != std::string::npos; at = text.find(what)) text.replace(at, what.size(), by);
    };
    replace(folder_.path().native(), "FOLDER");
    replace("process " + std::to_string(getpid()), "process PID");
    char host[64] = {};
    if (gethostname(host, sizeof host - 1) == 0) replace(std::string("on ") + host, "on HOST");
    return text;
  }

  void expect_line(const std::string& fault, const std::function<void()>& make) {
    try {
      make();
    } catch (const error& failure) {
      std::string code = failure.code().message();
      const std::string line = "| " + fault + " | " + std::to_string(failure.code().value()) + " " + code + " | `" +
                               general(failure.message()) + "` |";
      ++lines_;
      if (std::getenv("ICECORE_PRINT_ERRORS") != nullptr) std::printf("%s\n", line.c_str());
      EXPECT_NE(page_.find(line + "\n"), std::string::npos) << "docs/errors.md lacks: " << line;
      return;
    }
    ADD_FAILURE() << fault << ": no error";
  }
  void expect_open_fails(const std::string& fault, const options& opening = {}) {
    expect_line(fault, [&] { const store s(path_, opening); });
  }

  void expect_calls() {
    make_store();
    store s(path_);
    expect_open_fails("a second writer");
    expect_line("a key of 65,536 bytes", [&] { s.insert(std::string(65'536, 'k'), ""); });
    expect_line("a tag name of 65,536 bytes", [&] { s.tag(std::string(65'536, 'k')); });
    expect_line("a tag name that is taken", [&] { s.tag("one"); });
    expect_line("a tag that is not there", [&] { (void)s.at("two"); });
    expect_line("a version that is still open", [&] { (void)s.at(s.clock()); });
    version_ranges lost;
    lost.add({1, 2});
    s.lose(lost);  // as recovery reports it
    expect_line("a version that a power cut took", [&] { (void)s.at(1); });
    expect_expired();
    s.hold_version("paper");
    expect_line("a name of a hold that is taken", [&] { s.hold_version("paper"); });
    expect_line("a hold that is not there", [&] { s.release_version("essay"); });
    s.close();
    expect_line("a store that was closed", [&] { s.insert("a", "2"); });
    store reader(path_, reading());
    expect_line("a write to a store opened for reading", [&] { reader.insert("a", "2"); });
    expect_open_fails("a writer while others read");
    reader.close();
    const auto copy = folder_ / "copy.ice";
    store writer(path_);
    std::filesystem::copy_file(path_, copy);
    expect_line("a copy made under a live writer", [&] { const store copied(copy); });
    writer.close();
    expect_unknown_crash();
  }

  void expect_expired() {
    const auto thinned = folder_ / "thinned.ice";
    options how;
    how.durability = durability::none;
    {
      store s(thinned, how);
      s.insert("a", "1");
      s.tag();
      s.insert("a", "2");
      s.tag();
      s.set_retention({.newest = 1});
    }
    static_cast<void>(compact(thinned, how));
    const store s(thinned, how);
    expect_line("a version that a compaction gave up", [&] { (void)s.at(1); });
  }

  /// Written to further, but not tagged, on a machine that may still run.
  void expect_unknown_crash() {
    std::string image;
    {
      options how;
      how.durability = durability::tag;
      how.emulate_durability = true;
      store writer(path_, how);
      writer.insert("a", "2");
      image = read_file(path_);
    }
    image = with_roots_changed(image, [](format::root& r) { r.boot_id[0] ^= 1; });
    const std::uint64_t host = format::live_page_offset + offsetof(format::live_page, writer_host);
    image.replace(host, sizeof "node-7", "node-7", sizeof "node-7");
    write_file(path_, image);
    expect_open_fails("a store that another machine's process left open, with writes not yet durable");
  }

  scratch folder_;
  std::filesystem::path path_ = folder_ / "store.ice";
  std::string page_ = read_file(ICECORE_ERRORS_PAGE);
  std::ptrdiff_t lines_ = 0;
};

TEST_F(Errors, are_those_that_the_page_tells) {
  expect_open_fails("nothing is there, opened for reading", reading());
  expect_line("its folder is missing", [&] { const store s(folder_ / "no" / "store.ice"); });
  expect_line("a directory", [&] { const store s(folder_.path()); });
  expect_line("a device", [] { const store s("/dev/null"); });
  ASSERT_EQ(mkfifo(path_.c_str(), 0600), 0);
  expect_open_fails("a FIFO");
  std::filesystem::remove(path_);
  std::filesystem::create_symlink(folder_ / "nothing", path_);
  expect_open_fails("a symbolic link to nothing, opened for reading", reading());
  std::filesystem::remove(path_);
  std::filesystem::create_symlink(path_, path_);
  expect_open_fails("a symbolic link to itself");
  std::filesystem::remove(path_);
  const int socket_here = socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, path_.c_str(), sizeof address.sun_path - 1);
  ASSERT_EQ(bind(socket_here, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  expect_open_fails("a socket");
  close(socket_here);
  std::filesystem::remove(path_);

  write_file(path_, std::string(100'000, 'x'));
  expect_open_fails("a foreign file");
  write_file(path_, "ICECORE");
  expect_open_fails("a file of a few bytes");
  write_file(path_, std::string(131'072, '\0'));
  expect_open_fails("a file of zeros");
  write_file(path_, "");
  expect_open_fails("an empty file, opened for reading", reading());
  options existing;
  existing.creation = creation::open_existing;
  expect_open_fails("an empty file, where creating was not asked for", existing);
  make_store();
  std::filesystem::resize_file(path_, std::filesystem::file_size(path_) - 1);
  expect_open_fails("a file that lost its end");
  make_store();
  std::string file = read_file(path_);
  file[100] ^= 1;
  file[4196] ^= 1;
  write_file(path_, file);
  expect_open_fails("both root pages damaged");
  make_store();
  file = read_file(path_);
  file[65'536 + 64 + 48] ^= 1;
  write_file(path_, file);
  expect_open_fails("a damaged record");
  make_store();
  file = read_file(path_);
  file[65'536 + 64] = 9;
  write_file(path_, file);
  expect_open_fails("a record of an unknown kind");
  change_roots([](format::root& root) { root.version_major = format::version_major_with_values + 1; });
  expect_open_fails("a later format");
  change_roots([](format::root& root) { root.version_major = 1; });
  expect_open_fails("an earlier format");
  for (std::uint16_t major = 4; major <= 6; ++major) {
    change_roots([&](format::root& root) { root.version_major = major; });
    if (major == 5) {
      expect_open_fails("a format that no release wrote");
    } else {
      expect_error(errc::unsupported_format, "dump it with the icecore that wrote it", [&] { const store s(path_); });
    }
  }
  change_roots([](format::root& root) { root.version_minor = format::version_minor + 1; });
  expect_open_fails("a later minor format, opened for writing");
  change_roots([](format::root& root) { root.byte_order = 0x04030201; });
  expect_open_fails("a machine of other byte order");
  change_roots([](format::root& root) { root.used_end = 1 << 30; });
  expect_open_fails("a root of impossible sizes");
  change_roots([](format::root& root) { root.clock = 0; });
  expect_open_fails("a root of impossible versions");
  make_store();
  options opening;
  opening.creation = creation::create_new;
  expect_open_fails("a new store was asked for", opening);
  opening = {};
  opening.durability = durability::tag;
  expect_open_fails("a durability that the device cannot give", opening);
  expect_calls();
  std::ptrdiff_t reported = -1;  // the heading
  const std::size_t end = page_.find("\nWhat needs a failing device");
  for (std::size_t at = 0; (at = page_.find("\n| ", at)) < end; ++at) ++reported;
  EXPECT_EQ(reported, lines_) << "docs/errors.md tells of faults that are not made here";
}

}  // namespace
}  // namespace icecore::testing
