// Broken, hostile and other real ranks than the configuration's: a text that names what was seen,
// nothing left over.
#include <gtest/gtest.h>

#include <random>

#include "tests/ctrl/peers/nccl_meeting.h"
#include "tests/fuzz/nccl_bootstrap_drive.h"

namespace understudy::nccl_test {
namespace {

const BootstrapLayout& row(std::string_view releases) {
  for (const BootstrapLayout& layout : bootstrap_layouts()) {
    if (layout.releases == releases) return layout;
  }
  return bootstrap_layouts().front();
}

void expect_cleaned(Meeting& run) {
  EXPECT_EQ(run.world.open_streams(), 0u);
  EXPECT_EQ(run.world.open_listeners(), 0u);
  EXPECT_TRUE(run.world.connectors.empty());
}

/// A whole job of real ranks: init, ring, tree, barrier.
Task<int> whole_job(Job& job, uint32_t rank, std::vector<RealComm::Link> ring) {
  const auto comm = co_await init_rank(job, rank);
  co_await comm->set_up(std::move(ring), 1, rank);
  co_await comm->gather(Bytes(2));
  co_await comm->barrier(0xbeef);
  co_await comm->gather(Bytes(8));
  co_return 0;
}

struct Vanishing {
  explicit Vanishing(const BootstrapLayout& layout, bool emulated_root)
      : run(layout, {false, true, false, true, true, false}, 1) {
    run.job.node = {0, 1, 2, 3, 3, 4};
    begun = !emulated_root;
    if (emulated_root) {
      run.start_emulated_root_alone();
    } else {
      run.start_real_root_alone();
    }
    tasks.push_back(whole_job(run.job, 1, {{2, 2, 0}, {0, 0, 2}}));
    tasks.push_back(whole_job(run.job, 3, {{2, 0, 2}}));
    tasks.push_back(whole_job(run.job, 4, {{5, 2, 0}}));
  }
  Meeting run;
  bool begun;
  std::vector<Task<int>> tasks;
};

TEST(NcclHostile, ARealRankThatVanishesAtAnyStep) {
  for (const char* releases : {"2.19", "2.27", "2.28"}) {
    for (const bool emulated_root : {false, true}) {
      SCOPED_TRACE(std::string(releases) + (emulated_root ? " emulated root" : " real root"));
      size_t all = 0;
      {
        Vanishing whole(row(releases), emulated_root);
        whole.run.world.run();
        for (auto& task : whole.tasks)
          ASSERT_TRUE(task.done() && !task.failed()) << waiting(whole.run);
        all = whole.run.world.steps;
      }
      size_t failed = 0;
      for (size_t step = 0; step < all; ++step) {
        Vanishing part(row(releases), emulated_root);
        part.run.world.run(step);
        part.run.world.vanish();
        part.run.world.run();
        const std::string& failure = part.run.world.machine().failure();
        if (failure.empty()) {
          // Nothing but check-ins had come, or all was at rest.
          ASSERT_FALSE(part.run.world.machine().waiting().empty());
          continue;
        }
        ++failed;
        EXPECT_NE(failure.find("rank "), std::string::npos) << failure;
        EXPECT_EQ(part.run.world.machine().waiting(), std::vector<std::string>{failure});
        expect_cleaned(part.run);
        if (HasFailure()) return;
      }
      EXPECT_GT(failed, all / 2);
    }
  }
}

/// Bits that flip on the way: whatever comes of it, what ends is cleaned up.
TEST(NcclHostile, DamagedBytes) {
  for (uint64_t seed = 1; seed <= 30; ++seed) {
    for (const BootstrapLayout& layout : bootstrap_layouts()) {
      Meeting run(layout, {false, true, false, true, true, false}, 1, seed * 100 + layout.minor);
      run.job.node = {0, 1, 2, 3, 3, 4};
      run.world.in_pieces = true;
      run.world.damage = 3 + seed;
      run.start_emulated_root_alone();
      std::vector<Task<int>> tasks;
      tasks.push_back(whole_job(run.job, 1, {{2, 2, 0}, {0, 0, 2}}));
      tasks.push_back(whole_job(run.job, 3, {{2, 0, 2}}));
      tasks.push_back(whole_job(run.job, 4, {{5, 2, 0}}));
      run.world.run();
      if (!run.world.machine().failure().empty()) expect_cleaned(run);
      EXPECT_FALSE(run.world.machine().waiting().empty());
    }
  }
}

TEST(NcclHostile, AnyCallsAndBytes) {
  std::mt19937_64 random(3);
  for (int i = 0; i < 5000; ++i) {
    std::vector<uint8_t> bytes(random() % 300);
    for (uint8_t& b : bytes) b = static_cast<uint8_t>(random());
    drive_nccl_bootstrap(bytes);
  }
}

/// Bytes on a fresh connection to an emulated rank of a communicator of 4 that stands.
struct Stranger {
  explicit Stranger(const char* releases = "2.28")
      : run(row(releases), {true, false, false, false}) {
    run.start_real_root();
  }
  std::string tell(const Bytes& bytes, uint32_t rank = 2) {
    End* end = run.world.real_connect(*run.world.listener_of(rank));
    run.world.write(end, bytes);
    run.world.run();
    closed = end->peer_closed;
    run.world.real_close(end);
    run.world.run();
    return run.world.machine().failure();
  }
  Bytes head(uint32_t type = 1) const {
    Bytes bytes;
    append_handshake(bytes, run.job.id.magic);
    put_nccl_u32(bytes, 8, type);
    return bytes;
  }
  Bytes message(uint32_t from, uint32_t tag, const Bytes& payload) const {
    Bytes bytes = head();
    append_frame_size(bytes, 8);
    append_frame_size(bytes, from);
    append_frame_size(bytes, tag);
    append_frame(bytes, payload);
    return bytes;
  }
  Meeting run;
  bool closed = false;
};

TEST(NcclHostile, AWrongMagicIsClosedSilently) {
  Stranger s;
  Bytes bytes = s.head();
  bytes[0] ^= 1;
  EXPECT_EQ(s.tell(bytes), "");
  EXPECT_TRUE(s.closed);
  EXPECT_EQ(s.tell(Bytes(5)), "");  // and one that ends before it has said one
  EXPECT_TRUE(s.run.world.said.empty());
  auto again = s.run.comm(0)->gather(Bytes{0, 1});
  s.run.world.run();
  EXPECT_TRUE(again.done() && !again.failed());
}

TEST(NcclHostile, AWrongType) {
  Stranger s;
  const std::string failure = s.tell(s.head(2));
  EXPECT_EQ(failure, "a connection from 10.0.0.7:" + std::to_string(s.run.world.last_port()) +
                         " to rank 2 has the communicator's magic, but is of type 2 instead of 1 "
                         "(bootstrap)");
  expect_cleaned(s.run);
}

TEST(NcclHostile, SizesThatCannotBe) {
  for (const uint32_t size : {0xffffffffu, 0x80000000u, 0x7fffffffu, (1u << 20) + 1}) {
    Stranger s;
    Bytes bytes = s.head();
    append_frame_size(bytes, size);
    EXPECT_NE(s.tell(bytes).find("bytes: that is no NCCL"), std::string::npos);
    expect_cleaned(s.run);
  }
  for (const uint32_t size : {0u, 4u, 7u, 28u, 120u, 128u}) {
    Stranger s;
    Bytes bytes = s.head();
    append_frame_size(bytes, size);
    EXPECT_NE(s.tell(bytes).find("begins with " + std::to_string(size) + " bytes"),
              std::string::npos);
    expect_cleaned(s.run);
  }
}

TEST(NcclHostile, TruncatedMessages) {
  const Bytes whole = Stranger().message(0, 0x201, Bytes(512));
  for (size_t size = kNcclHandshakeBytes; size < whole.size(); size += 7) {
    Stranger s;
    EXPECT_NE(s.tell({whole.begin(), whole.begin() + static_cast<ptrdiff_t>(size)})
                  .find("ended in the middle of a message"),
              std::string::npos);
    expect_cleaned(s.run);
  }
}

TEST(NcclHostile, MessagesThatNobodySends) {
  const auto said = [](uint32_t from, uint32_t tag, const Bytes& payload) {
    Stranger s;
    const std::string failure = s.tell(s.message(from, tag, payload));
    if (!failure.empty()) expect_cleaned(s.run);
    return failure.empty() && !s.run.world.said.empty() ? s.run.world.said.front() : failure;
  };
  Bytes handle(256), proxied(256), collnet(256);
  put_nccl_u64(handle, 32, 0x564ab9f2fc4b9d6c);
  put_nccl_u32(proxied, 0, 3);
  const auto has = [](const std::string& text, const char* part) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  };
  has(said(1, 0x201, collnet), "rank 1 is not a real rank of it");
  has(said(9, 0x201, collnet), "rank 9 is not a real rank of it");
  has(said(0, 0x201, handle), "no address can be read");
  has(said(0, 0x201, proxied), "NCCL_PXN_DISABLE=1");
  has(said(0, 0x204, collnet), "NCCL_COLLNET_ENABLE=0");
  has(said(0, 0x281, {}), "ends without having begun");
  has(said(0, 0x201, Bytes(300)), "is not known; nothing answers it");
  has(said(0, 0x301, collnet), "is not known; nothing answers it");
  has(said(0, 1u << 27, Bytes(128)), "ncclCommGrow");
  has(said(0, 1u << 29, Bytes(128)), "no address of a ring");
  Bytes ring(128);
  put_nccl_address(ring, 0, {IpAddress::v4(0x0a000001), 99});
  has(said(0, 1u << 29, ring), "ncclCommShrink makes communicator 1 of 3 ranks");
  Bytes mixed(512);
  put_nccl_u64(mixed, 256 + 32, 0x564ab9f2fc4b9d6c);
  has(said(0, 0x201, mixed), "not one of net_ib's");
  has(said(0, 0x201, Bytes(65 * 256)), "more than 64 channels");
}

/// It has the magic of a child, but the emulated rank that it goes to has no part in that.
TEST(NcclHostile, AMessageOfAChildToARankOutsideIt) {
  Meeting run(row("2.28"), {true, true, false, false}, 2);
  run.start_real_root();
  std::vector<Task<std::shared_ptr<RealComm>>> tasks;
  for (uint32_t r = 0; r < 2; ++r) {
    tasks.push_back(run.comm(r)->split(static_cast<int32_t>(r), static_cast<int32_t>(r), false));
  }
  run.world.run();
  const auto child = tasks[0].result();
  ASSERT_EQ(child->parents, (std::vector<uint32_t>{0, 2}));
  Bytes bytes = child->header();
  append_frame_size(bytes, 8);
  append_frame_size(bytes, 0);
  append_frame_size(bytes, 1u << 29);
  Bytes ring(128);
  put_nccl_address(ring, 0, {IpAddress::v4(0x0a000001), 99});
  append_frame(bytes, ring);
  End* end = run.world.real_connect(*run.world.listener_of(3));
  run.world.write(end, bytes);
  run.world.run();
  EXPECT_TRUE(end->peer_closed);
  EXPECT_EQ(run.world.machine().failure(), "");
  for (auto& task : tasks) task.result()->close();
  finish(run);
}

TEST(NcclHostile, ASecondCheckInOfARank) {
  Meeting run(row("2.28"), {true, true, false, false});
  run.start_emulated_root_alone();
  const auto check_in = [&](uint32_t rank, uint32_t ranks) {
    End* end = run.world.real_connect(run.job.id.root);
    Bytes bytes;
    append_handshake(bytes, run.job.id.magic);
    append_frame(bytes, check_in_bytes(run.job.layout, {rank, ranks, run.world.real_listen(),
                                                        run.world.real_listen()}));
    run.world.write(end, bytes);
    run.world.real_close(end);
    run.world.run();
  };
  check_in(0, 4);
  EXPECT_EQ(run.world.machine().failure(), "");
  EXPECT_EQ(run.world.machine().waiting().front(), "the root waits for rank 1 to check in");
  check_in(0, 4);
  EXPECT_NE(run.world.machine().failure().find("rank 0 checks in a second time"),
            std::string::npos);
  expect_cleaned(run);
}

/// Once all ranks are there, another program with the same id is told of and hung up on.
TEST(NcclHostile, ASecondJobAtTheSamePort) {
  Meeting run(row("2.28"), {true, true, false, false});
  run.start_emulated_root();
  for (const uint32_t ranks : {4u, 16u}) {
    run.world.said.clear();
    End* end = run.world.real_connect(run.job.id.root);
    Bytes bytes;
    append_handshake(bytes, run.job.id.magic);
    append_frame(bytes, check_in_bytes(run.job.layout, {0, ranks, run.world.real_listen(),
                                                        run.world.real_listen()}));
    run.world.write(end, bytes);
    run.world.run();
    run.world.real_close(end);
    ASSERT_FALSE(run.world.said.empty());
    EXPECT_NE(run.world.said.back().find("another program's with the same id"), std::string::npos);
  }
  std::vector<Task<std::vector<Bytes>>> gathers;
  for (uint32_t r = 0; r < 2; ++r) gathers.push_back(run.comm(r)->gather(Bytes{0, 1}));
  run.world.run();
  for (auto& gather : gathers) EXPECT_TRUE(gather.done() && !gather.failed()) << waiting(run);
  finish(run);
}

TEST(NcclHostile, ASecondJobWithTheSameIdLeavesTheFirstAlone) {
  Meeting run(row("2.28"), {true, false, false, false});
  run.start_emulated_root_alone();
  for (int process = 0; process < 2; ++process) {
    End* end = run.world.real_connect(run.job.id.root);
    Bytes bytes;
    append_handshake(bytes, run.job.id.magic);
    append_frame(bytes, check_in_bytes(run.job.layout,
                                       {0, 4, run.world.real_listen(), run.world.real_listen()}));
    run.world.write(end, bytes);
    run.world.real_close(end);
    run.world.run();
    EXPECT_EQ(run.world.machine().failure(), "");
  }
}

TEST(NcclHostile, CheckInsOfOtherJobs) {
  const auto failure = [](uint32_t rank, uint32_t ranks) {
    Meeting run(row("2.28"), {true, true, false, false});
    run.start_emulated_root_alone();
    End* end = run.world.real_connect(run.job.id.root);
    Bytes bytes;
    append_handshake(bytes, run.job.id.magic);
    append_frame(bytes, check_in_bytes(run.job.layout, {rank, ranks, run.world.real_listen(),
                                                        run.world.real_listen()}));
    run.world.write(end, bytes);
    run.world.run();
    return run.world.machine().failure();
  };
  EXPECT_NE(failure(0, 8).find("for a communicator of 8 ranks; this one has 4"), std::string::npos);
  EXPECT_NE(failure(3, 4).find("is to be emulated"), std::string::npos);
  EXPECT_NE(failure(7, 4).find("is to be emulated"), std::string::npos);
}

TEST(NcclHostile, ARingOverTheNetworkCard) {
  Meeting run(row("2.28"), {true, true, false, false});
  run.start_emulated_root_alone();
  End* end = run.world.real_connect(run.job.id.root);
  Bytes check_in =
      check_in_bytes(run.job.layout, {0, 4, run.world.real_listen(), run.world.real_listen()});
  put_nccl_u64(check_in, run.job.layout.check_in_ring_at + 32, kNcclNetMagic);
  Bytes bytes;
  append_handshake(bytes, run.job.id.magic);
  append_frame(bytes, check_in);
  run.world.write(end, bytes);
  run.world.run();
  EXPECT_NE(run.world.machine().failure().find("NCCL_OOB_NET_ENABLE=0"), std::string::npos);
}

/// The real ranks' release is not the configured one: what fits is named where sizes tell.
TEST(NcclHostile, AnotherRelease) {
  size_t named = 0;
  for (const BootstrapLayout& real : bootstrap_layouts()) {
    for (uint32_t minor = 18; minor <= 31; ++minor) {
      if (minor == real.minor) continue;
      Meeting run(real, {true, false, false, false, false});
      run.configured = minor;
      run.start_emulated_root();
      const std::string& failure = run.world.machine().failure();
      const bool done = run.ranks[0].done() && !run.ranks[0].failed();
      SCOPED_TRACE(std::string(real.releases) + " told to be 2." + std::to_string(minor) + ": " +
                   failure);
      if (failure.empty()) {
        // 2.18 and 2.19 begin alike; a ring that goes the other way only hangs.
        const bool alike = real.minor <= 19 && minor <= 19;
        EXPECT_TRUE(alike ? done : !run.world.machine().waiting().empty());
        continue;
      }
      EXPECT_FALSE(done);
      EXPECT_NE(failure.find("2."), std::string::npos);
      named += failure.find("set nccl") != std::string::npos;
      expect_cleaned(run);
    }
  }
  EXPECT_GT(named, 100u);
}

TEST(NcclHostile, TheReleaseThatFitsIsNamed) {
  const auto failure = [](const char* real, uint32_t configured, bool emulated_root) {
    Meeting run(row(real), {true, false, false, false, false});
    run.configured = configured;
    if (emulated_root) {
      run.start_emulated_root();
    } else {
      run.start_real_root();
    }
    const std::string& text = run.world.machine().failure();
    return text.empty() ? run.world.machine().waiting().front() : text;
  };
  EXPECT_NE(failure("2.29.7", 28, true)
                .find("has 176 bytes, where NCCL 2.28 has 172; NCCL 2.29 to 2.31 has that: set "
                      "nccl in the [job] to the one that the real ranks run"),
            std::string::npos);
  EXPECT_NE(failure("2.23", 24, true)
                .find("announces 64 bytes of a rank for addresses, where NCCL 2.24 has 104; NCCL "
                      "2.23 has that: set nccl = \"2.23\" in the [job]"),
            std::string::npos);
  EXPECT_NE(failure("2.25", 24, true)
                .find("rank 0 runs NCCL 2.25.3, not 2.24: set nccl = \"2.25\" in the [job]"),
            std::string::npos);
  EXPECT_NE(
      failure("2.27", 28, true).find("nothing against the ring's direction, as NCCL before 2.28"),
      std::string::npos);
  EXPECT_NE(failure("2.28", 27, true).find("sends against the ring's direction"),
            std::string::npos);
}

TEST(NcclHostile, AConnectorThatFails) {
  Meeting run(row("2.28"), {true, false, false, false});
  run.start_emulated_root();
  auto ring = run.comm(0)->set_up({{1, 1, 0}}, 1, 0);
  run.world.run(2);  // the message has come; the real side has connected nothing yet
  run.world.machine().on_connector_failed(Time::zero(), {0, 1, 0, 0, 0, true, 0}, "no way");
  EXPECT_EQ(run.world.machine().failure(),
            "net_ib's connection between ranks 0 and 1 on channel 0: no way");
  expect_cleaned(run);
}

TEST(NcclHostile, NodesAreWhollyRealOrEmulated) {
  Meeting run(row("2.28"), {true, false, false, false}, 2);
  run.start_emulated_root_alone();
  EXPECT_EQ(run.world.machine().failure(),
            "node 0 has real and emulated ranks: NCCL's ranks of one node talk by its memory");
}

}  // namespace
}  // namespace understudy::nccl_test
