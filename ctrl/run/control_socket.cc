#include "ctrl/run/control_socket.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "dataplane/base/unique_fd.h"

namespace understudy {
namespace {

constexpr size_t kMaxText = 65536;
constexpr int kAnswerTimeoutMs = 5000;

bool fill(sockaddr_un& address, const std::string& path) {
  address = {};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof address.sun_path) return false;
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  return true;
}

std::string system_text(const std::string& what, const std::string& path) {
  return what + " \"" + path + "\": " + std::strerror(errno);
}

/// Removes a socket that a run which was killed has left behind. Everything else stays where it is,
/// and is an error.
Result<void> remove_left_over(const sockaddr_un& address) {
  struct stat is {};
  if (lstat(address.sun_path, &is) != 0) return fail(std::strerror(errno));
  if (!S_ISSOCK(is.st_mode)) return fail("a file that is no socket is there; take another name");
  const UniqueFd probe(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (connect(probe.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) {
    return fail("another run answers there");
  }
  if (errno != ECONNREFUSED) {
    return fail(std::string("a socket is there, and is not answered: ") + std::strerror(errno));
  }
  if (unlink(address.sun_path) != 0) return fail(std::strerror(errno));
  return {};
}

}  // namespace

Result<std::unique_ptr<ControlSocket>> ControlSocket::open(const std::string& path) {
  sockaddr_un address;
  if (!fill(address, path)) return fail("control socket \"" + path + "\": the path is too long");
  const int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) return fail(system_text("control socket", path));
  int bound = bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address);
  if (bound != 0 && errno == EADDRINUSE) {
    if (const auto kept = remove_left_over(address); !kept) {
      close(fd);
      return fail("control socket \"" + path + "\": " + kept.error().text);
    }
    bound = bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address);
  }
  if (bound != 0) {
    const std::string text = system_text("control socket", path);
    close(fd);
    return fail(text);
  }
  return std::unique_ptr<ControlSocket>(new ControlSocket(fd, path));
}

ControlSocket::~ControlSocket() {
  close(fd_);
  unlink(path_.c_str());
}

void ControlSocket::poll(const std::function<std::string(const std::string&)>& handle) {
  char text[kMaxText];
  for (;;) {
    sockaddr_un from;
    socklen_t from_size = sizeof from;
    const ssize_t size =
        recvfrom(fd_, text, sizeof text, 0, reinterpret_cast<sockaddr*>(&from), &from_size);
    if (size < 0) return;
    const std::string answer = handle(std::string(text, static_cast<size_t>(size)));
    sendto(fd_, answer.data(), answer.size(), MSG_NOSIGNAL, reinterpret_cast<sockaddr*>(&from),
           from_size);
  }
}

Result<std::string> send_command(const std::string& path, const std::string& text) {
  sockaddr_un address;
  if (!fill(address, path)) return fail("control socket \"" + path + "\": the path is too long");
  if (text.size() > kMaxText) return fail("the command is too long");
  const int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return fail(system_text("control socket", path));
  sockaddr_un own{};
  own.sun_family = AF_UNIX;
  // Autobind: the kernel picks an abstract name, so that the answer finds its way back.
  const bool sent = bind(fd, reinterpret_cast<sockaddr*>(&own), sizeof(sa_family_t)) == 0 &&
                    sendto(fd, text.data(), text.size(), MSG_NOSIGNAL,
                           reinterpret_cast<sockaddr*>(&address), sizeof address) >= 0;
  if (!sent) {
    const std::string error = system_text("no run answers at", path);
    close(fd);
    return fail(error);
  }
  pollfd wait{fd, POLLIN, 0};
  char answer[kMaxText];
  ssize_t size = -1;
  if (::poll(&wait, 1, kAnswerTimeoutMs) == 1) size = recv(fd, answer, sizeof answer, 0);
  close(fd);
  if (size < 0) return fail("the run at \"" + path + "\" gave no answer");
  return std::string(answer, static_cast<size_t>(size));
}

}  // namespace understudy
