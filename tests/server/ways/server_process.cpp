#include "ways/server_process.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <thread>

namespace icecore::ways {
namespace {

using namespace std::chrono_literals;

std::vector<std::string> words_of(const std::filesystem::path& folder, const server_settings& settings) {
  std::vector<std::string> words{"icecore-server",        "--data",         folder / "data",
                                 "--ucx-token-file",      folder / "token", "--limits-free-disk-bytes",
                                 settings.free_disk_bytes};
  for (const std::string door : {"grpc", "ucx", "http"}) {
    words.push_back("--listen-" + door);
    const auto given = settings.listen.find(door);
    words.push_back(given != settings.listen.end() ? given->second : "");
  }
  words.insert(words.end(), settings.flags.begin(), settings.flags.end());
  return words;
}

std::vector<char*> arguments_of(std::vector<std::string>& words) {
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  return arguments;
}

}  // namespace

std::string program() {
  const char* named = std::getenv("ICECORE_SERVER_PROGRAM");
  return named != nullptr ? named : ICECORE_SERVER;
}

server_process::server_process(const std::filesystem::path& folder, const server_settings& settings)
    : log_(folder / "log") {
  using std::filesystem::perms;
  const std::filesystem::path token = folder / "token";
  std::ofstream(token) << job_token << '\n';
  std::filesystem::permissions(token, perms::owner_read | perms::owner_write);
  std::filesystem::remove(log_);
  std::vector<std::string> words = words_of(folder, settings);
  const std::vector<char*> arguments = arguments_of(words);
  pid_ = ::fork();
  if (pid_ != 0) return;
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  settings.in_child();
  ::dup2(::open(log_.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600), 2);
  ::execv(settings.program.c_str(), arguments.data());
  std::_Exit(127);
}

void server_process::kill() {
  if (pid_ <= 0) return;
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
  pid_ = 0;
}

int server_process::terminate() {
  int status = 0;
  ::kill(pid_, SIGTERM);
  ::waitpid(pid_, &status, 0);
  pid_ = 0;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

std::string server_process::address(const std::string& door) const {
  for (const auto until = std::chrono::steady_clock::now() + 60s; std::chrono::steady_clock::now() < until;
       std::this_thread::sleep_for(5ms)) {
    std::ifstream in(log_);
    for (std::string line; std::getline(in, line);) {
      const auto event = nlohmann::json::parse(line, nullptr, false);
      if (!event.is_object()) continue;
      const std::string name = event.value("event", "");
      if (name == "server.listening" && event.value("door", "") == door) return event.value("address", "");
    }
  }
  return {};
}

std::string server_process::log() const {
  std::ifstream in(log_);
  return {std::istreambuf_iterator<char>(in), {}};
}

int run_program(std::vector<std::string> words) {
  const std::vector<char*> arguments = arguments_of(words);
  const pid_t pid = ::fork();
  if (pid == 0) {
    const int nowhere = ::open("/dev/null", O_WRONLY);
    ::dup2(nowhere, 1);
    ::dup2(nowhere, 2);
    ::execv(arguments[0], arguments.data());
    std::_Exit(127);
  }
  int status = 0;
  ::waitpid(pid, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

}  // namespace icecore::ways
