#include "tools/soft_nic/device/device_file.h"

#include <unistd.h>

#include <cerrno>
#include <string_view>

namespace understudy::soft_nic {

bool is_device_file(const char* path, const ibv_device* device) {
  constexpr std::string_view kFolder = "/dev/infiniband/";
  if (path == nullptr || device == nullptr) return false;
  const std::string_view asked(path);
  return asked.starts_with(kFolder) && asked.substr(kFolder.size()) == device->dev_name;
}

struct stat device_file_status() {
  struct stat status {};
  status.st_mode = S_IFCHR | 0666;  // as udev's rules of rdma-core make it
  status.st_nlink = 1;
  return status;
}

int device_file_access(int mode) {
  if ((mode & ~(R_OK | W_OK | X_OK)) != 0) return EINVAL;
  return (mode & X_OK) != 0 ? EACCES : 0;
}

}  // namespace understudy::soft_nic
