// Reports for the report's tests: one in which everything occurs, and the smallest one.
#pragma once

#include "ctrl/report/run_report.h"

namespace understudy {

/// A timed operation that is right and in time: 100 us modelled, 1 us measured more, 0.5 us late.
inline CollectiveReport good_collective(uint32_t size_index, uint64_t bytes, uint32_t iteration,
                                        Time entry) {
  CollectiveReport c;
  c.size_index = size_index;
  c.bytes = bytes;
  c.iteration = iteration;
  c.entry = entry;
  c.modelled = Duration::us(100);
  c.measured = Duration::us(101);
  c.lateness = Duration::ns(500);
  return c;
}

/// Four ranks, two sizes, one warm-up and two timed operations each, 100 us apart, from 1 ms on.
inline JobReport sample_job() {
  JobReport job;
  job.name = "allreduce";
  job.ranks = {"gpu", "w0", "w1", "w2"};
  job.bus_factor = 1.5;
  job.payload = "exact";
  job.planned = 6;
  Time entry = Time::zero() + Duration::ms(1);
  for (uint32_t size = 0; size < 2; ++size) {
    for (uint32_t i = 0; i < 3; ++i) {
      CollectiveReport c =
          good_collective(size, size == 0 ? 4096 : 65536, i == 0 ? 0 : i - 1, entry);
      c.warmup = i == 0;
      job.collectives.push_back(c);
      entry = c.end() + Duration::us(100);
    }
  }
  return job;
}

inline RunReport minimal_report() {
  RunReport report;
  report.program_version = "0.1.0";
  report.configuration_path = "configs/a.toml";
  report.configuration_hash = "fnv1a64:00000000000000ff";
  report.seed = 1;
  report.virtual_clock = true;
  report.duration = Duration::ms(2);
  return report;
}

/// One flow that took a sixteenth longer than alone in the network.
inline RunReport slowdown_report() {
  RunReport report = minimal_report();
  TrafficReport& traffic = report.traffic.emplace();
  traffic.fidelity = "packet";
  TrafficGroupReport& group = traffic.groups.emplace_back();
  group.name = "search";
  group.count = group.ended = 1;
  group.bytes = 2'000'000;
  group.start = Time::zero() + Duration::us(1);
  group.took = group.mean = group.p99 = group.longest = Duration::us(170);
  group.slowdowns = {{2'000'000, 1.0625}};
  FlowReport& flow = traffic.flows.emplace_back();
  flow.name = "search 0";
  flow.from = "w0";
  flow.to = "w1";
  flow.bytes = group.bytes;
  flow.start = group.start;
  flow.received = group.took;
  flow.ideal = Duration::us(160);
  return report;
}

/// Real clock; the second timed operation of 64 KiB is late because the loop stood still.
inline RunReport full_report() {
  RunReport report = minimal_report();
  report.dpdk_version = "DPDK 22.11.3";
  report.scenarios = {{"scenarios/late.toml", "fnv1a64:0000000000000aff"}};
  report.seed = UINT64_MAX;
  report.virtual_clock = false;
  report.started = 1'700'000'000;
  report.duration = Duration::s(3);
  report.ended_by = "SIGINT";
  report.commands.push_back({Time::zero() + Duration::ms(20), "link gpu rate 50Mbit/s"});
  JobReport job = sample_job();
  for (CollectiveReport& c : job.collectives) {
    if (!c.warmup) c.node_reported = Duration::us(104) + Duration::us(c.iteration * 4);
  }
  job.collectives.back().lateness = Duration::us(50'300);
  job.collectives.back().measured = Duration::us(50'401);
  job.iterations = {{1, false, Time::zero() + Duration::us(7), Duration::us(20), Duration::us(21),
                     Duration::us(5), Duration::us(15), 1}};
  job.node_checks = {{0, 4096, 0}, {1, 65536, 0}};
  report.jobs.push_back(job);
  TrafficReport traffic;
  traffic.fidelity = "packet";
  traffic.inner_messages.push_back({"allreduce", {{"messages", 12}, {"received", 12}}});
  traffic.jobs = {
      {"experts",
       "all_to_all",
       "ring",
       "simple",
       "float16",
       8,
       4,
       2,
       2,
       0.875,
       96,
       {{4096, 0, true, Time::zero() + Duration::us(3), Duration::us(9), Duration::us(11)}},
       1,
       {{0, true, Time::zero() + Duration::us(2), Duration::us(12), Duration::us(13),
         Duration::us(4), Duration::us(8), 1}}}};
  traffic.groups = {{"incast", 0, 1, 1, 2'000'000, Time::zero() + Duration::us(1),
                     Duration::us(170), Duration::us(170), Duration::us(170), Duration::us(170)}};
  traffic.flows = {{"incast 0",
                    "w0",
                    "w1:1",
                    2'000'000,
                    Time::zero() + Duration::us(1),
                    Duration::us(170),
                    Duration::us(172),
                    {{"sent", 489}, {"marked", 3}}}};
  traffic.links = {{"w0 -> leaf0",
                    Rate::bits_per_second(100'000'000'000),
                    2'040'098,
                    0.5,
                    {{"packets", 489}, {"marked", 3}},
                    Time::zero() + Duration::us(90),
                    Duration::us(5),
                    Time::zero() + Duration::us(80)}};
  traffic.deadlock = {"leaf0 -> spine0", "spine0 -> leaf0"};
  traffic.work = {{"events", 4000}, {"packets", 978}};
  report.traffic = traffic;
  PortReport port;
  port.name = "p0";
  port.device = "net_vhost0,iface=/run/x.sock";
  port.node = "gpu";
  port.counters = {{"rx_frames", 12}, {"tx_frames", 13}};
  port.drops = {{"truncated", 0}, {"bad_icrc", 2}};
  port.rc_events = {{"psn_gap", 1}};
  port.cm = {{"received", 5}, {"rejected", 1}};
  port.device_counters = {{"rx_missed", 0}, {"tx_retried", 4}};
  port.lateness = {10,
                   Duration::ns(100),
                   Duration::ns(200),
                   Duration::ns(300),
                   Duration::ns(400),
                   Duration::us(50'300)};
  port.pacing = PacingReport{true, false, false};
  port.pfc = {true, 14, 3, Duration::us(40), Duration::us(7), Duration::ns(90)};
  port.links = {{"w0", true, 7, 700, 3, 0}, {"w0", false, 5, 500, 1, 0}};
  port.faults = {{"late ACKs", 9, 3, 1}};
  port.senders = {{"service w1:18515", false, "dcqcn", 2, 31, 17,
                   Rate::bits_per_second(4'500'000'000), Rate::bits_per_second(9'250'000'000)}};
  report.ports.push_back(port);
  LoopReport loop;
  loop.loops = 1000;
  loop.bursts = 10;
  loop.naps = 2;
  loop.gaps = 1;
  loop.kept = {{job.collectives.back().entry + Duration::us(40), Duration::us(50'300)}};
  report.loop = loop;
  report.capture_drops = 0;
  report.services.push_back({"w1", 18515, "write_bw", "10.9.0.200", Time::zero() + Duration::s(1),
                             Time::zero() + Duration::s(2), ""});
  report.services_left_out = {7, 2};
  report.validity = {{ValidityKind::kLimit, "buffers", "switches have unlimited buffers"},
                     {ValidityKind::kDoubt, "one-seed", "drawn once, from seed 1: jitter"}};
  report.clients.push_back({"w2", "10.9.0.1", 18516, "send_bw", 4096, 2000, 2, 1500,
                            Time::zero() + Duration::s(1), Time::zero() + Duration::ms(1500),
                            "the server closed"});
  report.kernels = {{"gpu", 0, {{"frames_sent", 7}, {"turns", 30}}},
                    {"gpu2", std::nullopt, {{"frames_sent", 0}}}};
  return report;
}

}  // namespace understudy
