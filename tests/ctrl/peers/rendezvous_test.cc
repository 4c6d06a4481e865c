// The emulated ranks' part at PyTorch's store, with the requests that torch 2.4 makes: what 1.13
// does is tested with PyTorch itself (tests/ctrl/peers/store_torch_test.py).
#include "ctrl/peers/torch_store/rendezvous.h"

#include <gtest/gtest.h>

#include "ctrl/peers/torch_store/server.h"
#include "tests/rigs/store_rig.h"

namespace understudy {
namespace {

Time after(int ms) { return Time::zero() + Duration::ms(ms); }

const NcclUniqueId kId{0x1122334455667788, {*IpAddress::parse("10.9.0.1"), 47000}, {}};
const NcclUniqueId kOtherId{0x99, {*IpAddress::parse("10.9.0.1"), 47001}, {}};

std::string id_text(const NcclUniqueId& id) {
  const UniqueIdBytes bytes = unique_id_bytes(id);
  return {bytes.begin(), bytes.end()};
}

RendezvousSettings four_ranks(std::vector<uint32_t> real, uint32_t ranks_per_node = 1) {
  RendezvousSettings settings;
  settings.master = {*IpAddress::parse("10.9.0.1"), 29500};
  settings.generation = StoreGeneration::kValidated;
  for (uint32_t rank = 0; rank < 4; ++rank) {
    settings.ranks.push_back({false, rank / ranks_per_node});
  }
  for (const uint32_t rank : real) settings.ranks[rank].real = true;
  return settings;
}

TEST(StoreKeys, OfUniqueIds) {
  const auto parsed = [](const char* key) {
    const auto id = parse_unique_id_key(key);
    return id ? id->group + " " + id->member : "";
  };
  EXPECT_EQ(parsed("/default_pg/0//cuda//0"), "0 0");
  EXPECT_EQ(parsed("/default_pg/12//cuda//3"), "12 3");
  EXPECT_EQ(parsed("/default_pg/0//cuda//0:3"), "0 0:3");
  EXPECT_EQ(parsed("/default_pg/0/0"), "0 0");
  EXPECT_EQ(parsed("//worker/attempt_0/default_pg/0//cuda//0"), "0 0");
  EXPECT_EQ(parsed("/default_pg/1f00ba/1"), "1f00ba 1");
  for (const char* other :
       {"", "/", "init/", "/default_pg/0//cpu//0", "/default_pg/0//cuda//x",
        "/default_pg/0//cuda//", "/default_pg//0", "/default_pg///cuda//0",
        "/default_pg/0//cuda//0:", "default_pg/0/0", "/default_pg/store_based_barrier_key:0",
        "/other_pg/0//cuda//0", "/default_pg/0//cpu//0/0", "/default_pg/0//cuda//99999999999"}) {
    EXPECT_EQ(parsed(other), "") << other;
  }
  for (const std::string& key : unique_id_keys({"2", "5"}, 1)) {
    EXPECT_EQ(parsed(key.c_str()), "2 5") << key;
  }
  EXPECT_TRUE(is_barrier_key("/default_pg/store_based_barrier_key:1"));
  EXPECT_FALSE(is_barrier_key("/default_pg/store_based_barrier_key:1:last_worker"));
}

// --- Rank 0 is emulated: real ranks are clients ---

class EmulatedStore : public testing::Test {
 protected:
  void start(const RendezvousSettings& settings) {
    RendezvousCallbacks callbacks;
    callbacks.learned = [this](Time, const UniqueIdKey& key, const NcclUniqueId& id) {
      EXPECT_EQ(id, kId);
      learned += key.group + " " + key.member + "\n";
    };
    callbacks.provide = [this](Time, const UniqueIdKey& key) -> std::optional<NcclUniqueId> {
      asked += key.group + " " + key.member + "\n";
      if (key.group != "0") return std::nullopt;
      return kId;
    };
    rendezvous = Rendezvous::make(settings, host, callbacks);
    rendezvous->start(after(0));
    for (StreamId client : {1u, 2u}) {
      rendezvous->on_accepted(client, {*IpAddress::parse("10.9.0.9"), 1});
      rendezvous->on_bytes(after(0), client, store_greeting(StoreGeneration::kValidated));
    }
  }
  std::vector<uint8_t> ask(StreamId client, const StoreRequest& request) {
    rendezvous->on_bytes(after(0), client,
                         encode_store_request(StoreGeneration::kValidated, request));
    return host.take(client);
  }
  std::string get(const std::string& key) {
    const auto bytes = ask(1, store_request(StoreCommand::kGet, {key}));
    return {bytes.begin() + 8, bytes.end()};
  }

  WrittenHost host;
  std::unique_ptr<Rendezvous> rendezvous;
  std::string learned, asked;
};

TEST_F(EmulatedStore, CountsEmulatedRanksIn) {
  start(four_ranks({3}));
  EXPECT_FALSE(rendezvous->finished());
  EXPECT_EQ(ask(1, store_request(StoreCommand::kAdd, {"init/"}, {}, 1)), script("i64:4"));
}

TEST_F(EmulatedStore, GivesTheUniqueIdToWhoWaitsForIt) {
  start(four_ranks({2, 3}));
  EXPECT_EQ(ask(1, store_request(StoreCommand::kWait, {"/default_pg/0//cuda//0"})), script("00"));
  EXPECT_EQ(get("/default_pg/0//cuda//0"), id_text(kId));
  EXPECT_EQ(ask(2, store_request(StoreCommand::kWait, {"/default_pg/0//cuda//0"})), script("00"));
  EXPECT_EQ(asked, "0 0\n") << "once";
  EXPECT_EQ(learned, "");
  // A group whose first rank is real: who waits is told when that one has published.
  EXPECT_TRUE(ask(1, store_request(StoreCommand::kWait, {"/default_pg/1//cuda//0"})).empty());
  EXPECT_NE(rendezvous->waiting()[0].find("1 wait for a key"), std::string::npos);
  ask(2, store_request(StoreCommand::kSet, {"/default_pg/1//cuda//0"}, {id_text(kId)}));
  EXPECT_EQ(host.take(1), script("00"));
  EXPECT_EQ(learned, "1 0\n");
}

TEST_F(EmulatedStore, BarriersEndWithTheLastRealRank) {
  start(four_ranks({2, 3}));
  const std::string key = "/default_pg/store_based_barrier_key:0";
  EXPECT_EQ(ask(1, store_request(StoreCommand::kAdd, {key}, {}, 1)), script("i64:3"));
  EXPECT_TRUE(ask(1, store_request(StoreCommand::kWait, {key + ":last_worker"})).empty());
  EXPECT_EQ(ask(2, store_request(StoreCommand::kAdd, {key}, {}, 1)), script("i64:4"));
  ask(2, store_request(StoreCommand::kSet, {key + ":last_worker"}, {"1"}));
  EXPECT_EQ(host.take(1), script("00"));
}

TEST_F(EmulatedStore, TorchrunsAgentsFindTheirRanks) {
  start(four_ranks({2, 3}, 2));
  const std::string run = "/none/torchelastic/";
  EXPECT_EQ(get(run + "role_info/0"),
            "{\"role\": \"default\", \"rank\": 0, \"local_world_size\": 2}");
  EXPECT_EQ(get(run + "assigned_ranks/1"), "[2, 4, 2, 4]");
  EXPECT_EQ(get("/none/MASTER_ADDR"), "10.9.0.1");
  EXPECT_EQ(get("/none/MASTER_PORT"), "29500");
  EXPECT_EQ(
      ask(1, store_request(StoreCommand::kAdd, {run + "agent/terminal_state/num_members"}, {}, 1)),
      script("i64:2"));
}

/// The root of all ranks stays, with its id; a group has another one then.
TEST_F(EmulatedStore, GivesIdsOfTheNextCommunicators) {
  RendezvousCallbacks callbacks;
  int given = 0;
  callbacks.provide = [&](Time, const UniqueIdKey&) {
    return std::optional(given++ == 0 ? kId : kOtherId);
  };
  rendezvous = Rendezvous::make(four_ranks({2, 3}), host, callbacks);
  rendezvous->start(after(0));
  rendezvous->on_accepted(1, {});
  rendezvous->on_bytes(after(0), 1, store_greeting(StoreGeneration::kValidated));
  const std::string all = "/default_pg/0//cuda//0", group = "/default_pg/1//cuda//0";
  EXPECT_EQ(get(all), id_text(kId));
  EXPECT_EQ(get(group), id_text(kOtherId));
  EXPECT_EQ(get(group), id_text(kOtherId));
  EXPECT_EQ(given, 2);
  rendezvous->look_for_next();
  EXPECT_EQ(get(all), id_text(kId));
  EXPECT_EQ(given, 2);
  EXPECT_EQ(get(group), id_text(kOtherId));
  EXPECT_EQ(given, 3);
}

/// A second init_process_group() uses the same keys.
TEST_F(EmulatedStore, BarriersOfTheNextProgramCountFromTheBeginning) {
  start(four_ranks({2, 3}));
  const std::string key = "/default_pg/store_based_barrier_key:0";
  const auto add = [&](StreamId client, int64_t number) {
    return ask(client, store_request(StoreCommand::kAdd, {key}, {}, number));
  };
  const auto wait = [&](StreamId client) {
    return ask(client, store_request(StoreCommand::kWait, {key + ":last_worker"}));
  };
  const auto pass = [&] {
    EXPECT_EQ(add(1, 1), script("i64:3"));
    EXPECT_TRUE(wait(1).empty());
    EXPECT_EQ(add(2, 1), script("i64:4"));
    EXPECT_EQ(add(1, 0), script("i64:4")) << "looked at";
    ask(2, store_request(StoreCommand::kSet, {key + ":last_worker"}, {"1"}));
    EXPECT_EQ(host.take(1), script("00"));
  };
  pass();
  rendezvous->look_for_next();
  pass();
  // One rank is there before the other has left the program.
  EXPECT_EQ(add(1, 1), script("i64:3"));
  EXPECT_TRUE(wait(1).empty());
  rendezvous->look_for_next();
  EXPECT_EQ(add(2, 1), script("i64:4"));
  ask(2, store_request(StoreCommand::kSet, {key + ":last_worker"}, {"1"}));
  EXPECT_EQ(host.take(1), script("00"));
  // A program ends in a barrier.
  EXPECT_EQ(add(1, 1), script("i64:3"));
  rendezvous->look_for_next();
  rendezvous->look_for_next();
  pass();
}

TEST_F(EmulatedStore, IdsOfTheNextProgramAreWaitedFor) {
  start(four_ranks({2, 3}));
  const std::string key = "/default_pg/1//cuda//0";
  const auto publish = [&] { ask(2, store_request(StoreCommand::kSet, {key}, {id_text(kId)})); };
  publish();
  EXPECT_EQ(learned, "1 0\n");
  rendezvous->look_for_next();
  EXPECT_TRUE(ask(1, store_request(StoreCommand::kWait, {key})).empty()) << "the former one's";
  publish();
  EXPECT_EQ(host.take(1), script("00"));
  EXPECT_EQ(learned, "1 0\n1 0\n");
  // It is published again before all have left the program.
  publish();
  rendezvous->look_for_next();
  EXPECT_EQ(learned, "1 0\n1 0\n");
  rendezvous->poll(after(1));
  EXPECT_EQ(learned, "1 0\n1 0\n1 0\n");
  EXPECT_EQ(get(key), id_text(kId));
}

TEST_F(EmulatedStore, EndsWithItsClients) {
  start(four_ranks({3}));
  rendezvous->on_closed(after(1), 1);
  EXPECT_FALSE(rendezvous->finished());
  rendezvous->on_closed(after(1), 2);
  EXPECT_TRUE(rendezvous->finished());
}

TEST_F(EmulatedStore, AWrongUniqueIdIsNamed) {
  start(four_ranks({2, 3}));
  ask(1, store_request(StoreCommand::kSet, {"/default_pg/1//cuda//0"}, {std::string(128, 'x')}));
  EXPECT_NE(rendezvous->failure().find("default_pg/1//cuda//0"), std::string::npos);
}

// --- Rank 0 is real: it serves the store ---

class RealStore : public testing::Test, private StoreWatcher {
 protected:
  RealStore() {
    callbacks.learned = [this](Time, const UniqueIdKey& key, const NcclUniqueId& id) {
      EXPECT_TRUE(id == kId || id == kOtherId);
      learned += key.group + " " + key.member + (id == kId ? "\n" : " other\n");
    };
    make(four_ranks({0}));
  }
  void make(const RendezvousSettings& settings) {
    rendezvous = Rendezvous::make(settings, host, callbacks);
    rendezvous->start(after(0));
  }
  void connect() {
    stream = host.dialled.back();
    server.on_accepted(stream, {});
    rendezvous->on_connected(now, stream);
  }
  /// Lets both talk for so long.
  void talk(int ms) {
    for (int passed = 0; passed < ms; passed += 5) {
      for (;;) {
        const auto request = host.take(stream);
        requests += request.size();
        if (!request.empty()) server.on_bytes(now, stream, request);
        const auto answer = real_host.take(stream);
        if (!answer.empty()) rendezvous->on_bytes(now, stream, answer);
        if (request.empty() && answer.empty()) break;
      }
      now += Duration::ms(5);
      rendezvous->poll(now);
    }
  }
  std::string value(const std::string& key) const {
    const StoreValue* found = server.find(key);
    return found == nullptr ? "" : std::string(found->begin(), found->end());
  }

  WrittenHost host, real_host;
  RendezvousCallbacks callbacks;
  std::unique_ptr<Rendezvous> rendezvous;
  TcpStoreServer server{real_host, *this};
  std::string learned;
  StreamId stream = 0;
  Time now;
  size_t requests = 0;

 private:
  void on_wanted(Time, const std::string&) override {}
  void on_adding(Time, const std::string&, int64_t) override {}
  void on_set(Time, const std::string&, const StoreValue&) override {}
};

TEST_F(RealStore, LearnsTheIdsInTheirOrder) {
  EXPECT_NE(rendezvous->waiting()[0].find("wait for PyTorch's store at 10.9.0.1:29500"),
            std::string::npos);
  connect();
  talk(100);
  EXPECT_EQ(real_host.said, "");
  EXPECT_EQ(value("init/"), "3");
  EXPECT_NE(rendezvous->waiting()[0].find("unique id"), std::string::npos);
  server.set("//worker/attempt_0/default_pg/0//cuda//0", store_value(id_text(kId)));
  talk(100);
  EXPECT_EQ(learned, "0 0\n");
  EXPECT_TRUE(rendezvous->waiting().empty());
  server.set("//worker/attempt_0/default_pg/2//cuda//0", store_value(id_text(kId)));
  server.set("//worker/attempt_0/default_pg/0//cuda//1", store_value(id_text(kId)));
  talk(1000);
  EXPECT_EQ(learned, "0 0\n0 1\n2 0\n");
  server.set("/default_pg/6/0", store_value(id_text(kId)));
  talk(1000);
  EXPECT_EQ(learned, "0 0\n0 1\n2 0\n6 0\n");
}

TEST_F(RealStore, TakesPartInBarriers) {
  connect();
  talk(50);
  const std::string key = "/default_pg/store_based_barrier_key:";
  server.add(key + "0", 1);
  talk(100);
  EXPECT_EQ(value(key + "0"), "4");
  EXPECT_EQ(value(key + "0:last_worker"), "1") << "the emulated ranks were last";
  server.add(key + "1", 1);
  talk(100);
  EXPECT_EQ(value(key + "1"), "4");
}

TEST_F(RealStore, LeavesTheKeysOfTorchrunsAgents) {
  connect();
  talk(50);
  const std::string run = "/none/torchelastic/";
  for (const char* node : {"1", "2", "3"}) {
    EXPECT_NE(value(run + "role_info" + node), "");
    EXPECT_NE(value(run + "role_info/" + node), "");
    EXPECT_EQ(value(run + "agent/terminal_state" + node + ".FIN"), "FIN");
  }
  EXPECT_EQ(value(run + "role_info0"), "");
  EXPECT_EQ(value(run + "agent/terminal_state/num_members"), "3");
}

TEST_F(RealStore, AsksSeldomOnceTheJobRuns) {
  connect();
  server.set("/default_pg/0//cuda//0", store_value(id_text(kId)));
  talk(2000);
  EXPECT_EQ(learned, "0 0\n");
  requests = 0;
  talk(10000);
  EXPECT_LT(requests, 21u * 40 * 60) << "some twenty rounds of forty keys";
}

/// A second init_process_group() publishes another id where the first one still is.
TEST_F(RealStore, LearnsTheNextIdInTheSamePlace) {
  connect();
  const std::string key = "/default_pg/0//cuda//0";
  server.set(key, store_value(id_text(kId)));
  talk(200);
  EXPECT_EQ(learned, "0 0\n");
  rendezvous->look_for_next();
  talk(1000);
  EXPECT_EQ(learned, "0 0\n");
  server.set(key, store_value(id_text(kOtherId)));
  talk(1000);
  EXPECT_EQ(learned, "0 0\n0 0 other\n");
}

/// Of workers that torchrun has restarted, in a store of its agent.
TEST_F(RealStore, LearnsTheIdOfALaterAttempt) {
  RendezvousSettings settings = four_ranks({0});
  settings.attempts = 1;
  settings.former = {kId};
  make(settings);
  connect();
  server.set("//worker/attempt_0/default_pg/0//cuda//0", store_value(id_text(kId)));
  talk(500);
  EXPECT_EQ(learned, "");
  server.set("//worker/attempt_1/default_pg/0//cuda//0", store_value(id_text(kOtherId)));
  talk(500);
  EXPECT_EQ(learned, "0 0 other\n");
}

/// The barriers of the attempt before it are still there, and passed.
TEST_F(RealStore, TakesPartInBarriersOfALaterAttempt) {
  RendezvousSettings settings = four_ranks({0});
  settings.attempts = 1;
  make(settings);
  const std::string key = "/default_pg/store_based_barrier_key:";
  const std::string before = "//worker/attempt_0" + key, now = "//worker/attempt_1" + key;
  for (const char* number : {"0", "1", "2"}) server.add(before + number, 4);
  connect();
  talk(500);
  for (const char* number : {"0", "1", "2"}) {
    server.add(now + number, 1);
    talk(600);
    EXPECT_EQ(value(now + number), "4");
    EXPECT_EQ(value(now + number + ":last_worker"), "1");
  }
}

TEST_F(RealStore, AStoreThatComesAgainIsCalledAgain) {
  RendezvousSettings settings = four_ranks({0});
  settings.again = true;
  settings.agents = false;
  make(settings);
  connect();
  server.set("/default_pg/0//cuda//0", store_value(id_text(kId)));
  talk(200);
  EXPECT_EQ(value("/none/torchelastic/role_info/1"), "");
  const StreamId first = stream;
  rendezvous->on_closed(now, stream);
  EXPECT_FALSE(rendezvous->finished());
  ASSERT_NE(host.dialled.back(), first);
  rendezvous->look_for_next();
  server.erase("init/");
  server.set("/default_pg/0//cuda//0", store_value(id_text(kOtherId)));
  connect();
  talk(200);
  EXPECT_EQ(value("init/"), "3");
  EXPECT_EQ(learned, "0 0\n0 0 other\n");
}

TEST_F(RealStore, EndsWithTheStore) {
  connect();
  talk(50);
  rendezvous->on_closed(now, stream);
  EXPECT_TRUE(rendezvous->finished());
  EXPECT_EQ(rendezvous->failure(), "");
}

TEST_F(RealStore, WrongValuesAndAnswersAreNamed) {
  connect();
  talk(50);
  server.set("/default_pg/0//cuda//0", store_value("short"));
  talk(50);
  EXPECT_NE(rendezvous->failure().find("this has 5"), std::string::npos) << rendezvous->failure();
}

TEST_F(RealStore, NonsenseEndsIt) {
  connect();
  talk(50);
  rendezvous->on_bytes(now, stream, script("01 02 03"));
  EXPECT_NE(rendezvous->failure().find("nobody has asked"), std::string::npos);
  EXPECT_EQ(host.closed, std::set<StreamId>{stream});
}

}  // namespace
}  // namespace understudy
