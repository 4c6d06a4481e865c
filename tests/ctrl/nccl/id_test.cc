// How a job's emulated ranks come by the unique id, and what they leave for real ones, with sockets
// on the loopback device.
#include "ctrl/jobs/nccl/nccl_id.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <fstream>
#include <sstream>

#include "ctrl/peers/socket_adapter.h"
#include "ctrl/peers/torch_store/base64.h"
#include "ctrl/peers/torch_store/rendezvous_state.h"
#include "ctrl/peers/torch_store/wire.h"

namespace understudy {
namespace {

const IpAddress kLoopback = IpAddress::v4(INADDR_LOOPBACK);
const IpAddress kReal = IpAddress::v4(INADDR_LOOPBACK + 1);

sockaddr_in raw(const SocketAddress& at) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(at.port);
  address.sin_addr.s_addr = htonl(at.address.v4_value());
  return address;
}

UniqueFd tcp() { return UniqueFd(socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)); }

Result<int> listen_on(const SocketAddress& at) {
  UniqueFd fd = tcp();
  const int on = 1;
  setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  const sockaddr_in address = raw(at);
  if (bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
      listen(fd.get(), 16) != 0) {
    return fail(std::strerror(errno));
  }
  return fd.release();
}

Result<int> call(const SocketAddress& to) {
  UniqueFd fd = tcp();
  const sockaddr_in address = raw(to);
  if (connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 &&
      errno != EINPROGRESS) {
    return fail(std::strerror(errno));
  }
  return fd.release();
}

uint16_t free_port() {
  const UniqueFd fd(listen_on({kLoopback, 0}).value());
  sockaddr_in address{};
  socklen_t size = sizeof address;
  getsockname(fd.get(), reinterpret_cast<sockaddr*>(&address), &size);
  return ntohs(address.sin_port);
}

/// A job of two ranks, one of them real.
class NcclIdTest : public testing::Test {
 protected:
  NcclIdTest() {
    SocketAdapter::Callbacks callbacks;
    callbacks.now = [this] { return now_; };
    callbacks.ended = [this](const EndedConnection& ended) { id_->on_ended(ended); };
    callbacks.listen = [](const IpAddress&, uint16_t port) { return listen_on({kLoopback, port}); };
    callbacks.connect = [](const IpAddress&, const IpAddress& to, uint16_t port) {
      return call({to, port});
    };
    adapter_.emplace(SocketAdapter::create(callbacks).value());
    NcclSockets::Callbacks of_ranks;
    of_ranks.say = [](const std::string&) {};
    ranks_.emplace(*adapter_, std::vector<IpAddress>{kLoopback, kLoopback}, of_ranks);
  }

  void make(NcclJoinConfig join, bool real_first) {
    make_one(id_, std::move(join), real_first, std::make_shared<NcclPlace>());
  }

  void make_one(std::unique_ptr<NcclId>& made, NcclJoinConfig join, bool real_first,
                const std::shared_ptr<NcclPlace>& place) {
    job_.nccl = NcclVersion{28};
    job_.join = std::move(join);
    NcclId::Setup setup;
    setup.job = &job_;
    for (const bool real : {real_first, !real_first}) {
      setup.ranks.push_back(
          {real, static_cast<uint32_t>(setup.ranks.size()), real ? kReal : kLoopback});
    }
    TorchGroups::Setup groups;
    groups.nccl = job_.nccl;
    groups.ranks = setup.ranks;
    groups.addresses = {kLoopback, kLoopback};
    NcclSockets::Callbacks of_groups;
    of_groups.say = [this](const std::string& line) { said_ += line + "\n"; };
    groups_ = std::make_unique<TorchGroups>(groups, *adapter_, of_groups);
    setup.groups = groups_.get();
    setup.place = place;
    setup.number = numbers_++;
    made = std::make_unique<NcclId>(setup, *ranks_, *adapter_,
                                    [this](const std::string& line) { said_ += line + "\n"; });
  }

  void turn() {
    adapter_->poll(1);
    now_ = now_ + Duration::ms(1);
    id_->poll(now_);
  }

  Time now_ = Time::zero() + Duration::s(1);
  JobConfig job_;
  std::optional<SocketAdapter> adapter_;
  std::optional<NcclSockets> ranks_;
  std::unique_ptr<TorchGroups> groups_;
  std::unique_ptr<NcclId> id_;
  uint32_t numbers_ = 0;
  std::string said_;
};

NcclJoinConfig by_file(const std::string& file) {
  NcclJoinConfig join;
  join.way = NcclJoinConfig::Way::kFile;
  join.file = file;
  return join;
}

std::string scratch_file() { return testing::TempDir() + "/nccl-id-" + std::to_string(getpid()); }

TEST_F(NcclIdTest, AnEmulatedRootIsInTheFile) {
  const std::string file = scratch_file();
  make(by_file(file), false);
  const auto opened = id_->open();
  ASSERT_TRUE(opened) << opened.error().text;
  std::ostringstream text;
  text << std::ifstream(file).rdbuf();
  const auto written = parse_unique_id_file(text.str());
  ASSERT_TRUE(written) << written.error().text;
  EXPECT_EQ(*written, *id_->id());
  EXPECT_NE(written->root.port, 0);
  EXPECT_NE(id_->root_listener(), 0u);
  std::remove(file.c_str());
}

TEST_F(NcclIdTest, ARealRootsFileIsWaitedFor) {
  const std::string file = scratch_file();
  std::remove(file.c_str());
  make(by_file(file), true);
  ASSERT_TRUE(id_->open());
  turn();
  EXPECT_FALSE(id_->id());
  ASSERT_EQ(id_->waiting().size(), 1u);
  EXPECT_NE(id_->waiting()[0].find(file), std::string::npos);
  const NcclUniqueId real = make_unique_id(3, 0, {kLoopback, 4000});
  ASSERT_TRUE(write_unique_id_file(file, real));
  for (int i = 0; i < 10 && !id_->id(); ++i) turn();
  ASSERT_TRUE(id_->id());
  EXPECT_EQ(*id_->id(), real);
  std::remove(file.c_str());
}

/// What is written there later is the next communicator's; one that stays is nobody's.
TEST_F(NcclIdTest, TheNextIdInTheFileIsTheNextCommunicators) {
  const std::string file = scratch_file();
  make(by_file(file), true);
  ASSERT_TRUE(id_->open());
  const NcclUniqueId first = make_unique_id(3, 0, {kLoopback, 4000});
  const NcclUniqueId second = make_unique_id(3, 1, {kLoopback, 4000});
  ASSERT_TRUE(write_unique_id_file(file, first));
  for (int i = 0; i < 100; ++i) turn();
  EXPECT_EQ(id_->id(), first);
  EXPECT_FALSE(id_->has_next());
  id_->look_for_next();
  for (int i = 0; i < 100; ++i) turn();
  EXPECT_FALSE(id_->id());
  ASSERT_TRUE(write_unique_id_file(file, second));
  for (int i = 0; i < 100; ++i) turn();
  EXPECT_EQ(id_->id(), second);
  const NcclUniqueId third = make_unique_id(3, 2, {kLoopback, 4000});
  ASSERT_TRUE(write_unique_id_file(file, third));
  for (int i = 0; i < 300; ++i) turn();
  EXPECT_EQ(id_->id(), second);
  EXPECT_TRUE(id_->has_next());
  id_->look_for_next();
  EXPECT_EQ(id_->id(), third);
  EXPECT_FALSE(id_->has_next());
  std::remove(file.c_str());
}

/// Jobs that share a place: who is free takes the next id, and nobody takes one twice.
TEST_F(NcclIdTest, JobsTakeTheIdsOfAFileInTurn) {
  const std::string file = scratch_file();
  const auto place = std::make_shared<NcclPlace>();
  std::unique_ptr<NcclId> other;
  make_one(id_, by_file(file), true, place);
  make_one(other, by_file(file), true, place);
  ASSERT_TRUE(id_->open() && other->open());
  const auto write = [&](uint64_t number) {
    const NcclUniqueId id = make_unique_id(3, number, {kLoopback, 4000});
    EXPECT_TRUE(write_unique_id_file(file, id));
    for (int i = 0; i < 300; ++i) {
      turn();
      other->poll(now_);
    }
    return id;
  };
  const NcclUniqueId first = write(1);
  EXPECT_EQ(id_->id(), first);
  EXPECT_FALSE(other->id());
  const NcclUniqueId second = write(2);
  EXPECT_EQ(other->id(), second);
  EXPECT_FALSE(id_->has_next());
  const NcclUniqueId third = write(3);
  EXPECT_TRUE(id_->has_next() && other->has_next());
  other->look_for_next();
  EXPECT_EQ(other->id(), third);
  id_->look_for_next();
  EXPECT_FALSE(id_->id());
  std::remove(file.c_str());
}

/// Only one of them calls the root of an address at a time.
TEST_F(NcclIdTest, JobsCallARootInTurn) {
  NcclJoinConfig join;
  join.address = kLoopback;
  join.port = free_port();
  const auto place = std::make_shared<NcclPlace>();
  std::unique_ptr<NcclId> other;
  make_one(id_, join, true, place);
  make_one(other, join, true, place);
  EXPECT_TRUE(id_->may_call());
  EXPECT_FALSE(other->may_call());
  other->called();
  EXPECT_FALSE(other->may_call());
  id_->called();
  EXPECT_TRUE(other->may_call());
  EXPECT_FALSE(id_->may_call());
}

TEST_F(NcclIdTest, AFileThatIsNoneFails) {
  const std::string file = scratch_file();
  std::ofstream(file) << "not an id, but long enough to be looked at\n";
  make(by_file(file), true);
  ASSERT_TRUE(id_->open());
  for (int i = 0; i < 5000 && id_->failure().empty(); ++i) {
    now_ = now_ + Duration::ms(10);
    id_->poll(now_);
  }
  EXPECT_NE(id_->failure().find(file), std::string::npos) << id_->failure();
  std::remove(file.c_str());
}

TEST_F(NcclIdTest, CommIdIsListenedToWhereTheRootIsEmulated) {
  NcclJoinConfig join;
  join.address = kLoopback;
  join.port = free_port();
  make(join, false);
  const auto opened = id_->open();
  ASSERT_TRUE(opened) << opened.error().text;
  EXPECT_EQ(id_->id()->magic, 0x0280028002800280u);
  EXPECT_EQ(id_->id()->root.port, join.port);
  const UniqueFd client(call(id_->id()->root).value());
  for (int i = 0; i < 10; ++i) turn();
  // Nobody is there yet to take it: the communicator begins with the first turn of its job.
  char byte = 0;
  EXPECT_EQ(recv(client.get(), &byte, 1, 0), 0);
}

TEST_F(NcclIdTest, APortThatSomebodyElseHasIsNamed) {
  const UniqueFd other(listen_on({kLoopback, 0}).value());
  sockaddr_in address{};
  socklen_t size = sizeof address;
  getsockname(other.get(), reinterpret_cast<sockaddr*>(&address), &size);
  for (const auto way : {NcclJoinConfig::Way::kCommId, NcclJoinConfig::Way::kStore}) {
    NcclJoinConfig join;
    join.way = way;
    join.address = kLoopback;
    join.port = ntohs(address.sin_port);
    make(join, false);
    const auto opened = id_->open();
    ASSERT_FALSE(opened);
    const std::string at = "127.0.0.1:" + std::to_string(join.port) + ": ";
    EXPECT_NE(opened.error().text.find(at + std::strerror(EADDRINUSE)), std::string::npos)
        << opened.error().text;
  }
}

TEST_F(NcclIdTest, AStoreOfOursGivesTheIdToARealRank) {
  NcclJoinConfig join;
  join.way = NcclJoinConfig::Way::kStore;
  join.address = kLoopback;
  join.port = free_port();
  make(join, false);
  const auto opened = id_->open();
  ASSERT_TRUE(opened) << opened.error().text;
  EXPECT_FALSE(id_->id()) << "nobody has asked yet";

  // The real rank 1, as torch 2.4 speaks.
  const StoreGeneration torch = StoreGeneration::kValidated;
  const std::string key = "/default_pg/0//cuda//0";
  std::vector<uint8_t> said = store_greeting(torch);
  const StoreRequest requests[] = {{StoreCommand::kAdd, {"init/"}, {}, 1},
                                   {StoreCommand::kWait, {key}, {}, 0},
                                   {StoreCommand::kGet, {key}, {}, 0}};
  for (const StoreRequest& request : requests) {
    const auto bytes = encode_store_request(torch, request);
    said.insert(said.end(), bytes.begin(), bytes.end());
  }
  const UniqueFd client(call({join.address, join.port}).value());
  size_t sent = 0;
  std::vector<uint8_t> answered;
  constexpr size_t kAnswers = 8 + 1 + 8 + kUniqueIdBytes;
  for (int i = 0; i < 2000 && answered.size() < kAnswers; ++i) {
    turn();
    const ssize_t more = send(client.get(), said.data() + sent, said.size() - sent, MSG_NOSIGNAL);
    if (more > 0) sent += static_cast<size_t>(more);
    uint8_t buffer[512];
    const ssize_t got = recv(client.get(), buffer, sizeof buffer, 0);
    if (got > 0) answered.insert(answered.end(), buffer, buffer + got);
  }
  ASSERT_EQ(answered.size(), kAnswers) << id_->failure();
  ASSERT_TRUE(id_->id());
  const UniqueIdBytes id = unique_id_bytes(*id_->id());
  EXPECT_TRUE(std::equal(id.begin(), id.end(), answered.end() - kUniqueIdBytes));
}

/// torchrun's agent and then its worker, as torch 2.4 speaks, on the second node; both stores are
/// emulated. The worker is restarted once.
TEST_F(NcclIdTest, ARendezvousOfOursLeadsToTheWorkersStore) {
  NcclJoinConfig join;
  join.way = NcclJoinConfig::Way::kRendezvous;
  join.address = kLoopback;
  join.port = free_port();
  join.run_id = "job1";
  join.communicators.reset();
  make(join, false);
  const auto opened = id_->open();
  ASSERT_TRUE(opened) << opened.error().text;
  const StoreGeneration torch = StoreGeneration::kValidated;
  const RendezvousForm form{4, true, true, true};
  const TorchAgent agent{"gpu.example", 4711, 0};

  struct Client {
    UniqueFd socket;
    bool greeted = false;
  };
  // All answers are a length and so many bytes.
  const auto exchange = [&](Client& client, const StoreRequest& request) {
    std::vector<uint8_t> said;
    if (!std::exchange(client.greeted, true)) said = store_greeting(torch);
    const auto encoded = encode_store_request(torch, request);
    said.insert(said.end(), encoded.begin(), encoded.end());
    std::string answer;
    const auto length = [&] {
      return answer.size() < 8
                 ? 8
                 : 8 + static_cast<uint8_t>(answer[0]) + 256u * static_cast<uint8_t>(answer[1]);
    };
    size_t sent = 0;
    for (int i = 0; i < 2000 && answer.size() < length(); ++i) {
      turn();
      const ssize_t more =
          send(client.socket.get(), said.data() + sent, said.size() - sent, MSG_NOSIGNAL);
      if (more > 0) sent += static_cast<size_t>(more);
      char buffer[4096];
      const ssize_t got = recv(client.socket.get(), buffer, sizeof buffer, 0);
      if (got > 0) answer.append(buffer, static_cast<size_t>(got));
    }
    return answer.substr(std::min<size_t>(8, answer.size()));
  };
  Client rendezvous{UniqueFd(call({join.address, join.port}).value())};
  const std::string key = "/torch.rendezvous.job1";
  const auto get = [&](const std::string& of) {
    return exchange(rendezvous, {StoreCommand::kGet, {of}, {}, 0});
  };
  const auto compare_set = [&](const std::string& before, const std::string& after) {
    return exchange(
               rendezvous,
               {StoreCommand::kCompareSet, {key}, {store_value(before), store_value(after)}, 0}) ==
           after;
  };
  const auto change = [&](auto&& what) {
    for (int tries = 0; tries < 3; ++tries) {  // the emulated agent writes, too
      const std::string before = get(key);
      RendezvousState state;
      RendezvousForm seen;
      const auto pickle = base64_bytes(store_value(before)).value();
      if (auto read = read_rendezvous_state(pickle, seen)) state = *read;
      what(state);
      if (compare_set(before, base64_text(write_rendezvous_state(state, form)))) return;
    }
    ADD_FAILURE() << "the state is never what it was";
  };
  const auto join_round = [&](RendezvousState& state) {
    state.participants[agent] = 0;
    state.last_heartbeats[agent] = 1795723421000000;
  };
  const auto unique_id = [&](const std::string& round) {
    for (int i = 0; i < 300; ++i) turn();
    const std::string port = get(key + "." + round + "/MASTER_PORT");
    Client worker{UniqueFd(call({kLoopback, static_cast<uint16_t>(std::stoul(port))}).value())};
    return exchange(worker, {StoreCommand::kGet, {"/default_pg/0//cuda//0"}, {}, 0});
  };
  ASSERT_TRUE(compare_set("", "Y2FuaW1hZGFt"));
  EXPECT_FALSE(id_->restarted());
  change(join_round);
  const std::string first = unique_id("0");
  ASSERT_TRUE(id_->id()) << id_->failure();
  const UniqueIdBytes bytes = unique_id_bytes(*id_->id());
  EXPECT_EQ(first, std::string(bytes.begin(), bytes.end()));
  EXPECT_FALSE(id_->restarted());
  // The agent leaves the round, and comes back once the emulated one has left it too.
  change([&](RendezvousState& state) {
    state.remove(agent);
    state.wait_list.insert(agent);
    state.last_heartbeats[agent] = 1795723421000000;
  });
  for (int i = 0; i < 800; ++i) turn();
  change(join_round);
  EXPECT_EQ(unique_id("1"), first);
  EXPECT_TRUE(id_->restarted());
  id_->look_for_next();
  EXPECT_FALSE(id_->restarted());
  id_->leave();
  EXPECT_TRUE(id_->lingers());
  change([](RendezvousState& state) { state.closed = true; });
  for (int i = 0; i < 800; ++i) turn();
  rendezvous.socket = UniqueFd();
  for (int i = 0; i < 100 && id_->lingers(); ++i) turn();
  EXPECT_FALSE(id_->lingers());
  EXPECT_EQ(id_->failure(), "");
}

TEST_F(NcclIdTest, APortThatIsTakenIsSaid) {
  NcclJoinConfig join;
  join.address = kLoopback;
  join.port = free_port();
  const UniqueFd other(listen_on({join.address, join.port}).value());
  make(join, false);
  const auto opened = id_->open();
  ASSERT_FALSE(opened);
  EXPECT_NE(opened.error().text.find(std::to_string(join.port)), std::string::npos)
      << opened.error().text;
}

}  // namespace
}  // namespace understudy
