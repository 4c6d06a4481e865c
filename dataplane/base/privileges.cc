#include "dataplane/base/privileges.h"

#include <dirent.h>
#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <thread>
#include <vector>

namespace understudy {
namespace {

constexpr std::chrono::milliseconds kPatience{1000}, kBetweenLooks{1};

std::atomic<uint64_t> kept_by_all{0};
static_assert(std::atomic<uint64_t>::is_always_lock_free, "read by a signal handler");

/// Of the thread that calls. Async-signal-safe.
void give_up_here(uint64_t kept) {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = {};
  if (syscall(SYS_capget, &header, data) != 0) return;
  for (unsigned i = 0; i < _LINUX_CAPABILITY_U32S_3; ++i) {
    const auto part = static_cast<uint32_t>(kept >> (32 * i));
    data[i].effective &= part;
    data[i].permitted &= part;
    data[i].inheritable = 0;
  }
  syscall(SYS_capset, &header, data);
  // Root's programs would have all of them again.
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
}

void on_signal(int) {
  const int error = errno;
  give_up_here(kept_by_all.load());
  errno = error;
}

std::vector<pid_t> threads() {
  std::vector<pid_t> out;
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(opendir("/proc/self/task"), closedir);
  if (folder == nullptr) return out;
  while (const dirent* entry = readdir(folder.get())) {
    if (entry->d_name[0] != '.') out.push_back(static_cast<pid_t>(std::atoi(entry->d_name)));
  }
  return out;
}

/// What a thread may use; nothing if it has ended.
uint64_t permitted_of(pid_t thread) {
  std::ifstream status("/proc/self/task/" + std::to_string(thread) + "/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("CapPrm:")) return std::strtoull(line.c_str() + 7, nullptr, 16);
  }
  return 0;
}

}  // namespace

std::string keep_capabilities(uint64_t kept) {
  if (permitted_of(static_cast<pid_t>(syscall(SYS_gettid))) == 0) return {};
  kept_by_all = kept;
  give_up_here(kept);
  // Capabilities are each thread's own, and only a thread itself can give its own up.
  struct sigaction action {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART;
  const int number = SIGRTMAX - 1;
  if (sigaction(number, &action, nullptr) != 0) return std::strerror(errno);
  std::vector<pid_t> left;
  for (std::chrono::milliseconds waited{0}; waited < kPatience; waited += kBetweenLooks) {
    left.clear();
    for (const pid_t thread : threads()) {
      if ((permitted_of(thread) & ~kept) == 0) continue;
      left.push_back(thread);
      syscall(SYS_tgkill, getpid(), thread, number);
    }
    if (left.empty()) break;
    std::this_thread::sleep_for(kBetweenLooks);
  }
  // One may still wait for a thread that blocks it, and would end the program by default.
  std::signal(number, SIG_IGN);
  if (left.empty()) return {};
  return std::to_string(left.size()) + " threads keep their capabilities: they do not answer";
}

}  // namespace understudy
