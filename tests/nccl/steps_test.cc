// Flags of LL and LL128 against a model of the kernel that spins on them, and where credits lie.
#include "dataplane/nccl/nccl_steps.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <vector>

#include "dataplane/nccl/nccl_connection.h"
#include "tests/rigs/posting_host.h"

namespace understudy {
namespace {

constexpr uint64_t kFifoVa = 0x10000, kSimpleVa = 0x10000000, kLlVa = 0x20000000,
                   kLl128Va = 0x30000000;

/// NCCL's receiver as its source has it: the proxy's counter `step`, which each operation rounds up
/// to its chunk's steps and leaves behind its last one, and a kernel that takes a message only if
/// every line in its buffer carries the step's flag.
class Kernel {
 public:
  Kernel() : ll_(512 * 1024), ll128_(4915200) {}

  enum class Kind { kRingSimple, kOneStepSimple, kLL, kLL128 };
  struct Credit {
    uint64_t address = 0, size = 0;
  };
  /// Begins an operation; how many steps its messages are.
  uint64_t begin(Kind kind) {
    kind_ = kind;
    const uint64_t chunk = kind == Kind::kRingSimple ? 4 : 1;
    step_ = (step_ + chunk - 1) / chunk * chunk;
    return kind == Kind::kRingSimple ? 2 : 1;
  }
  Credit credit() const {
    switch (kind_) {
      case Kind::kRingSimple:
        return {kSimpleVa + step_ % 8 * 524288, 1048576};
      case Kind::kOneStepSimple:
        return {kSimpleVa + step_ % 8 * 524288, 524288};
      case Kind::kLL:
        return {kLlVa + step_ % 8 * 65536, 65536};
      case Kind::kLL128:
        return {kLl128Va + step_ % 8 * 614400, 614400};
    }
    return {};
  }
  /// A WRITE came; false where the kernel would spin for ever.
  bool takes(uint64_t address, std::span<const uint8_t> data) {
    const uint64_t step = step_;
    step_ += kind_ == Kind::kRingSimple ? 2 : 1;
    if (kind_ == Kind::kLL) {
      std::memcpy(ll_.data() + (address - kLlVa), data.data(), data.size());
      for (uint64_t line = address - kLlVa; line < address - kLlVa + data.size(); line += 16) {
        uint32_t words[4];
        std::memcpy(words, ll_.data() + line, sizeof words);
        if (words[1] != static_cast<uint32_t>(step + 1) || words[3] != words[1]) return false;
        if (words[0] != 0 || words[2] != 0) return false;
      }
    } else if (kind_ == Kind::kLL128) {
      std::memcpy(ll128_.data() + (address - kLl128Va), data.data(), data.size());
      for (uint64_t line = address - kLl128Va; line < address - kLl128Va + data.size();
           line += 128) {
        uint64_t words[16];
        std::memcpy(words, ll128_.data() + line, sizeof words);
        if (words[15] != step + 1) return false;
      }
    }
    return true;
  }

 private:
  Kind kind_ = Kind::kLL;
  uint64_t step_ = 0;
  std::vector<uint8_t> ll_, ll128_;
};

struct Rig {
  explicit Rig(uint32_t queue_pairs = 1) : regions(1) {
    NcclQps all{{}, queue_pairs > 1};
    for (uint32_t q = 0; q < queue_pairs; ++q) {
      QpConfig config;
      config.node = 1;
      config.qpn = q + 1;
      qps.push_back(std::make_unique<Qp>(config, regions, counters, nobody));
      all.all.push_back(qps.back().get());
    }
    fifo.resize(layout.fifo_bytes());
    sender.connect({.qps = all,
                    .layout = layout,
                    .fifo = fifo.data(),
                    .collective = true,
                    .violations = &violations,
                    .registered = &registered});
  }
  void grant(const Kernel::Credit& credit) {
    CtsEntry{credit.address, credit.size, 7, 1, 0, k + 1}.encode(
        layout, fifo.data() + k % layout.slots * layout.stride());
  }
  /// Sends message k and gives it to the kernel in packets of `mtu`.
  bool send(Kernel& kernel, uint32_t bytes, uint32_t mtu) {
    wires.posted.clear();
    EXPECT_TRUE(sender.send(Time(), wires, k, bytes, {}, k));
    ++k;
    for (size_t q = 0; q < wires.posted.size(); ++q) {
      sender.acknowledged(*qps[q], wires.posted[q].id, [](uint64_t) {});
    }
    std::vector<uint8_t> memory(bytes);
    const uint64_t base = wires.posted.front().remote_va;
    for (const WorkRequest& write : wires.posted) {
      for (uint32_t at = 0; at < write.length; at += mtu) {
        const uint32_t piece = std::min(mtu, write.length - at);
        write.payload.advanced(at).write(
            std::span(memory).subspan(write.remote_va - base + at, piece));
      }
    }
    return kernel.takes(base, memory);
  }

  CtsLayout layout;
  RegionTable regions;
  RcCounters counters{};
  NoOwner nobody;
  PostingHost wires;
  std::vector<std::unique_ptr<Qp>> qps;
  std::vector<uint8_t> fifo;
  NcclSender sender;
  uint64_t k = 0;
  std::atomic<uint64_t> violations{0}, registered{0};
};

TEST(NcclSteps, KernelsFindTheirFlagsInAnyOrderOfOperations) {
  for (uint32_t queue_pairs : {1u, 3u}) {
    for (unsigned seed = 0; seed < 20; ++seed) {
      std::mt19937 random(seed);
      Kernel kernel;
      Rig rig(queue_pairs);
      for (int operation = 0; operation < 30; ++operation) {
        const auto kind = static_cast<Kernel::Kind>(random() % 4);
        // A ring's operation takes whole chunks, which are two messages each.
        uint64_t messages = 1 + random() % 12;
        if (kernel.begin(kind) == 2) messages *= 2;
        for (uint64_t m = 0; m < messages; ++m) {
          const Kernel::Credit credit = kernel.credit();
          rig.grant(credit);
          const bool lines = kind == Kernel::Kind::kLL || kind == Kernel::Kind::kLL128;
          const uint32_t line = kind == Kernel::Kind::kLL ? 16 : 128;
          uint32_t bytes = 128;
          if (lines) {
            bytes = static_cast<uint32_t>(1 + random() % (credit.size / line)) * line;
          }
          ASSERT_TRUE(rig.send(kernel, bytes, random() % 2 == 0 ? 4096 : 1024))
              << "seed " << seed << " operation " << operation << " message " << m;
        }
      }
      EXPECT_EQ(rig.violations, 0u);
      EXPECT_EQ(rig.registered, 0u);
    }
  }
}

/// A message that was too short has the rest of its lines written behind it, and nothing else.
TEST(NcclSteps, WhatAGuessLeftOutIsAddedWhereTheKernelSpins) {
  for (const auto kind : {Kernel::Kind::kLL, Kernel::Kind::kLL128, Kernel::Kind::kOneStepSimple}) {
    Kernel kernel;
    Rig rig;
    (void)kernel.begin(kind);
    for (uint32_t i = 0; i < 20; ++i) {
      const Kernel::Credit credit = kernel.credit();
      rig.grant(credit);
      rig.wires.posted.clear();
      // No whole line: a guess may have been of another protocol.
      ASSERT_TRUE(rig.sender.send(Time(), rig.wires, rig.k, 200, {}, rig.k));
      ASSERT_TRUE(rig.sender.lengthen(Time(), rig.wires, rig.k, 150));
      ASSERT_TRUE(rig.sender.lengthen(Time(), rig.wires, rig.k, 1024));
      ASSERT_TRUE(rig.sender.lengthen(Time(), rig.wires, rig.k, kMaxMessageBytes));
      ASSERT_TRUE(rig.sender.lengthen(Time(), rig.wires, rig.k, kMaxMessageBytes));
      ++rig.k;
      const bool spins = kind != Kernel::Kind::kOneStepSimple;
      ASSERT_EQ(rig.wires.posted.size(), spins ? 3u : 1u);
      std::vector<uint8_t> memory(spins ? credit.size : 200);
      uint64_t whole = 0;
      for (const WorkRequest& write : rig.wires.posted) {
        EXPECT_EQ(write.remote_va, credit.address + whole);
        EXPECT_EQ(write.rkey, 7u);
        EXPECT_EQ(write.op, whole == 0 ? WorkOp::kWriteImm : WorkOp::kWrite);
        write.payload.write(std::span(memory).subspan(whole, write.length));
        whole += write.length;
        uint32_t messages = 0;
        rig.sender.acknowledged(*rig.qps[0], write.id, [&](uint64_t) { ++messages; });
        EXPECT_EQ(messages, write.op == WorkOp::kWriteImm ? 1u : 0u);
      }
      EXPECT_EQ(whole, memory.size());
      EXPECT_TRUE(kernel.takes(credit.address, memory)) << i;
    }
    // What lay in a place that is another message's by now is left alone.
    rig.wires.posted.clear();
    for (uint64_t k : {uint64_t{0}, rig.k - 9, rig.k}) {
      EXPECT_TRUE(rig.sender.lengthen(Time(), rig.wires, k, kMaxMessageBytes));
    }
    EXPECT_TRUE(rig.wires.posted.empty());
  }
}

TEST(NcclSteps, WithoutTheRoundingTheKernelWouldHang) {
  Kernel kernel;
  Rig rig;
  (void)kernel.begin(Kernel::Kind::kLL);
  for (int i = 0; i < 3; ++i) {
    rig.grant(kernel.credit());
    ASSERT_TRUE(rig.send(kernel, 16, 4096));
  }
  (void)kernel.begin(Kernel::Kind::kRingSimple);  // 3 becomes 4
  EXPECT_EQ(kernel.credit().address, kSimpleVa + 4 * 524288);
  for (int i = 0; i < 2; ++i) {
    rig.grant(kernel.credit());
    ASSERT_TRUE(rig.send(kernel, 16, 4096));
  }
  (void)kernel.begin(Kernel::Kind::kLL);
  rig.grant(kernel.credit());
  EXPECT_TRUE(rig.send(kernel, 65536, 4096));
}

TEST(NcclSteps, ACountThatIsLostIsSeen) {
  Kernel kernel;
  Rig rig;
  for (int i = 0; i < 3; ++i) {
    (void)kernel.begin(Kernel::Kind::kLL);
    rig.grant(kernel.credit());
    (void)rig.send(kernel, 16, 4096);
  }
  EXPECT_EQ(rig.violations, 0u);
  rig.grant({kLlVa + 5 * 65536, 65536});
  (void)rig.send(kernel, 16, 4096);
  EXPECT_EQ(rig.violations, 1u);
  EXPECT_EQ(rig.registered, 0u);
}

TEST(NcclSteps, RegisteredMemoryIsKnown) {
  Kernel kernel;
  Rig rig;
  (void)kernel.begin(Kernel::Kind::kRingSimple);
  for (int i = 0; i < 2; ++i) {
    rig.grant(kernel.credit());
    ASSERT_TRUE(rig.send(kernel, 0, 4096));
  }
  rig.grant({0x7f0000000000, 3000000});  // no capacity of NCCL's own
  ASSERT_TRUE(rig.send(kernel, 16, 4096));
  EXPECT_EQ(rig.registered, 1u);
  rig.grant({0x7f0000000000, 1048576});  // a slice, but elsewhere
  ASSERT_TRUE(rig.send(kernel, 16, 4096));
  EXPECT_EQ(rig.registered, 2u);
  EXPECT_EQ(rig.violations, 0u);
}

TEST(NcclSteps, KindsFollowTheBuffers) {
  NcclBuffers small{.simple = 1 << 20, .ll = 256 * 1024, .ll128 = 614400};
  EXPECT_EQ(credit_kind(131072, small), CreditKind::kSimpleStep);
  EXPECT_EQ(credit_kind(262144, small), CreditKind::kSimpleSlice);
  EXPECT_EQ(credit_kind(32768, small), CreditKind::kLL);
  EXPECT_EQ(credit_kind(76800, small), CreditKind::kLL128);
  EXPECT_EQ(credit_kind(65536, small), CreditKind::kOther);
}

}  // namespace
}  // namespace understudy
