// The log: one event is one line, whatever is in it; a slow reader or a full queue costs lines, which are counted,
// never the threads that write.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

#include "icecore/error.hpp"
#include "run/log/log.hpp"
#include "run/log/slow_log.hpp"
#include "run/utf8.hpp"

namespace icecore::server {
namespace {

using namespace std::chrono_literals;
using json = nlohmann::json;
using ::testing::HasSubstr;
using ::testing::Not;
namespace fs = std::filesystem;

class Log : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / ("icecore_log_test_" + std::to_string(::getpid()));
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  [[nodiscard]] fs::path file(const std::string& name = "log") const { return folder_ / name; }

  static std::vector<std::string> lines(const fs::path& of) {
    std::vector<std::string> all;
    std::ifstream in(of);
    for (std::string line; std::getline(in, line);) all.push_back(line);
    return all;
  }

  fs::path folder_;
};

log_event at(std::chrono::system_clock::time_point time) { return {time, log_level::info, "a.event"}; }

std::string line(log_format format, std::initializer_list<log_field> fields) {
  return event_line(format, at({}), std::span(fields.begin(), fields.size()));
}

TEST(EventText, a_line_of_json_has_the_time_the_level_the_event_and_its_fields) {
  const auto time = std::chrono::sys_days{std::chrono::year{2026} / 2 / 28} + 23h + 59min + 58s + 7us;
  const std::string text =
      event_line(log_format::json, {time, log_level::warning, "http.listening", "north", 3},
                 std::vector<log_field>{{"port", 7481U}, {"ratio", 0.5}, {"tls", true}, {"delta", -3}});
  EXPECT_EQ(text,
            "{\"time\":\"2026-02-28T23:59:58.000007Z\",\"level\":\"warning\",\"server\":\"north\",\"event\":"
            "\"http.listening\",\"port\":7481,\"ratio\":0.5,\"tls\":true,\"delta\":-3,\"suppressed\":3}\n");
}

TEST(EventText, a_line_for_people_has_the_same) {
  EXPECT_EQ(line(log_format::text, {{"port", 7481}, {"word", "plain"}, {"words", "two words"}, {"none", ""}}),
            "1970-01-01T00:00:00.000000Z info    a.event port=7481 word=plain words=\"two words\" none=\"\"\n");
}

TEST(EventText, any_bytes_become_one_line_of_valid_json_that_says_the_same) {
  std::string all;
  for (int byte = 0; byte < 256; ++byte) all += static_cast<char>(byte);
  const std::string valid = "\x01\n\t\"\\/\x7f\xc2\x85\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80";
  const std::string text = line(log_format::json, {{"all", all}, {"valid", valid}});
  EXPECT_EQ(std::ranges::count(text, '\n'), 1);
  EXPECT_TRUE(is_utf8(text));
  for (const char c : text.substr(0, text.size() - 1)) EXPECT_GE(static_cast<unsigned char>(c), 0x20);
  const json parsed = json::parse(text);
  EXPECT_EQ(parsed["valid"], valid);
  EXPECT_THAT(parsed["all"].get<std::string>(), HasSubstr("abc"));
  EXPECT_THAT(parsed["all"].get<std::string>(), HasSubstr("\xef\xbf\xbd"));
}

TEST(EventText, text_does_nothing_to_a_terminal) {
  const std::string text = line(log_format::text, {{"peer", "a\x1b[31m\n\xc2\x9b\xff\"\\"}});
  EXPECT_THAT(text, HasSubstr(R"(peer="a\x1b[31m\x0a\xc2\x9b\xff\"\\")"));
  EXPECT_EQ(std::ranges::count(text, '\n'), 1);
}

TEST(EventText, of_long_strings_the_beginning_is_kept) {
  const std::string accents = "a" + [] {
    std::string many;
    for (int i = 0; i < 2000; ++i) many += "\xc3\xa9";
    return many;
  }();
  for (const log_format format : {log_format::json, log_format::text}) {
    const std::string text = line(format, {{"long", accents}});
    EXPECT_LT(text.size(), log_string_bytes_max + 200);
    EXPECT_THAT(text, HasSubstr("\xc3\xa9...\""));
    EXPECT_TRUE(is_utf8(text));
  }
}

TEST(EventText, numbers_that_json_cannot_say_are_null) {
  EXPECT_TRUE(json::parse(line(log_format::json, {{"x", std::numeric_limits<double>::quiet_NaN()}}))["x"].is_null());
  EXPECT_EQ(json::parse(line(log_format::json, {{"x", ~std::uint64_t{0}}}))["x"], ~std::uint64_t{0});
}

TEST(Utf8, overlong_forms_surrogates_and_cut_characters_are_none) {
  for (const char* wrong : {"\xc0\x80", "\xe0\x9f\xbf", "\xed\xa0\x80", "\xf0\x8f\xbf\xbf", "\xf4\x90\x80\x80", "\x80",
                            "\xc3", "\xe2\x82", "\xf5\x80\x80\x80"}) {
    EXPECT_FALSE(is_utf8(wrong)) << testing::PrintToString(wrong);
  }
  EXPECT_TRUE(is_utf8("a\xc3\xa9\xed\x9f\xbf\xee\x80\x80\xf4\x8f\xbf\xbf"));
}

TEST_F(Log, writes_what_is_at_least_of_its_level) {
  {
    log out({.level = log_level::warning, .file = file(), .server = "north"});
    EXPECT_FALSE(out.wants(log_level::info));
    out.write(log_level::info, "a.info");
    out.write(log_level::error, "an.error", {{"n", 1}});
    out.write_limited(log_level::debug, "a.debug");
  }
  const auto written = lines(file());
  ASSERT_EQ(written.size(), 1U);
  const json parsed = json::parse(written[0]);
  EXPECT_EQ(parsed["event"], "an.error");
  EXPECT_EQ(parsed["server"], "north");
  EXPECT_EQ(parsed["n"], 1);
}

TEST_F(Log, appends_to_a_file_and_lets_only_its_group_read_it) {
  std::ofstream(file()) << "before\n";
  const mode_t before = ::umask(0);
  { log({.file = file("new")}).write(log_level::info, "x"); }
  ::umask(before);
  { log({.file = file()}).write(log_level::info, "x"); }
  EXPECT_EQ(lines(file()).size(), 2U);
  EXPECT_EQ(fs::status(file("new")).permissions(), fs::perms(0640));
}

TEST_F(Log, says_which_file_cannot_be_opened) {
  try {
    log out({.file = folder_ / "no" / "such" / "file"});
    FAIL();
  } catch (const error& told) {
    EXPECT_EQ(told.code(), errc::io);
    EXPECT_THAT(told.message(), HasSubstr("no/such/file: the log cannot be opened: No such file"));
  }
}

TEST_F(Log, lines_of_many_threads_are_whole_and_each_thread_s_in_order) {
  constexpr int threads = 4, each = 2'000;
  {
    log out({.file = file()});
    std::vector<std::thread> writers;
    for (int t = 0; t < threads; ++t) {
      writers.emplace_back([&, t] {
        for (int i = 0; i < each; ++i) out.write(log_level::info, "e", {{"t", t}, {"i", i}});
      });
    }
    for (auto& writer : writers) writer.join();
    EXPECT_EQ(out.count().lost, 0U);
    EXPECT_EQ(out.count().lines, static_cast<std::uint64_t>(threads * each));
  }
  std::vector<int> next(threads, 0);
  for (const std::string& text : lines(file())) {
    const json parsed = json::parse(text);
    EXPECT_EQ(parsed["i"], next[parsed["t"].get<std::size_t>()]++);
  }
  EXPECT_THAT(next, ::testing::Each(each));
}

TEST_F(Log, a_rotated_file_is_opened_anew) {
  log out({.file = file()});
  out.write(log_level::info, "old");
  ASSERT_TRUE(out.flush(10s));
  fs::rename(file(), file("rotated"));
  out.reopen();
  ASSERT_TRUE(out.flush(10s));
  out.write(log_level::info, "new");
  ASSERT_TRUE(out.flush(10s));
  EXPECT_EQ(lines(file("rotated")).size(), 1U);
  ASSERT_EQ(lines(file()).size(), 1U);
  EXPECT_THAT(lines(file())[0], HasSubstr("\"new\""));
}

TEST_F(Log, a_file_that_cannot_be_opened_anew_goes_on_under_its_old_name) {
  fs::create_directories(folder_ / "below");
  log out({.file = folder_ / "below" / "log"});
  fs::rename(folder_ / "below", folder_ / "moved");
  out.reopen();
  out.write(log_level::info, "after");
  ASSERT_TRUE(out.flush(10s));
  const auto written = lines(folder_ / "moved" / "log");
  ASSERT_EQ(written.size(), 2U);
  EXPECT_THAT(written[0], HasSubstr("log.not_reopened"));
  EXPECT_THAT(written[1], HasSubstr("after"));
}

TEST_F(Log, of_many_events_of_a_name_one_is_written_and_the_others_are_counted) {
  {
    log out({.file = file()});
    for (int i = 0; i < 500; ++i) out.write_limited(log_level::warning, "bad.frame", {{"i", i}});
    for (int i = 0; i < 500; ++i) out.write_limited(log_level::warning, "request.slow", {{"i", i}}, 100);
    out.write_limited(log_level::warning, "other");
  }
  std::map<std::string, std::uint64_t> written, told;
  for (const std::string& text : lines(file())) {
    const json parsed = json::parse(text);
    if (parsed.contains("i") || parsed["event"] == "other") ++written[parsed["event"]];
    if (parsed.contains("suppressed")) told[parsed["event"]] += parsed["suppressed"].get<std::uint64_t>();
  }
  // a slow machine may take more than a second; nothing is told twice or forgotten
  EXPECT_GE(written["bad.frame"], 1U);
  EXPECT_LE(written["bad.frame"], 100U);
  EXPECT_EQ(written["bad.frame"] + told["bad.frame"], 500U);
  EXPECT_GE(written["request.slow"], 100U);
  EXPECT_EQ(written["request.slow"] + told["request.slow"], 500U);
  EXPECT_EQ(written["other"], 1U);
}

TEST_F(Log, events_that_were_suppressed_are_told_though_no_other_follows) {
  log out({.file = file()});
  out.write_limited(log_level::warning, "bad.frame");
  out.write_limited(log_level::warning, "bad.frame");
  const auto told = [&] {
    for (const std::string& text : lines(file())) {
      if (text.find("\"suppressed\":1") != std::string::npos) return true;
    }
    return false;
  };
  for (int i = 0; i < 600 && !told(); ++i) std::this_thread::sleep_for(50ms);
  EXPECT_TRUE(told());
}

/// A pipe that nobody reads until told, as a log file.
class LogOfAPipe : public Log {
 protected:
  void SetUp() override {
    Log::SetUp();
    ASSERT_EQ(::mkfifo(file().c_str(), 0600), 0);
    reader_ = ::open(file().c_str(), O_RDONLY | O_NONBLOCK);
    ASSERT_GE(reader_, 0);
  }
  void TearDown() override {
    ::close(reader_);
    Log::TearDown();
  }
  std::string drain() const {
    std::string all, piece(65'536, '\0');
    for (;;) {
      const ssize_t got = ::read(reader_, piece.data(), piece.size());
      if (got <= 0) return all;
      all.append(piece, 0, static_cast<std::size_t>(got));
    }
  }
  int reader_ = -1;
};

TEST_F(LogOfAPipe, a_reader_that_does_not_read_costs_lines_and_no_waiting) {
  constexpr std::uint64_t events = 20'000;
  log out({.file = file(), .queue_bytes_max = 64 << 10});
  for (std::uint64_t i = 0; i < events; ++i) out.write(log_level::info, "e", {{"i", i}});
  // some 1.5 MB of lines against 64 KiB in the pipe and twice 64 KiB in memory
  EXPECT_GT(out.count().lost, events / 2);
  EXPECT_EQ(out.count().lines + out.count().lost, events);
  std::string read;
  for (int i = 0; i < 600 && read.find("log.lines_lost") == std::string::npos; ++i) {
    read += drain();
    std::this_thread::sleep_for(10ms);
    out.write(log_level::info, "later");
  }
  bool done = false;
  for (int i = 0; i < 600 && !done; ++i) {
    done = out.flush(10ms);
    read += drain();
  }
  ASSERT_TRUE(done);
  std::istringstream in(read);
  std::uint64_t seen = 0, told = 0;
  for (std::string text; std::getline(in, text);) {
    const json parsed = json::parse(text);  // no line is cut
    seen += parsed["event"] == "e" ? 1U : 0U;
    if (parsed["event"] == "log.lines_lost") told += parsed["lines"].get<std::uint64_t>();
  }
  EXPECT_EQ(seen + told, events);
}

TEST_F(LogOfAPipe, ending_does_not_wait_for_ever) {
  const auto out = std::make_unique<log>(log_options{.file = file()});
  for (int i = 0; i < 20'000; ++i) out->write(log_level::info, "e");
  EXPECT_FALSE(out->flush(10ms));
}

TEST_F(Log, a_full_device_costs_lines_which_are_told_when_there_is_room) {
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  log out({.file = file()});
  out.write(log_level::info, "first");
  ASSERT_TRUE(out.flush(10s));
  rlimit full = before;
  full.rlim_cur = fs::file_size(file()) + 20;  // a part of the next line
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &full), 0);
  out.write(log_level::info, "second");
  EXPECT_TRUE(out.flush(10s));
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  EXPECT_EQ(out.count().lost, 1U);
  out.write(log_level::info, "third");
  EXPECT_TRUE(out.flush(10s));
  (void)std::signal(SIGXFSZ, handler);
  const auto written = lines(file());
  ASSERT_EQ(written.size(), 4U);  // the part of the second is a line of its own
  EXPECT_THAT(written[1], Not(HasSubstr("event")));
  EXPECT_EQ(json::parse(written[2])["event"], "log.lines_lost");
  EXPECT_EQ(json::parse(written[2])["lines"], 1);
  EXPECT_EQ(json::parse(written[3])["event"], "third");
}

TEST_F(Log, slow_requests_are_logged_with_the_trace_identifier) {
  {
    log out({.file = file()});
    slow_log slow(out, 100ms);
    slow.record({.door = "grpc", .operation = "put", .duration = 100ms});
    slow.record({.door = "grpc",
                 .operation = "scan",
                 .user = "ada",
                 .trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
                 .duration = 100'001us});
    slow.record({.door = "ucx",
                 .operation = "find",
                 .duration = 1s,
                 .parts = finished_request::known_parts{"models", 24, 1 << 20}});
    slow_log none(out, 0us);
    none.record({.door = "grpc", .operation = "get", .duration = 1h});
  }
  const auto written = lines(file());
  ASSERT_EQ(written.size(), 2U);
  const json parsed = json::parse(written[0]);
  EXPECT_EQ(parsed["event"], "request.slow");
  for (const char* unknown : {"database", "request_bytes", "answer_bytes"}) EXPECT_FALSE(parsed.contains(unknown));
  const json of_ucx = json::parse(written[1]);
  EXPECT_EQ(of_ucx["database"], "models");
  EXPECT_EQ(of_ucx["request_bytes"], 24);
  EXPECT_EQ(of_ucx["answer_bytes"], 1 << 20);
  EXPECT_EQ(parsed["duration_us"], 100'001);
  EXPECT_EQ(parsed["trace"], "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01");
}

}  // namespace
}  // namespace icecore::server
