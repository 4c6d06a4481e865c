#include "ctrl/guest/guest_process.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "dataplane/base/try.h"

namespace understudy {
namespace {

namespace fs = std::filesystem;

std::string errno_text() { return std::strerror(errno); }

/// The guest's memory is a file that its kernel maps, as text too.
bool holds_memory(const std::string& folder, uint64_t megabytes) {
  struct statvfs room {};
  if (statvfs(folder.c_str(), &room) != 0) return false;
  if (room.f_bavail * room.f_frsize < megabytes << 20) return false;
  const UniqueFd file(open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  if (!file.valid() || ftruncate(file.get(), 4096) != 0) return false;
  void* at = mmap(nullptr, 4096, PROT_READ | PROT_EXEC, MAP_SHARED, file.get(), 0);
  if (at == MAP_FAILED) return false;
  munmap(at, 4096);
  return true;
}

Result<std::string> memory_folder(uint64_t megabytes) {
  const char* own = std::getenv("TMPDIR");
  for (const std::string& folder : {std::string("/dev/shm"), std::string(own == nullptr ? "" : own),
                                    std::string("/tmp"), std::string("/var/tmp")}) {
    if (!folder.empty() && holds_memory(folder, megabytes)) return folder;
  }
  return fail("no folder can hold a guest's memory of " + std::to_string(megabytes) +
              " MB: tried /dev/shm, $TMPDIR, /tmp, /var/tmp");
}

std::string cache_folder() {
  if (const char* base = std::getenv("XDG_CACHE_HOME"); base != nullptr && *base != 0) return base;
  const char* home = std::getenv("HOME");
  return std::string(home == nullptr ? "" : home) + "/.cache";
}

Result<void> write_file(const std::string& path, const std::string& text) {
  std::ofstream out(path, std::ios::binary);
  out << text;
  out.close();
  if (!out) return fail(path + ": cannot be written");
  return {};
}

/// What process 1 says where it cannot run the kernel; the kernel's own status is below.
constexpr int kNoFork = 250, kNoFiles = 251, kNoKernel = 252;
/// And more: the number of the signal that ended it.
constexpr int kSignal = 128;

/// A child that is process 1 of a PID namespace of its own: who waits for its end knows that all
/// others have ended before. -1 with errno if that is not allowed.
pid_t fork_namespace(bool user_namespace) {
  const unsigned long flags =
      SIGCHLD | static_cast<unsigned long>(CLONE_NEWPID) | (user_namespace ? CLONE_NEWUSER : 0);
  return static_cast<pid_t>(syscall(SYS_clone, flags, nullptr, nullptr, nullptr, nullptr));
}

/// In the child between fork and exec: only system calls.
[[noreturn]] void run_child(char* const* command, char* const* environment, int console) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  setsid();
  sigset_t none{};
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  const pid_t kernel = fork();
  if (kernel < 0) _exit(kNoFork);
  if (kernel > 0) {
    int status = 0;
    for (;;) {
      const pid_t ended = waitpid(-1, &status, 0);
      if (ended == kernel) break;
      if (ended < 0 && errno != EINTR) _exit(kNoFork);
    }
    _exit(WIFEXITED(status) ? WEXITSTATUS(status) : kSignal + WTERMSIG(status));
  }
  const rlimit no_core{0, 0};
  setrlimit(RLIMIT_CORE, &no_core);
  const int null = open("/dev/null", O_RDWR);
  if (null < 0 || dup2(null, 0) < 0 || dup2(console, 1) < 0 || dup2(console, 2) < 0) {
    _exit(kNoFiles);
  }
  execve(command[0], command, environment);
  _exit(kNoKernel);
}

}  // namespace

Result<GuestImage> GuestImage::find() {
  const std::string folder = cache_folder() + "/understudy/vnode/uml";
  GuestImage image{folder + "/kernel", folder + "/initramfs.cpio"};
  if (access(image.kernel.c_str(), X_OK) != 0 || access(image.initramfs.c_str(), R_OK) != 0) {
    return fail("there is no kernel for real nodes in virtual time in " + folder +
                ": run tools/rigs/vnode/vnode build --kind uml");
  }
  return image;
}

Result<std::unique_ptr<GuestProcess>> GuestProcess::create(const GuestSettings& settings,
                                                           const std::string& parent) {
  std::string folder = parent + "/" + std::to_string(settings.number);
  std::error_code error;
  if (!fs::create_directory(folder, error)) return fail(folder + ": " + error.message());
  std::unique_ptr<GuestProcess> guest(new GuestProcess(settings, std::move(folder)));
  TRY(guest->lay_out());
  return guest;
}

Result<void> GuestProcess::lay_out() const {
  std::error_code error;
  fs::create_directory(folder_ + "/task", error);
  if (settings_.share.empty()) {
    fs::create_directory(folder_ + "/share", error);
  } else if (fs::is_directory(settings_.share)) {
    // A link, because the kernel's command line takes no spaces.
    fs::create_directory_symlink(fs::absolute(settings_.share), folder_ + "/share", error);
  } else {
    return fail("no directory " + settings_.share);
  }
  if (error) return fail(folder_ + ": " + error.message());
  if (!settings_.preload.empty() &&
      !fs::copy_file(settings_.preload, folder_ + "/task/poll.so", error)) {
    return fail(settings_.preload + ": " + error.message());
  }
  std::ostringstream network;
  network << "set -e\n";
  // What Linux sends of its own accord for IPv6 comes at random times, and runs are to be alike.
  const bool v6 = std::ranges::any_of(settings_.networks, [](const GuestNetwork& nic) {
    return std::ranges::any_of(nic.addresses, [](const std::string& address) {
      return address.find(':') != std::string::npos;
    });
  });
  if (!v6)
    network << "for c in all default; do echo 1 >/proc/sys/net/ipv6/conf/$c/disable_ipv6; done\n";
  for (size_t i = 0; i < settings_.networks.size(); ++i) {
    const GuestNetwork& nic = settings_.networks[i];
    network << "DEVICE=eth" << i << " RDMA=rxe" << i << " MAC=" << nic.mac.text()
            << " MTU=" << nic.mtu << " VLAN=" << (nic.vlan ? std::to_string(*nic.vlan) : "")
            << " PCP=" << unsigned{nic.pcp} << " ADDRESSES='";
    for (const std::string& address : nic.addresses) network << address << " ";
    network << "' vnode-net\n";
  }
  TRY(write_file(folder_ + "/task/network", network.str()));
  return write_file(folder_ + "/task/program", settings_.program + "\n");
}

std::vector<std::string> GuestProcess::command_line(const GuestImage& image, int output) const {
  const std::string end = std::to_string(output);
  std::vector<std::string> words{
      image.kernel,
      "mem=" + std::to_string(settings_.memory_mb) + "M",
      "initrd=" + image.initramfs,
      "uml_dir=" + folder_,
      "umid=guest",
      "hostfs=" + folder_,
      "con=null",
      "con0=null,fd:1",
      "ssl=null",
      "ssl0=null,fd:" + end,
      "quiet",
      "time-travel=ext:" + std::to_string(settings_.number) + ":" + folder_ + "/clock",
      "VNODE_NAME=" + settings_.name,
      "VNODE_MHZ=1000",
      "VNODE_TASK=1",
  };
  for (size_t i = 0; i < settings_.networks.size(); ++i) {
    words.push_back("virtio_uml.device=" + folder_ + "/nic" + std::to_string(i) + ":1");
  }
  return words;
}

Result<void> GuestProcess::start(const GuestImage& image) {
  auto memory = TRY(memory_folder(settings_.memory_mb));
  const UniqueFd console(
      open((folder_ + "/console").c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  const UniqueFd output(open((folder_ + "/output").c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600));
  if (!console.valid() || !output.valid()) return fail(folder_ + ": " + errno_text());
  const std::vector<std::string> words = command_line(image, output.get());
  std::vector<char*> command;
  command.reserve(words.size() + 1);
  for (const std::string& word : words) command.push_back(const_cast<char*>(word.c_str()));
  command.push_back(nullptr);
  std::string tmpdir = "TMPDIR=" + memory;
  std::string path = "PATH=/usr/sbin:/usr/bin:/sbin:/bin";
  std::string home = "HOME=/";
  const std::array<char*, 4> environment{tmpdir.data(), path.data(), home.data(), nullptr};
  const bool user_namespace = geteuid() != 0;
  pid_ = fork_namespace(user_namespace);
  if (pid_ < 0) {
    return fail("a PID namespace for its processes cannot be made: " + errno_text() +
                (user_namespace ? "; without root it needs a user namespace" : ""));
  }
  if (pid_ == 0) run_child(command.data(), environment.data(), console.get());
  process_ = UniqueFd(static_cast<int>(syscall(SYS_pidfd_open, pid_, 0)));
  if (!process_.valid()) {
    const std::string why = errno_text();
    end();
    return fail("pidfd_open: " + why);
  }
  return {};
}

void GuestProcess::end() {
  if (pid_ < 0) return;
  kill(pid_, SIGKILL);
  int status = 0;
  while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
  pid_ = -1;
}

void GuestProcess::await_end() const {
  constexpr int kLongestMs = 1000;
  pollfd ended{process_.get(), POLLIN, 0};
  poll(&ended, 1, kLongestMs);
}

std::string GuestProcess::how_it_ended() const {
  siginfo_t ended{};
  if (pid_ < 0 ||
      waitid(P_PID, static_cast<id_t>(pid_), &ended, WEXITED | WNOHANG | WNOWAIT) != 0 ||
      ended.si_pid != pid_) {
    return "";
  }
  const int status = ended.si_status;
  if (ended.si_code != CLD_EXITED) return ", killed by signal " + std::to_string(status);
  if (status == kNoFork || status == kNoFiles) return ": no process for its kernel could be made";
  if (status == kNoKernel) return ": its kernel cannot be executed";
  if (status > kSignal) return ", its kernel by signal " + std::to_string(status - kSignal);
  return ", its kernel with status " + std::to_string(status);
}

GuestProcess::~GuestProcess() {
  end();
  std::error_code error;
  fs::remove_all(folder_, error);
}

std::string GuestProcess::take_output() {
  std::ifstream in(folder_ + "/output", std::ios::binary);
  in.seekg(static_cast<std::streamoff>(read_));
  std::string text{std::istreambuf_iterator<char>(in), {}};
  read_ += text.size();
  return text;
}

std::optional<int> GuestProcess::status() const {
  std::ifstream in(folder_ + "/console");
  for (std::string line; std::getline(in, line);) {
    constexpr std::string_view kMark = "VNODE-STATUS ";
    if (const size_t at = line.find(kMark); at != std::string::npos) {
      return std::atoi(line.c_str() + at + kMark.size());
    }
  }
  return std::nullopt;
}

std::string GuestProcess::last_words() const {
  std::ifstream in(folder_ + "/console");
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  std::string text;
  for (size_t i = lines.size() > 8 ? lines.size() - 8 : 0; i < lines.size(); ++i) {
    text += "\n  " + lines[i];
  }
  return text;
}

}  // namespace understudy
