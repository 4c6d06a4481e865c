#include "ctrl/peers/ring/ring_peer.h"

#include <algorithm>
#include <utility>

namespace understudy {
namespace {

// What NCCL gives its queue pairs (docs/nccl 2.4).
constexpr uint8_t kTimeout = 20;
constexpr uint8_t kRetryCount = 7;
constexpr uint8_t kRnrRetry = 7;
constexpr uint8_t kMinRnrTimer = 12;

/// Path MTUs are powers of two from 256 to 4096.
bool is_path_mtu(uint32_t mtu) { return mtu >= 256 && mtu <= 4096 && (mtu & (mtu - 1)) == 0; }

std::string link_text(const RingLinkEnd& link) {
  const std::string ranks = link.of ? "rank " + std::to_string(link.of->client_rank) +
                                          " with rank " + std::to_string(link.of->peer_rank) + ", "
                                    : "";
  return ranks + "channel " + std::to_string(link.channel) +
         (link.of && link.of->index != 0 ? ", send/recv" : "") +
         (link.direction == RingDirection::kClientSends ? ", client sends" : ", peer sends");
}

/// What the client hears of a link's other end.
RingLinkEnd other_end(const RingLinkEnd& client, const RingLinkEnd& other, uint32_t mtu) {
  RingLinkEnd end = other;
  end.direction = client.direction;
  end.of = client.of;
  end.mtu = std::min({client.mtu, other.mtu, mtu});
  return end;
}

}  // namespace

RingPeer::RingPeer(IpAddress local, std::vector<RingOffer> offers, RingObserver& observer)
    : local_(local), offers_(std::move(offers)), observer_(observer) {}

void RingPeer::on_bytes(Time, std::span<const uint8_t> bytes) {
  if (finished_) return;
  reader_.push(bytes);
  while (!finished_) {
    auto message = reader_.next();
    if (!message) return give_up(message.error().text);
    if (!*message) return;
    handle(**message);
  }
}

void RingPeer::handle(const RingOobMessage& message) {
  if (const auto* m = std::get_if<RingErrorMessage>(&message)) {
    return fail("the client gave up: " + m->text);
  }
  if (state_ == State::kHello) {
    if (const auto* m = std::get_if<RingHelloMessage>(&message)) return hello(*m);
  } else if (state_ == State::kConnect) {
    if (const auto* m = std::get_if<RingConnectMessage>(&message)) return connect(*m);
    if (std::holds_alternative<RingReadyMessage>(message)) return ready();
  } else if (state_ == State::kRunning) {
    if (const auto* m = std::get_if<RingResultMessage>(&message)) return result(*m);
    if (std::holds_alternative<RingDoneMessage>(message)) return done();
  }
  static constexpr const char* kExpected[] = {"hello", "connect or ready",
                                              "nothing before all are ready", "result or done"};
  give_up(std::string("message \"") + ring_oob_name(message) + "\" out of order, expected " +
          kExpected[static_cast<size_t>(state_)]);
}

void RingPeer::hello(const RingHelloMessage& m) {
  if (m.version != kRingOobVersion) {
    return give_up("client speaks version " + std::to_string(m.version) + ", this is version " +
                   std::to_string(kRingOobVersion));
  }
  std::vector<size_t> fitting;
  const RingOffer* of_the_other_kind = nullptr;
  for (size_t i = 0; i < offers_.size(); ++i) {
    const bool named = m.job.empty() || offers_[i].message.name == m.job;
    if (!named || std::ranges::count(offers_[i].client_addresses, m.address) == 0) continue;
    if ((offers_[i].node != nullptr) == m.whole_node) {
      fitting.push_back(i);
    } else {
      of_the_other_kind = &offers_[i];
    }
  }
  if (fitting.empty() && of_the_other_kind != nullptr) {
    const std::string job = "job \"" + of_the_other_kind->message.name + "\" is ";
    return give_up(
        m.whole_node ? job +
                           "a ring all-reduce, whose rank calls both of its neighbours "
                           "(ring_node --peer-next, --peer-prev)"
                     : job +
                           "no plain ring all-reduce (float32, Simple, sum, one rank and NIC a "
                           "node, as NCCL "
                           "2.23 to 2.28 cut it): its real node calls one emulated node (ring_node "
                           "--peer)");
  }
  if (fitting.size() != 1) {
    return give_up(std::string(fitting.empty() ? "no job" : "more than one job (name one)") +
                   " in which " + local_.text() +
                   (m.whole_node ? " has a rank and " + m.address.text() + " is a real node"
                                 : " is a neighbour of " + m.address.text()) +
                   (m.job.empty() ? "" : " is called \"" + m.job + "\""));
  }
  chosen_ = fitting.front();
  if (offer().node != nullptr) {
    append_ring_oob(*offer().node, output_);
  } else {
    append_ring_oob(offer().message, output_);
  }
  state_ = State::kConnect;
}

bool RingPeer::alone() const {
  const size_t own = offer().node == nullptr ? 1 : offer().node->communicator.gpus;
  return offer().message.real_ranks.size() == own;
}

bool RingPeer::wants(RingDirection direction) const {
  const RingJobMessage& job = offer().message;
  const uint32_t sender =
      direction == RingDirection::kClientSends ? job.client_rank : job.peer_rank;
  const uint32_t receiver =
      direction == RingDirection::kClientSends ? job.peer_rank : job.client_rank;
  return (sender + 1) % job.ranks == receiver;
}

size_t RingPeer::links_wanted() const {
  if (offer().node != nullptr) return offer().node->links.size();
  const size_t directions =
      (wants(RingDirection::kClientSends) ? 1u : 0u) + (wants(RingDirection::kPeerSends) ? 1u : 0u);
  return directions * offer().message.channels;
}

Result<RingPeer::Link> RingPeer::find(const RingLinkEnd& m) const {
  if (offer().node != nullptr) return find_of_node(m);
  const RingJobMessage& job = offer().message;
  if (m.of) return understudy::fail("it names ranks, which a neighbour's connection has already");
  if (m.channel >= job.channels) {
    return understudy::fail("the job has " + std::to_string(job.channels) + " channels");
  }
  if (!wants(m.direction)) {
    return understudy::fail("rank " + std::to_string(job.peer_rank) + " and rank " +
                            std::to_string(job.client_rank) +
                            " are no neighbours in this direction");
  }
  if (std::ranges::count(offer().client_addresses, m.gid) == 0) {
    return understudy::fail("GID " + m.gid.text() + " is not an address of rank " +
                            std::to_string(job.client_rank));
  }
  return Link{.client_rank = job.client_rank,
              .peer_rank = job.peer_rank,
              .local = {local_},
              .remote = {m.gid},
              .buffer = uint64_t{kRingSteps} * job.cutting.step_bytes};
}

Result<RingPeer::Link> RingPeer::find_of_node(const RingLinkEnd& m) const {
  if (!m.of) return understudy::fail("it does not say between which ranks");
  const auto is_it = [&](const NodeJobMessage::Link& link) {
    return link.rank == m.of->client_rank && link.peer_rank == m.of->peer_rank &&
           link.channel == m.channel && link.index == m.of->index &&
           link.client_sends == (m.direction == RingDirection::kClientSends);
  };
  const auto& links = offer().node->links;
  const auto found = std::ranges::find_if(links, is_it);
  if (found == links.end()) return understudy::fail("the job has no such link");
  const std::vector<uint32_t>& programs = offer().message.real_ranks;
  return Link{.client_rank = found->rank,
              .peer_rank = found->peer_rank,
              .index = found->index,
              .local = found->remote,
              .remote = found->local,
              .buffer = uint64_t{found->slots} * found->slot_bytes,
              .met = std::ranges::count(programs, found->peer_rank) != 0};
}

Result<void> RingPeer::check_gids(const RingLinkEnd& m, const Link& link) {
  if (m.more.size() + 1 != link.remote.size()) {
    return understudy::fail("it has " + std::to_string(m.more.size() + 1) +
                            " queue pairs, the link " + std::to_string(link.remote.size()));
  }
  for (size_t q = 0; q < link.remote.size(); ++q) {
    const IpAddress& gid = q == 0 ? m.gid : m.more[q - 1].gid;
    if (gid != link.remote[q]) {
      return understudy::fail("GID " + gid.text() + " is not that of the rank's NIC, " +
                              link.remote[q].text());
    }
    if (gid.is_v4() == link.local[q].is_v4()) continue;
    return understudy::fail("GID " + gid.text() + " is not of the family of " +
                            link.local[q].text());
  }
  return {};
}

bool RingPeer::is_connected(const RingLinkEnd& m) const {
  const auto is_it = [&](const RingLinkEnd& link) {
    return link.channel == m.channel && link.direction == m.direction && link.of == m.of;
  };
  return std::ranges::any_of(links_, is_it) || std::ranges::any_of(asked_, is_it);
}

void RingPeer::connect(const RingLinkEnd& m) {
  const RingJobMessage& job = offer().message;
  const bool real_sends = m.direction == RingDirection::kClientSends;
  const std::string where = "connect (" + link_text(m) + "): ";
  const auto link = find(m);
  if (!link) return give_up(where + link.error().text);
  if (is_connected(m)) return give_up(where + "is connected already");
  if (auto checked = check_gids(m, *link); !checked) return give_up(where + checked.error().text);
  if (!is_path_mtu(m.mtu)) return give_up(where + std::to_string(m.mtu) + " is no path MTU");
  if (real_sends && (m.fifo_address == 0 || m.fifo_rkey == 0)) {
    return give_up(where + "the sender gave no memory for credits");
  }
  if (link->met) {
    asked_.push_back(m);
    met_.push_back(false);
    meet();
    return;
  }

  EndpointRequest request;
  request.behaviour = Behaviour::kRing;
  request.local = link->local.front();
  request.remote = m.gid;
  request.remote_qpn = m.qpn;
  request.remote_psn = m.psn;
  request.local_psn = Psn(0);
  request.mtu = std::min(m.mtu, job.mtu);
  request.sender.traffic_class = real_sends ? job.control_traffic_class : job.data_traffic_class;
  request.timeout = kTimeout;
  request.retry_count = kRetryCount;
  request.rnr_retry = kRnrRetry;
  request.min_rnr_timer = kMinRnrTimer;
  request.region_bytes = real_sends ? link->buffer : uint64_t{kRingFifoBytes};
  request.ring = RingLinkRequest{.job = offer().job,
                                 .emulated_rank = link->peer_rank,
                                 .real_rank = link->client_rank,
                                 .channel = m.channel,
                                 .index = link->index,
                                 .real_sends = real_sends,
                                 .fifo_address = real_sends ? m.fifo_address : 0,
                                 .fifo_rkey = real_sends ? m.fifo_rkey : 0,
                                 .more = {}};
  for (const RingLinkEnd::More& more : m.more) {
    request.ring->more.push_back({more.qpn, real_sends ? more.fifo_rkey : 0});
  }
  requests_.push_back(request);

  RingLinkEnd ours;
  ours.channel = m.channel;
  ours.direction = m.direction;
  ours.mtu = request.mtu;
  ours.gid = link->local.front();
  for (size_t q = 1; q < link->local.size(); ++q) ours.more.push_back({.gid = link->local[q]});
  ours.of = m.of;
  links_.push_back(ours);
}

bool RingPeer::meet() {
  if (finished_ || state_ != State::kConnect) return false;
  bool any = false;
  for (size_t i = 0; i < asked_.size(); ++i) {
    if (met_[i]) continue;
    const auto other = observer_.on_ring_meeting(offer().job, asked_[i]);
    if (!other) continue;
    append_ring_oob(RingConnectedMessage{other_end(asked_[i], *other, offer().message.mtu)},
                    output_);
    met_[i] = any = true;
  }
  return any;
}

void RingPeer::on_endpoint(Time, const EndpointReady& ready) {
  if (finished_) return;
  if (answered_ >= links_.size()) return give_up("the dataplane made an endpoint nobody wanted");
  RingLinkEnd& ours = links_[answered_++];
  ours.qpn = ready.qpn;
  ours.psn = ready.psn;
  if (ours.direction == RingDirection::kPeerSends) {
    ours.fifo_address = ready.address;
    ours.fifo_rkey = ready.rkey;
  }
  for (size_t q = 0; q < ours.more.size(); ++q) {
    if (q + 1 >= ready.qpns.size()) return give_up("the dataplane made too few queue pairs");
    ours.more[q].qpn = ready.qpns[q + 1];
    ours.more[q].fifo_rkey = ours.fifo_rkey;
  }
  append_ring_oob(RingConnectedMessage{ours}, output_);
}

void RingPeer::on_refused(Time, const std::string& reason) {
  if (!finished_) give_up(reason);
}

void RingPeer::ready() {
  const size_t wanted = links_wanted();
  const size_t connected = answered_ + static_cast<size_t>(std::ranges::count(met_, true));
  if (connected != wanted) {
    return give_up("client is ready with " + std::to_string(connected) + " of " +
                   std::to_string(wanted) + " links connected");
  }
  const RingJobMessage& job = offer().message;
  state_ = State::kReady;
  if (alone()) begin();
  observer_.on_ring_ready(offer().job, job.client_rank, job.peer_rank);
}

std::optional<uint32_t> RingPeer::waits() const {
  const bool for_ends = state_ == State::kConnect && std::ranges::count(met_, false) != 0;
  if (finished_ || (state_ != State::kReady && !for_ends)) return std::nullopt;
  return offer().job;
}

void RingPeer::begin() {
  append_ring_oob(RingReadyMessage{}, output_);
  state_ = State::kRunning;
}

void RingPeer::call_off(std::string why) {
  append_ring_oob(RingErrorMessage{why}, output_);
  failure_ = std::move(why);
  finished_ = true;
}

std::optional<std::pair<uint64_t, uint32_t>> RingPeer::size_of(uint32_t operation) const {
  if (const NodeJobMessage* node = offer().node.get()) {
    if (operation >= node->kinds.size()) return std::nullopt;
    return std::pair(node->kinds[operation].bytes, node->iterations);
  }
  const auto& operations = offer().message.operations;
  if (operation >= operations.size()) return std::nullopt;
  return std::pair(operations[operation].bytes, operations[operation].iterations);
}

void RingPeer::result(const RingResultMessage& m) {
  const RingJobMessage& job = offer().message;
  const auto size = size_of(m.operation);
  if (!size || size->first != m.bytes) {
    return give_up("result of operation " + std::to_string(m.operation) + " with " +
                   std::to_string(m.bytes) + " bytes, which the job does not have");
  }
  if (m.times_ns.size() != size->second) {
    return give_up("result of operation " + std::to_string(m.operation) + " has " +
                   std::to_string(m.times_ns.size()) + " times for " +
                   std::to_string(size->second) + " iterations");
  }
  const uint32_t rank = m.rank.value_or(job.client_rank);
  if (std::ranges::count(job.real_ranks, rank) == 0) {
    return give_up("result of rank " + std::to_string(rank) + ", which is no real one");
  }
  ++results_;
  observer_.on_ring_result(offer().job, rank, m);
}

void RingPeer::done() {
  const RingJobMessage& job = offer().message;
  // A neighbour tells its results to the next rank only.
  if (const NodeJobMessage* node = offer().node.get();
      node != nullptr && results_ != node->kinds.size()) {
    return give_up("client is done after " + std::to_string(results_) + " of " +
                   std::to_string(node->kinds.size()) + " results");
  }
  finished_ = true;
  observer_.on_ring_done(offer().job, job.client_rank, job.peer_rank);
}

void RingPeer::on_closed(Time) {
  if (!finished_) fail("the client closed the connection before it was done");
}

void RingPeer::give_up(std::string why) {
  append_ring_oob(RingErrorMessage{why}, output_);
  fail(std::move(why));
}

void RingPeer::fail(std::string why) {
  failure_ = std::move(why);
  finished_ = true;
  // Other programs may wait for it.
  const bool connects = state_ == State::kConnect && offer().node != nullptr && !alone();
  if (state_ == State::kReady || connects) {
    observer_.on_ring_lost(offer().job, offer().message.client_rank);
  }
}

}  // namespace understudy
