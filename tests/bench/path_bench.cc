// What a packet costs the engine beside what no emulator can do without: `meson test --benchmark -v
// path_bench`. A stream of WRITEs comes in, is parsed, verified, taken through the links, executed
// and acknowledged. The floor, over the same buffers, in the same run: the MAC addresses swapped
// and the bytes' CRC taken. Stages are there alone, too: `stage_engine` is all that is left to do
// of frames that have been read and verified, `stage_transport` what a queue pair does of it.
//
// Arguments: bytes of payload, and whether the frames are hot (they fit the second-level cache) or
// cold (at least 65,536 of them, beyond the last level). The time is that of a frame, 32 a burst,
// without their making.
#include <benchmark/benchmark.h>
#include <isa-l/crc.h>

#include <array>
#include <cstring>
#include <vector>

#include "dataplane/wire/head_template.h"
#include "dataplane/wire/icrc.h"
#include "tests/bench/responders.h"

namespace understudy {
namespace {

constexpr uint32_t kMessagePackets = 16;  ///< of more than kSmall bytes
constexpr uint32_t kSmall = 64;

/// An emulated node with one queue pair, and the frames for it.
RespondersSetup asked_for(const benchmark::State& state) {
  RespondersSetup setup;
  setup.feed.payload = static_cast<uint32_t>(state.range(0));
  setup.feed.message_packets = setup.feed.payload > kSmall ? kMessagePackets : 1;
  setup.cold = state.range(1) != 0;
  return setup;
}

void responder(benchmark::State& state) { run_responders(state, asked_for(state)); }

/// The time of what is done with each burst.
template <typename Work>
void run(benchmark::State& state, Work work) {
  Responders nodes(asked_for(state));
  run_feed(state, nodes.feed(), state.range(1) != 0, work);
}

void swap_macs(uint8_t* frame) {
  std::array<uint8_t, 12> macs;
  std::memcpy(macs.data(), frame + 6, 6);
  std::memcpy(macs.data() + 6, frame, 6);
  std::memcpy(frame, macs.data(), 12);
}

void floor_macswap(benchmark::State& state) {
  run(state, [](const auto& frames) {
    for (const auto frame : frames) swap_macs(const_cast<uint8_t*>(frame.data()));
  });
}

void floor_macswap_crc(benchmark::State& state) {
  run(state, [](const auto& frames) {
    for (const auto frame : frames) {
      swap_macs(const_cast<uint8_t*>(frame.data()));
      benchmark::DoNotOptimize(
          crc32_gzip_refl(0, const_cast<uint8_t*>(frame.data()) + 14, frame.size() - 18));
    }
  });
}

void stage_parse(benchmark::State& state) {
  run(state, [](const auto& frames) {
    for (const auto frame : frames) {
      FrameView view;
      RoceView roce;
      benchmark::DoNotOptimize(parse_frame(frame, view, roce));
      benchmark::DoNotOptimize(roce);
    }
  });
}

void stage_parse_icrc(benchmark::State& state) {
  IcrcMemory memory;
  run(state, [&](const auto& frames) {
    for (const auto frame : frames) {
      FrameView view;
      RoceView roce;
      parse_frame(frame, view, roce);
      benchmark::DoNotOptimize(icrc_ok(view, roce, memory));
    }
  });
}

/// Runs `work` on bursts that have been read and verified outside the time.
template <typename Work>
uint64_t run_read(benchmark::State& state, Responders& nodes, Work work) {
  std::array<ReadFrame, kBurst> reads;
  std::array<const ReadFrame*, kBurst> read;
  for (size_t i = 0; i < kBurst; ++i) read[i] = &reads[i];
  uint64_t packets = 0;
  const auto next = [&] {
    const size_t at = packets % nodes.feed().frames();
    packets += kBurst;
    if (nodes.setup().cold && at == 0) nodes.feed().number(0, nodes.feed().frames());
    if (!nodes.setup().cold) nodes.feed().number(at, kBurst);
    const auto frames = nodes.feed().burst(at);
    for (size_t i = 0; i < kBurst; ++i) {
      reads[i].read(frames[i]);
      reads[i].icrc = IcrcState::kGood;
    }
    return frames;
  };
  while (state.KeepRunningBatch(kBurst)) {
    state.SetIterationTime(
        undisturbed_seconds(next, [&](const auto& frames) { work(frames, read); }));
  }
  return packets;
}

void stage_engine(benchmark::State& state) {
  Responders nodes(asked_for(state));
  const uint64_t packets = run_read(
      state, nodes, [&](const auto& frames, const auto& read) { nodes.handle(frames, read); });
  nodes.check(packets);
}

void stage_transport(benchmark::State& state) {
  Responders nodes(asked_for(state));
  Qp& qp = nodes.qp(0);
  uint64_t acks = 0;
  const uint64_t packets = run_read(state, nodes, [&](const auto& frames, const auto& read) {
    for (size_t i = 0; i < frames.size(); ++i) {
      qp.on_packet(nodes.rig().now, read[i]->roce, frames[i].data() + read[i]->roce.payload);
      OutPacket out;
      bool departs;
      uint64_t id;
      while (qp.pull(nodes.rig().now, TrafficKind::kAcks, out, departs, id)) ++acks;
    }
  });
  must_equal("ACKs", acks, packets / nodes.setup().feed.message_packets);
  must_equal("duplicates", nodes.rig().rc(RcEvent::kDuplicateRequest), 0);
}

/// Frames of one queue pair with rising PSNs, from its template.
template <typename Finish>
void build(benchmark::State& state, Opcode opcode, uint32_t bytes, Finish finish) {
  std::vector<std::array<uint8_t, 69 * 64>> room(kBurst);
  RoceAddressing way;
  way.src = bench_nic(1).v4.value();
  way.dst = bench_nic(0).v4.value();
  RoceFields fields;
  fields.opcode = opcode;
  HeadTemplate head;
  head.set(way, fields, bytes);
  while (state.KeepRunningBatch(kBurst)) {
    state.SetIterationTime(undisturbed_seconds([] { return 0; },
                                               [&](int) {
                                                 for (auto& out : room) {
                                                   fields.psn = fields.psn.next();
                                                   uint32_t crc;
                                                   uint8_t* const payload =
                                                       head.begin(out.data(), fields, crc);
                                                   finish(payload, bytes, crc);
                                                   benchmark::DoNotOptimize(out);
                                                 }
                                               }));
  }
}

void stage_build_ack(benchmark::State& state) {
  build(state, Opcode::kAcknowledge, 0, finish_payload);
}
void stage_build_zeros(benchmark::State& state) {
  build(state, Opcode::kWriteMiddle, static_cast<uint32_t>(state.range(0)),
        finish_payload_of_zeros);
}
void stage_build_bytes(benchmark::State& state) {
  const std::vector<uint8_t> memory(4096, 0x5a);
  build(state, Opcode::kWriteMiddle, static_cast<uint32_t>(state.range(0)),
        [&](uint8_t* payload, uint32_t bytes, uint32_t crc) {
          std::memcpy(payload, memory.data(), bytes);
          finish_payload(payload, bytes, crc);
        });
}

void sizes(benchmark::internal::Benchmark* b) {
  b->ArgNames({"bytes", "cold"})->ArgsProduct({{64, 256, 1024, 4096}, {0, 1}})->UseManualTime();
}
BENCHMARK(floor_macswap)->Apply(sizes);
BENCHMARK(floor_macswap_crc)->Apply(sizes);
BENCHMARK(stage_parse)->Apply(sizes);
BENCHMARK(stage_parse_icrc)->Apply(sizes);
BENCHMARK(stage_engine)->Apply(sizes);
BENCHMARK(stage_transport)->Apply(sizes);
BENCHMARK(stage_build_ack)->UseManualTime();
BENCHMARK(stage_build_zeros)->ArgName("bytes")->Arg(64)->Arg(1024)->Arg(4096)->UseManualTime();
BENCHMARK(stage_build_bytes)->ArgName("bytes")->Arg(64)->Arg(1024)->Arg(4096)->UseManualTime();
BENCHMARK(responder)->Apply(sizes);

}  // namespace
}  // namespace understudy

BENCHMARK_MAIN();
