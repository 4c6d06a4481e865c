#include "ctrl/guest/scratch_folder.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <utility>

namespace understudy {
namespace {

namespace fs = std::filesystem;

/// The child of a process that may have had threads: only system calls. What the owner says is that
/// it has removed the folder.
[[noreturn]] void keep(int alive, char* const* removal) {
  setsid();  // signals for the owner's terminal or group are not for us
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGPIPE}) signal(number, SIG_IGN);
  // Who reads what the owner prints waits for the owner, not for us.
  if (alive > 0) close_range(0, static_cast<unsigned>(alive) - 1, 0);
  close_range(static_cast<unsigned>(alive) + 1, ~0U, 0);
  char said = 0;
  ssize_t bytes = 0;
  while ((bytes = read(alive, &said, 1)) < 0 && errno == EINTR) {
  }
  if (bytes == 0) execv(removal[0], removal);
  _exit(bytes == 1 ? 0 : 1);
}

}  // namespace

Result<ScratchFolder> ScratchFolder::create() {
  ScratchFolder folder;
  std::string name = (fs::temp_directory_path() / "understudy-XXXXXX").string();
  if (mkdtemp(name.data()) == nullptr) return fail(name + ": cannot be made");
  folder.name_ = name;
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0) {
    return fail(name + ": no sockets: " + std::strerror(errno));
  }
  // Our end stays open in the programs that we start, for they write into the folder.
  folder.alive_ = UniqueFd(ends[1]);
  const UniqueFd reading(ends[0]);
  fcntl(reading.get(), F_SETFD, FD_CLOEXEC);
  std::string command = "/bin/rm", options = "-rf", end = "--";
  char* const removal[] = {command.data(), options.data(), end.data(), name.data(), nullptr};
  folder.keeper_ = fork();
  if (folder.keeper_ < 0) return fail(name + ": no process: " + std::strerror(errno));
  if (folder.keeper_ == 0) keep(reading.get(), removal);
  return folder;
}

ScratchFolder::ScratchFolder(ScratchFolder&& other) noexcept
    : name_(std::exchange(other.name_, {})),
      alive_(std::move(other.alive_)),
      keeper_(std::exchange(other.keeper_, -1)) {}

ScratchFolder::~ScratchFolder() {
  std::error_code error;
  if (!name_.empty()) fs::remove_all(name_, error);
  if (keeper_ < 0) return;
  // Else the keeper does it once all have ended who may still write there: for them we do not wait.
  if (error) return;
  const char done = 1;
  send(alive_.get(), &done, 1, MSG_NOSIGNAL);
  alive_ = UniqueFd();
  while (waitpid(keeper_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

}  // namespace understudy
