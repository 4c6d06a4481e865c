#include "tools/rigs/ring_node/whole_node/node_session.h"

#include <algorithm>
#include <chrono>
#include <set>
#include <utility>

#include "dataplane/base/try.h"
#include "tools/rigs/ring_node/base/polling.h"

namespace understudy {
namespace {

using std::chrono::milliseconds;

/// Completions that a link can have outstanding beside those of its window: a credit, with room.
constexpr unsigned kSpareCompletions = 16;
constexpr unsigned kMostCompletions = 32768;

Time now() { return Time::zero() + Duration::ns(static_cast<int64_t>(now_ns())); }

}  // namespace

Result<std::unique_ptr<NodeSession>> NodeSession::start(const RingNodeOptions& options) {
  auto stream = TRY(TcpStream::dial(options.next, options.port, options.connect_limit));
  const auto local = TRY(stream.local_address());
  std::unique_ptr<NodeSession> session(new NodeSession(options));
  auto first = TRY(VerbsDevice::open(options.device, local, options.gid_index));
  const IpAddress gid = first.gid();
  session->devices_[gid] = std::make_unique<VerbsDevice>(std::move(first));
  session->peer_ = std::make_unique<Neighbour<NodeClient>>(
      "node " + options.next.text(), std::move(stream), NodeClient(options.job, gid));
  auto ready = session->prepare();
  if (ready) return session;
  session->give_up(ready.error().text);
  return fail(ready.error().text);
}

Result<void> NodeSession::prepare() {
  TRY(wait_for("description of the job", [](NodeClient& c) { return c.job().has_value(); }));
  kinds_ = TRY(node_kinds(job()));
  if (options_.compute && job().steps.first.empty()) {
    return fail("--compute: job " + job().name + " has more than " +
                std::to_string(kMostToldSteps) + " operations that it computes for differently");
  }
  TRY(open_devices());
  TRY(make_links());
  TRY(load_profilers());
  TRY(connect_links());
  return get_ready();
}

/// Of every NIC by which a rank of the node talks.
Result<void> NodeSession::open_devices() {
  std::map<IpAddress, unsigned> completions;
  for (const NodeJobMessage::Link& link : job().links) {
    for (const IpAddress& address : link.local) {
      completions[address] += 2 * link.slots + kSpareCompletions;
    }
  }
  for (const auto& [address, entries] : completions) {
    auto& device = devices_[address];
    if (device == nullptr) {
      auto opened = TRY(VerbsDevice::open(options_.device, address, std::nullopt));
      device = std::make_unique<VerbsDevice>(std::move(opened));
    }
    TRY(device->make_completion_queue(std::min(entries, kMostCompletions)));
  }
  std::erase_if(devices_, [&](const auto& one) { return !completions.contains(one.first); });
  return {};
}

Result<void> NodeSession::make_links() {
  std::vector<MessageLink*> links;
  for (uint32_t l = 0; l < job().links.size(); ++l) {
    const NodeJobMessage::Link& link = job().links[l];
    std::vector<const VerbsDevice*> devices;
    for (const IpAddress& address : link.local) devices.push_back(devices_[address].get());
    const std::set<IpAddress> far(link.remote.begin(), link.remote.end());
    auto made = TRY(VerbsLink::make(std::move(devices),
                                    {.number = l,
                                     .sends = link.client_sends,
                                     .slots = link.slots,
                                     .slot_bytes = link.slot_bytes,
                                     .sender_rank = link.client_sends ? link.rank : link.peer_rank,
                                     .far_devices = static_cast<uint32_t>(far.size()),
                                     .form = CreditForm(job().credit_devices)}));
    links.push_back(made.get());
    links_.push_back(std::move(made));
  }
  if (job().exact) {
    input_seed_ = TRY(choose_input_seed(options_));
    values_ =
        std::make_unique<NodeValues>(job(), kinds_, input_seed_, options_.input_seed.has_value());
  }
  ranks_ = std::make_unique<NodeRanks>(job(), kinds_, std::move(links), values_.get());
  return {};
}

/// As NCCL's processes do, each rank tells its own operations.
Result<void> NodeSession::load_profilers() {
  const Communicator& c = job().communicator;
  for (uint32_t gpu = 0; gpu < c.gpus; ++gpu) {
    auto profiler = TRY(Profiler::load(job().name, job().node * c.gpus + gpu, c.ranks()));
    if (profiler == nullptr) return {};
    profilers_.push_back(std::move(profiler));
  }
  return {};
}

Result<void> NodeSession::connect_links() {
  for (uint32_t l = 0; l < links_.size(); ++l) {
    RingLinkEnd end;
    links_[l]->describe(end);
    client().connect(l, end);
  }
  TRY(wait_for("answer to the connects", [](NodeClient& c) { return c.all_connected(); }));
  for (uint32_t l = 0; l < links_.size(); ++l) {
    TRY(links_[l]->connect(*client().connected()[l], job().traffic_class));
  }
  return {};
}

Result<void> NodeSession::get_ready() {
  client().send_ready();
  return wait_for("sign that all are ready", [](NodeClient& c) { return c.peer_ready(); });
}

std::vector<std::string> NodeSession::devices() const {
  std::vector<std::string> texts;
  for (const auto& [address, device] : devices_) texts.push_back(device->text());
  return texts;
}

Result<void> NodeSession::run(const std::function<void(const SizeOutcome&)>& told) {
  const uint64_t runs = uint64_t{job().warmup} + job().iterations;
  const auto kinds = static_cast<uint32_t>(kinds_.size());
  std::vector<SizeOutcome> outcomes(kinds);
  for (uint64_t i = 0; i < runs * kinds; ++i) {
    const auto kind = static_cast<uint32_t>(job().by_iteration ? i % kinds : i / runs);
    const uint64_t iteration = job().by_iteration ? i / kinds : i % runs;
    SizeOutcome& outcome = outcomes[kind];
    outcome.bytes = job().kinds[kind].bytes;
    TRY(wait(i));
    const auto time = run_operation(kind);
    if (!time) return fail(std::to_string(outcome.bytes) + " bytes: " + time.error().text);
    if (iteration >= job().warmup) outcome.times_ns.push_back(*time);
    verify(outcome);
    if (iteration + 1 < runs) continue;
    told(outcome);
    TRY(tell(kind, outcome));
  }
  return finish();
}

/// What is filled leaves before it sleeps: NCCL's proxies never do.
Result<void> NodeSession::wait(size_t operation) {
  if (options_.compute) {
    const Time at = clock_.enter(job().steps.at(operation), now());
    TRY(work_while_not([&] { return ranks_->all_posted(); }));
    return sleep_until(static_cast<uint64_t>((at.ps() + 999) / 1000));
  }
  if (options_.period.count() == 0 && options_.delay.count() == 0) return {};
  TRY(work_while_not([&] { return ranks_->all_posted(); }));
  return wait_before_operation(options_);
}

Result<uint64_t> NodeSession::run_operation(uint32_t kind) {
  for (const auto& profiler : profilers_) {
    profiler->start(job().communicator, job().kinds[kind].operations, kinds_[kind].channels);
  }
  const uint64_t begin = now_ns();
  TRY(ranks_->start(kind, now()));
  TRY(work_while_not([&] { return ranks_->done(); }));
  const uint64_t time = now_ns() - begin;
  TRY(ranks_->progress(now()));
  return time;
}

void NodeSession::verify(SizeOutcome& outcome) {
  if (values_ == nullptr) return;
  if (const auto wrong = values_->wrong()) outcome.wrong = outcome.wrong.value_or(0) + *wrong;
}

Result<void> NodeSession::tell(uint32_t kind, const SizeOutcome& outcome) {
  client().send_result({.operation = kind,
                        .bytes = outcome.bytes,
                        .times_ns = outcome.times_ns,
                        .wrong = outcome.wrong,
                        .rank = job().node * job().communicator.gpus});
  return peer_->exchange(milliseconds(0));
}

Result<void> NodeSession::finish() {
  TRY(work_while_not([&] { return ranks_->idle(); }));
  client().send_done();
  return peer_->exchange(milliseconds(0));
}

template <typename Over>
Result<void> NodeSession::work_while_not(Over over) {
  return work_until(
      over, [&] { return work(); }, [&](uint64_t idle_ns) { return look_for_trouble(idle_ns); });
}

Result<bool> NodeSession::work() {
  // What there is to do is done before it looks: a look may wait.
  bool moved = TRY(ranks_->progress(ranks_->takes_time() ? now() : Time()));
  if (moved) return true;
  for (const auto& [address, device] : devices_) {
    const auto polled = TRY(poll_completions(*device));
    moved = moved || polled;
  }
  return moved;
}

Result<bool> NodeSession::poll_completions(const VerbsDevice& device) {
  ibv_wc completions[16];
  const int count = ibv_poll_cq(device.completion_queue(), 16, completions);
  if (count < 0) return fail("ibv_poll_cq failed");
  if (count == 0) return false;
  const Time at = ranks_->takes_time() ? now() : Time();
  for (int i = 0; i < count; ++i) {
    const ibv_wc& wc = completions[i];
    const uint32_t link = VerbsLink::number_of(wc.wr_id);
    const VerbsLink::Kind kind = VerbsLink::kind_of(wc.wr_id);
    if (wc.status != IBV_WC_SUCCESS) {
      return fail(ranks_->name_of(link) + ", " + completion_fault(wc, device.fatal_event()) + "; " +
                  ranks_->waiting_for());
    }
    if (kind == VerbsLink::kCredit || !links_[link]->makes_whole(wc.wr_id)) continue;
    if (kind == VerbsLink::kData) {
      ranks_->on_sent(link, at);
    } else {
      TRY(ranks_->on_received(link, wc.imm_data, at));
    }
  }
  return true;
}

Result<void> NodeSession::look_for_trouble(uint64_t idle_ns) {
  for (const auto& [address, device] : devices_) {
    if (const std::string event = device->fatal_event(); !event.empty()) return fail(event);
  }
  TRY(peer_->exchange(milliseconds(0)));
  if (milliseconds(idle_ns / 1'000'000) < options_.progress_limit) return {};
  return fail("no progress for " + std::to_string(idle_ns / 1'000'000) + " ms; " +
              ranks_->waiting_for());
}

void NodeSession::give_up(const std::string& why) {
  // Whether it arrives no longer matters to us: there is a better error to show.
  client().send_error(why);
  static_cast<void>(peer_->exchange(milliseconds(0)));
}

}  // namespace understudy
