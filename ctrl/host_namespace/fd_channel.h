// A pair of connected processes that exchange small messages and file descriptors (AF_UNIX
// SEQPACKET with SCM_RIGHTS).
#pragma once

#include <optional>
#include <string>

#include "dataplane/base/unique_fd.h"

namespace understudy {

struct FdMessage {
  std::string text;
  UniqueFd fd;  ///< not valid if the message carried none
};

inline constexpr size_t kFdMessageSize = 4096;  ///< longest text of one message

/// Sends one message; `fd` below 0 sends none. False if the other end is gone.
bool send_fd_message(int socket, const std::string& text, int fd);

/// Waits for one message; nothing at the end of the stream.
std::optional<FdMessage> receive_fd_message(int socket);

}  // namespace understudy
