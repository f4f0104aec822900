#include "doors/http/answers.hpp"

#include <exception>

#include "icecore/error.hpp"

namespace icecore::server::http {

namespace {

constexpr std::size_t not_ready_lines_max = 100;
constexpr std::size_t not_ready_line_bytes_max = 500;

void append_line(std::string& body, std::string_view text) {
  for (const char c : text.substr(0, not_ready_line_bytes_max)) {
    body += static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? ' ' : c;
  }
  body += '\n';
}

answer readiness(const std::vector<std::string>& not_ready) {
  if (not_ready.empty()) return {.body = "ready\n", .path = "/readyz"};
  answer told{.status = 503, .path = "/readyz"};
  for (std::size_t i = 0; i < not_ready.size() && i < not_ready_lines_max; ++i) append_line(told.body, not_ready[i]);
  if (not_ready.size() > not_ready_lines_max) {
    append_line(told.body, "and " + std::to_string(not_ready.size() - not_ready_lines_max) + " more");
  }
  return told;
}

answer found(std::string_view path, const caller& by, const sources& from) {
  if (path == "/healthz") return {.body = "ok\n", .path = "/healthz"};
  if (path == "/readyz") return readiness(from.not_ready(by));
  if (path == "/metrics") {
    return {.content_type = "text/plain; version=0.0.4; charset=utf-8", .body = from.metrics(by), .path = "/metrics"};
  }
  return {.status = 404, .body = "not found; there are /metrics, /healthz and /readyz\n"};
}

answer failure(const std::exception& why) {
  answer told = refusal(500, "this could not be found out; the server's log says why");
  told.failed = why.what();
  return told;
}

}  // namespace

answer refusal(unsigned status, std::string_view text) { return {.status = status, .body = std::string(text) + '\n'}; }

answer answer_to(const question& asked, const sources& from) {
  const std::string_view path = asked.target.substr(0, asked.target.find('?'));
  answer told;
  if (asked.method != "GET" && asked.method != "HEAD") {
    told = refusal(405, "only GET and HEAD are answered here");
  } else {
    try {
      told = found(path, asked.by, from);
    } catch (const error& refused) {
      const bool is_unknown = refused.code() == errc::unauthenticated;
      told = is_unknown ? refusal(401, refused.message()) : failure(refused);
    } catch (const std::exception& failed) {
      told = failure(failed);
    }
  }
  told.with_body = asked.method != "HEAD";
  return told;
}

}  // namespace icecore::server::http
