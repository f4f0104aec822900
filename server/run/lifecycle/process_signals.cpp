#include "run/lifecycle/process_signals.hpp"

#include <sys/signalfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "icecore/error.hpp"

namespace icecore::server {

process_signals::process_signals() {
  sigset_t wanted;
  sigemptyset(&wanted);
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) sigaddset(&wanted, signal);
  descriptor_ = ::signalfd(-1, &wanted, SFD_CLOEXEC | SFD_NONBLOCK);
  if (descriptor_ < 0) throw error(errc::io, std::string("signalfd: ") + std::strerror(errno));
  pthread_sigmask(SIG_BLOCK, &wanted, &blocked_before_);
  struct sigaction ignore {};
  ignore.sa_handler = SIG_IGN;
  sigaction(SIGPIPE, &ignore, &pipe_before_);
  sigaction(SIGXFSZ, &ignore, &size_before_);
}

process_signals::~process_signals() {
  while (next()) continue;  // what still waits would end the process now
  ::close(descriptor_);
  sigaction(SIGXFSZ, &size_before_, nullptr);
  sigaction(SIGPIPE, &pipe_before_, nullptr);
  pthread_sigmask(SIG_SETMASK, &blocked_before_, nullptr);
}

std::optional<process_signals::kind> process_signals::next() {
  signalfd_siginfo got;
  if (::read(descriptor_, &got, sizeof got) != static_cast<ssize_t>(sizeof got)) return std::nullopt;
  if (got.ssi_signo == SIGHUP) return kind::reopen;
  return got.ssi_pid == static_cast<std::uint32_t>(::getpid()) ? kind::stop_by_group : kind::stop;
}

}  // namespace icecore::server
