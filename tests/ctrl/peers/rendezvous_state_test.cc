// The state of torchrun's c10d rendezvous: what PyTorch writes is read, what we write is the same again,
// and nothing else is read.
#include "ctrl/peers/torch_store/rendezvous_state.h"

#include <gtest/gtest.h>

#include "ctrl/peers/torch_store/agents.h"
#include "ctrl/peers/torch_store/base64.h"
#include "ctrl/peers/torch_store/pickle.h"
#include "dataplane/base/pattern.h"
#include "tests/fuzz/rendezvous_drive.h"

namespace understudy {
namespace {

// Python 3.11's pickles. The first two are of torch 1.13's own classes; the others of classes of the
// same names with the attributes that later releases' public sources have: addr for fqdn,
// redundancy_list, times with their zone (this one by protocol 5, Python 3.14's default).
constexpr const char* kTorch113 =
    "80049591010000000000008c37746f7263682e64697374726962757465642e656c61737469632e72656e64657a"
    "766f75732e64796e616d69635f72656e64657a766f7573948c105f52656e64657a766f75735374617465949394"
    "2981947d94288c05726f756e64944b038c08636f6d706c65746594888c08646561646c696e65948c0864617465"
    "74696d65948c086461746574696d65949394430a07ea0b1a1403290ddbde94859452948c06636c6f7365649489"
    "8c0c7061727469636970616e7473947d942868008c095f4e6f6465446573639493942981947d94288c04667164"
    "6e948c0b6770752e6578616d706c65948c03706964944b7b8c086c6f63616c5f6964944b0075624b0068122981"
    "947d94286815681668174b7b68184b0175624b01758c09776169745f6c697374948f942868122981947d942868"
    "158c056f746865729468174a7011010068184afeffffff7562908c0f6c6173745f68656172746265617473947d"
    "94286813680d6819680a430a07ea0b1a14032a0ddbde9485945294681d680a430a07e8021d173b3b0f423f9485"
    "9452947575622e";
constexpr const char* kEmpty =
    "800495b7000000000000008c37746f7263682e64697374726962757465642e656c61737469632e72656e64657a"
    "766f75732e64796e616d69635f72656e64657a766f7573948c105f52656e64657a766f75735374617465949394"
    "2981947d94288c05726f756e64944b008c08636f6d706c65746594898c08646561646c696e65944e8c06636c6f"
    "73656494898c0c7061727469636970616e7473947d948c09776169745f6c697374948f948c0f6c6173745f6865"
    "6172746265617473947d9475622e";
constexpr const char* kMiddle =
    "800495a5010000000000008c37746f7263682e64697374726962757465642e656c61737469632e72656e64657a"
    "766f75732e64796e616d69635f72656e64657a766f7573948c105f52656e64657a766f75735374617465949394"
    "2981947d94288c05726f756e64944b038c08636f6d706c65746594888c08646561646c696e65948c0864617465"
    "74696d65948c086461746574696d65949394430a07ea0b1a1403290ddbde94859452948c06636c6f7365649489"
    "8c0c7061727469636970616e7473947d942868008c095f4e6f6465446573639493942981947d94288c04616464"
    "72948c0b6770752e6578616d706c65948c03706964944b7b8c086c6f63616c5f6964944b0075624b0068122981"
    "947d94286815681668174b7b68184b0175624b01758c09776169745f6c697374948f942868122981947d942868"
    "158c056f746865729468174a7011010068184afeffffff7562908c0f726564756e64616e63795f6c697374948f"
    "948c0f6c6173745f68656172746265617473947d94286813680d6819680a430a07ea0b1a14032a0ddbde948594"
    "5294681d680a430a07e8021d173b3b0f423f94859452947575622e";
constexpr const char* kLater =
    "800595d6010000000000008c37746f7263682e64697374726962757465642e656c61737469632e72656e64657a"
    "766f75732e64796e616d69635f72656e64657a766f7573948c105f52656e64657a766f75735374617465949394"
    "2981947d94288c05726f756e64944b038c08636f6d706c65746594888c08646561646c696e65948c0864617465"
    "74696d65948c086461746574696d65949394430a07ea0b1a1403290ddbde9468088c0874696d657a6f6e659493"
    "9468088c0974696d6564656c74619493944b004b004b008794529485945294869452948c06636c6f7365649489"
    "8c0c7061727469636970616e7473947d942868008c095f4e6f6465446573639493942981947d94288c04616464"
    "72948c0b6770752e6578616d706c65948c03706964944b7b8c086c6f63616c5f6964944b0075624b00681a2981"
    "947d9428681d681e681f4b7b68204b0175624b01758c09776169745f6c697374948f9428681a2981947d942868"
    "1d8c056f7468657294681f4a7011010068204afeffffff7562908c0f726564756e64616e63795f6c697374948f"
    "948c0f6c6173745f68656172746265617473947d9428681b68156821680a430a07ea0b1a14032a0ddbde946813"
    "869452946825680a430a07e8021d173b3b0f423f946813869452947575622e";

std::vector<uint8_t> bytes_of(std::string_view hex) {
  std::vector<uint8_t> bytes;
  for (size_t i = 0; i + 1 < hex.size(); i += 2) {
    bytes.push_back(static_cast<uint8_t>(std::stoul(std::string(hex.substr(i, 2)), nullptr, 16)));
  }
  return bytes;
}

/// 2026-11-26 20:03:41.908254 UTC.
constexpr int64_t kAt = 1795723421908254;

RendezvousState expected() {
  const TorchAgent first{"gpu.example", 123, 0}, second{"gpu.example", 123, 1},
      third{"other", 70000, -2};
  RendezvousState state;
  state.round = 3;
  state.complete = true;
  state.deadline = kAt;
  state.participants = {{first, 0}, {second, 1}};
  state.wait_list = {third};
  // 2024-02-29 23:59:59.999999
  state.last_heartbeats = {{first, kAt}, {second, kAt + 1'000'000}, {third, 1709251199999999}};
  return state;
}

TEST(RendezvousState, IsReadAndWrittenInTheFormsOfAllReleases) {
  const struct {
    const char* pickle;
    RendezvousForm form;
  } cases[] = {{kTorch113, {4, false, false, false}},
               {kMiddle, {4, true, true, false}},
               {kLater, {5, true, true, true}}};
  for (const auto& c : cases) {
    RendezvousForm form;
    const auto state = read_rendezvous_state(bytes_of(c.pickle), form);
    ASSERT_TRUE(state) << state.error().text;
    EXPECT_EQ(form, c.form);
    EXPECT_EQ(*state, expected());
    RendezvousForm again;
    const auto written = read_rendezvous_state(write_rendezvous_state(*state, form), again);
    ASSERT_TRUE(written) << written.error().text;
    EXPECT_EQ(again, form);
    EXPECT_EQ(*written, *state);
  }
}

TEST(RendezvousState, OfNobodyTellsNothingOfNodes) {
  RendezvousForm form{4, true, false, true};
  const auto state = read_rendezvous_state(bytes_of(kEmpty), form);
  ASSERT_TRUE(state) << state.error().text;
  EXPECT_EQ(*state, RendezvousState());
  EXPECT_EQ(form, (RendezvousForm{4, true, false, true}));
}

TEST(RendezvousState, OfThousandsOfNodesIsSmall) {
  RendezvousState state;
  for (int i = 0; i < 4096; ++i) {
    const TorchAgent agent{"a-host-of-the-cluster.example", 4711, i};
    state.participants[agent] = i;
    state.last_heartbeats[agent] = kAt + i;
  }
  RendezvousForm form;
  const auto pickle = write_rendezvous_state(state, {4, true, true, true});
  EXPECT_LT(base64_text(pickle).size(), kStoreMostValue / 8);
  const auto read = read_rendezvous_state(pickle, form);
  ASSERT_TRUE(read) << read.error().text;
  EXPECT_EQ(*read, state);
}

std::string error_of(std::span<const uint8_t> pickle) {
  RendezvousForm form;
  const auto state = read_rendezvous_state(pickle, form);
  return state ? "" : state.error().text;
}

TEST(RendezvousState, NothingElseIsRead) {
  const auto text = [](std::string_view pickle) {
    return error_of({reinterpret_cast<const uint8_t*>(pickle.data()), pickle.size()});
  };
  using namespace std::string_view_literals;
  EXPECT_NE(text("\x80\x04"
                 "cos\nsystem\n."sv)
                .find("opcode 0x63"),
            std::string::npos);
  const std::string call = text(
      "\x80\x04\x8c\x05"
      "posix\x8c\x06"
      "system\x93."sv);
  EXPECT_NE(call.find("the class posix system"), std::string::npos) << call;
  EXPECT_NE(text("\x80\x02}."sv).find("protocol 4 or 5"), std::string::npos);
  EXPECT_NE(text("\x80\x04}."sv).find("no _RendezvousState"), std::string::npos);
  EXPECT_NE(text("\x80\x04K\x01K\x02."sv).find("several values"), std::string::npos);
  EXPECT_NE(text("\x80\x04u."sv).find("mark"), std::string::npos);
  EXPECT_NE(text("\x80\x04h\x07."sv).find("memo 7"), std::string::npos);
  EXPECT_NE(text("\x80\x04N.N"sv).find("follows its end"), std::string::npos);
  const std::string whole = kLater;
  const auto bytes = bytes_of(whole);
  for (size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_NE(error_of(std::span(bytes).first(size)), "") << size;
  }
}

/// One letter of a name is another one.
TEST(RendezvousState, UnknownNamesAreNamed) {
  const auto changed = [](std::string_view name, std::string_view other) {
    auto bytes = bytes_of(kTorch113);
    const auto at =
        std::search(bytes.begin(), bytes.end(), name.begin(), name.end(),
                    [](uint8_t byte, char letter) { return byte == static_cast<uint8_t>(letter); });
    std::copy(other.begin(), other.end(), at);
    return error_of(bytes);
  };
  EXPECT_NE(changed("wait_list", "wait_lost").find("its wait_lost: no attribute"),
            std::string::npos);
  EXPECT_NE(changed("fqdn", "fqdm").find("a node's fqdm"), std::string::npos);
  EXPECT_NE(changed("_NodeDesc", "_NodeDisc").find("_NodeDisc"), std::string::npos);
  EXPECT_NE(changed("\x07\xea\x0b\x1a", "\x07\xea\x0d\x1a").find("no clock shows"),
            std::string::npos);
}

/// Nodes share a string by memo, and each would have a copy of it.
TEST(RendezvousState, LongNamesAreRefused) {
  const auto with_host = [](size_t size) {
    RendezvousState state;
    state.participants[{std::string(size, 'h'), 1, 0}] = 0;
    return error_of(write_rendezvous_state(state, {4, true, true, true}));
  };
  EXPECT_EQ(with_host(255), "");
  EXPECT_NE(with_host(256).find("a node's name of 256 bytes"), std::string::npos);
  EXPECT_NE(with_host(3 << 20).find("a string of 3145728 bytes"), std::string::npos);
  // An attribute of this name, in a state without any other.
  PickleWriter writer(4);
  writer.of_class(PickleClass::kState);
  for (const int opcode : {0x29, 0x81, 0x7d})
    writer.opcode(static_cast<uint8_t>(opcode));  // (), NEWOBJ, {}
  writer.text(std::string(1000, 'n'));
  writer.none();
  for (const char opcode : {'s', 'b'}) writer.opcode(static_cast<uint8_t>(opcode));
  EXPECT_EQ(error_of(writer.finish()), "an attribute's name of 1000 bytes");
}

/// Any damage is an error or another state; tests/fuzz/rendezvous_drive.h says what must hold.
TEST(RendezvousState, DamageIsNoHarm) {
  uint64_t seed = 1;
  const auto draw = [&](uint64_t below) { return (seed = splitmix64(seed)) % below; };
  for (const char* pickle : {kTorch113, kEmpty, kMiddle, kLater}) {
    const auto whole = bytes_of(pickle);
    for (int i = 0; i < 3000; ++i) {
      auto bytes = whole;
      for (uint64_t n = draw(4) + 1; n > 0; --n) {
        bytes[draw(bytes.size())] = static_cast<uint8_t>(draw(256));
      }
      if (draw(4) == 0) bytes.resize(draw(bytes.size()));
      drive_rendezvous_state(bytes);
    }
  }
}

TEST(Base64, IsPythons) {
  const auto text = [](std::string_view bytes) {
    return base64_text({reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()});
  };
  EXPECT_EQ(text(""), "");
  EXPECT_EQ(text("f"), "Zg==");
  EXPECT_EQ(text("fo"), "Zm8=");
  EXPECT_EQ(text("foo"), "Zm9v");
  EXPECT_EQ(text("foob\xff"), "Zm9vYv8=");
  for (std::string_view bytes : {"", "f", "fo", "foo", "foob", "fooba", "foobar"}) {
    const std::string coded = text(bytes);
    const auto back = base64_bytes({reinterpret_cast<const uint8_t*>(coded.data()), coded.size()});
    ASSERT_TRUE(back);
    EXPECT_EQ(std::string(back->begin(), back->end()), bytes);
  }
  for (std::string_view wrong : {"Zg=", "Z===", "Zm9v\n", "Zm 9", "=m9v", "Z=9v"}) {
    EXPECT_FALSE(base64_bytes({reinterpret_cast<const uint8_t*>(wrong.data()), wrong.size()}))
        << wrong;
  }
}

TEST(EmulatedAgents, AreInTheOrderOfTheNodes) {
  uint64_t seed = 7;
  for (int i = 0; i < 2000; ++i) {
    std::vector<AgentNode> nodes;
    std::vector<TorchAgent> real;
    while (nodes.size() < 1 + splitmix64(seed) % 12 || real.empty()) {
      const bool is_real = (seed = splitmix64(seed)) % 3 == 0;
      nodes.push_back({is_real, static_cast<uint32_t>(nodes.size()), 1, {}});
      if (!is_real) continue;
      // Two on one host, in processes one after the other, or on hosts with like names.
      const auto n = static_cast<int64_t>(real.size());
      real.push_back({n % 3 == 2 ? "host-a" + std::string(1, static_cast<char>('0' + n % 10)) + "x"
                                 : "host-a" + std::string(1, static_cast<char>('0' + n % 10)),
                      100 + n, 0});
    }
    std::sort(real.begin(), real.end());
    const auto emulated = emulated_agents(nodes, real);
    std::map<TorchAgent, bool> all;
    for (const TorchAgent& agent : real) all[agent] = true;
    for (const TorchAgent& agent : emulated) all[agent] = false;
    ASSERT_EQ(all.size(), nodes.size());
    size_t n = 0;
    for (const auto& [agent, is_real] : all) EXPECT_EQ(is_real, nodes[n++].real);
  }
}

}  // namespace
}  // namespace understudy
