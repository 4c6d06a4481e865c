// Whole messages over a stream socket to a guest's kernel, which answers at once or not at all:
// each wait has an end in the host's time, and says what it waited for.
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

/// Reads exactly `bytes`. Descriptors that come with them are appended to `fds`, where it is given.
/// False: the other end is gone.
bool read_whole(int fd, std::span<uint8_t> bytes, std::vector<UniqueFd>* fds = nullptr);

/// False: the other end is gone.
bool write_whole(int fd, std::span<const uint8_t> bytes);

}  // namespace understudy
