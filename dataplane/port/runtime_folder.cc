#include "dataplane/port/runtime_folder.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

namespace understudy {

std::string runtime_folder() {
  // Relative ones are to be ignored: XDG Base Directory Specification.
  const char* given = std::getenv("XDG_RUNTIME_DIR");
  if (given != nullptr && given[0] == '/') return given;
  return "/tmp/understudy-" + std::to_string(geteuid());
}

Result<void> make_runtime_folder() {
  const std::string folder = runtime_folder();
  const auto refuse = [&](const std::string& why) {
    return fail("folder for sockets " + folder + ": " + why +
                "; set XDG_RUNTIME_DIR to a folder of yours, or write the socket's whole path");
  };
  if (mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) return refuse(std::strerror(errno));
  struct stat found {};
  if (lstat(folder.c_str(), &found) != 0) return refuse(std::strerror(errno));
  if (!S_ISDIR(found.st_mode)) return refuse("is no folder");
  if (found.st_uid != geteuid()) return refuse("belongs to another user");
  if ((found.st_mode & (S_IWGRP | S_IWOTH)) != 0) return refuse("others may write to it");
  return {};
}

}  // namespace understudy
