// PyTorch's TCPStore, as server and as client. The byte scripts of the three generations are
// written from docs/nccl 6.1; the oldest is also tested with PyTorch itself
// (tests/ctrl/peers/store_torch_test.py).
#include <gtest/gtest.h>

#include <random>

#include "ctrl/peers/torch_store/client.h"
#include "ctrl/peers/torch_store/server.h"
#include "ctrl/peers/torch_store/store_access.h"
#include "tests/fuzz/store_drive.h"
#include "tests/rigs/store_rig.h"

namespace understudy {
namespace {

using Bytes = std::vector<uint8_t>;

const char* kMagicText = "ce f7 85 3c ";

Time after(int ms) { return Time::zero() + Duration::ms(ms); }

class NoWatcher : public StoreWatcher {
 public:
  void on_wanted(Time, const std::string& key) override { wanted.push_back(key); }
  void on_adding(Time, const std::string&, int64_t) override {}
  void on_set(Time, const std::string&, const StoreValue&) override {}
  std::vector<std::string> wanted;
};

class StoreServer : public testing::Test {
 protected:
  StoreServer() {
    for (StreamId stream : {1u, 2u, 3u})
      server.on_accepted(stream, {*IpAddress::parse("10.9.0.1"), 9});
  }
  Bytes say(StreamId stream, const std::string& text) {
    server.on_bytes(Time::zero(), stream, script(text));
    return host.take(stream);
  }

  WrittenHost host;
  NoWatcher watcher;
  TcpStoreServer server{host, watcher};
};

/// The same conversation in a generation's numbers; `magic` stands before every request.
struct Numbers {
  std::string greeting, magic;
  const char *set, *compare_set, *get, *add, *check, *wait, *count, *erase;
};
const Numbers kPlainNumbers{"", "", "00 ", "01 ", "02 ", "03 ", "04 ", "05 ", "06 ", "08 "};
const Numbers kPrefixedNumbers{"",    kMagicText, "00 ", "01 ", "02 ",
                               "03 ", "04 ",      "05 ", "06 ", "07 "};
const Numbers kValidatedNumbers{
    std::string("00 ") + kMagicText, "", "01 ", "02 ", "03 ", "04 ", "05 ", "06 ", "07 ", "08 "};

class StoreGenerations : public StoreServer, public testing::WithParamInterface<Numbers> {};

TEST_P(StoreGenerations, AllCommandsThatAllHave) {
  const Numbers& n = GetParam();
  const std::string m = n.magic;
  EXPECT_EQ(say(1, n.greeting + m + n.set + "key:/a key:one"), Bytes());
  EXPECT_EQ(say(1, m + n.get + "key:/a"), script("key:one"));
  EXPECT_EQ(say(1, m + n.compare_set + "key:/a key:one key:two"), script("key:two"));
  EXPECT_EQ(say(1, m + n.compare_set + "key:/a key:one key:three"), script("key:two"));
  EXPECT_EQ(say(1, m + n.compare_set + "key:/b key: key:new"), script("key:new"));
  EXPECT_EQ(say(1, m + n.compare_set + "key:/c key:old key:new"), script("key:old"));
  EXPECT_EQ(say(1, m + n.add + "key:init/ i64:3"), script("i64:3"));
  EXPECT_EQ(say(1, m + n.add + "key:init/ i64:-1"), script("i64:2"));
  EXPECT_EQ(say(1, m + n.get + "key:init/"), script("key:2")) << "kept as decimal text";
  EXPECT_EQ(say(1, m + n.check + "u64:2 key:/a key:init/"), script("00"));
  EXPECT_EQ(say(1, m + n.check + "u64:2 key:/a key:/c"), script("01"));
  EXPECT_EQ(say(1, m + n.count), script("i64:3"));
  EXPECT_EQ(say(1, m + n.erase + "key:/a"), script("i64:1"));
  EXPECT_EQ(say(1, m + n.erase + "key:/a"), script("i64:0"));
  EXPECT_EQ(say(1, m + n.wait + "u64:1 key:/b"), script("00")) << "there already";
  EXPECT_EQ(say(1, m + n.wait + "u64:2 key:/x key:/y"), Bytes());
  EXPECT_EQ(say(2, n.greeting + m + n.set + "key:/x key:1"), Bytes());
  EXPECT_EQ(host.take(1), Bytes()) << "one key of two";
  EXPECT_EQ(say(2, m + n.add + "key:/y i64:1"), script("i64:1"));
  EXPECT_EQ(host.take(1), script("00"));
  EXPECT_TRUE(host.closed.empty()) << host.said;
}

INSTANTIATE_TEST_SUITE_P(All, StoreGenerations,
                         testing::Values(kPlainNumbers, kPrefixedNumbers, kValidatedNumbers));

TEST_F(StoreServer, CommandsOfNewerGenerations) {
  const std::string hello = std::string("00 ") + kMagicText;
  EXPECT_EQ(say(1, hello + "0d 01 02 03 04"), script("01 02 03 04")) << "PING";
  say(1, "09 key:/a key:on");
  say(1, "09 key:/a key:ce");
  say(1, "0b u64:2 key:/b key:2 key:/c key:3");
  EXPECT_EQ(say(1, "0a u64:3 key:/c key:/a key:/b"), script("key:3 key:once key:2"));
  EXPECT_EQ(say(1, "0a u64:0"), Bytes());
  EXPECT_EQ(say(1, "06 u64:1 key:/d"), Bytes());
  EXPECT_EQ(say(1, "0c"), script("01")) << "CANCEL_WAIT";
  EXPECT_EQ(server.waiting_clients(), 0u);
  server.set("/d", store_value("4"));
  EXPECT_EQ(host.take(1), Bytes()) << "it no longer waits";
  EXPECT_EQ(say(2, std::string(kMagicText) + "0b"), script("01"));
  EXPECT_EQ(say(2, std::string(kMagicText) + "08 key:/d key:2"), Bytes());
  EXPECT_EQ(*server.find("/d"), store_value("42"));
}

TEST_F(StoreServer, BytesOneByOneAreTheSame) {
  for (const std::string& text :
       {std::string("00 key:/a key:one 05 u64:1 key:/a"),
        std::string("00 ") + kMagicText + "01 key:/a key:one 06 u64:1 key:/a",
        kMagicText + std::string("00 key:/a key:one ") + kMagicText + "05 u64:1 key:/a"}) {
    server.on_accepted(7, {});
    for (const uint8_t byte : script(text)) {
      ASSERT_TRUE(host.closed.empty()) << host.said;
      EXPECT_EQ(host.take(7), Bytes());
      server.on_bytes(Time::zero(), 7, std::span(&byte, 1));
    }
    EXPECT_EQ(host.take(7), script("00"));
    server.on_closed(7);
  }
}

TEST_F(StoreServer, WaitsEndWithTheirClient) {
  say(1, "05 u64:2 key:/x key:/x");
  say(2, "05 u64:1 key:/x");
  EXPECT_EQ(server.waiting_clients(), 2u);
  EXPECT_EQ(watcher.wanted, (std::vector<std::string>{"/x", "/x", "/x"}));
  server.on_closed(2);
  server.set("/x", {});
  EXPECT_EQ(host.take(1), script("00")) << "once, though it named the key twice";
  EXPECT_EQ(host.take(2), Bytes());
  EXPECT_EQ(say(1, "02 key:/none"), script("key:")) << "as the libuv server does";
}

TEST_F(StoreServer, BrokenClientsAreClosedAndOthersGoOn) {
  const std::string hello = std::string("00 ") + kMagicText;
  const std::pair<std::string, const char*> wrong[] = {
      {"47 45 54 20", "command 71"},
      {"ce 00 00 00", "does not speak"},
      {hello + "00", "command 0 "},
      {hello + "0e", "command 14"},
      {"07 key:/a", "command 7 "},
      {std::string(kMagicText) + "06 00 00 00 00", "without the magic number"},
      {"00 01 20 00 00 00 00 00 00", "8193 bytes of key"},
      {"00 00 00 00 00 01 00 00 00", "4294967296 bytes of key"},
      {"00 key:/a 01 00 80 00 00 00 00 00", "8388609 bytes of value"},
      {"05 u64:131073", "131073 keys"},
      {hello + "01 key:/word key:word 04 key:/word i64:1", "no number"},
      {hello + "01 key:/n key:12x 04 key:/n i64:1", "no number"},
  };
  for (const auto& [text, reason] : wrong) {
    server.on_accepted(9, {*IpAddress::parse("10.9.0.2"), 77});
    host.said.clear();
    say(9, text);
    EXPECT_EQ(host.closed.count(9), 1u) << text;
    EXPECT_NE(host.said.find(reason), std::string::npos) << host.said;
    EXPECT_NE(host.said.find("10.9.0.2:77"), std::string::npos) << host.said;
    host.closed.clear();
  }
  EXPECT_EQ(say(1, "03 key:/a i64:1"), script("i64:1"));
  EXPECT_EQ(server.clients(), 3u);
}

TEST_F(StoreServer, MemoryIsBounded) {
  const StoreValue big(kStoreMostValue, 'x');
  for (int i = 0; i < 40 && host.closed.empty(); ++i) {
    server.on_bytes(
        Time::zero(), 1,
        encode_store_request(StoreGeneration::kPlain,
                             {StoreCommand::kSet, {"/" + std::to_string(i)}, {big}, 0}));
  }
  EXPECT_EQ(host.closed, std::set<StreamId>{1});
  EXPECT_LE(server.bytes(), kStoreMostBytes);
  server.on_bytes(Time::zero(), 3, [] {
    Bytes many;
    for (int i = 0; i < 9; ++i) {
      const Bytes one = script("02 key:/0");
      many.insert(many.end(), one.begin(), one.end());
    }
    return many;
  }());
  EXPECT_EQ(host.closed.count(3), 1u) << "an answer of 72 MiB";
  EXPECT_EQ(host.take(3).size(), 8 * (8 + kStoreMostValue));
  say(2, "02 key:/0");
  EXPECT_TRUE(host.closed.count(2) == 0) << "reading goes on";
}

// --- The client ---

class StoreClient : public testing::Test {
 protected:
  StoreAnswer ask(TcpStoreClient& client, StoreRequest request, const Bytes& sent,
                  const Bytes& answer) {
    StoreAnswer got;
    bool answered = false;
    client.request(after(0), std::move(request), [&](Time, const StoreAnswer& a) {
      got = a;
      answered = true;
    });
    EXPECT_EQ(client.take_output(), sent);
    for (const uint8_t byte : answer) {
      EXPECT_FALSE(answered);
      client.on_bytes(after(0), std::span(&byte, 1));
    }
    EXPECT_TRUE(answered) << client.failure();
    return got;
  }
};

TEST_F(StoreClient, SpeaksTheNewestGeneration) {
  TcpStoreClient client(StoreGeneration::kValidated);
  client.on_connected(after(0));
  EXPECT_EQ(client.take_output(), script(std::string("00 ") + kMagicText));
  using C = StoreCommand;
  ask(client, store_request(C::kSet, {"/a"}, {"one"}), script("01 key:/a key:one"), {});
  EXPECT_EQ(ask(client, store_request(C::kCompareSet, {"/a"}, {"x", "y"}),
                script("02 key:/a key:x key:y"), script("key:one"))
                .values[0],
            store_value("one"));
  EXPECT_EQ(
      ask(client, store_request(C::kGet, {"/a"}), script("03 key:/a"), script("key:one")).values[0],
      store_value("one"));
  EXPECT_EQ(ask(client, store_request(C::kAdd, {"init/"}, {}, 3), script("04 key:init/ i64:3"),
                script("i64:4"))
                .number,
            4);
  EXPECT_EQ(ask(client, store_request(C::kCheck, {"/a", "/b"}), script("05 u64:2 key:/a key:/b"),
                script("01"))
                .number,
            1);
  EXPECT_EQ(
      ask(client, store_request(C::kWait, {"/a"}), script("06 u64:1 key:/a"), script("00")).number,
      0);
  EXPECT_EQ(ask(client, store_request(C::kKeyCount), script("07"), script("i64:9")).number, 9);
  EXPECT_EQ(
      ask(client, store_request(C::kDelete, {"/a"}), script("08 key:/a"), script("i64:1")).number,
      1);
  ask(client, store_request(C::kAppend, {"/a"}, {"x"}), script("09 key:/a key:x"), {});
  const auto two = ask(client, store_request(C::kMultiGet, {"/a", "/b"}),
                       script("0a u64:2 key:/a key:/b"), script("key:x key:"));
  EXPECT_EQ(two.values, (std::vector<StoreValue>{store_value("x"), {}}));
  ask(client, store_request(C::kMultiSet, {"/a", "/b"}, {"1", "2"}),
      script("0b u64:2 key:/a key:1 key:/b key:2"), {});
  EXPECT_EQ(ask(client, store_request(C::kCancelWait), script("0c"), script("01")).number, 1);
  EXPECT_EQ(ask(client, store_request(C::kPing, {}, {}, 0x04030201), script("0d 01 02 03 04"),
                script("01 02 03 04"))
                .number,
            0x04030201);
  EXPECT_EQ(client.failure(), "");
}

TEST_F(StoreClient, SpeaksTheOlderGenerations) {
  TcpStoreClient plain(StoreGeneration::kPlain);
  plain.on_connected(after(0));
  EXPECT_EQ(plain.take_output(), Bytes());
  ask(plain, store_request(StoreCommand::kDelete, {"/a"}), script("08 key:/a"), script("i64:1"));
  TcpStoreClient prefixed(StoreGeneration::kPrefixed);
  prefixed.on_connected(after(0));
  ask(prefixed, store_request(StoreCommand::kDelete, {"/a"}),
      script(kMagicText + std::string("07 key:/a")), script("i64:1"));
  plain.request(after(0), store_request(StoreCommand::kAppend, {"/a"}, {"x"}), {});
  EXPECT_NE(plain.failure().find("APPEND is not there in torch 2.0"), std::string::npos);
}

TEST_F(StoreClient, RequestsWaitForTheirTurn) {
  TcpStoreClient client(StoreGeneration::kPlain);
  std::string order;
  for (const char* name : {"a", "b", "c"}) {
    client.request(after(0), store_request(StoreCommand::kAdd, {name}, {}, 1),
                   [&order, name](Time, const StoreAnswer&) { order += name; });
  }
  EXPECT_EQ(client.take_output(), Bytes());
  client.on_connected(after(0));
  EXPECT_EQ(client.take_output(), script("03 key:a i64:1"));
  client.on_bytes(after(0), script("i64:1"));
  EXPECT_EQ(client.take_output(), script("03 key:b i64:1"));
  client.on_bytes(after(0), script("i64:1"));
  client.on_bytes(after(0), script("i64:1"));
  EXPECT_EQ(order, "abc");
  EXPECT_TRUE(client.idle());
  client.on_closed(after(0));
  EXPECT_TRUE(client.closed());
}

TEST_F(StoreClient, AServerThatTalksNonsenseEndsIt) {
  TcpStoreClient early(StoreGeneration::kPlain);
  early.on_connected(after(0));
  early.on_bytes(after(0), script("00"));
  EXPECT_NE(early.failure().find("nobody has asked"), std::string::npos);
  TcpStoreClient large(StoreGeneration::kPlain);
  large.on_connected(after(0));
  large.request(after(0), store_request(StoreCommand::kGet, {"/a"}), [](Time, const auto&) {});
  large.on_bytes(after(0), script("u64:8388609"));
  EXPECT_NE(large.failure().find("8388609 bytes"), std::string::npos);
}

// --- A store of ours is full ---

/// Leaves room for so many bytes.
template <typename Set>
void fill(const Set& set, size_t room) {
  for (size_t rest = kStoreMostBytes - room, n = 0; rest > 0; ++n) {
    const std::string key = "/fill" + std::to_string(100 + n);
    const size_t value = std::min(kStoreMostValue, rest - key.size());
    set(key, std::string(value, 'x'));
    rest -= key.size() + value;
  }
}

TEST_F(StoreServer, WhatHasNoRoomIsNoSuccess) {
  fill([&](const std::string& key,
           const std::string& value) { EXPECT_TRUE(server.set(key, store_value(value))); },
       20);
  EXPECT_EQ(server.bytes(), kStoreMostBytes - 20);
  const auto ask = [&](StoreCommand command, const std::string& key,
                       std::vector<std::string> values) {
    return server.carry_out(store_request(command, {key}, std::move(values), 7));
  };
  using C = StoreCommand;
  for (const auto& failed : {ask(C::kSet, "/a", {std::string(19, 'v')}),
                             ask(C::kCompareSet, "/a", {"", std::string(19, 'v')}),
                             ask(C::kAdd, "/aaaaaaaaaaaaaaaaaaa", {})}) {
    ASSERT_FALSE(failed);
    EXPECT_NE(failed.error().text.find("the store is full"), std::string::npos);
  }
  EXPECT_EQ(server.find("/a"), nullptr);
  // Of a client the key counts too.
  EXPECT_EQ(say(1, "01 key:/abcdefghij key: key:0123456789"), Bytes());
  EXPECT_NE(host.said.find("the store is full"), std::string::npos) << host.said;
  EXPECT_EQ(server.find("/abcdefghij"), nullptr);
  ASSERT_TRUE(ask(C::kAdd, "/a", {}));
  EXPECT_EQ(server.bytes(), kStoreMostBytes - 17);
}

TEST(StoreAccess, ThatHasNoRoomHasFailed) {
  WrittenHost host;
  StoreAccess access(true, std::nullopt, host);
  fill([&](const std::string& key, const std::string& value) { access.set(after(0), key, value); },
       4);
  EXPECT_EQ(access.failure(), "");
  bool answered = false;
  access.ask(after(0), store_request(StoreCommand::kCompareSet, {"/a"}, {"", "one"}),
             [&](Time, const StoreAnswer&) { answered = true; });
  EXPECT_FALSE(answered);
  EXPECT_NE(access.failure().find("the store is full"), std::string::npos);
}

// --- Which generation does the server speak? ---

struct Probed {
  std::vector<Bytes> sent;  ///< on each connection
  std::optional<StoreGeneration> generation;
  std::string failure;
};

/// Plays a server that answers each connection's bytes so far: with bytes, with nothing, or by
/// closing (no value).
Probed probe(const std::function<std::optional<Bytes>(const Bytes&)>& server) {
  Probed probed;
  TcpStoreClient client(std::nullopt);
  Time now = after(0);
  client.on_connected(now);
  probed.sent.emplace_back();
  size_t answered = 0;
  for (int step = 0; step < 300 && client.failure().empty(); ++step) {
    if (client.dial_again()) {
      probed.sent.emplace_back();
      answered = 0;
      client.on_connected(now);
    }
    const Bytes output = client.take_output();
    Bytes& sent = probed.sent.back();
    sent.insert(sent.end(), output.begin(), output.end());
    if (client.generation()) break;
    if (const auto answer = server(sent); !answer) {
      client.on_closed(now);
    } else if (answer->size() > answered) {
      client.on_bytes(now, std::span(*answer).subspan(answered));
      answered = answer->size();
    }
    now += Duration::ms(100);
    client.poll(now);
  }
  probed.generation = client.generation();
  probed.failure = client.failure();
  return probed;
}

const Bytes kPrefixedTrial = script("ce f7 85 3c 06");
const Bytes kAnswer = script("i64:2");

TEST(StoreProbe, OfTorch21) {
  const Probed probed = probe([](const Bytes&) { return kAnswer; });
  EXPECT_EQ(probed.generation, StoreGeneration::kPrefixed);
  EXPECT_EQ(probed.sent, std::vector<Bytes>{kPrefixedTrial});
}

TEST(StoreProbe, OfTorch20) {
  const Probed probed = probe([](const Bytes& sent) -> std::optional<Bytes> {
    if (sent[0] == 0xce) return std::nullopt;
    return kAnswer;
  });
  EXPECT_EQ(probed.generation, StoreGeneration::kPlain);
  EXPECT_EQ(probed.sent, (std::vector<Bytes>{kPrefixedTrial, script("06")}));
}

TEST(StoreProbe, OfTorch22) {
  const Probed probed = probe([](const Bytes&) -> std::optional<Bytes> { return std::nullopt; });
  EXPECT_EQ(probed.generation, StoreGeneration::kValidated);
  EXPECT_EQ(probed.sent.size(), 3u);
  EXPECT_EQ(probed.sent[1], script("06"));
  EXPECT_EQ(probed.sent[2], script(std::string("00 ") + kMagicText));
}

/// Its first wrong byte passes, and all that came with it; the next byte closes.
TEST(StoreProbe, OfTorch24WithLibuv) {
  const Probed probed = probe([](const Bytes& sent) -> std::optional<Bytes> {
    if (sent.size() > 5) return std::nullopt;
    return Bytes();
  });
  EXPECT_EQ(probed.generation, StoreGeneration::kValidated);
  EXPECT_EQ(probed.sent[0].size(), 6u);
  EXPECT_EQ(probed.sent.size(), 2u);
}

/// The same when the network cuts the first trial in two.
TEST(StoreProbe, OfTorch24WithLibuvInPieces) {
  const Probed probed = probe([](const Bytes& sent) -> std::optional<Bytes> {
    if (sent.size() == 5) return std::nullopt;
    return Bytes();
  });
  EXPECT_EQ(probed.generation, StoreGeneration::kValidated);
  EXPECT_EQ(probed.sent[1], script("06"));
}

TEST(StoreProbe, OfATorch21ThatIsBusy) {
  int calls = 0;
  const Probed probed =
      probe([&](const Bytes&) -> std::optional<Bytes> { return ++calls < 8 ? Bytes() : kAnswer; });
  EXPECT_EQ(probed.generation, StoreGeneration::kPrefixed);
}

TEST(StoreProbe, OfSomethingElse) {
  EXPECT_NE(probe([](const Bytes&) { return Bytes(); }).failure.find("does not answer"),
            std::string::npos);
  EXPECT_NE(probe([](const Bytes&) { return Bytes(100, 'x'); }).failure.find("nobody has asked"),
            std::string::npos);
}

/// Conversations with random damage; tests/fuzz/store_drive.h says what must hold.
TEST(StoreMutations, NothingBreaks) {
  std::mt19937 random(1);
  const auto below = [&](size_t n) { return random() % n; };
  std::string id = "fcf2bff409eb351e0200c0c57f000001" + std::string(224, '0');
  id = '\2' + id;
  const std::vector<Bytes> whole = {
      // Clients of the server: whose turn it is, how many bytes, and these.
      script(std::string("00 00 2b 00 ") + kMagicText +
             "01 key:/a key:one 06 u64:1 key:/bb 01 16 00 key:/bb key:2 03 key:/bb i64:1"),
      script(std::string("00 01 20 ") + kMagicText + "03 key:init/ i64:3 01 09 " + kMagicText +
             "0b 01 00"),
      // A server for the client: requests, then bytes.
      script("01 00 00 03 05 00 10 i64:1 00 02 01 10 i64:9"),
      script("01 03 10 i64:1 08 10 i64:2"),
      Bytes(id.begin(), id.end()),
      script("02 key:/default_pg/0//cuda//0"),
  };
  for (int round = 0; round < 6000; ++round) {
    Bytes bytes = whole[below(whole.size())];
    for (size_t hits = below(4); hits > 0; --hits) {
      const size_t at = below(bytes.size());
      if (below(3) == 0) {
        bytes.insert(bytes.begin() + static_cast<std::ptrdiff_t>(at),
                     static_cast<uint8_t>(random()));
      } else {
        bytes[at] = static_cast<uint8_t>(below(2) == 0 ? random() : bytes[at] ^ 1u << below(8));
      }
    }
    drive_store(bytes);
  }
}

TEST(StoreReleases, Generations) {
  using G = StoreGeneration;
  for (const auto& [release, generation] :
       std::vector<std::pair<const char*, G>>{{"1.13.1", G::kPlain},
                                              {"2.0", G::kPlain},
                                              {"2.1.2", G::kPrefixed},
                                              {"2.1.0+cu121", G::kPrefixed},
                                              {"2.2", G::kValidated},
                                              {"2.10.0", G::kValidated}}) {
    EXPECT_EQ(store_generation_of_release(release), generation) << release;
  }
  for (const char* wrong : {"", "2", "2.", "two", "2.1x", ".1"}) {
    EXPECT_FALSE(store_generation_of_release(wrong)) << wrong;
  }
}

}  // namespace
}  // namespace understudy
