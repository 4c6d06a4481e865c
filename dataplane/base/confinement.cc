#include "dataplane/base/confinement.h"

#ifdef UNDERSTUDY_SECCOMP
#include <fcntl.h>
#include <seccomp.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>
#endif

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define UNDERSTUDY_SANITIZED
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || \
    __has_feature(memory_sanitizer)
#define UNDERSTUDY_SANITIZED
#endif
#endif

namespace understudy {

#if !defined(UNDERSTUDY_SECCOMP) || defined(UNDERSTUDY_SANITIZED)

bool can_confine() { return false; }
std::string confine(Further) { return {}; }

#else

namespace {

/// Of files that are open, memory, clocks, signals of its own, and the end. A file is read and written here, never named.
constexpr int kAllowed[] = {
    SCMP_SYS(read),
    SCMP_SYS(pread64),
    SCMP_SYS(readv),
    SCMP_SYS(write),
    SCMP_SYS(pwrite64),
    SCMP_SYS(writev),
    SCMP_SYS(close),
    SCMP_SYS(fstat),
    SCMP_SYS(lseek),
    SCMP_SYS(fsync),
    SCMP_SYS(fdatasync),
    SCMP_SYS(poll),
    SCMP_SYS(ppoll),
    SCMP_SYS(brk),
    SCMP_SYS(munmap),
    SCMP_SYS(mremap),
    SCMP_SYS(madvise),
    SCMP_SYS(futex),
    SCMP_SYS(clock_gettime),
    SCMP_SYS(clock_getres),
    SCMP_SYS(clock_nanosleep),
    SCMP_SYS(nanosleep),
    SCMP_SYS(gettimeofday),
    SCMP_SYS(getrandom),
    SCMP_SYS(getpid),
    SCMP_SYS(gettid),
    SCMP_SYS(sched_yield),
    SCMP_SYS(rt_sigaction),
    SCMP_SYS(rt_sigprocmask),
    SCMP_SYS(rt_sigreturn),
    SCMP_SYS(sigaltstack),
    SCMP_SYS(restart_syscall),
    SCMP_SYS(exit),
    SCMP_SYS(exit_group),
    SCMP_SYS(rseq),
    SCMP_SYS(set_robust_list),
};

/// Of a packet socket that is open, as libpcap uses it.
constexpr int kOfPackets[] = {
    SCMP_SYS(recvfrom),   SCMP_SYS(recvmsg), SCMP_SYS(getsockopt),
    SCMP_SYS(setsockopt), SCMP_SYS(ioctl),
};

/// What no parser asks for by mistake: who does has taken it over.
constexpr int kDeadly[] = {
    SCMP_SYS(execve),
    SCMP_SYS(execveat),
    SCMP_SYS(fork),
    SCMP_SYS(vfork),
    SCMP_SYS(clone),
    SCMP_SYS(clone3),
    SCMP_SYS(socket),
    SCMP_SYS(socketpair),
    SCMP_SYS(connect),
    SCMP_SYS(bind),
    SCMP_SYS(listen),
    SCMP_SYS(accept),
    SCMP_SYS(accept4),
    SCMP_SYS(ptrace),
    SCMP_SYS(process_vm_readv),
    SCMP_SYS(process_vm_writev),
    SCMP_SYS(pidfd_getfd),
    SCMP_SYS(kill),
    SCMP_SYS(tkill),
    SCMP_SYS(rt_sigqueueinfo),
    SCMP_SYS(pidfd_send_signal),
    SCMP_SYS(bpf),
    SCMP_SYS(perf_event_open),
    SCMP_SYS(userfaultfd),
    SCMP_SYS(io_uring_setup),
    SCMP_SYS(keyctl),
    SCMP_SYS(add_key),
    SCMP_SYS(request_key),
    SCMP_SYS(unshare),
    SCMP_SYS(setns),
    SCMP_SYS(mount),
    SCMP_SYS(umount2),
    SCMP_SYS(pivot_root),
    SCMP_SYS(chroot),
    SCMP_SYS(init_module),
    SCMP_SYS(finit_module),
    SCMP_SYS(delete_module),
    SCMP_SYS(kexec_load),
    SCMP_SYS(kexec_file_load),
    SCMP_SYS(reboot),
    SCMP_SYS(swapon),
    SCMP_SYS(swapoff),
    SCMP_SYS(setuid),
    SCMP_SYS(setgid),
    SCMP_SYS(setresuid),
    SCMP_SYS(setresgid),
    SCMP_SYS(memfd_create),
};

struct Release {
  void operator()(void* filter) const { seccomp_release(filter); }
};
using Filter = std::unique_ptr<void, Release>;

/// A call that is allowed with an argument that compares so.
struct Condition {
  int call;
  scmp_arg_cmp argument;
};

/// 0 or a negative errno. A system call that this architecture does not have cannot be made, either.
int add(const Filter& filter, uint32_t action, int call) {
  const int error = seccomp_rule_add(filter.get(), action, call, 0);
  return error == -EDOM ? 0 : error;
}

int add_further(const Filter& filter, Further further) {
  if (further == Further::kFilesToRead) {
    const scmp_arg_cmp to_read{2, SCMP_CMP_MASKED_EQ, O_ACCMODE | O_CREAT | O_TRUNC, O_RDONLY};
    return seccomp_rule_add_array(filter.get(), SCMP_ACT_ALLOW, SCMP_SYS(openat), 1, &to_read);
  }
  if (further == Further::kPackets) {
    for (const int call : kOfPackets) {
      if (const int error = add(filter, SCMP_ACT_ALLOW, call); error != 0) return error;
    }
  }
  return 0;
}

int add_rules(const Filter& filter, Further further) {
  if (const int error = add_further(filter, further); error != 0) return error;
  for (const int call : kAllowed) {
    if (const int error = add(filter, SCMP_ACT_ALLOW, call); error != 0) return error;
  }
  for (const int call : kDeadly) {
    if (const int error = add(filter, SCMP_ACT_KILL_PROCESS, call); error != 0) return error;
  }
  for (
      const Condition& only : {
          // Memory is for data.
          Condition{SCMP_SYS(mmap), {2, SCMP_CMP_MASKED_EQ, PROT_EXEC, 0}},
          Condition{SCMP_SYS(mprotect), {2, SCMP_CMP_MASKED_EQ, PROT_EXEC, 0}},
          // How the C library asks about a file that is open. Sizes and modes of others could be learned by it, no more.
          Condition{SCMP_SYS(newfstatat), {3, SCMP_CMP_EQ, AT_EMPTY_PATH, 0}},
          // abort() ends a process by a signal to itself.
          Condition{SCMP_SYS(tgkill), {0, SCMP_CMP_EQ, static_cast<scmp_datum_t>(getpid()), 0}},
      }) {
    const int error =
        seccomp_rule_add_array(filter.get(), SCMP_ACT_ALLOW, only.call, 1, &only.argument);
    if (error != 0 && error != -EDOM) return error;
  }
  return 0;
}

}  // namespace

bool can_confine() { return true; }

std::string confine(Further further) {
  const Filter filter(seccomp_init(SCMP_ACT_ERRNO(EPERM)));
  if (filter == nullptr) return std::strerror(ENOMEM);
  int error = seccomp_attr_set(filter.get(), SCMP_FLTATR_CTL_TSYNC, 1);
  // A binary tree: each call is looked up in a few steps.
  if (error == 0) error = seccomp_attr_set(filter.get(), SCMP_FLTATR_CTL_OPTIMIZE, 2);
  if (error == 0) error = add_rules(filter, further);
  if (error == 0) error = seccomp_load(filter.get());
  return error == 0 ? std::string() : std::strerror(-error);
}

#endif

}  // namespace understudy
