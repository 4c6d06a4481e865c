// Live commands from another process: a UNIX datagram socket that takes a command's text and
// answers with one line.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "dataplane/base/result.h"

namespace understudy {

class ControlSocket {
 public:
  /// Binds `path`, which must not exist, or be a socket that nobody serves any more.
  static Result<std::unique_ptr<ControlSocket>> open(const std::string& path);
  ~ControlSocket();
  ControlSocket(const ControlSocket&) = delete;
  ControlSocket& operator=(const ControlSocket&) = delete;

  /// Answers what has come: `handle` takes a command and gives the answer.
  void poll(const std::function<std::string(const std::string&)>& handle);

 private:
  ControlSocket(int fd, std::string path) : fd_(fd), path_(std::move(path)) {}
  int fd_;
  std::string path_;
};

/// Sends one command to the run that serves `path`, and gives its answer.
Result<std::string> send_command(const std::string& path, const std::string& text);

}  // namespace understudy
