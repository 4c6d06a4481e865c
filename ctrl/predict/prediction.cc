#include "ctrl/predict/prediction.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <optional>

#include "collective_model/predict/dimension_time.h"
#include "ctrl/compile/ways/nic_ways.h"
#include "ctrl/compile/ways/node_way.h"
#include "ctrl/config/job_operation.h"
#include "ctrl/predict/operation_flows.h"
#include "ctrl/predict/prediction_error.h"
#include "ctrl/predict/prediction_limits.h"
#include "ctrl/report/text.h"
#include "ctrl/schedule/iteration_reports.h"
#include "ctrl/schedule/job_schedule.h"
#include "ctrl/schedule/job_tuner.h"
#include "ctrl/schedule/job_work.h"
#include "ctrl/validity/validity.h"
#include "dataplane/base/try.h"

namespace understudy {
namespace {

/// Of a network that does not depend on their number.
constexpr uint32_t kAnyChannels = ~0u;

/// Why nothing is left to choose, in the order in which one would look for it.
std::string no_choice(const JobConfig& job, const TuningTable& table) {
  std::map<std::string, bool> reasons;
  for (size_t a = 0; a < kAlgorithms; ++a) {
    if (job.algorithm && index(*job.algorithm) != a) continue;
    for (size_t p = 0; p < kProtocols; ++p) {
      if (job.protocol && index(*job.protocol) != p) continue;
      if (!table.pairs[a][p].reason.empty()) reasons[table.pairs[a][p].reason] = true;
    }
  }
  std::string text;
  for (const auto& [reason, known] : reasons) text += (text.empty() ? "" : "; ") + reason;
  return text;
}

std::optional<ConfigError> choice_error(const Config& config, const JobConfig& job,
                                        const Tuner& tuner) {
  if (function_name(job.collective).empty()) return std::nullopt;
  const TuningTable table = tuner.tune(job.collective, job.sizes.empty() ? 4 : job.sizes.front(),
                                       job.algorithm, job.protocol);
  if (table.chosen) return std::nullopt;
  const auto name = [](const auto& names, const auto& value) {
    std::string text("\"");
    text.append(name_of(names, value)).append("\"");
    return text;
  };
  return ConfigError{config.path, job.line, "job",
                     name(kCollectiveNames, job.collective) + " by algorithm " +
                         name(kAlgorithmNames, job.algorithm) + " and protocol " +
                         name(kProtocolNames, job.protocol),
                     "NCCL has no way to do this: " + no_choice(job, table)};
}

std::string gigabits(double bits_per_second) {
  return decimal_text(bits_per_second / 1e9, 1) + " Gbit/s";
}

void check_bounds(const Config& config, const Prediction& prediction, const JobNetwork& network,
                  PredictedRow& row) {
  if (network.nic_rate > 0 && row.nic_rate > network.nic_rate * 1.0001) {
    row.beyond.push_back("each NIC would send " + gigabits(row.nic_rate) + " over a link of " +
                         gigabits(network.nic_rate));
  }
  if (prediction.communicator.gpus_per_node() > 1 && config.intra_node &&
      config.intra_node->gpu_link && !config.intra_node->gpu_link->rate.is_unlimited()) {
    const auto link = static_cast<double>(config.intra_node->gpu_link->rate.bps());
    const double gpus = prediction.communicator.gpus_per_node();
    double sent = row.bus_rate * 8e9;
    if (is_nvls(row.tuning.algorithm)) sent = row.algorithm_rate * (gpus + 1) / gpus * 8e9;
    if (is_collnet(row.tuning.algorithm)) sent = row.algorithm_rate * 2 * (gpus - 1) / gpus * 8e9;
    if (sent > link * 1.0001) {
      row.beyond.push_back("each GPU would send " + gigabits(sent) + " over a link of " +
                           gigabits(link) + " ([intra_node] gpu_link)");
    }
  }
}

/// Fills in what follows from bytes and time.
void set_rates(const JobConfig& job, const CommunicatorSize& communicator, PredictedRow& row) {
  const uint64_t parts = has_parts(job.collective) ? communicator.ranks : 1;
  row.count = row.bytes / element_bytes(job.type) / parts;
  if (row.time <= 0) return;
  row.algorithm_rate = static_cast<double>(row.bytes) / (row.time * 1000);
  row.bus_rate = row.algorithm_rate * bus_factor(job.collective, communicator.ranks);
}

/// Every rank is done with an operation its time after the last one has entered it.
std::vector<PredictedIteration> predict_iterations(const Config& config, const JobConfig& job,
                                                   const Prediction& prediction) {
  std::vector<PredictedIteration> out;
  if (!job.iteration.stated()) return out;
  const JobWork work(config, job, gpus_per_node(config, job));
  const uint32_t ranks = work.alike() ? 1 : prediction.communicator.ranks;
  std::vector<double> times;
  std::vector<uint64_t> bytes;
  for (const PredictedRow& row : prediction.rows) {
    times.push_back(row.time);
    bytes.push_back(row.bytes);
  }
  if (job.group) {
    times = {std::accumulate(times.begin(), times.end(), 0.0)};
    bytes = {std::accumulate(bytes.begin(), bytes.end(), uint64_t{0})};
  }
  const std::vector<JobOperation>& operations = work.operations();
  std::vector<EntryClock> clocks(ranks);
  std::vector<Time> done;
  for (size_t o = 0; o < operations.size(); ++o) {
    const Time before = o == 0 ? Time::zero() : done.back();
    Time last;
    for (uint32_t r = 0; r < ranks; ++r) {
      last = std::max(last, clocks[r].enter(work.step(o, r), before));
    }
    done.push_back(last + Duration::ps(std::llround(times[operations[o].size] * 1e6)));
  }
  IterationReports reports;
  for (uint32_t r = 0; r < ranks; ++r) {
    reports.add(iterations_of(work.rank(r), done), operations);
  }
  const uint32_t each = operations_per_iteration(job);
  const std::vector<IterationReport> all = reports.take();
  for (size_t i = 0; i < all.size(); ++i) {
    if (all[i].warmup) continue;
    if (all[i].iteration == 0) {
      PredictedIteration& fresh = out.emplace_back();
      fresh.operations = each;
      fresh.exposed_operations = each;
      for (size_t o = i * each; o < (i + 1) * each; ++o) fresh.bytes += bytes[operations[o].size];
    }
    PredictedIteration& mean = out.back();
    mean.time += all[i].mean.microseconds() / job.iterations;
    mean.compute += all[i].compute.microseconds() / job.iterations;
    mean.exposed += all[i].exposed.microseconds() / job.iterations;
    mean.exposed_operations = std::min(mean.exposed_operations, all[i].exposed_operations);
  }
  return out;
}

Prediction predict_dimensions(const Config& config, const JobConfig& job) {
  Prediction out;
  out.job = &job;
  out.communicator = job_size(config, job);
  out.by_dimensions = true;
  for (const uint64_t bytes : job.sizes) {
    PredictedRow row;
    row.bytes = bytes;
    row.source = PredictionSource::kDimensions;
    row.time =
        dimensions_time(job.dimensions, job.collective, bytes, job.splits, config.dimension_costs)
            .microseconds();
    set_rates(job, out.communicator, row);
    out.rows.push_back(std::move(row));
  }
  out.notes.push_back("times are those of a stack of dimensions; no NCCL chooses anything");
  out.validity = predicted_validity(config, {.job = job, .communicator = out.communicator});
  return out;
}

/// Ways inside nodes, which a calibration has measured. A GPU's link is shared by all that it sends
/// there; of a node whose ring goes on, one GPU of each channel sends to the next node instead.
void set_inside(const Config& config, const OperationShape& shape, uint32_t channels,
                NetworkCost& cost) {
  const CommunicatorSize& communicator = shape.communicator;
  const auto way = node_way(config);
  if (!way || communicator.gpus_per_node() < 2) return;
  const uint32_t gpus = communicator.gpus_per_node();
  const bool leaves =
      communicator.nodes > 1 && channels % gpus == 0 && !is_collnet(shape.algorithm);
  double ways = leaves ? channels - channels / gpus : channels;
  if (is_nvls(shape.algorithm)) ways = channels * head_shares(shape) * 100 / way->switch_percent;
  if (shape.algorithm == Algorithm::kCollnetDirect) ways = channels * head_shares(shape);
  if (shape.algorithm == Algorithm::kCollnetChain) ways = channels * 2.0;
  cost.inside_latency = way->latency.microseconds();
  if (!way->rate.is_unlimited()) {
    cost.inside_rate = static_cast<double>(way->rate.bps()) / 8e6 / ways;
  }
}

Prediction predict_job(const Config& config, const JobConfig& job, const Tuner& tuner,
                       const Topology* topology, OperationFlows& flows) {
  Prediction out;
  out.job = &job;
  out.communicator = tuner.communicator();
  out.system = tuner.system();
  Calibration calibration = config.calibration.value_or(Calibration());
  // Without a calibration the job's own cost of a step is all that its GPUs take.
  if (!config.calibration) {
    for (ProtocolCost& cost : calibration.protocol) cost.latency = job.step_cost.microseconds();
  }
  std::map<std::pair<Algorithm, uint32_t>, JobNetwork> networks;  ///< and channels
  const bool alone = runs_beside(config, job).empty();
  const bool pxn = job_communicator(config, job).pxn;
  for (const uint64_t bytes : job.sizes) {
    PredictedRow row;
    row.bytes = bytes;
    row.tuning = tuner.tune(job.collective, bytes, job.algorithm, job.protocol);
    const Algorithm algorithm = row.tuning.algorithm;
    OperationShape shape = operation_shape(tuner, row.tuning, job.collective, bytes, job.type);
    shape.pxn = pxn;
    const ChunkPlan cut = cut_chunks(shape);
    const auto channels = static_cast<uint32_t>(cut.channels);
    const uint32_t counted =
        counts_channels(config, job, algorithm, channels) ? channels : kAnyChannels;
    const auto [it, fresh] = networks.try_emplace({algorithm, counted});
    if (fresh) it->second = job_network(config, job, algorithm, counted, topology);
    const JobNetwork& network = it->second;
    NetworkCost cost = network.cost;
    if (!config.calibration) set_inside(config, shape, channels, cost);
    row.closed_form = operation_time(shape, cut, calibration, cost);
    const bool alone_held_up = held_up_alone(shape, cut, calibration, cost, network.sharing);
    cost.farthest = 0;
    row.without_window = operation_time(shape, cut, calibration, cost);
    row.sharing = network.sharing;
    row.colliding = network.colliding;
    row.messages_meet =
        shape.algorithm != Algorithm::kRing || function_name(shape.collective).empty();
    row.limits = limits_of(config, shape, cut, network, row);
    if (acks_wait(config, job) && !config.calibration) {
      row.limits.push_back("acknowledgements and credits queue behind data in some NIC");
    }
    row.time = row.closed_form;
    const uint64_t message = cut.loops > 0 ? cut.chunk : cut.last;
    const double answers = row.answers = answers_by_data(config, job, message);
    if (!row.limits.empty()) {
      row.source = PredictionSource::kBeyond;
    } else if (!config.calibration) {
      row.error = kClosedFormError + answers;
    }
    if (const auto time = flows.time(job, bytes)) {
      row.time = *time;
      row.source = PredictionSource::kFlow;
      const bool shared = network.sharing > 1 || !network.collision.empty() || job.queue_pairs > 1;
      const OnLinks links = {shared, held_up(row) || alone_held_up,
                             (message + config.fabric.mtu - 1) / config.fabric.mtu,
                             !config.fabric.cut_through, answers};
      // What switches do where messages meet is the packets' matter.
      const bool meets = shared || row.messages_meet;
      const bool known = !acks_wait(config, job) && (!meets || !config.queues.given);
      if (known) row.error = flow_error(shape, links);
    }
    if (!alone) row.error.reset();
    set_rates(job, out.communicator, row);
    if (row.time > 0) {
      row.nic_rate =
          bytes_between_nodes(shape) * network.cost.wire_per_byte / network.nics / row.time * 8e6;
    }
    check_bounds(config, out, network, row);
    out.rows.push_back(std::move(row));
    if (out.rows.size() == 1) out.network = network;
  }
  if (job.group)
    out.notes.push_back(
        "group: the times are those of each operation alone, of an iteration their sum");
  PredictedJob facts{.job = job,
                     .communicator = out.communicator,
                     .gpu = out.system.gpu,
                     .switches = topology != nullptr,
                     .unlimited = job.ranks.size() > 1 && out.network.nic_rate == 0,
                     .counted = out.network.all_pairs};
  facts.inside = node_way(config).has_value();
  facts.as_flows = std::ranges::all_of(
      out.rows, [](const PredictedRow& row) { return row.source == PredictionSource::kFlow; });
  for (const PredictedRow& row : out.rows) {
    if (row.source == PredictionSource::kBeyond) facts.beyond.push_back(row.bytes);
    const Algorithm algorithm = row.tuning.algorithm;
    if (is_collnet(algorithm) || (is_nvls(algorithm) && !facts.in_switches)) {
      facts.in_switches = algorithm;
    }
  }
  for (const auto& [key, network] : networks) {
    const auto [algorithm, channels] = key;
    facts.share = std::min(facts.share, network.share);
    facts.drawn =
        facts.drawn || network_is_drawn(config, job, algorithm, channels, topology, network);
  }
  out.validity = predicted_validity(config, facts);
  return out;
}

}  // namespace

OperationShape operation_shape(const Tuner& tuner, const TuningTable& table, Collective collective,
                               uint64_t bytes, DataType type) {
  OperationShape shape;
  shape.collective = collective;
  shape.algorithm = table.algorithm;
  shape.protocol = table.protocol;
  shape.communicator = tuner.communicator();
  shape.bytes = bytes;
  shape.element = element_bytes(type);
  shape.channels = std::max(table.channels_used, 1u);
  if (table.threads > 0) shape.threads = table.threads;
  shape.version = tuner.version();
  shape.gpu = tuner.system().gpu;
  if (is_nvls(shape.algorithm)) shape.heads = tuner.system().nvls_graph.channels;
  shape.link_channels = tuner.channels();
  if (is_collnet(shape.algorithm)) shape.heads = tuner.system().collnet_graph.channels;
  shape.bridged = tuner.system().ring.bridged;
  const NcclEnvironment& environment = tuner.environment();
  shape.buffer = environment.buffer.value_or(shape.buffer);
  shape.ll_buffer = environment.ll_buffer.value_or(shape.ll_buffer);
  shape.ll128_buffer = environment.ll128_buffer.value_or(shape.ll128_buffer);
  return shape;
}

std::vector<ValidityLine> prediction_validity(const std::vector<Prediction>& predictions) {
  std::vector<NamedValidity> named;
  named.reserve(predictions.size());
  for (const Prediction& p : predictions) named.push_back({p.job->name, p.validity});
  return joined_validity(named);
}

/// By dimensions: every time can be counted in picoseconds.
void check_times(const Config& config, const JobConfig& job, std::vector<ConfigError>& errors) {
  for (const uint64_t bytes : job.sizes) {
    const Duration time =
        dimensions_time(job.dimensions, job.collective, bytes, job.splits, config.dimension_costs);
    if (time < Duration::max()) continue;
    errors.push_back({config.path, job.line, "job.sizes", std::to_string(bytes) + " bytes",
                      "at the rates of the [topology] and of [dimension_costs] this takes more "
                      "than 106 days"});
    return;
  }
}

std::vector<ConfigError> check_choices(const Config& config) {
  std::vector<ConfigError> errors;
  for (const JobConfig& job : config.jobs) {
    if (!job.dimensions.empty()) {
      check_times(config, job, errors);
      continue;
    }
    const auto tuner = job_tuner(config, job);
    if (!tuner) {
      errors = tuner.error();  // of [nccl], and so the same for every job
      break;
    }
    if (auto error = choice_error(config, job, *tuner)) errors.push_back(std::move(*error));
  }
  return errors;
}

tl::expected<std::vector<Prediction>, std::vector<ConfigError>> predict(const Config& config,
                                                                        const Topology* topology) {
  if (auto errors = check_choices(config); !errors.empty()) {
    return tl::unexpected(std::move(errors));
  }
  std::vector<Prediction> out;
  OperationFlows flows(config, topology);
  for (const JobConfig& job : config.jobs) {
    if (!job.dimensions.empty()) {
      out.push_back(predict_dimensions(config, job));
    } else {
      const auto tuner = TRY(job_tuner(config, job));
      out.push_back(predict_job(config, job, tuner, topology, flows));
    }
    out.back().iterations = predict_iterations(config, job, out.back());
  }
  return out;
}

}  // namespace understudy
