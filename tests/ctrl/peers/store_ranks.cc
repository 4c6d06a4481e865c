// The emulated ranks of a PyTorch job at its store, over sockets of the loopback device: the driver
// of `understudy run` without the data plane. For tests/ctrl/peers/store_torch_test.py.
//     store_ranks ADDRESS:PORT WORLD REAL_RANK... [GROUP...]
// A GROUP is that of one new_group(), as in 0,2.
// Prints what it learns and gives; ends when the job does. Status 1 on a failure, or when nobody
// came for two minutes.
#include <netinet/in.h>
#include <sys/socket.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sstream>

#include "ctrl/peers/socket_adapter.h"
#include "ctrl/peers/sockets/store_sockets.h"
#include "ctrl/peers/sockets/torch_groups.h"
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

int run(const SocketAddress& master, uint32_t world, const std::vector<uint32_t>& real,
        const std::vector<std::vector<uint32_t>>& new_groups) {
  RendezvousSettings settings;
  settings.master = master;
  for (uint32_t rank = 0; rank < world; ++rank) settings.ranks.push_back({false, rank});
  for (const uint32_t rank : real) settings.ranks.at(rank).real = true;
  std::unique_ptr<StoreSockets> store;
  std::unique_ptr<TorchGroups> groups;
  SocketAdapter::Callbacks adapter_callbacks;
  adapter_callbacks.now = now;
  adapter_callbacks.ended = [&](const EndedConnection& ended) {
    if (!groups->on_ended(ended)) store->on_ended(ended);
  };
  adapter_callbacks.listen = [&](const IpAddress&, uint16_t port) {
    return open_socket({master.address, port}, true);
  };
  adapter_callbacks.connect = [](const IpAddress&, const IpAddress& to, uint16_t port) {
    return open_socket({to, port}, false);
  };
  auto adapter = SocketAdapter::create(adapter_callbacks).value();
  const auto say = [](const std::string& line) {
    std::printf("%s\n", line.c_str());
    std::fflush(stdout);
  };
  store = std::make_unique<StoreSockets>(adapter, master.address, say);
  NcclSockets::Callbacks of_groups;
  of_groups.say = say;
  groups = std::make_unique<TorchGroups>(
      TorchGroups::Setup{NcclVersion{28}, 1, settings.ranks,
                         std::vector<IpAddress>(world, master.address), new_groups},
      adapter, of_groups);
  settings.awaited = groups->awaited();
  settings.ours = groups->ours();
  uint64_t given = 0;
  RendezvousCallbacks job;
  job.learned = [](Time, const UniqueIdKey& key, const NcclUniqueId& id) {
    print("learned", key, id);
  };
  job.provide = [&](Time at, const UniqueIdKey& key) -> std::optional<NcclUniqueId> {
    const bool first = key.group == "0" && key.member == "0";
    std::optional<NcclUniqueId> id;
    id = first ? make_unique_id(1, given++, {master.address, 47000}) : groups->provide(at, key);
    if (id) print("gave", key, *id);
    return id;
  };
  if (const auto started = store->start(settings, job); !started) {
    std::printf("%s\n", started.error().text.c_str());
    return 1;
  }
  while (!store->rendezvous().finished()) {
    adapter.poll(5);
    store->poll();
    if (!store->rendezvous().failure().empty() || now() > Time::zero() + Duration::s(120)) {
      std::printf("failed: %s\n", store->rendezvous().failure().c_str());
      for (const std::string& line : store->rendezvous().waiting()) {
        std::printf("%s\n", line.c_str());
      }
      return 1;
    }
  }
  std::printf("finished\n");
  return 0;
}

}  // namespace
}  // namespace understudy

int main(int argc, char** argv) {
  if (argc < 4) {
    std::fprintf(stderr, "usage: store_ranks ADDRESS:PORT WORLD REAL_RANK...\n");
    return 2;
  }
  const auto master = understudy::parse_socket_address(argv[1]);
  if (!master) {
    std::fprintf(stderr, "%s\n", master.error().text.c_str());
    return 2;
  }
  std::vector<uint32_t> real;
  std::vector<std::vector<uint32_t>> groups;
  for (int i = 3; i < argc; ++i) {
    std::vector<uint32_t> ranks;
    std::stringstream text(argv[i]);
    for (std::string rank; std::getline(text, rank, ',');) {
      ranks.push_back(static_cast<uint32_t>(std::atoi(rank.c_str())));
    }
    if (ranks.size() == 1) {
      real.push_back(ranks[0]);
    } else {
      groups.push_back(ranks);
    }
  }
  return understudy::run(*master, static_cast<uint32_t>(std::atoi(argv[2])), real, groups);
}
