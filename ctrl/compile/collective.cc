#include "ctrl/compile/collective.h"

#include <algorithm>
#include <bit>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "collective_model/nccl/chunking.h"
#include "ctrl/compile/collective_shape.h"
#include "ctrl/compile/rank_job.h"
#include "ctrl/compile/ways/nic_ways.h"
#include "ctrl/compile/ways/node_way.h"
#include "ctrl/config/job_operation.h"
#include "ctrl/config/kernel_nodes.h"
#include "ctrl/config/merged_nics.h"
#include "ctrl/schedule/job_schedule.h"
#include "dataplane/base/assert.h"
#include "dataplane/base/try.h"

namespace understudy {
namespace {

/// All ranks' parts in the operation of size number `size`.
std::vector<std::shared_ptr<const RankSchedule>> all_parts(
    const JobConfig& job, const Communicator& communicator,
    const std::vector<JobSchedule>& schedules, uint32_t size) {
  if (!job.group) {
    return rank_schedules(communicator, schedules[size].operation, schedules[size].cut);
  }
  std::vector<std::shared_ptr<const RankSchedule>> parts;
  for (uint32_t rank = 0; rank < communicator.ranks(); ++rank) {
    parts.push_back(rank_part(communicator, job, schedules, size, rank));
  }
  return parts;
}

/// The job's kinds of operations, and their bytes; of a group all together.
void add_kinds(const JobConfig& job, const std::vector<JobSchedule>& schedules,
               CollectiveSetup& setup) {
  for (const JobSchedule& schedule : schedules) {
    if (setup.sizes.empty() || !job.group) {
      setup.sizes.push_back(0);
      setup.kinds.emplace_back();
    }
    setup.sizes.back() += schedule.bytes;
    setup.kinds.back().push_back(schedule.operation);
  }
}

/// Messages of a real rank that must stay readable until what emulated ranks make of them has
/// reached the next real one: each rank between may be a window of eight steps ahead of the next
/// one; where ranks take turns the ring holds them closer together. PAT may come back to any.
uint32_t kept_messages(const Communicator& communicator, const Operation& operation) {
  constexpr uint32_t kWindow = 8;
  const uint32_t ranks = communicator.ranks();
  switch (operation.algorithm) {
    case Algorithm::kPat:
      return ~uint32_t{0};
    case Algorithm::kTree: {
      const auto height = static_cast<uint32_t>(std::bit_width(communicator.nodes)) + 1;
      return kWindow * 2 * (height + communicator.gpus) * communicator.gpus + 2 * kWindow;
    }
    default:
      if (is_pipeline(operation.collective)) return kWindow * ranks + 2 * kWindow;
      return (operation.protocol == Protocol::kSimple ? 2 : 1) * ranks + kWindow;
  }
}

/// Bytes on the wire of some three credits.
constexpr uint64_t kFewCredits = 512;

class Builder {
 public:
  Builder(const Config& config, const JobConfig& job, const Topology* topology, bool carried,
          const CollectiveSetup* former)
      : config_(config),
        job_(job),
        carried_(carried),
        communicator_(job_communicator(config, job)),
        setup_(std::make_unique<CollectiveSetup>()) {
    setup_->topology = topology;
    if (former == nullptr) return;
    setup_->plan_holds = former->plan_holds;
    setup_->inner = former->inner;
    for (uint32_t i = 0; i < former->job.inner.size(); ++i) {
      const InternalConnection& c = former->job.inner[i];
      inner_numbers_[{c.from, c.to, c.channel, c.index}] = i;
    }
  }

  Result<std::unique_ptr<CollectiveSetup>> build(bool scheduled) {
    TRY(check());
    CollectiveJob& out = setup_->job;
    setup_->communicator = communicator_;
    out.scheduled = scheduled;
    out.by_program = !scheduled && follows_programs(config_, job_);
    out.step_cost = job_.step_cost;
    out.inside = node_way(config_);
    out.exact = job_.payload == PayloadMode::kExact;
    out.collective = job_.collective;
    out.type = job_.type;
    out.reduction = job_.reduction;
    out.seed = config_.seed;
    const JobWork work(config_, job_, communicator_.gpus);
    setup_->operations = work.operations();
    out.real_index.assign(communicator_.ranks(), CollectiveJob::kEmulated);
    for (uint32_t rank = 0; rank < communicator_.ranks(); ++rank) {
      const uint32_t node = communicator_.node_of(rank);
      out.work.push_back(work.rank(rank));
      if (!config_.nodes[job_.ranks[node]].real) continue;
      out.real_index[rank] = static_cast<uint32_t>(out.real.size());
      out.real.push_back(rank);
    }
    ASSERT_INVARIANT(!out.real.empty() && out.work.size() == out.real_index.size());
    const auto schedules = TRY(job_schedules(config_, job_));
    ASSERT_INVARIANT(!schedules.empty());
    setup_->algorithm = schedules.front().operation.algorithm;
    setup_->protocol = schedules.front().operation.protocol;
    for (const JobSchedule& schedule : schedules) {
      if (schedule.operation.algorithm != setup_->algorithm) setup_->algorithm.reset();
      if (schedule.operation.protocol != setup_->protocol) setup_->protocol.reset();
    }
    add_kinds(job_, schedules, *setup_);
    std::vector<PlanInput>& plans = setup_->inputs;
    for (uint32_t size = 0; size < setup_->sizes.size(); ++size) {
      const JobSchedule& schedule = schedules[size];
      const bool values = out.exact && !is_p2p(job_.collective);
      std::vector<std::shared_ptr<const RankSchedule>> parts;
      if (job_.group || carried_ || values) {
        parts = all_parts(job_, communicator_, schedules, size);
      }
      if (job_.group || carried_) {
        plans.push_back(
            plan_config(config_, job_, communicator_, schedule.operation, parts, setup_->topology));
        plans.back().real = out.real;
      } else {
        plans.push_back(plan_config(config_, job_, communicator_, schedule.operation, schedule.cut,
                                    out.real, setup_->topology));
      }
      TRY(add_shape(plans.back(), setup_->sizes[size]));
      if (values) TRY(add_values(*setup_->shapes.back(), std::move(parts)));
    }
    for (const auto& shape : setup_->shapes) shape->uses.resize(out.links.size());
    for (const JobOperation& operation : setup_->operations) {
      out.operations.push_back(setup_->shapes[operation.size].get());
    }
    if (!needs_all_ranks(job_.collective)) choose_in_flight();
    if (out.exact) TRY(keep_messages(schedules));
    if (carried_) {
      if (job_.join) add_other_trees(schedules);
      out.inner.resize(setup_->inner.size());
      for (const auto& [key, number] : inner_numbers_) {
        const auto [from, to, channel, index] = key;
        out.inner[number] = {from, to, channel, index};
      }
      for (const auto& shape : setup_->shapes) shape->inner_uses.resize(setup_->inner.size());
      setup_->carried = true;
      setup_->inner_settings = rank_traffic_settings(config_, job_);
    }
    return std::move(setup_);
  }

 private:
  Result<void> check() const;

  tl::unexpected<Error> error(const std::string& text) const {
    return fail(config_.path + ":" + std::to_string(job_.line) + ": job: " + text);
  }

  Result<void> add_shape(PlanInput& plan, uint64_t bytes) {
    const auto far = far_ends_of(plan);
    if (!far) return error("a connection has one end only");
    auto shape = make_shape(plan, bytes, *far,
                            [&](const Connection& connection, uint32_t real, uint32_t other,
                                Duration latency) -> Result<uint32_t> {
                              const uint32_t link = link_of(connection, other, real, latency);
                              TRY(check_rails(out_of(link)));
                              return link;
                            });
    if (!shape) return error(shape.error().text);
    if (carried_) {
      TRY(carry_inner(plan, **shape, *far,
                      [&](const Connection& c) -> Result<uint32_t> { return inner_of(c); }));
    }
    (*shape)->number = static_cast<uint32_t>(setup_->shapes.size());
    setup_->shapes.push_back(std::move(*shape));
    return {};
  }

  /// Between emulated ranks, for whatever channels NCCL's search finds: those of all tell which tree
  /// a channel has.
  void add_other_trees(const std::vector<JobSchedule>& schedules) {
    Communicator found = communicator_;
    for (const JobSchedule& schedule : schedules) {
      if (schedule.operation.algorithm != Algorithm::kTree || is_p2p(job_.collective)) continue;
      for (found.search_channels = 1; found.search_channels <= found.channels;
           ++found.search_channels) {
        for (const auto& rank : rank_schedules(found, schedule.operation, schedule.cut)) {
          for (const Connection& c : rank->connections()) {
            const bool sends = c.direction == Direction::kSend && c.network && c.messages > 0;
            if (sends && !touches_real(c)) inner_of(c);
          }
        }
      }
    }
  }
  bool touches_real(const Connection& c) const {
    return setup_->job.is_real(c.from) || setup_->job.is_real(c.to);
  }

  Result<void> add_values(CollectiveShape& shape,
                          std::vector<std::shared_ptr<const RankSchedule>> ranks) {
    std::vector<const RankSchedule*> all;
    all.reserve(ranks.size());
    for (const auto& rank : ranks) all.push_back(rank.get());
    auto far = far_ends(all);
    if (!far) return error("a connection has one end only");
    shape.values = std::make_shared<AllRanks>(AllRanks{std::move(ranks), std::move(*far)});
    return {};
  }

  /// Each rank may be a window of messages ahead of the next one. Plans of all operations are kept, so
  /// there are no more than memory has room for; a rank that would go further is counted
  /// (CollectiveProgress::held_back).
  void choose_in_flight() {
    constexpr size_t kMostParts = size_t{1} << 17;  // of plans: ranks in operations
    CollectiveJob& out = setup_->job;
    const size_t ranks = communicator_.ranks();
    uint64_t fewest = Chunking::kBufferSteps;  // messages of an operation on a connection
    for (const auto& shape : setup_->shapes) {
      uint64_t most = 1;
      for (const auto& use : shape->uses) most = std::max(most, use.messages);
      fewest = std::min(fewest, most);
    }
    const size_t wanted = out.in_flight + ranks * Chunking::kBufferSteps / fewest;
    const size_t room = std::max(out.in_flight, kMostParts / ranks);
    out.in_flight_suffices = wanted <= room;
    out.in_flight = std::min(wanted, room);
  }

  /// How many messages of real ranks stay readable for emulated ones.
  Result<void> keep_messages(const std::vector<JobSchedule>& schedules) {
    constexpr uint64_t kMostKept = uint64_t{4} << 30;
    uint64_t kept = 0;
    CollectiveJob& out = setup_->job;
    for (uint32_t l = 0; l < out.links.size(); ++l) {
      CollectiveConnection& link = out.links[l];
      if (!link.real_sends || link.among_real() || is_p2p(job_.collective)) continue;
      uint64_t most = 0, all = 0;
      for (const auto& shape : setup_->shapes) all = std::max(all, shape->uses[l].messages);
      for (const JobSchedule& schedule : schedules) {
        most = std::max(most, uint64_t{kept_messages(communicator_, schedule.operation)});
      }
      // What comes with the operation that is in_flight after it nobody needs any more.
      link.kept = static_cast<uint32_t>(std::min(most, all * out.in_flight));
      kept += uint64_t{link.kept} * link.slot_bytes;
    }
    if (kept <= kMostKept) return {};
    return error("payload = \"exact\" of these sizes keeps " + std::to_string(kept >> 20) +
                 " MiB of what real ranks send, more than " + std::to_string(kMostKept >> 20) +
                 ": take smaller ones");
  }

  /// Packets that change rails keep their headers.
  Result<void> check_rails(const CollectiveConnection& link) const {
    const auto nic_of = [&](uint32_t rank, uint32_t nic) -> const NicConfig& {
      return config_.nodes[job_.ranks[communicator_.node_of(rank)]].nics[nic];
    };
    const NicConfig& a = nic_of(link.real, link.real_nic);
    const NicConfig& b = nic_of(link.far, link.far_nic);
    if (a.vlan == b.vlan && a.v4.has_value() == b.v4.has_value()) return {};
    return fail("rank " + std::to_string(link.real) + " talks to rank " + std::to_string(link.far) +
                " from NIC " + std::to_string(link.real_nic) + " to NIC " +
                std::to_string(link.far_nic) +
                ": [[prefix]] gives them other VLANs or kinds of addresses");
  }

  uint32_t inner_of(const Connection& c) {
    const auto [it, fresh] = inner_numbers_.try_emplace(
        {c.from, c.to, c.channel, c.index}, static_cast<uint32_t>(setup_->inner.size()));
    if (fresh) {
      InnerConnection inner{.ways = job_ways(config_, job_, communicator_, *setup_->topology, c),
                            .window = 1};
      setup_->inner.push_back(inner);
    }
    uint32_t& window = setup_->inner[it->second].window;
    window = std::max(window, c.window);
    return it->second;
  }

  CollectiveConnection& out_of(uint32_t link) { return setup_->job.links[link]; }

  /// `real`: the end that the link is of.
  uint32_t link_of(const Connection& c, uint32_t far, uint32_t real, Duration latency) {
    const bool twins = setup_->job.is_real(far);
    const auto number = static_cast<uint32_t>(setup_->job.links.size());
    const auto [it, fresh] =
        numbers_.try_emplace({c.from, c.to, c.channel, c.index, twins && real == c.to}, number);
    if (fresh) {
      CollectiveConnection link;
      const auto twin = numbers_.find({c.from, c.to, c.channel, c.index, real != c.to});
      if (twins && twin != numbers_.end()) {
        link.twin = twin->second;
        setup_->job.links[twin->second].twin = number;
      }
      link.real_nic = communicator_.nic_of(real);
      link.far_nic = communicator_.nic_of(far);
      link.real_node = communicator_.node_of(real);
      link.credit_time =
          config_.nodes[job_.ranks[link.real_node]].nics[link.real_nic].link_rate.time_for(
              kFewCredits);
      link.real = real;
      link.far = far;
      link.channel = c.channel;
      link.index = c.index;
      link.real_sends = c.direction == Direction::kSend;
      link.latency = latency;
      if (!setup_->job.is_real(far)) {
        const NicLimits nic =
            nic_limits(config_, job_, {job_.ranks[communicator_.node_of(far)], link.far_nic});
        link.notice = nic.tail - nic.ack_delay;
        link.ack_notice = nic.tail;
      }
      setup_->job.links.push_back(link);
    }
    CollectiveConnection& link = setup_->job.links[it->second];
    link.slots = std::max(link.slots, c.window);
    link.slot_bytes = std::max(link.slot_bytes, c.capacity);
    return it->second;
  }

  const Config& config_;
  const JobConfig& job_;
  const bool carried_;
  const Communicator communicator_;
  std::unique_ptr<CollectiveSetup> setup_;
  std::map<std::tuple<uint32_t, uint32_t, uint32_t, uint8_t>, uint32_t> inner_numbers_;
  /// The same, and whether it is the receiver's end of one between real ranks.
  std::map<std::tuple<uint32_t, uint32_t, uint32_t, uint8_t, bool>, uint32_t> numbers_;
};

Result<void> Builder::check() const {
  const auto real =
      std::ranges::count_if(job_.ranks, [&](NodeId node) { return config_.nodes[node].real; });
  if (real == 0) return error("found no real node: it needs ranks on a node with real = true");
  for (uint32_t rank = 0; rank < communicator_.ranks(); ++rank) {
    const NodeConfig& node = config_.nodes[job_.ranks[communicator_.node_of(rank)]];
    const uint32_t nic = communicator_.nic_of(rank);
    if (!node.real) continue;
    for (uint32_t n = nic; n < nic + merged_nics(job_, node, nic); ++n) {
      const bool joined = std::ranges::any_of(config_.ports, [&](const PortConfig& port) {
        return port.node == node.index && port.nic == n;
      });
      if (joined) continue;
      return error("there is no [[port]] for NIC " + std::to_string(n) + " of its real node \"" +
                   node.name + "\"");
    }
  }
  return {};
}

}  // namespace

Result<std::unique_ptr<CollectiveSetup>> build_collective(const Config& config,
                                                          const JobConfig& job, bool scheduled,
                                                          const Topology* topology, bool carried,
                                                          const CollectiveSetup* former) {
  return Builder(config, job, topology, carried, former).build(scheduled);
}

}  // namespace understudy
