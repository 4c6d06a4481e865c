// The cost of a packet as the number of paced queues grows: `meson test --benchmark -v
// pacing_bench`. All queues together fill 100 Gbit/s, each with its own odd rate: of 100,000 each
// has about 1 Mbit/s. CPU time per packet; what grows with the number is what misses the cache.
#include <benchmark/benchmark.h>

#include <cstdlib>
#include <memory>
#include <random>
#include <vector>

#include "dataplane/fabric/calendar.h"
#include "tests/engine/rig.h"
#include "tests/rigs/network_rig.h"

namespace understudy {
namespace {

constexpr uint64_t kLine = 100'000'000'000;
constexpr uint32_t kWire = 4096 + 62 + 20;

/// Rates between half and one and a half times their mean, `share` of the line in all.
std::vector<Rate> odd_rates(size_t queues, double share) {
  std::mt19937_64 random(queues);
  std::vector<double> weights;
  double sum = 0;
  for (size_t i = 0; i < queues; ++i) {
    weights.push_back(0.5 + static_cast<double>(random() % 1'000'003) / 1e6);
    sum += weights.back();
  }
  std::vector<Rate> rates;
  for (const double w : weights) {
    rates.push_back(Rate::bits_per_second(static_cast<uint64_t>(w / sum * share * kLine) | 1));
  }
  return rates;
}

/// The timing wheels alone: a packet's departure comes, the next one of its queue is put in.
void calendar(benchmark::State& state) {
  const auto queues = static_cast<size_t>(state.range(0));
  std::vector<Duration> spacing;
  for (const Rate rate : odd_rates(queues, 1)) spacing.push_back(rate.time_for(kWire));
  Calendar c;
  std::mt19937_64 random(1);
  for (uint32_t i = 0; i < queues; ++i) {
    c.push(Time::from_ps(static_cast<int64_t>(random() % static_cast<uint64_t>(spacing[i].ps()))),
           0, i);
  }
  const auto step = [&] {
    benchmark::DoNotOptimize(c.next());
    const CalendarEvent e = c.pop();
    c.push(e.time + spacing[e.index], 0, e.index);
  };
  for (size_t i = 0; i < 2 * queues; ++i) step();
  for (auto _ : state) step();
  state.SetItemsProcessed(static_cast<int64_t>(state.iterations()));
}

struct FixedRate final : Controller {
  FixedRate(Rate line, Rate rate) : Controller(line) { rate_ = rate; }
};

/// Flows at their rates through one NIC and a switch ([[traffic]]); without acknowledgements but
/// for the last packet's.
void senders(benchmark::State& state) {
  const auto queues = static_cast<size_t>(state.range(0));
  const std::vector<Rate> rates = odd_rates(queues, 0.9);
  const Graph g = star(2, Rate::bits_per_second(kLine), Duration::us(1));
  std::vector<FlowSpec> flows;
  std::mt19937_64 random(1);
  for (uint32_t i = 0; i < queues; ++i) {
    flows.push_back(flow_of(g, {"h0", "s", "h1"}, uint64_t{1} << 40));
    flows.back().control = i;
    const auto spacing = static_cast<uint64_t>(rates[i].time_for(kWire).ps());
    flows.back().start = Duration::ps(static_cast<int64_t>(random() % spacing));
  }
  NetworkSettings settings;
  settings.classes = {ClassSettings()};
  FlowSettings frames;
  frames.ack_every = 65'536;
  frames.timeout = Duration();
  FlowRun run(g, flows, settings, frames, [&](const FlowSpec& flow, Rate line, Duration) {
    FlowControl control;
    control.controller = std::make_unique<FixedRate>(line, rates[flow.control]);
    return control;
  });
  const auto packet = [&] {
    for (const uint64_t before = run.net.delivered(); run.net.delivered() == before;)
      run.net.step();
  };
  for (size_t i = 0; i < 2 * queues + 1000; ++i) packet();
  for (auto _ : state) packet();
  state.SetItemsProcessed(static_cast<int64_t>(state.iterations()));
}

/// A shard with queue pairs that WRITE to the real node; frames are built, as for a device. Either
/// each has an emulated node of its own, whose link paces it, or all are on one node and each is
/// paced by itself.
class PacedShard {
 public:
  PacedShard(size_t queues, bool by_links) {
    const std::vector<Rate> rates = odd_rates(queues, by_links ? 0.99 : 0.9);
    ShardConfig c;
    c.packets = static_cast<uint32_t>(2 * queues + 8192);
    c.queue_pairs = static_cast<uint32_t>(queues + 1);
    c.regions = 16;
    c.control_users = 1;
    for (uint32_t id = 0; id <= (by_links ? queues : 1); ++id) {
      NodeNic nic;
      nic.id = id;
      nic.real = id == 0;
      nic.mac = MacAddress{{2, 0x75, 0, static_cast<uint8_t>(id >> 16),
                            static_cast<uint8_t>(id >> 8), static_cast<uint8_t>(id)}};
      nic.v4 = IpAddress::v4(0x0a00'0001 + id);
      c.nodes.add(nic);
      c.rates.push_back(id == 0 || !by_links ? Rate::bits_per_second(kLine) : rates[id - 1]);
      c.latencies.push_back(Duration::us(1));
    }
    rig_ = std::make_unique<Rig>(c);
    rig_->sink.keep = false;
    std::mt19937_64 random(1);
    for (uint32_t i = 0; i < queues; ++i) {
      const NodeNic& nic = c.nodes.nics()[by_links ? i + 1 : 1];
      QpConfig q;
      q.node = nic.id;
      q.qpn = rig_->shard.qpn_of(i);
      q.remote_qpn = 0x11;
      q.mtu = 4096;
      q.timeout = 0;
      q.send_queue = 1;
      q.addressing.src_mac = nic.mac;
      q.addressing.dst_mac = c.nodes.nics()[0].mac;
      q.addressing.src = *nic.v4;
      q.addressing.dst = *c.nodes.nics()[0].v4;
      qps_.push_back(std::make_unique<Qp>(q, rig_->shard.regions(), rig_->shard.rc_counters(),
                                          rig_->endpoint));
      Command add;
      add.kind = CommandKind::kAddQp;
      add.qp = qps_.back().get();
      add.endpoint = &rig_->endpoint;
      if (!by_links) {
        QpControl::Setup setup;
        setup.controller = std::make_unique<FixedRate>(Rate::bits_per_second(kLine), rates[i]);
        controls_.push_back(std::make_unique<QpControl>(std::move(setup)));
        add.control = controls_.back().get();
      }
      if (rig_->command(add) != ReplyStatus::kDone) std::abort();
      WorkRequest r;
      r.length = 1u << 31;
      r.rkey = 0x1234;
      rig_->advance(Duration::ps(static_cast<int64_t>(random() % 2) * 334'000));
      if (!rig_->shard.post(rig_->now, *qps_.back(), r)) std::abort();
    }
    for (size_t i = 0; i < 2 * queues + 1000; ++i) packet();
  }
  void packet() {
    for (const uint64_t before = rig_->sink.unkept; rig_->sink.unkept == before;) {
      rig_->poll(std::max(rig_->now, rig_->shard.next_wake()));
    }
  }

 private:
  std::vector<std::unique_ptr<QpControl>> controls_;
  std::vector<std::unique_ptr<Qp>> qps_;
  std::unique_ptr<Rig> rig_;
};

void shard(benchmark::State& state, bool by_links) {
  PacedShard queues(static_cast<size_t>(state.range(0)), by_links);
  for (auto _ : state) queues.packet();
  state.SetItemsProcessed(static_cast<int64_t>(state.iterations()));
}
void shard_links(benchmark::State& state) { shard(state, true); }
void shard_queue_pairs(benchmark::State& state) { shard(state, false); }

BENCHMARK(calendar)->RangeMultiplier(10)->Range(100, 100'000);
BENCHMARK(senders)->RangeMultiplier(10)->Range(100, 100'000);
BENCHMARK(shard_links)->RangeMultiplier(10)->Range(100, 100'000);
BENCHMARK(shard_queue_pairs)->RangeMultiplier(10)->Range(100, 100'000);

}  // namespace
}  // namespace understudy

BENCHMARK_MAIN();
