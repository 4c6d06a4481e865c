#include "ctrl/host_namespace/namespace_setup.h"

#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "dataplane/base/try.h"

namespace understudy {
namespace {

constexpr const char* kTapName = "tap0";

std::string reason() { return std::strerror(errno); }

Result<void> write_file(const std::string& path, const std::string& value) {
  const UniqueFd file(open(path.c_str(), O_WRONLY | O_CLOEXEC));
  const auto size = static_cast<ssize_t>(value.size());
  if (!file.valid() || write(file.get(), value.data(), value.size()) != size) {
    return fail("cannot write \"" + value + "\" to " + path + ": " + reason());
  }
  return {};
}

/// Switches one setting of the interfaces' sysctls off.
Result<void> write_setting(const char* family, const char* scope, const char* name) {
  std::string path = "/proc/sys/net/";
  path.append(family).append("/conf/").append(scope).append("/").append(name);
  return write_file(path, "0");
}

bool any_v6(const HostNamespaceSpec& spec) {
  return std::any_of(spec.emulated.begin(), spec.emulated.end(),
                     [](const IpPrefix& prefix) { return !prefix.address.is_v4(); });
}

/// Runs `ip -batch -` on `commands`; its complaint is the error.
Result<void> run_ip(const std::string& commands) {
  int to_ip[2];
  int from_ip[2];
  if (pipe2(to_ip, O_CLOEXEC) != 0) return fail("pipe: " + reason());
  UniqueFd input(to_ip[0]);
  UniqueFd feed(to_ip[1]);
  if (pipe2(from_ip, O_CLOEXEC) != 0) return fail("pipe: " + reason());
  UniqueFd complaints(from_ip[0]);
  UniqueFd output(from_ip[1]);
  const pid_t child = fork();
  if (child < 0) return fail("fork: " + reason());
  if (child == 0) {
    dup2(input.get(), STDIN_FILENO);
    dup2(output.get(), STDOUT_FILENO);
    dup2(output.get(), STDERR_FILENO);
    for (const char* path : {"/usr/sbin/ip", "/sbin/ip", "/usr/bin/ip", "/bin/ip"}) {
      execl(path, "ip", "-batch", "-", static_cast<char*>(nullptr));
    }
    _exit(127);
  }
  input = UniqueFd();
  output = UniqueFd();
  // ip reads all its input whatever it says, and says little: no deadlock between the pipes.
  const bool fed =
      write(feed.get(), commands.data(), commands.size()) == static_cast<ssize_t>(commands.size());
  feed = UniqueFd();
  std::string said;
  std::array<char, 512> buffer;
  ssize_t got;
  while ((got = read(complaints.get(), buffer.data(), buffer.size())) > 0) {
    said.append(buffer.data(), static_cast<size_t>(got));
  }
  int status = 0;
  waitpid(child, &status, 0);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 127) {
    return fail("the command \"ip\" is missing: install iproute2");
  }
  if (!fed || status != 0) return fail("ip -batch: " + said);
  return {};
}

}  // namespace

Result<void> enter_new_namespace() {
  if (unshare(CLONE_NEWNET) == 0) return {};
  const uid_t uid = getuid();
  const gid_t gid = getgid();
  if (unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0) {
    return fail(
        "no permission to create a TAP: a network namespace needs root, CAP_SYS_ADMIN or "
        "unprivileged user namespaces (" +
        reason() + ")");
  }
  TRY(write_file("/proc/self/setgroups", "deny"));
  TRY(write_file("/proc/self/uid_map", "0 " + std::to_string(uid) + " 1"));
  return write_file("/proc/self/gid_map", "0 " + std::to_string(gid) + " 1");
}

Result<UniqueFd> open_tap() {
  UniqueFd tap(open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC));
  if (!tap.valid()) {
    const bool permission = errno == EACCES || errno == EPERM;
    return fail(std::string(permission ? "no permission to create a TAP" : "cannot create a TAP") +
                ": /dev/net/tun: " + reason() +
                (permission ? "; it needs root or CAP_NET_ADMIN" : "; is the tun module there?"));
  }
  ifreq request{};
  std::strncpy(request.ifr_name, kTapName, IFNAMSIZ - 1);
  request.ifr_flags = IFF_TAP | IFF_NO_PI;
  if (ioctl(tap.get(), TUNSETIFF, &request) != 0) {
    return fail("no permission to create a TAP: TUNSETIFF: " + reason() +
                "; it needs root or CAP_NET_ADMIN");
  }
  // No checksum or segmentation offload: frames leave complete, as they go on the wire.
  if (ioctl(tap.get(), TUNSETOFFLOAD, 0) != 0) return fail("TUNSETOFFLOAD: " + reason());
  return tap;
}

std::string namespace_commands(const HostNamespaceSpec& spec) {
  const std::string tap(kTapName);
  std::string text = "link set dev lo up\n";
  // addrgenmode none: without a link-local address the TAP sends nothing of its own accord.
  text += "link set dev " + tap + " txqueuelen 4096 address " + kHostNamespaceMac.text() + " mtu " +
          std::to_string(spec.mtu) + (any_v6(spec) ? " addrgenmode none" : "") + "\n";
  text += "link set dev " + tap + " up\n";
  for (const IpPrefix& prefix : spec.emulated) {
    const IpPrefix base{prefix.host(0).value_or(prefix.address), prefix.length};
    text += "route add local " + base.text() + " dev lo table local\n";
  }
  // In the same table, so that a real node's longer prefix wins over the emulated one around it.
  for (const IpAddress& real : spec.real) {
    text.append("route add unicast ").append(real.text()).append(real.is_v4() ? "/32" : "/128");
    text.append(" dev ").append(tap).append(" table local\n");
    text.append("neigh add ").append(real.text()).append(" lladdr ");
    text.append(kHostNamespacePeerMac.text()).append(" dev ").append(tap);
    text.append(" nud permanent\n");
  }
  return text;
}

Result<void> configure_namespace(const HostNamespaceSpec& spec) {
  for (const char* scope : {"all", "default", kTapName}) {
    TRY(write_setting("ipv4", scope, "rp_filter"));
  }
  if (any_v6(spec)) {
    if (access("/proc/sys/net/ipv6", F_OK) != 0) {
      return fail("IPv6 prefixes are configured but this kernel has no IPv6");
    }
    TRY(write_file("/proc/sys/net/ipv6/ip_nonlocal_bind", "1"));
    for (const char* scope : {"all", "default", kTapName}) {
      for (const char* name : {"disable_ipv6", "accept_dad", "accept_ra"}) {
        TRY(write_setting("ipv6", scope, name));
      }
    }
  }
  return run_ip(namespace_commands(spec));
}

}  // namespace understudy
