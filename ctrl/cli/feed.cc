#include <arpa/inet.h>
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <memory>
#include <span>

#include "ctrl/cli/commands.h"
#include "ctrl/peers/feed.h"
#include "ctrl/peers/socket_adapter.h"
#include "dataplane/base/output_file.h"
#include "dataplane/base/unique_fd.h"

namespace understudy {
namespace {

struct FeedArguments {
  std::string listen;
  uint64_t count = 0;
  std::string record;
};

std::string line_of(const FedOperation& fed) {
  const Operation& o = fed.operation;
  char start[64];
  std::snprintf(start, sizeof start,
                "communicator %016llx rank %u: ", static_cast<unsigned long long>(fed.communicator),
                fed.rank);
  std::string text = start;
  if (o.collective == Collective::kSendRecv) {
    text += (fed.sends ? "send to " : "receive from ") + std::to_string(fed.peer);
  } else {
    text += std::string(name_of(kCollectiveNames, o.collective)) + " " +
            std::to_string(fed.sequence) + ", " +
            std::string(name_of(kAlgorithmNames, o.algorithm)) + ", " +
            std::string(name_of(kProtocolNames, o.protocol)) + ", root " + std::to_string(o.root);
  }
  text += ", " + std::to_string(o.count) + " " + std::string(name_of(kDataTypeNames, o.type)) +
          " = " + std::to_string(o.bytes()) + " B";
  if (fed.group != 0) text += ", group " + std::to_string(fed.group) + (fed.last ? " ends" : "");
  if (o.channels != 0) text += ", " + std::to_string(o.channels) + " channels";
  return text;
}

/// A socket that listens on "ADDRESS:PORT"; -1, with errno or a message said, if there is none.
int listen_on(const std::string& where) {
  const size_t colon = where.rfind(':');
  if (colon == std::string::npos || colon == 0 || colon + 1 == where.size()) {
    std::fprintf(stderr, "feed %s: expected ADDRESS:PORT\n", where.c_str());
    return -1;
  }
  uint16_t port = 0;  // getaddrinfo() takes 65536 and more, and cuts them
  const char* const end = where.data() + where.size();
  const auto read = std::from_chars(where.data() + colon + 1, end, port);
  if (read.ec != std::errc() || read.ptr != end || port == 0) {
    std::fprintf(stderr, "feed %s: expected a port from 1 to 65535 behind the last \":\"\n",
                 where.c_str());
    return -1;
  }
  std::string host = where.substr(0, colon);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  }
  addrinfo hints{};
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV | AI_PASSIVE;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(host.c_str(), where.c_str() + colon + 1, &hints, &found);
  if (error != 0) {
    std::fprintf(stderr, "feed %s: %s\n", where.c_str(), gai_strerror(error));
    return -1;
  }
  const int fd = socket(found->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  const int on = 1;
  const bool good = fd >= 0 && setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0 &&
                    bind(fd, found->ai_addr, found->ai_addrlen) == 0 && listen(fd, 64) == 0;
  freeaddrinfo(found);
  if (good) return fd;
  std::fprintf(stderr, "feed %s: %s\n", where.c_str(), std::strerror(errno));
  if (fd >= 0) close(fd);
  return -1;
}

int feed(const FeedArguments& arguments) {
  const int fd = listen_on(arguments.listen);
  if (fd < 0) return kExitBadInput;
  uint64_t taken = 0, missing = 0;
  UniqueFd record;
  if (!arguments.record.empty()) {
    auto opened = open_growing(arguments.record);
    if (!opened) {
      std::fprintf(stderr, "--record %s\n", opened.error().text.c_str());
      close(fd);
      return kExitFailed;
    }
    record = std::move(*opened);
  }
  int status = kExitOk;
  const auto keep = [&](std::span<const uint8_t> bytes) {
    const auto written = write_all(record.get(), bytes);
    if (written) return;
    std::fprintf(stderr, "--record %s: %s; nothing more is recorded\n", arguments.record.c_str(),
                 written.error().text.c_str());
    record = UniqueFd();
    status = kExitFailed;
  };
  SocketAdapter::Callbacks callbacks;
  callbacks.now = [] {
    const auto since = std::chrono::steady_clock::now().time_since_epoch();
    return Time::from_ps(std::chrono::nanoseconds(since).count() * 1000);
  };
  callbacks.endpoint = [](NodeId, ConnectionId, const EndpointRequest&) {};
  callbacks.start = [](const EndpointStart&) {};
  callbacks.ended = [&](const EndedConnection& ended) {
    if (ended.failure.empty()) return;
    std::fprintf(stderr, "%s\n", ended.failure.c_str());
    status = kExitFailed;
  };
  auto adapter = SocketAdapter::create(std::move(callbacks));
  if (!adapter) {
    std::fprintf(stderr, "%s\n", adapter.error().text.c_str());
    return kExitFailed;
  }
  const auto made = adapter->add_listener(fd, 0, [&](const AcceptedConnection&) {
    return std::make_unique<FeedPeer>(
        [&](Time, const FedOperation& operation) {
          if (arguments.count != 0 && taken == arguments.count) return;
          ++taken;
          if (record.valid()) keep(record_of(operation, static_cast<uint32_t>(missing)));
          std::printf("%s\n", line_of(operation).c_str());
          std::fflush(stdout);
        },
        [&](Time, uint64_t lost) {
          std::printf("%llu operations are missing here\n", static_cast<unsigned long long>(lost));
          missing += lost;
          status = kExitFailed;
        },
        [](Time, const std::string&) {});
  });
  if (!made) {
    std::fprintf(stderr, "%s\n", made.error().text.c_str());
    return kExitFailed;
  }
  while (arguments.count == 0 || taken < arguments.count) {
    adapter->poll(1000);
    if (status != kExitOk && arguments.count != 0) break;
  }
  return status;
}

}  // namespace

void add_feed(CLI::App& app, int& status) {
  auto arguments = std::make_shared<FeedArguments>();
  CLI::App* command = app.add_subcommand(
      "feed", "Prints the operations that NCCL starts, as its profiler plugin tells them");
  command->add_option("LISTEN", arguments->listen, "Address and port to listen on")->required();
  command->add_option("--count", arguments->count, "End after so many operations (default: go on)");
  command->add_option("--record", arguments->record,
                      "Also write the records to this file, for understudy simulate --feed");
  command->footer(
      "On the GPU node: NCCL_PROFILER_PLUGIN=.../libnccl-profiler-understudy.so\n"
      "  UNDERSTUDY_FEED=10.0.0.5:7300\n"
      "Example: understudy feed 10.0.0.5:7300 --count 100");
  command->callback([arguments, &status] { status = feed(*arguments); });
}

}  // namespace understudy
