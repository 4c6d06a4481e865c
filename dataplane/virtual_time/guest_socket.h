// Whole messages over a stream socket to a guest's kernel. Who waits for one asks poll() first: a
// message that has begun is soon there, or the other end counts as gone.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "dataplane/base/result.h"
#include "dataplane/base/unique_fd.h"

namespace understudy {

/// Creates a listening UNIX socket at `path`, which must not exist and may have 107 bytes.
Result<UniqueFd> listen_unix(const std::string& path);

/// From now on a message of `fd` that does not go on for 10 s of the host's time is the last one.
void limit_waits(int fd);

/// Reads exactly `bytes`. Descriptors that come with them are appended to `fds`, where it is given.
/// False: the other end is gone.
bool read_whole(int fd, std::span<uint8_t> bytes, std::vector<UniqueFd>* fds = nullptr);

/// False: the other end is gone.
bool write_whole(int fd, std::span<const uint8_t> bytes);

}  // namespace understudy
