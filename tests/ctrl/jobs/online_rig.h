// OnlineEmulatedRanks with one operation between a real rank and the emulated one, whose packets are
// left out: a test says what comes.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <utility>
#include <vector>

#include "ctrl/compile/collective.h"
#include "ctrl/config/read/load.h"
#include "dataplane/collective/online_emulated_ranks.h"
#include "tests/rigs/one_real_node.h"

namespace understudy {

inline const char* const kGather = R"([[job]]
name = "gather"
collective = "all_gather"
ranks = ["gpu", "w*"]
sizes = ["32B"]
entry = "first_credit"
)";

/// Sets all of a rank's data free as soon as it has entered.
class EagerPlan final : public Plan {
 public:
  EagerPlan(uint32_t rank, uint32_t connection, uint64_t messages)
      : rank_(rank), connection_(connection), messages_(messages) {}
  void start(Time) override {}
  void begin() override {}
  void enter(uint32_t rank, Time) override { entered_ |= rank == rank_; }
  bool on_real_data(uint32_t, uint32_t, uint64_t, Time) override { return true; }
  bool on_acknowledged(uint32_t, uint32_t, uint64_t, Time) override { return true; }
  bool next(PlanOutput& out) override {
    if (!entered_ || next_ == messages_) return false;
    out = {PlanOutput::Kind::kData, rank_, connection_, next_++, Time::zero()};
    return true;
  }
  bool finished() const override { return false; }
  bool next_done(uint32_t&) override { return false; }
  Time completion(uint32_t) const override { return Time::never(); }

 private:
  const uint32_t rank_, connection_;
  const uint64_t messages_;
  uint64_t next_ = 0;
  bool entered_ = false;
};

/// Wakes endpoints at once, and counts what has data.
struct OnlineRig : EndpointHost, OnlineListener {
  bool post(Time, Qp&, const WorkRequest& request) override {
    sent += request.op == WorkOp::kWriteImm ? 1 : 0;
    return true;
  }
  void wake_at(Time, Endpoint& endpoint, uint64_t cookie) override {
    wakes.emplace_back(&endpoint, cookie);
  }
  Duration arrival_uncertainty() const override { return {}; }
  void tell(Time, const Qp&, NoticeKind, std::span<const uint8_t>) override {}
  bool on_notice(Time, const OnlineNotice&) override { return true; }

  OnlineRig(bool gathers, bool reflects, bool sure = true)
      : config(load_config_text(OneRealNode().text() + kGather, "test.toml").value()) {
    setup = build_collective(config, config.jobs[0], false).value();
    const CollectiveJob& job = setup->job;
    for (uint32_t l = 0; l < job.links.size(); ++l) {
      (job.links[l].real_sends ? in : out) = l;
    }
    OnlineEmulatedRanks::Settings settings;
    settings.delay.resize(job.ranks());
    settings.wait.resize(job.links.size());
    progress = std::make_unique<CollectiveProgress>(1);
    ranks = std::make_unique<OnlineEmulatedRanks>(job, *progress, settings, *this);
    ranks->attach(*this);
    for (const uint32_t l : {in, out}) {
      qps.push_back(
          std::make_unique<Qp>(QpConfig{}, regions, counters, ranks->connections().endpoint(l)));
    }
    ranks->connections().receiver(in).connect({.qps = {{qps[0].get()}},
                                               .layout = layout,
                                               .slots = 8,
                                               .slot_bytes = 1 << 20,
                                               .staging = staging.data(),
                                               .reflection = reflects ? &reflection : nullptr});
    ranks->connections().sender(out).connect({.qps = {{qps[1].get()}},
                                              .layout = layout,
                                              .fifo = fifo.data(),
                                              .collective = true,
                                              .reflection = reflects ? &reflection : nullptr});
    ranks->on_wake(Time::zero(), EmulatedConnections::joins(in));
    ranks->on_wake(Time::zero(), EmulatedConnections::joins(out));
    ranks->on_wake(Time::zero(), OnlineEmulatedRanks::kStart);
    auto shape = std::move(setup->shapes[0]);
    shape->gathers = gathers;
    messages = shape->uses[out].messages;
    auto plan = std::make_unique<EagerPlan>(job.links[out].far, shape->uses[out].far, messages);
    operation = std::make_unique<OnlineOperation>(job, std::move(shape), std::move(plan));
    operation->sure = sure;
    ranks->carry_out(Time::zero(),
                     {.kind = OnlineCommand::Kind::kInstall, .operation = operation.get()});
    settle();
  }

  void settle() {
    while (!wakes.empty()) {
      const auto [endpoint, cookie] = wakes.front();
      wakes.erase(wakes.begin());
      endpoint->on_wake(Time::zero(), cookie);
    }
  }
  /// The real rank's credit for message `k`.
  void credit(uint64_t k) {
    CtsEntry{0x100000 + (k % 4 << 20), 1 << 20, 0x55, 1, 0, k + 1}.encode(
        layout, fifo.data() + k % layout.slots * layout.stride());
    ranks->connections().endpoint(out).on_received(Time::zero(), *qps[1], {});
    settle();
  }
  /// Our next message is acknowledged.
  void acknowledge() {
    ranks->connections().endpoint(out).on_completed(Time::zero(), *qps[1], acknowledged++,
                                                    WorkStatus::kSuccess);
    settle();
  }
  /// The real rank's next message: a slice of 8 bytes, then an empty one, by turns.
  void data() {
    const uint64_t bytes = 1;
    Received came;
    came.is_write = came.has_imm = true;
    came.length = received++ % 2 == 0 ? 8 : 0;
    came.payload = reinterpret_cast<const uint8_t*>(&bytes);
    ranks->connections().endpoint(in).on_received(Time::zero(), *qps[0], came);
    settle();
  }

  const Config config;
  std::unique_ptr<CollectiveSetup> setup;
  const CtsLayout layout;
  uint32_t in = 0, out = 0;
  uint64_t messages = 0;
  std::unique_ptr<CollectiveProgress> progress;
  std::unique_ptr<OnlineEmulatedRanks> ranks;
  std::unique_ptr<OnlineOperation> operation;
  RegionTable regions{1};
  RcCounters counters{};
  Reflection reflection;
  std::vector<std::unique_ptr<Qp>> qps;
  std::vector<uint8_t> staging = std::vector<uint8_t>(layout.slots * layout.entry_bytes);
  std::vector<uint8_t> fifo = std::vector<uint8_t>(layout.fifo_bytes());
  std::vector<std::pair<Endpoint*, uint64_t>> wakes;
  uint64_t sent = 0, received = 0, acknowledged = 0;
};

}  // namespace understudy
