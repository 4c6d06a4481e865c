#include "tools/roce_check/output/drawing_child.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>

#include "ctrl/report/series/gnuplot.h"

namespace understudy {
namespace {

bool write_all(int file, const void* data, size_t bytes) {
  const char* at = static_cast<const char*>(data);
  while (bytes != 0) {
    const ssize_t written = ::write(file, at, bytes);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    at += written;
    bytes -= static_cast<size_t>(written);
  }
  return true;
}

std::string read_all(int file) {
  std::string text;
  char part[1 << 16];
  for (;;) {
    const ssize_t got = ::read(file, part, sizeof part);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return text;
    text.append(part, static_cast<size_t>(got));
  }
}

/// Behind a script: without it, its maker has ended in the middle.
constexpr char kWhole = '\0';
/// The answer of a child that has drawn; any other is an error.
const std::string kDrawn = "+";

[[noreturn]] void serve(int scripts, int answers) {
  std::string script = read_all(scripts);
  if (script.empty() || script.back() != kWhole) _exit(0);
  script.pop_back();
  const auto drawn = draw_with(kGnuplot, {}, script);
  const std::string answer = drawn ? kDrawn : drawn.error().text;
  write_all(answers, answer.data(), answer.size());
  _exit(0);
}

}  // namespace

Result<DrawingChild> DrawingChild::start() {
  int scripts[2], answers[2];
  if (::pipe2(scripts, O_CLOEXEC) != 0) return fail(std::strerror(errno));
  if (::pipe2(answers, O_CLOEXEC) != 0) {
    const int error = errno;
    ::close(scripts[0]);
    ::close(scripts[1]);
    return fail(std::strerror(error));
  }
  const pid_t child = ::fork();
  if (child == 0) {
    ::close(scripts[1]);
    ::close(answers[0]);
    serve(scripts[0], answers[1]);
  }
  const int error = errno;
  ::close(scripts[0]);
  ::close(answers[1]);
  DrawingChild out(scripts[1], answers[0]);
  if (child < 0) return fail(std::string("a process for gnuplot: ") + std::strerror(error));
  return out;
}

DrawingChild::~DrawingChild() {
  for (const int file : {scripts_, answers_}) {
    if (file >= 0) ::close(file);
  }
}

Result<void> DrawingChild::draw(const std::string& script) {
  // A child that was killed is an error to say, not an end.
  const auto before = std::signal(SIGPIPE, SIG_IGN);
  const bool sent =
      write_all(scripts_, script.data(), script.size()) && write_all(scripts_, &kWhole, 1);
  std::signal(SIGPIPE, before);
  ::close(std::exchange(scripts_, -1));
  const std::string answer = read_all(answers_);
  if (sent && answer == kDrawn) return {};
  return fail(answer.empty() ? "the process that starts gnuplot has ended" : answer);
}

}  // namespace understudy
