// libc's calls that look at files, in the preloaded library only: they answer for the device's own
// file and hand everything else to the kernel. Nothing is opened here.
#undef _FILE_OFFSET_BITS  // with it, stat below would be another name for stat64

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "tools/soft_nic/device/device.h"
#include "tools/soft_nic/device/device_file.h"
#include "tools/soft_nic/device/exported.h"

using namespace understudy::soft_nic;

SOFT_NIC_EXPORT int stat(const char* path, struct stat* out) noexcept {
  if (!is_device_file(path, device_if_made())) return fstatat(AT_FDCWD, path, out, 0);
  *out = device_file_status();
  return 0;
}

SOFT_NIC_EXPORT int access(const char* path, int mode) noexcept {
  if (!is_device_file(path, device_if_made())) return faccessat(AT_FDCWD, path, mode, 0);
  const int refused = device_file_access(mode);
  if (refused == 0) return 0;
  errno = refused;
  return -1;
}
