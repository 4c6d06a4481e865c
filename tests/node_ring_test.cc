// A ring all-reduce between the emulated environment and the reference rank, over two shards in
// virtual time: every element of the result is right, whatever the size and the number of ranks.
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <memory>

#include "dataplane/node/ring_environment.h"
#include "dataplane/node/ring_rank.h"
#include "tests/engine_rig.h"

namespace understudy {
namespace {

constexpr uint64_t kSeed = 11, kRealSeed = 22;
constexpr uint64_t kBufferVa = 0x40000000, kFifoVa = 0x10000000;

struct Shape {
  uint32_t ranks;
  uint32_t channels;
  std::vector<uint64_t> sizes;
  bool exact = true;
  bool scheduled = true;
};

class Ring {
 public:
  explicit Ring(const Shape& shape) : shape_(shape), pair_(config(0), config(1)) {
    job_.ranks = shape.ranks;
    job_.channels = shape.channels;
    job_.exact = shape.exact;
    job_.scheduled = shape.scheduled;
    job_.seed = kSeed;
    job_.credit_latency = kLatency * 2;
    job_.step_cost = Duration::us(1);
    for (const uint64_t bytes : shape.sizes) add_operation(bytes);
    environment_progress = std::make_unique<RingProgress>(shape.sizes.size());
    rank_progress = std::make_unique<RingProgress>(shape.sizes.size());
    allocate();
    for (uint32_t c = 0; c < shape.channels; ++c) connect(c);
  }

  void run() {
    wake(pair_.emulated, *environment, RingEnvironment::kStart);
    wake(pair_.real, *rank, RingRank::kStart);
    pair_.run(Time::zero() + Duration::s(1));
  }

  uint64_t count(RcEvent e) const { return pair_.emulated.rc(e) + pair_.real.rc(e); }
  const RingJob& job() const { return job_; }

  std::unique_ptr<RingProgress> environment_progress, rank_progress;
  std::unique_ptr<RingEnvironment> environment;
  std::unique_ptr<RingRank> rank;
  std::vector<float> data;

 private:
  static constexpr Duration kLatency = Duration::us(2);

  ShardConfig config(NodeId real) {
    const bool environment_side = real == 0;
    ShardConfig c = rig_config(environment_side ? Rate::bits_per_second(10'000'000'000) : Rate(),
                               environment_side ? kLatency : Duration(), shape_.ranks, real);
    c.packets = 4096;
    return c;
  }

  void add_operation(uint64_t bytes) {
    RingOperation o;
    o.bytes = bytes;
    o.entry = Time::zero() + Duration::ms(50) * static_cast<int64_t>(job_.operations.size());
    const auto parts = cut_all_reduce(bytes, 4, shape_.channels);
    for (uint32_t c = 0; c < shape_.channels; ++c) {
      if (c >= parts.size()) {
        o.plans.push_back(nullptr);
        continue;
      }
      RingPlanConfig p{RingSchedule(shape_.ranks, parts[c], 4)};
      p.hops.assign(shape_.ranks, {Rate::bits_per_second(10'000'000'000), kLatency * 2});
      p.real = {0};
      p.step_cost = job_.step_cost;
      p.credits_preposted = shape_.scheduled;
      auto plan = RingPlan::make(p);
      ASSERT_TRUE(plan) << plan.error().text;
      plans_.push_back(std::make_unique<RingPlan>(*plan));
      o.plans.push_back(plans_.back().get());
    }
    job_.operations.push_back(o);
  }

  uint8_t* region(Rig& rig, uint32_t index, NodeId node, uint64_t va, uint64_t bytes) {
    memory_.emplace_back(bytes);
    Command c;
    c.kind = CommandKind::kAddRegion;
    c.region_index = index;
    c.region = {node, va, bytes, kAccessRemoteWrite, memory_.back().data(), true};
    EXPECT_EQ(rig.command(c), ReplyStatus::kDone);
    return memory_.back().data();
  }

  void allocate() {
    RingRank::Memory m;
    data.resize(*std::max_element(shape_.sizes.begin(), shape_.sizes.end()) / 4 + 1);
    m.data = data;
    m.input_seed = kRealSeed;
    std::vector<const uint8_t*> received;
    const NodeId before = job_.previous(0), after = job_.next(0);
    for (uint32_t c = 0; c < shape_.channels; ++c) {
      sender_fifo_.push_back(region(pair_.emulated, 2 * c, before, kFifoVa, kCtsFifoBytes));
      received.push_back(region(
          pair_.emulated, 2 * c + 1, after, kBufferVa,
          uint64_t{RingEnvironment::receive_slots(shape_.ranks)} * RingSchedule::kMessageBytes));
      rank_fifo_.push_back(region(pair_.real, 2 * c, 0, kFifoVa, kCtsFifoBytes));
      m.received.push_back(region(pair_.real, 2 * c + 1, 0, kBufferVa,
                                  uint64_t{RingRank::kReceiveSlots} * RingSchedule::kMessageBytes));
      staging_.emplace_back(kCtsFifoBytes);
      staging_.emplace_back(kCtsFifoBytes);
    }
    environment = std::make_unique<RingEnvironment>(job_, *environment_progress, received);
    rank = std::make_unique<RingRank>(job_, *rank_progress, m);
  }

  Qp& add_qp(Rig& rig, Endpoint& endpoint, const QpConfig& config) {
    qps_.push_back(
        std::make_unique<Qp>(config, rig.shard.regions(), rig.shard.rc_counters(), endpoint));
    Command c;
    c.kind = CommandKind::kAddQp;
    c.qp = qps_.back().get();
    c.endpoint = &endpoint;
    EXPECT_EQ(rig.command(c), ReplyStatus::kDone);
    return *qps_.back();
  }

  /// Slot 2c: the emulated predecessor sends to the real rank; 2c + 1: it sends to its successor.
  void connect(uint32_t c) {
    for (const bool to_real : {true, false}) {
      const uint32_t slot = 2 * c + (to_real ? 0 : 1);
      const NodeId node = to_real ? job_.previous(0) : job_.next(0);
      QpConfig theirs = pair_.emulated.qp_config(slot, node, 0);
      QpConfig ours = pair_.real.qp_config(slot, 0, node);
      theirs.mtu = ours.mtu = 4096;
      theirs.timeout = ours.timeout = 14;
      Qp& emulated = add_qp(pair_.emulated, *environment, theirs);
      Qp& real = add_qp(pair_.real, *rank, ours);
      NcclReceiver::Setup r;
      r.fifo_va = kFifoVa;
      r.buffer_va = kBufferVa;
      r.slot_bytes = RingSchedule::kMessageBytes;
      r.staging = staging_[slot].data();
      if (to_real) {
        environment->sender(c).connect({&emulated, sender_fifo_[c]});
        r.qp = &real;
        r.fifo_rkey = pair_.emulated.shard.regions().rkey(2 * c);
        r.buffer_rkey = pair_.real.shard.regions().rkey(2 * c + 1);
        r.slots = RingRank::kReceiveSlots;
        rank->receiver(c).connect(r);
      } else {
        rank->sender(c).connect({&real, rank_fifo_[c]});
        r.qp = &emulated;
        r.fifo_rkey = pair_.real.shard.regions().rkey(2 * c);
        r.buffer_rkey = pair_.emulated.shard.regions().rkey(2 * c + 1);
        r.slots = RingEnvironment::receive_slots(shape_.ranks);
        environment->receiver(c).connect(r);
      }
    }
  }

  void wake(Rig& rig, Endpoint& endpoint, uint64_t cookie) {
    Command c;
    c.kind = CommandKind::kWakeEndpoint;
    c.endpoint = &endpoint;
    c.cookie = cookie;
    EXPECT_EQ(rig.command(c), ReplyStatus::kDone);
  }

  Shape shape_;
  RigPair pair_;
  RingJob job_;
  std::vector<std::unique_ptr<RingPlan>> plans_;
  std::deque<std::vector<uint8_t>> memory_, staging_;
  std::vector<uint8_t*> sender_fifo_, rank_fifo_;
  std::vector<std::unique_ptr<Qp>> qps_;
};

/// The sum that every rank should have at element `i`, in double precision and in any order.
double expected_sum(uint32_t ranks, uint64_t i) {
  double sum = 0;
  for (uint32_t r = 0; r < ranks; ++r) {
    sum += static_cast<double>(Pattern(r == 0 ? kRealSeed : kSeed, r).at(i));
  }
  return sum;
}

void expect_right(Ring& ring, const Shape& shape) {
  const size_t operations = shape.sizes.size();
  ASSERT_EQ(ring.environment_progress->finished, operations);
  ASSERT_EQ(ring.rank_progress->finished, operations);
  for (const RingProgress* p : {ring.environment_progress.get(), ring.rank_progress.get()}) {
    EXPECT_FALSE(p->failed);
    EXPECT_EQ(p->violations, 0u);
    for (size_t i = 0; i < operations; ++i) {
      EXPECT_EQ(p->results[i].size_mismatches, 0u);
      EXPECT_EQ(p->results[i].wrong_elements, 0u);
      // 2(n-1)/n of the buffer each way, but for chunks that do not divide evenly.
      const double share = 2.0 * (shape.ranks - 1) / shape.ranks;
      EXPECT_NEAR(static_cast<double>(p->results[i].bytes_sent),
                  share * static_cast<double>(shape.sizes[i]),
                  static_cast<double>(shape.sizes[i]) + 64);
    }
  }
  EXPECT_EQ(ring.environment_progress->results[0].bytes_sent,
            ring.rank_progress->results[0].bytes_received);
  EXPECT_EQ(ring.rank_progress->results[0].bytes_sent,
            ring.environment_progress->results[0].bytes_received);
  EXPECT_EQ(ring.count(RcEvent::kRetransmit), 0u);
  EXPECT_EQ(ring.count(RcEvent::kRnrSent), 0u) << "no data without a receive";
}

TEST(Ring, TheSumIsRightForEverySizeAndNumberOfRanks) {
  for (const Shape& shape :
       {Shape{2, 1, {4}}, Shape{2, 1, {4096, 8, 1 << 20}}, Shape{3, 1, {40'000, 40'004}},
        Shape{4, 2, {(5 << 20) + 28, 64}}, Shape{8, 1, {1 << 20}}, Shape{5, 2, {9 << 20, 16}}}) {
    SCOPED_TRACE(std::to_string(shape.ranks) + " ranks, " + std::to_string(shape.channels) +
                 " channels, " + std::to_string(shape.sizes[0]) + " bytes");
    Ring ring(shape);
    ring.run();
    expect_right(ring, shape);
    for (uint64_t i = 0; i < shape.sizes.back() / 4; ++i) {
      ASSERT_NEAR(static_cast<double>(ring.data[i]), expected_sum(shape.ranks, i), 1e-4) << i;
    }
  }
}

TEST(Ring, TheFirstCreditStartsAnOperation) {
  const Shape shape{4, 2, {3 << 20, 4096}, true, false};
  Ring ring(shape);
  ring.run();
  expect_right(ring, shape);
}

TEST(Ring, SyntheticPayloadTakesTheSameTime) {
  Duration took[2];
  for (const bool exact : {false, true}) {
    const Shape shape{4, 1, {4 << 20}, exact};
    Ring ring(shape);
    ring.run();
    expect_right(ring, shape);
    const RingResult& r = ring.rank_progress->results[0];
    took[exact ? 1 : 0] = r.end - r.entry;
  }
  EXPECT_EQ(took[0], took[1]);
  // 6 MiB each way at 10 Gbit/s is 5.03 ms; it cannot be less and should not be much more.
  EXPECT_GT(took[0], Duration::us(5033));
  EXPECT_LT(took[0], Duration::us(7500));
}

TEST(Ring, ARepeatAfterTheEndAsksForNothingThatIsGone) {
  // A packet sent again may leave when its operation, or the whole job, is over.
  const Shape shape{3, 1, {4096}};
  Ring ring(shape);
  ring.run();
  std::vector<uint8_t> out(64, 0xff);
  ring.environment->fill(uint64_t{2} << 56 | 3, 0, out);
  EXPECT_EQ(out, std::vector<uint8_t>(64));
}

}  // namespace
}  // namespace understudy
