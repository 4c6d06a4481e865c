// Emulated nodes in torchrun's c10d rendezvous beside real agents, in the form of PyTorch's later
// releases: torch 1.13 is tested with torchrun itself (tests/ctrl/peers/rendezvous_torch_test.py).
#include "ctrl/peers/torch_store/agents.h"

#include <gtest/gtest.h>

#include "ctrl/peers/torch_store/base64.h"
#include "tests/rigs/store_rig.h"

namespace understudy {
namespace {

constexpr const char* kKey = "/torch.rendezvous.job1";
constexpr const char* kNoState = "Y2FuaW1hZGFt";
constexpr RendezvousForm kLater{4, true, true, true};
/// The real nodes' clock: it has nothing to do with the time of the run.
constexpr int64_t kEpoch = 1795723421000000;

int64_t seconds(int64_t n) { return n * 1'000'000; }

/// What torchrun's agent of a real node does to the state (dynamic_rendezvous.py).
struct RealAgent {
  TorchAgent name;

  void join(RendezvousState& state, int64_t clock) const {
    state.wait_list.erase(name);
    state.participants[name] = 0;
    state.last_heartbeats[name] = clock;
  }
  void beat(RendezvousState& state, int64_t clock) const { state.last_heartbeats[name] = clock; }
  /// Its workers are to be restarted.
  void leave(RendezvousState& state, int64_t clock) const {
    state.remove(name);
    if (!state.complete) return join(state, clock);
    state.wait_list.insert(name);
    state.last_heartbeats[name] = clock;
  }
};

/// Four nodes, a rank each, at a store of one of the emulated ones.
class EmulatedRendezvous : public testing::Test {
 protected:
  void start(std::vector<uint32_t> real, uint32_t ranks_per_node = 1) {
    TorchAgentsSettings settings;
    settings.endpoint = {*IpAddress::parse("10.9.0.2"), 29400};
    settings.serves = true;
    settings.run_id = "job1";
    for (uint32_t rank = 0; rank < 4 * ranks_per_node; ++rank) {
      settings.ranks.push_back({false, rank / ranks_per_node, address(rank / ranks_per_node)});
    }
    for (auto& rank : settings.ranks) {
      rank.real = std::find(real.begin(), real.end(), rank.node) != real.end();
    }
    settings.master = {address(0), 29501};
    agents.emplace(settings, host, [this](Time, const TorchRound& round) {
      began += std::to_string(round.number) + " " + round.master.text() + "\n";
    });
    agents->start(now);
    agents->on_accepted(1, {});
    agents->on_bytes(now, 1, store_greeting(StoreGeneration::kValidated));
    exchange(store_request(StoreCommand::kCompareSet, {kKey}, {"", kNoState}));
  }
  static IpAddress address(uint32_t node) {
    return *IpAddress::parse("10.9.0." + std::to_string(node + 1));
  }

  std::string exchange(const StoreRequest& request) {
    agents->on_bytes(now, 1, encode_store_request(StoreGeneration::kValidated, request));
    const auto bytes = host.take(1);
    return bytes.size() < 8 ? "" : std::string(bytes.begin() + 8, bytes.end());
  }
  std::string get(const std::string& key) {
    return exchange(store_request(StoreCommand::kGet, {key}));
  }
  std::string in_round(int round, const std::string& key) {
    return get(std::string(kKey) + "." + std::to_string(round) + "/" + key);
  }
  void set(const std::string& key, const std::string& value) {
    exchange(store_request(StoreCommand::kSet, {key}, {value}));
  }

  RendezvousState state() {
    const std::string text = get(kKey);
    if (text == kNoState) return {};
    RendezvousForm form;
    const auto pickle = base64_bytes(store_value(text)).value();
    auto read = read_rendezvous_state(pickle, form);
    EXPECT_TRUE(read) << read.error().text;
    EXPECT_EQ(form, kLater);
    return read ? *read : RendezvousState();
  }
  /// A real agent changes what it has read.
  template <typename Change>
  void change(const Change& what) {
    const std::string before = get(kKey);
    RendezvousState next = state();
    what(next, clock());
    const std::string after = base64_text(write_rendezvous_state(next, kLater));
    const std::string answer =
        exchange(store_request(StoreCommand::kCompareSet, {kKey}, {before, after}));
    EXPECT_EQ(answer, after);
  }
  void join(const RealAgent& agent) {
    change([&](RendezvousState& s, int64_t clock) { agent.join(s, clock); });
  }
  int64_t clock() const { return kEpoch + (now - Time::zero()).ps() / 1'000'000; }

  void pass(Duration time) {
    for (const Time until = now + time; now < until; now += Duration::ms(50)) {
      agents->poll(now);
      const auto read = state();
      for (const auto& [agent, at] : read.last_heartbeats) {
        EXPECT_LE(at, clock()) << agent.text();
        oldest = std::max(oldest, clock() - at);
      }
    }
  }

  WrittenHost host;
  std::optional<TorchAgents> agents;
  std::string began;
  int64_t oldest = 0;  ///< heartbeat that was seen
  Time now = Time::zero() + Duration::s(100);
};

const RealAgent kGpu{{"gpu.example", 4711, 0}};

TEST_F(EmulatedRendezvous, CompletesTheRoundOnceAllRealNodesAreThere) {
  start({2, 3});
  const RealAgent second{{"gpu.example", 4712, 0}};
  join(second);
  pass(Duration::s(1));
  EXPECT_FALSE(state().complete);
  EXPECT_NE(agents->waiting().at(0).find("1 are there"), std::string::npos);
  join(kGpu);
  pass(Duration::ms(200));
  EXPECT_TRUE(state().complete);
  const RendezvousState complete = state();
  EXPECT_EQ(complete.participants.size(), 4u);
  EXPECT_EQ(complete.participants.at(kGpu.name), 2);
  EXPECT_EQ(complete.participants.at(second.name), 3);
  EXPECT_EQ(began, "0 10.9.0.1:29501\n");
  EXPECT_NE(host.said.find("node rank 2 is gpu.example, process 4711; node rank 3 is gpu.example, "
                           "process 4712"),
            std::string::npos)
      << host.said;
}

TEST_F(EmulatedRendezvous, LeavesTheKeysOfItsRound) {
  start({1}, 2);
  join(kGpu);
  pass(Duration::ms(200));
  EXPECT_EQ(in_round(0, "torchelastic/role_info/3"),
            "{\"role\": \"default\", \"rank\": 3, \"local_world_size\": 2}");
  EXPECT_EQ(in_round(0, "torchelastic/assigned_ranks/1"), "[2, 8, 2, 8]");
  EXPECT_EQ(in_round(0, "MASTER_ADDR"), "10.9.0.1");
  EXPECT_EQ(in_round(0, "MASTER_PORT"), "29501");
  EXPECT_EQ(in_round(0, "torchelastic/agent/terminal_state/num_members"), "3");
}

TEST_F(EmulatedRendezvous, AsksNodeRank0ForItsMaster) {
  start({0});
  join(kGpu);
  pass(Duration::s(1));
  EXPECT_EQ(state().participants.at(kGpu.name), 0);
  EXPECT_EQ(began, "");
  EXPECT_NE(agents->waiting().at(0).find("MASTER_PORT"), std::string::npos);
  set(std::string(kKey) + ".0/MASTER_ADDR", "gpu.example");
  set(std::string(kKey) + ".0/MASTER_PORT", "41000");
  pass(Duration::s(1));
  EXPECT_EQ(began, "0 10.9.0.1:41000\n");
  EXPECT_TRUE(agents->waiting().empty());
}

TEST_F(EmulatedRendezvous, StaysAliveByTheRealNodesClock) {
  start({1});
  join(kGpu);
  for (int i = 0; i < 24; ++i) {
    pass(Duration::s(5));
    change([&](RendezvousState& s, int64_t clock) { kGpu.beat(s, clock); });
  }
  EXPECT_EQ(state().participants.size(), 4u);
  EXPECT_LT(oldest, seconds(6));
}

TEST_F(EmulatedRendezvous, TakesPartInFurtherRounds) {
  start({1});
  join(kGpu);
  pass(Duration::s(2));
  change([&](RendezvousState& s, int64_t clock) { kGpu.leave(s, clock); });
  pass(Duration::s(1));
  EXPECT_EQ(state().round, 1);
  EXPECT_FALSE(state().complete);
  EXPECT_TRUE(state().participants.empty());
  join(kGpu);
  pass(Duration::s(1));
  EXPECT_TRUE(state().complete);
  EXPECT_EQ(state().participants.at(kGpu.name), 1);
  EXPECT_EQ(began, "0 10.9.0.1:29501\n1 10.9.0.1:29501\n");
  EXPECT_EQ(in_round(1, "MASTER_PORT"), "29501");
}

/// An agent that serves the workers' store itself publishes its port once (PyTorch 2.4 and later).
TEST_F(EmulatedRendezvous, AnAgentThatHasPublishedItsPortOnceKeepsIt) {
  start({0});
  join(kGpu);
  pass(Duration::s(1));
  set(std::string(kKey) + ".0/MASTER_PORT", "41000");
  pass(Duration::s(1));
  change([&](RendezvousState& s, int64_t clock) { kGpu.leave(s, clock); });
  pass(Duration::s(1));
  join(kGpu);
  pass(Duration::s(4));
  EXPECT_EQ(began, "0 10.9.0.1:41000\n") << "its port may still come";
  set(std::string(kKey) + ".1/torchelastic/assigned_ranks/0", "[0, 4, 0, 4]");
  pass(Duration::s(1));
  EXPECT_EQ(began, "0 10.9.0.1:41000\n");
  pass(Duration::s(2));
  EXPECT_EQ(began, "0 10.9.0.1:41000\n1 10.9.0.1:41000\n");
  EXPECT_EQ(agents->failure(), "");
}

/// Another agent has another store, whose port it publishes.
TEST_F(EmulatedRendezvous, AnotherAgentsPortIsWaitedFor) {
  start({0});
  join(kGpu);
  pass(Duration::s(1));
  set(std::string(kKey) + ".0/MASTER_PORT", "41000");
  pass(Duration::s(1));
  const RealAgent other{{"gpu.example", 5000, 0}};
  change([&](RendezvousState& s, int64_t clock) {
    s.remove(kGpu.name);
    s.wait_list.insert(other.name);
    s.last_heartbeats[other.name] = clock;
  });
  pass(Duration::s(1));
  join(other);
  pass(Duration::s(1));
  set(std::string(kKey) + ".1/torchelastic/assigned_ranks/0", "[0, 4, 0, 4]");
  pass(Duration::s(4));
  EXPECT_EQ(began, "0 10.9.0.1:41000\n");
  set(std::string(kKey) + ".1/MASTER_PORT", "41001");
  pass(Duration::s(1));
  EXPECT_EQ(began, "0 10.9.0.1:41000\n1 10.9.0.1:41001\n");
}

/// Somebody writes the emulated agents' names into a state without the real ones.
TEST_F(EmulatedRendezvous, OurNamesInSomebodysStateAreNoRound) {
  start({1});
  join(kGpu);
  pass(Duration::s(1));
  const TorchAgent ours = state().participants.begin()->first;
  change([&](RendezvousState& s, int64_t clock) {
    s = {};
    s.round = 1;
    s.last_heartbeats[kGpu.name] = clock;
  });
  agents->poll(now += Duration::s(1));
  change([&](RendezvousState& s, int64_t clock) {
    s.participants[ours] = 0;
    s.last_heartbeats[kGpu.name] = clock;
    s.complete = true;
  });
  for (int i = 0; i < 20; ++i) agents->poll(now += Duration::ms(50));
  EXPECT_NE(agents->failure().find("complete with 0 real nodes, the job has 1"), std::string::npos)
      << agents->failure();
}

/// As with --nnodes 1:4: a restart goes on with fewer nodes.
TEST_F(EmulatedRendezvous, ALaterRoundWithoutTheEmulatedNodesIsNamed) {
  start({1});
  join(kGpu);
  pass(Duration::s(2));
  change([&](RendezvousState& s, int64_t clock) { kGpu.leave(s, clock); });
  pass(Duration::s(1));
  change([&](RendezvousState& s, int64_t clock) {
    kGpu.join(s, clock);
    s.finish_round();
  });
  for (int i = 0; i < 20; ++i) agents->poll(now += Duration::ms(50));
  EXPECT_NE(agents->failure().find("complete with 1 nodes and without the emulated ones"),
            std::string::npos)
      << agents->failure();
}

/// Its agent is killed, and another one is started in its place.
TEST_F(EmulatedRendezvous, AnAgentThatIsSilentIsGone) {
  start({1});
  join(kGpu);
  pass(Duration::s(14));
  EXPECT_EQ(state().participants.size(), 4u);
  pass(Duration::s(5));
  EXPECT_EQ(state().participants.size(), 3u);
  const RealAgent other{{"gpu.example", 5000, 0}};
  change([&](RendezvousState& s, int64_t clock) {
    s.wait_list.insert(other.name);
    s.last_heartbeats[other.name] = clock;
  });
  pass(Duration::s(1));
  join(other);
  pass(Duration::s(1));
  EXPECT_EQ(state().participants.at(other.name), 1);
  EXPECT_EQ(state().round, 1);
}

TEST_F(EmulatedRendezvous, EndsWithItsAgentsAndBeginsAnewForOthers) {
  start({1});
  join(kGpu);
  pass(Duration::s(1));
  change([](RendezvousState& s, int64_t) { s.closed = true; });
  pass(Duration::s(1));
  EXPECT_NE(agents->waiting().at(0).find("is closed"), std::string::npos);
  agents->on_closed(now, 1);
  agents->poll(now);
  EXPECT_FALSE(agents->finished());
  agents->on_accepted(1, {});
  agents->on_bytes(now, 1, store_greeting(StoreGeneration::kValidated));
  EXPECT_EQ(exchange(store_request(StoreCommand::kCompareSet, {kKey}, {"", kNoState})), kNoState);
  join(kGpu);
  pass(Duration::s(1));
  EXPECT_EQ(began, "0 10.9.0.1:29501\n0 10.9.0.1:29501\n");
  agents->leave();
  change([](RendezvousState& s, int64_t) { s.closed = true; });
  pass(Duration::s(1));
  agents->on_closed(now, 1);
  agents->poll(now);
  EXPECT_TRUE(agents->finished());
}

TEST_F(EmulatedRendezvous, MistakesAreNamed) {
  const auto failure = [&](auto&& what, std::vector<uint32_t> real) {
    host = WrittenHost();
    start(std::move(real));
    what();
    for (int i = 0; i < 20; ++i) agents->poll(now += Duration::ms(50));
    return agents->failure();
  };
  const RealAgent other{{"other", 1, 0}};
  EXPECT_NE(failure(
                [&] {
                  change([&](RendezvousState& s, int64_t clock) {
                    kGpu.join(s, clock);
                    other.join(s, clock);
                  });
                },
                {1})
                .find("2 real nodes are in it, the job has 1"),
            std::string::npos);
  EXPECT_NE(failure(
                [&] {
                  change([&](RendezvousState& s, int64_t clock) {
                    kGpu.join(s, clock);
                    s.finish_round();
                  });
                },
                {1})
                .find("--nnodes 4"),
            std::string::npos);
  EXPECT_NE(failure(
                [&] {
                  join(kGpu);
                  pass(Duration::ms(300));
                  set(std::string(kKey) + ".0/torchelastic/role_info/1",
                      "{\"role\": \"default\", \"rank\": 1, \"local_world_size\": 8}");
                },
                {1})
                .find("--nproc-per-node 1"),
            std::string::npos);
  EXPECT_NE(failure([&] { set(kKey, "%%%%"); }, {1}).find("no base64"), std::string::npos);
  EXPECT_NE(failure([&] { set(kKey, "gARjb3MKc3lzdGVtCi4="); }, {1}).find("opcode 0x63"),
            std::string::npos);
  // --local-addr is an address of the job's, and torchrun has another order.
  const RealAgent third{{"10.9.0.3", 1, 0}}, fourth{{"10.9.0.10", 1, 0}};
  EXPECT_NE(failure(
                [&] {
                  change([&](RendezvousState& s, int64_t clock) {
                    third.join(s, clock);
                    fourth.join(s, clock);
                  });
                },
                {2, 3})
                .find("takes 10.9.0.10 where the job's ranks have 10.9.0.3"),
            std::string::npos);
}

TEST_F(EmulatedRendezvous, AnotherIdIsNamed) {
  start({1});
  exchange(store_request(StoreCommand::kDelete, {kKey}));
  set("/torch.rendezvous.other", kNoState);
  for (int i = 0; i < 200; ++i) agents->poll(now += Duration::ms(50));
  EXPECT_NE(host.said.find("--rdzv-id is to be run_id"), std::string::npos);
}

// --- A real node serves the store ---

TEST(RealRendezvous, IsAskedOverAConnectionAndAnew) {
  struct Nobody : StoreWatcher {
    void on_wanted(Time, const std::string&) override {}
    void on_adding(Time, const std::string&, int64_t) override {}
    void on_set(Time, const std::string&, const StoreValue&) override {}
  } nobody;
  WrittenHost host, real_host;
  std::optional<TcpStoreServer> server;
  server.emplace(real_host, nobody);
  TorchAgentsSettings settings;
  settings.endpoint = {*IpAddress::parse("10.9.0.1"), 29400};
  settings.run_id = "job1";
  settings.ranks = {{true, 0, {}}, {false, 1, {}}, {false, 2, {}}};
  settings.master = {*IpAddress::parse("10.9.0.1"), 0};
  settings.generation = StoreGeneration::kValidated;
  std::string began;
  TorchAgents agents(settings, host, [&](Time, const TorchRound& round) {
    began += std::to_string(round.number) + " " + round.master.text() + "\n";
  });
  Time now;
  const auto talk = [&](Duration time) {
    for (const Time until = now + time; now < until; now += Duration::ms(5)) {
      agents.poll(now);
      const StreamId stream = host.dialled.back();
      const auto request = host.take(stream);
      if (!request.empty()) server->on_bytes(now, stream, request);
      const auto answer = real_host.take(stream);
      if (!answer.empty()) agents.on_bytes(now, stream, answer);
    }
  };
  const auto connect = [&] {
    server->on_accepted(host.dialled.back(), {});
    agents.on_connected(now, host.dialled.back());
  };
  const auto join = [&] {
    RendezvousState state;
    kGpu.join(state, kEpoch + (now - Time::zero()).ps() / 1'000'000);
    server->set(kKey, store_value(base64_text(write_rendezvous_state(state, kLater))));
  };
  agents.start(now);
  EXPECT_NE(agents.waiting().at(0).find("wait for the store"), std::string::npos);
  connect();
  server->set(kKey, store_value(kNoState));
  talk(Duration::ms(300));
  join();
  talk(Duration::ms(300));
  server->set(std::string(kKey) + ".0/MASTER_PORT", store_value("41000"));
  talk(Duration::s(1));
  EXPECT_EQ(began, "0 10.9.0.1:41000\n");
  EXPECT_EQ(real_host.said, "");
  // torchrun has ended, with its store; another one is started.
  agents.on_closed(now, host.dialled.back());
  server.emplace(real_host, nobody);
  agents.poll(now);
  ASSERT_EQ(host.dialled.size(), 2u);
  connect();
  join();
  talk(Duration::ms(300));
  server->set(std::string(kKey) + ".0/MASTER_PORT", store_value("41001"));
  talk(Duration::s(1));
  EXPECT_EQ(began, "0 10.9.0.1:41000\n0 10.9.0.1:41001\n");
  EXPECT_EQ(agents.failure(), "");
  agents.leave();
  agents.on_closed(now, host.dialled.back());
  agents.poll(now);
  EXPECT_TRUE(agents.finished());
}

}  // namespace
}  // namespace understudy
