// The emulated ranks of a PyTorch job at its store, over sockets of the loopback device: the driver
// of `understudy run` without the data plane. For tests/ctrl/peers/store_torch_test.py.
//     store_ranks ADDRESS:PORT WORLD REAL_RANK... [GROUP...] [host=NODE] [rounds=N] [seconds=N]
// A GROUP is that of one new_group(), as in 0,2. With host=NODE they are torchrun's nodes in its c10d
// rendezvous "job", whose store node NODE serves; they end after N rounds whose communicator is known.
// Prints what it learns and gives; ends when the job does. Status 1 on a failure, or after two
// minutes (or so many seconds).
#include <netinet/in.h>
#include <sys/socket.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sstream>

#include "ctrl/peers/socket_adapter.h"
#include "ctrl/peers/sockets/torch_groups.h"
#include "ctrl/peers/sockets/torch_meeting.h"
#include "tests/rigs/unique_id_hex.h"

namespace understudy {
namespace {

Time now() {
  static const auto begin = std::chrono::steady_clock::now();
  const auto passed = std::chrono::steady_clock::now() - begin;
  return Time::zero() +
         Duration::ns(std::chrono::duration_cast<std::chrono::nanoseconds>(passed).count());
}

Result<int> open_socket(const SocketAddress& at, bool listens) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  const int on = 1;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(at.port);
  address.sin_addr.s_addr = htonl(at.address.v4_value());
  const auto* raw = reinterpret_cast<const sockaddr*>(&address);
  const bool good = listens ? bind(fd, raw, sizeof address) == 0 && listen(fd, 64) == 0
                            : connect(fd, raw, sizeof address) == 0 || errno == EINPROGRESS;
  if (good) return fd;
  const std::string why = std::strerror(errno);
  close(fd);
  return fail(why);
}

void print(const char* what, const UniqueIdKey& key, const NcclUniqueId& id) {
  std::printf("%s %s %s %s\n", what, key.group.c_str(), key.member.c_str(),
              unique_id_hex(id).c_str());
  std::fflush(stdout);
}

struct Arguments {
  SocketAddress at;
  uint32_t world = 0;
  std::vector<uint32_t> real;
  std::vector<std::vector<uint32_t>> groups;
  std::optional<uint32_t> host;  ///< of torchrun's rendezvous
  uint32_t rounds = 1, seconds = 120;
};

/// All ranks on the loopback device.
class StoreRanks {
 public:
  explicit StoreRanks(const Arguments& arguments)
      : arguments_(arguments),
        adapter_(SocketAdapter::create(callbacks()).value()),
        meeting_(adapter_, arguments.at.address, say) {
    settings_.master = arguments.at;
    for (uint32_t rank = 0; rank < arguments.world; ++rank) {
      settings_.ranks.push_back({false, rank, arguments.at.address});
    }
    for (const uint32_t rank : arguments.real) settings_.ranks.at(rank).real = true;
    NcclSockets::Callbacks of_groups;
    of_groups.say = say;
    groups_.emplace(
        TorchGroups::Setup{NcclVersion{28}, 1, settings_.ranks,
                           std::vector<IpAddress>(arguments.world, arguments.at.address),
                           arguments.groups},
        adapter_, of_groups);
    settings_.awaited = groups_->awaited();
    settings_.ours = groups_->ours();
  }

  int run() {
    if (const auto started = start(); !started) {
      say(started.error().text);
      return 1;
    }
    while (!meeting_.finished()) {
      adapter_.poll(5);
      meeting_.poll();
      if (meeting_.restarted()) {
        say("restarted");
        groups_->forget();
        meeting_.look_for_next();
      }
      if (meeting_.failure().empty() && now() < Time::zero() + Duration::s(arguments_.seconds))
        continue;
      say("failed: " + meeting_.failure());
      for (const std::string& line : meeting_.waiting()) say(line);
      return 1;
    }
    say("finished");
    return 0;
  }

 private:
  static void say(const std::string& line) {
    std::printf("%s\n", line.c_str());
    std::fflush(stdout);
  }

  SocketAdapter::Callbacks callbacks() {
    SocketAdapter::Callbacks callbacks;
    callbacks.now = now;
    callbacks.ended = [this](const EndedConnection& ended) {
      if (!groups_->on_ended(ended)) meeting_.on_ended(ended);
    };
    callbacks.listen = [this](const IpAddress&, uint16_t port) {
      return open_socket({arguments_.at.address, port}, true);
    };
    callbacks.connect = [](const IpAddress&, const IpAddress& to, uint16_t port) {
      return open_socket({to, port}, false);
    };
    return callbacks;
  }

  Result<void> start() {
    RendezvousCallbacks job;
    job.learned = [this](Time, const UniqueIdKey& key, const NcclUniqueId& id) {
      print("learned", key, id);
      known(key);
    };
    job.provide = [this](Time at, const UniqueIdKey& key) -> std::optional<NcclUniqueId> {
      std::optional<NcclUniqueId> id;
      id = is_first(key) ? make_unique_id(1, given_++, {arguments_.at.address, 47000})
                         : groups_->provide(at, key);
      if (id) print("gave", key, *id);
      if (id) known(key);
      return id;
    };
    if (!arguments_.host) return meeting_.start(settings_, job);
    TorchAgentsSettings agents;
    agents.endpoint = arguments_.at;
    agents.serves = !settings_.ranks.at(*arguments_.host).real;
    agents.run_id = "job";
    agents.ranks = settings_.ranks;
    agents.master = {arguments_.at.address, 0};
    return meeting_.start(agents, settings_, job);
  }

  static bool is_first(const UniqueIdKey& key) { return key.group == "0" && key.member == "0"; }
  void known(const UniqueIdKey& key) {
    if (is_first(key) && ++rounds_ == arguments_.rounds) meeting_.leave();
  }

  const Arguments arguments_;
  SocketAdapter adapter_;
  TorchMeeting meeting_;
  std::optional<TorchGroups> groups_;
  RendezvousSettings settings_;
  uint64_t given_ = 0;
  uint32_t rounds_ = 0;
};

/// A rank, the ranks of a group, or a word with its number.
void read_argument(const std::string& argument, Arguments& to) {
  const size_t sign = argument.find('=');
  if (sign != std::string::npos) {
    const auto number = static_cast<uint32_t>(std::stoul(argument.substr(sign + 1)));
    if (argument.starts_with("host")) to.host = number;
    if (argument.starts_with("rounds")) to.rounds = number;
    if (argument.starts_with("seconds")) to.seconds = number;
    return;
  }
  std::vector<uint32_t> ranks;
  std::stringstream text(argument);
  for (std::string rank; std::getline(text, rank, ',');) {
    ranks.push_back(static_cast<uint32_t>(std::stoul(rank)));
  }
  if (ranks.size() == 1) {
    to.real.push_back(ranks[0]);
  } else {
    to.groups.push_back(ranks);
  }
}

}  // namespace
}  // namespace understudy

int main(int argc, char** argv) {
  if (argc < 4) {
    std::fprintf(stderr, "usage: store_ranks ADDRESS:PORT WORLD REAL_RANK...\n");
    return 2;
  }
  const auto at = understudy::parse_socket_address(argv[1]);
  if (!at) {
    std::fprintf(stderr, "%s\n", at.error().text.c_str());
    return 2;
  }
  understudy::Arguments arguments;
  arguments.at = *at;
  arguments.world = static_cast<uint32_t>(std::stoul(argv[2]));
  for (int i = 3; i < argc; ++i) understudy::read_argument(argv[i], arguments);
  return understudy::StoreRanks(arguments).run();
}
