#include "ctrl/host_namespace/host_namespace.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "ctrl/host_namespace/fd_channel.h"
#include "ctrl/host_namespace/namespace_helper.h"
#include "dataplane/base/try.h"

namespace understudy {
namespace {

/// A listener per emulated node passes the usual soft limit of 1024 descriptors.
void raise_descriptor_limit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace

HostNamespace::HostNamespace(UniqueFd channel, UniqueFd tap, pid_t helper,
                             std::vector<IpPrefix> emulated)
    : channel_(std::move(channel)),
      tap_(std::move(tap)),
      helper_(helper),
      emulated_(std::move(emulated)) {}

HostNamespace::~HostNamespace() {
  channel_ = UniqueFd();
  while (waitpid(helper_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

Result<std::unique_ptr<HostNamespace>> HostNamespace::create(const HostNamespaceSpec& spec) {
  raise_descriptor_limit();
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
    return fail("exception namespace: socketpair: " + std::string(std::strerror(errno)));
  }
  UniqueFd ours(ends[0]);
  UniqueFd theirs(ends[1]);
  const pid_t helper = fork();
  if (helper < 0) return fail("exception namespace: fork: " + std::string(std::strerror(errno)));
  if (helper == 0) run_namespace_helper(theirs.get(), spec);
  theirs = UniqueFd();
  auto first = receive_fd_message(ours.get());
  UniqueFd tap = first ? std::move(first->fd) : UniqueFd();
  std::unique_ptr<HostNamespace> result(
      new HostNamespace(std::move(ours), std::move(tap), helper, spec.emulated));
  if (!first) return fail("exception namespace: its helper process ended unexpectedly");
  if (!first->text.empty()) return fail("exception namespace: " + first->text);
  if (!result->tap_.valid()) return fail("exception namespace: no descriptor left for the TAP");
  return result;
}

size_t HostNamespace::read_frame(std::span<uint8_t> buffer) const {
  const ssize_t got = read(tap_.get(), buffer.data(), buffer.size());
  return got > 0 ? static_cast<size_t>(got) : 0;
}

bool HostNamespace::write_frame(std::span<const uint8_t> frame) const {
  return write(tap_.get(), frame.data(), frame.size()) == static_cast<ssize_t>(frame.size());
}

Result<int> HostNamespace::listen_tcp(const IpAddress& address, uint16_t port) const {
  TRY(check_emulated(address));
  return ask("listen " + address.text() + " " + std::to_string(port));
}

Result<int> HostNamespace::listen_any(const IpAddress& any, uint16_t port) const {
  return ask("listen " + any.text() + " " + std::to_string(port));
}

Result<int> HostNamespace::connect_tcp(const IpAddress& from, const IpAddress& to,
                                       uint16_t port) const {
  TRY(check_emulated(from));
  return ask("connect " + from.text() + " " + to.text() + " " + std::to_string(port));
}

Result<int> HostNamespace::ask(const std::string& request) const {
  const bool sent = send_fd_message(channel_.get(), request, -1);
  auto answer = sent ? receive_fd_message(channel_.get()) : std::nullopt;
  if (!answer) return fail("exception namespace: its helper process has ended");
  if (!answer->text.empty()) return fail("exception namespace: " + request + ": " + answer->text);
  if (!answer->fd.valid()) {
    return fail("exception namespace: " + request +
                ": no file descriptor left; raise the limit (ulimit -n)");
  }
  return answer->fd.release();
}

Result<void> HostNamespace::check_emulated(const IpAddress& address) const {
  const bool found = std::any_of(emulated_.begin(), emulated_.end(),
                                 [&](const IpPrefix& prefix) { return prefix.contains(address); });
  if (!found) {
    return fail("exception namespace: " + address.text() + " is in no emulated prefix");
  }
  return {};
}

}  // namespace understudy
