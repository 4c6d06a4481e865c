// The device's file. There is none in /dev/infiniband, but some programs look whether they may use
// it before they open a device by verbs: UCX passes over devices without one.
#pragma once

#include <infiniband/verbs.h>
#include <sys/stat.h>

namespace understudy::soft_nic {

/// Whether it is the path of `device`'s file; `device` may be null.
bool is_device_file(const char* path, const ibv_device* device);
/// What stat(2) says of it: a character device that all may read and write.
struct stat device_file_status();
/// What access(2) says of it: 0 or an errno.
int device_file_access(int mode);

}  // namespace understudy::soft_nic
