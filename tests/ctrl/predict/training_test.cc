// Iterations of training jobs in virtual time: packet by packet, as rates and by closed forms, side by
// side; what crosses the network; what is refused.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>

#include "ctrl/compile/training/training_communicators.h"
#include "ctrl/compile/training/training_plan.h"
#include "ctrl/config/read/load.h"
#include "ctrl/predict/training_prediction.h"
#include "ctrl/report/json.h"
#include "tests/rigs/compile_and_simulate.h"

namespace understudy {
namespace {

struct Job {
  std::string parallel;  ///< keys
  std::string gpu = {};  ///< more keys
  unsigned nodes = 4, gpus = 4, nics = 4;
  std::string more = {};
  std::string model = {};  ///< more keys
  std::string text() const {
    return "format = 1\n"
           "[model]\nlayers = 8\nhidden = 256\nheads = 8\nvocabulary = 4096\nsequence = 256\n" +
           model + "[parallel]\n" + parallel + "\n[gpu]\npreset = \"a100\"\n" + gpu +
           "\n[[node]]\nname = \"n\"\ncount = " + std::to_string(nodes) +
           "\ngpus = " + std::to_string(gpus) + "\nnics = " + std::to_string(nics) +
           "\nlink = { rate = \"100Gbit/s\", latency = \"1us\" }\n"
           "[intra_node]\ngpu_link = { rate = \"2400Gbit/s\", latency = \"500ns\" }\n"
           "[topology]\nkind = \"single_switch\"\n" +
           more;
  }
  Config config(FabricFidelity fidelity) const {
    auto config = load_config_text(text(), "job.toml");
    EXPECT_TRUE(config) << describe(config.error()) << text();
    config->fabric.fidelity = fidelity;
    return std::move(*config);
  }
};

TrainingReport simulated(const Job& job, FabricFidelity fidelity) {
  const Config config = job.config(fidelity);
  const auto report = compile_and_simulate(config);
  EXPECT_TRUE(report) << report.error().text;
  if (!report) return {};
  EXPECT_TRUE(report->traffic && report->traffic->training);
  return *report->traffic->training;
}

TrainingReport predicted(const Job& job) {
  const Config config = job.config(FabricFidelity::kPacket);
  const auto topology = build_topology(config);
  EXPECT_TRUE(topology);
  const auto prediction = predict_training(config, *topology);
  EXPECT_TRUE(prediction) << prediction.error().text;
  return *prediction;
}

double time_of(const TrainingReport& report) {
  EXPECT_EQ(report.iterations.size(), 1U);
  return report.iterations.front().took().seconds();
}

const Job kJobs[] = {
    {"tp = 2\npp = 2\ndp = 4\nglobal_batch = 16", ""},
    {"tp = 2\npp = 2\ndp = 4\nglobal_batch = 16\nzero = 1\nbucket = 500000", ""},
    {"tp = 4\npp = 2\ndp = 2\nglobal_batch = 8\nsequence_parallel = true", ""},
    {"tp = 4\npp = 1\ndp = 4\nglobal_batch = 4\nzero = 1\noverlap_weights = true\nbucket = 300000",
     ""},
    {"tp = 1\npp = 4\ndp = 4\nglobal_batch = 32\nschedule = \"gpipe\"", ""},
    {"tp = 1\npp = 1\ndp = 16\nglobal_batch = 16\nbucket = 1000000", ""},
    {"tp = 4\npp = 4\ndp = 1\nglobal_batch = 8\nschedule = \"interleaved\"\nchunks = 2", ""},
    {"tp = 4\npp = 4\ndp = 1\nglobal_batch = 8\nschedule = \"zb-h1\"\noverlap_pipeline = false",
     ""},
    {"tp = 2\npp = 2\ndp = 4\nglobal_batch = 8\ngradients = \"bf16\"", "slow = { n2 = 1.5 }"},
    {"tp = 2\npp = 2\ndp = 4\nglobal_batch = 8\noverlap_gradients = false", "", 4, 4, 2},
    {"tp = 2\npp = 2\ndp = 4\nglobal_batch = 8\nzero = 2\nbucket = 1000000", ""},
    {"tp = 4\npp = 1\ndp = 4\nglobal_batch = 8\nzero = 3", ""},
    {"tp = 2\npp = 1\ndp = 8\nglobal_batch = 8\nzero = 3", ""},
};

const std::string kExperts = "experts = 8\ntop_k = 2\n";
const Job kDivided[] = {
    // Experts in a node, in two nodes of two members each, in four nodes.
    {"dp = 16\nep = 4\nglobal_batch = 32", "", 4, 4, 4, "", kExperts},
    {"tp = 2\ndp = 8\nep = 4\nglobal_batch = 16\nsequence_parallel = true", "", 4, 4, 4, "",
     kExperts},
    {"tp = 4\ndp = 4\nep = 4\nglobal_batch = 16\nsequence_parallel = true\nzero = 1", "", 4, 4, 4,
     "", kExperts + "shared_experts = 1\ndense_layers = 2\n"},
    {"dp = 16\nep = 8\nglobal_batch = 64\nmicro_batch = 4", "", 4, 4, 4, "", kExperts},
    {"pp = 2\ndp = 8\nep = 4\nglobal_batch = 16\nrecompute = \"full\"", "", 4, 4, 4, "", kExperts},
    {"pp = 2\ndp = 8\nep = 8\nglobal_batch = 16\nmicro_batch = 2", "", 4, 4, 4, "", kExperts},
    {"tp = 2\npp = 2\ndp = 4\nep = 4\nglobal_batch = 8\nsequence_parallel = true", "", 4, 4, 2, "",
     kExperts},
    // A sequence in a node, over two nodes, over four.
    {"dp = 4\ncp = 4\nglobal_batch = 8", ""},
    {"tp = 2\ndp = 2\ncp = 4\nglobal_batch = 4\nzero = 1", ""},
    {"tp = 4\ncp = 4\nglobal_batch = 4", ""},
    {"tp = 2\ndp = 2\ncp = 4\nep = 8\nglobal_batch = 4\nsequence_parallel = true", "", 4, 4, 4, "",
     kExperts},
};

/// Gradients take most of these iterations: what carries them shows.
TEST(Training, PacketsRatesAndClosedFormsAgree) {
  for (const Job& job : kJobs) {
    SCOPED_TRACE(job.text());
    const TrainingReport packets = simulated(job, FabricFidelity::kPacket);
    const TrainingReport rates = simulated(job, FabricFidelity::kFlow);
    const TrainingReport closed = predicted(job);
    EXPECT_EQ(packets.source, "packet");
    EXPECT_EQ(rates.source, "flow");
    EXPECT_EQ(closed.source, "closed form");
    EXPECT_GT(packets.connections, 0U);
    EXPECT_NEAR(time_of(rates) / time_of(packets), 1, 0.03);
    EXPECT_NEAR(time_of(closed) / time_of(packets), 1, 0.06);
    EXPECT_EQ(packets.iterations[0].mean.compute, closed.iterations[0].mean.compute);
    EXPECT_EQ(packets.iterations[0].mean.tensor, rates.iterations[0].mean.tensor);
  }
}

/// They are up to a tenth too fast, and say so.
TEST(Training, RatesDoubtThemselvesWhereWeightsGoBesideTokens) {
  const auto doubts = [](const Job& job, FabricFidelity fidelity) {
    const auto report = compile_and_simulate(job.config(fidelity));
    EXPECT_TRUE(report) << report.error().text;
    return report && std::ranges::any_of(report->validity, [](const ValidityLine& line) {
             return line.id == "beyond-closed-form" && line.kind == ValidityKind::kDoubt;
           });
  };
  const Job job{"dp = 16\nep = 8\nglobal_batch = 16\nzero = 3", "", 4, 4, 4, "", kExperts};
  EXPECT_TRUE(doubts(job, FabricFidelity::kFlow));
  EXPECT_FALSE(doubts(job, FabricFidelity::kPacket));
  EXPECT_FALSE(doubts(kJobs[11], FabricFidelity::kFlow));
}

TEST(Training, ExpertsAndContextToo) {
  for (const Job& job : kDivided) {
    SCOPED_TRACE(job.text());
    const TrainingReport packets = simulated(job, FabricFidelity::kPacket);
    const TrainingReport rates = simulated(job, FabricFidelity::kFlow);
    const TrainingReport closed = predicted(job);
    EXPECT_NEAR(time_of(rates) / time_of(packets), 1, 0.03);
    EXPECT_NEAR(time_of(closed) / time_of(packets), 1, 0.06);
    for (const TrainingReport* report : {&packets, &rates, &closed}) {
      const IterationParts& mean = report->iterations[0].mean;
      EXPECT_EQ(mean.experts > Duration(), report->ep > 1) << report->source;
      EXPECT_EQ(mean.compute, closed.iterations[0].mean.compute);
      if (report->cp == 1) EXPECT_EQ(mean.context, Duration());
    }
  }
}

/// Where the closed form is further off, it says so.
TEST(Training, PredictSaysWhereExpertsAreBeyondIt) {
  const auto said = [](const Job& job) {
    const Config config = job.config(FabricFidelity::kPacket);
    const auto topology = build_topology(config);
    EXPECT_TRUE(topology);
    std::string text;
    for (const ValidityLine& line : training_validity(config, *topology)) {
      if (line.id == "beyond-closed-form") text += line.text + "\n";
    }
    return text;
  };
  const Job zero{
      "tp = 4\ndp = 4\nep = 4\nmicro_batch = 8\nglobal_batch = 32\nzero = 3\nsequence_parallel = "
      "true",
      "",
      4,
      4,
      4,
      "",
      kExperts};
  EXPECT_TRUE(said(zero).starts_with("weights and gradients of zero = 3")) << said(zero);
  const Job few{
      "dp = 16\nep = 16\nglobal_batch = 64", "", 4, 4, 4, "", "experts = 16\ntop_k = 2\n"};
  EXPECT_TRUE(said(few).starts_with("each expert's GPU gets 4.0 packets")) << said(few);
  EXPECT_GT(time_of(simulated(few, FabricFidelity::kPacket)), 1.06 * time_of(predicted(few)));
  const Job many{"dp = 16\nep = 8\nglobal_batch = 64\nmicro_batch = 4", "", 4, 4, 4, "", kExperts};
  EXPECT_EQ(said(many), "");
}

/// Every byte of the graph's operations, once.
TEST(Training, NicsSendWhatTheOperationsHave) {
  std::vector<Job> jobs(std::begin(kJobs), std::end(kJobs));
  jobs.insert(jobs.end(), std::begin(kDivided), std::end(kDivided));
  for (const Job& job : jobs) {
    SCOPED_TRACE(job.text());
    const Config config = job.config(FabricFidelity::kFlow);
    const auto plan = plan_training(config);
    ASSERT_TRUE(plan) << plan.error().text;
    const Parallel& parallel = config.training->parallel;
    double payload = 0;
    for (const TrainingFamily& family : plan->graph.families) {
      if (!crosses_network(*plan, family)) continue;
      for (const FamilyOperation& operation : family.operations) {
        const TrainingMessage message{.transfer = operation.transfer,
                                      .what = {},
                                      .bytes = static_cast<double>(operation.bytes)};
        const double all = parallel.tp * parallel.replicas();
        const uint32_t together = family.of_replicas() ? members_together(*plan, family) : 1;
        if (family.kind == TrainingFamily::Kind::kExperts) {
          const double far = (family.members - together) / static_cast<double>(family.members);
          payload += static_cast<double>(operation.bytes) * far * all;
        } else if (family.of_replicas()) {
          payload += message.sent(family.members) * all / together;
        } else if (family.kind == TrainingFamily::Kind::kMessages) {
          payload += static_cast<double>(operation.bytes) * all;
        } else {
          payload += 2 * message.sent(2) * all;
        }
      }
    }
    for (const FabricFidelity fidelity : {FabricFidelity::kFlow, FabricFidelity::kPacket}) {
      const Config asked = job.config(fidelity);
      const auto report = compile_and_simulate(asked);
      ASSERT_TRUE(report) << report.error().text;
      double sent = 0;
      for (const TrafficLinkReport& link : report->traffic->links) {
        if (link.name.starts_with("n")) sent += static_cast<double>(link.wire_bytes);
      }
      // Headers; acknowledgements and credits of packets.
      EXPECT_GT(sent, payload);
      EXPECT_LT(sent, payload * 1.08);
    }
  }
}

TEST(Training, IsTheSameWhenItIsRepeated) {
  Job job = kJobs[1];
  job.parallel += "\niterations = 3";
  const Config config = job.config(FabricFidelity::kPacket);
  const auto first = compile_and_simulate(config), second = compile_and_simulate(config);
  ASSERT_TRUE(first && second);
  EXPECT_EQ(report_json(*first), report_json(*second));
  const auto& iterations = first->traffic->training->iterations;
  ASSERT_EQ(iterations.size(), 3U);
  EXPECT_NEAR(iterations[1].took().seconds() / iterations[2].took().seconds(), 1, 0.01);
}

TEST(Training, WithinOneNodeNothingCrossesTheNetwork) {
  Job job{"tp = 2\npp = 2\ndp = 2\nglobal_batch = 8", "", 1, 8, 1, ""};
  for (const FabricFidelity fidelity : {FabricFidelity::kFlow, FabricFidelity::kPacket}) {
    const TrainingReport report = simulated(job, fidelity);
    EXPECT_EQ(report.connections, 0U);
    EXPECT_EQ(report.source, "closed form");
    EXPECT_EQ(time_of(report), time_of(predicted(job)));
    EXPECT_GT(report.iterations[0].mean.data, Duration());
  }
}

/// A job of flows beside it takes its bandwidth.
TEST(Training, OthersOnTheNetworkMakeItLonger) {
  Job job = kJobs[0];
  for (const FabricFidelity fidelity : {FabricFidelity::kFlow, FabricFidelity::kPacket}) {
    const double alone = time_of(simulated(job, fidelity));
    Job beside = job;
    beside.more = "[[traffic]]\npattern = \"permutation\"\nfrom = \"n*\"\nsize = \"40MB\"\n";
    const double together = time_of(simulated(beside, fidelity));
    EXPECT_GT(together, 1.2 * alone);
  }
}

std::string refused(const Job& job) {
  const auto config = load_config_text(job.text(), "job.toml");
  if (!config) return describe(config.error());
  const auto report = compile_and_simulate(*config);
  return report ? "it ran" : report.error().text;
}

TEST(Training, WhatCannotBeIsSaid) {
  const auto expect = [](const Job& job, const std::string& part) {
    EXPECT_NE(refused(job).find(part), std::string::npos) << refused(job);
  };
  expect({"tp = 4\ndp = 5", ""},
         "job.toml:8: parallel: tp * pp * dp = 20 GPUs need 5 nodes of 4; there are 4");
  expect({"tp = 8\ndp = 2", ""}, "parallel.tp: found 8: it must divide the 4 GPUs of a node");
  expect({"tp = 2\ndp = 3", ""}, "parallel.dp: found 3: a node has GPUs of 2 replicas");
  expect({"dp = 12\nep = 3", "", 3, 4, 4, "", "experts = 6\ntop_k = 2\n"},
         "parallel.ep: found 3: a node has GPUs of 4 replicas");
  expect({"dp = 4\ncp = 4", "", 3}, "parallel: tp * pp * dp * cp = 16 GPUs need 4 nodes of 4");
  expect({"dp = 2", "slow = { n9 = 2 }"}, "job.toml:12: gpu.slow.n9: found \"n9\"");
  expect({"dp = 2", "slow = { n3 = 2 }"}, "gpu.slow: node \"n3\" has no part in the job");
  expect({"dp = 2", "slow = { n0 = 0 }"}, "how many times as long");
  expect({"dp = 4\niterations = 0", ""}, "parallel.iterations: found 0");
  expect({"dp = 4\nzero = 3\noverlap_gradients = false", ""},
         "job.toml:11: parallel.overlap_gradients: found false: with zero = 3");
  Job real{"tp = 4\ndp = 2", ""};
  real.more = "[[node]]\nname = \"r\"\nreal = true\nlink = { rate = \"100Gbit/s\" }\n";
  EXPECT_NE(refused(real), "it ran");
}

TrainingReport predicted_by_hand(const std::string& parallel) {
  const auto config = load_config_text(
      "format = 1\n[model]\nlayers = 8\nhidden = 1000\nheads = 8\nvocabulary = 0\nsequence = 500\n"
      "biases = false\n[parallel]\n" +
          parallel +
          "\n[gpu]\npreset = \"a100\"\n"
          "layer = { forward = \"1ms\", backward = \"2ms\", optimizer = \"100us\" }\n[operations]\n"
          "tensor = { rate = \"1000Gbit/s\", latency = \"4us\" }\n"
          "pipeline = { rate = \"8Gbit/s\", latency = \"10us\" }\n"
          "data = { rate = \"80Gbit/s\", latency = \"20us\", all_reduce = 1 }\n",
      "job.toml");
  EXPECT_TRUE(config) << describe(config.error());
  const auto report = predict_given_operations(*config);
  EXPECT_TRUE(report) << report.error().text;
  return *report;
}

/// Replicas: 3 micro-batches of 8 layers, 4 all-reduces of 1 MB in each (2 of 2 ranks pass them once: 8 us and
/// 4 us latency); then gradients of 8 (12 h^2 / 2 + 4 h) parameters, 2 bytes each, at 10 GB/s.
TEST(Training, OperationsThatAreGivenTakeTheirTimes) {
  const TrainingReport report = predicted_by_hand(
      "tp = 2\ndp = 4\nglobal_batch = 12\ngradients = \"bf16\"\noverlap_gradients = false");
  EXPECT_EQ(report.source, "given");
  EXPECT_EQ(report.nodes, 0U);
  const double layers = 3 * 8 * (3e-3 + 4 * 12e-6), gradients = 20e-6 + 8 * 6.004e6 * 2 / 10e9;
  EXPECT_NEAR(time_of(report), layers + gradients + 20e-6 + 8 * 100e-6, 1e-9);
  EXPECT_NEAR(report.iterations[0].mean.tensor.seconds(), 3 * 8 * 4 * 12e-6, 1e-9);
  EXPECT_NEAR(report.iterations[0].mean.data.seconds(), gradients, 1e-9);
  EXPECT_TRUE(report.critical_nodes.front().empty());
}

/// Behind the backward each bucket has a latency of its own.
TEST(Training, GradientsAreCutWhereABucketIsGiven) {
  const std::string job =
      "dp = 4\nglobal_batch = 4\ngradients = \"bf16\"\noverlap_gradients = false";
  const double whole = time_of(predicted_by_hand(job));
  EXPECT_NEAR(time_of(predicted_by_hand(job + "\nbucket = 12004000")) - whole, 7 * 20e-6, 1e-9);
}

/// Of 4 stages with 6 micro-batches each is held up by two messages a micro-batch: 1 MB at 1 GB/s, and the latency.
TEST(Training, StagesThatWaitForTheirMessagesAreLongerByThem) {
  const double message = 10e-6 + 1e-3, pass = 2 * 3e-3;
  const TrainingReport report =
      predicted_by_hand("pp = 4\nglobal_batch = 6\noverlap_pipeline = false");
  // But for the first messages back and the last ones: the last stage sends none forward, the first none back.
  const double whole = (6 + 3) * (pass + 2 * message);
  EXPECT_LE(time_of(report), whole + 20e-6 + 200e-6);
  EXPECT_GE(time_of(report), whole - 4 * message);
}

}  // namespace
}  // namespace understudy
