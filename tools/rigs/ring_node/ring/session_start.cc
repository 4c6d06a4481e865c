// How a session begins: calls to and from the neighbours, the job, the links.
#include <algorithm>

#include "dataplane/base/try.h"
#include "tools/rigs/ring_node/ring/session.h"
#include "tools/rigs/ring_node/ring/values.h"

namespace understudy {
namespace {

/// Completions a channel can have outstanding: 4 receives, 4 sends, a credit; with room to spare.
constexpr unsigned kCompletionsPerChannel = 32;

}  // namespace

Result<std::unique_ptr<Session>> Session::start(const RingNodeOptions& options) {
  // Of real ranks only each calls its next one first, and is called: all listen before.
  std::optional<TcpListener> listener;
  if (options.ring) {
    auto opened = TRY(TcpListener::open(options.previous, options.port));
    listener.emplace(std::move(opened));
  }
  auto to_next = TRY(TcpStream::dial(options.next, options.port, options.connect_limit));
  const auto local = TRY(to_next.local_address());
  auto device = TRY(VerbsDevice::open(options.device, local, options.gid_index));

  std::unique_ptr<Session> session(new Session(options, std::move(device)));
  session->neighbours_.push_back(std::make_unique<Neighbour<RingClient>>(
      "next rank at " + options.next.text(), std::move(to_next),
      RingClient(options.job, session->device_.gid())));
  auto met = listener ? session->meet_in_real_ring(*listener) : session->meet_in_told_ring();
  for (auto step : {&Session::check_options, &Session::draw_input_seed, &Session::load_profiler,
                    &Session::make_links, &Session::connect_links, &Session::get_ready}) {
    if (met) met = (session.get()->*step)();
  }
  if (met) return session;
  session->give_up(met.error().text);
  return fail(met.error().text);
}

Result<void> Session::call_previous() {
  if (options_.previous == options_.next) return {};
  auto stream = TRY(TcpStream::dial(options_.previous, options_.port, options_.connect_limit));
  neighbours_.push_back(std::make_unique<Neighbour<RingClient>>(
      "previous rank at " + options_.previous.text(), std::move(stream),
      RingClient(options_.job, device_.gid())));
  return {};
}

Result<void> Session::take_call(TcpListener& listener, RingJobMessage told) {
  auto stream = TRY(listener.accept(options_.previous, options_.connect_limit));
  caller_ = std::make_unique<Neighbour<RealPeer>>("previous rank at " + options_.previous.text(),
                                                  std::move(stream), RealPeer(std::move(told)));
  return caller_->wait_for("hello", options_.connect_limit,
                           [](RealPeer& m) { return m.described(); });
}

/// What a neighbour that we called tells of the job.
Result<void> Session::learn_job(Neighbour<RingClient>& neighbour) {
  return neighbour.wait_for("description of the job", options_.connect_limit,
                            [](RingClient& client) { return client.job().has_value(); });
}

/// Every rank has said hello to its next one by now, or will without waiting for anybody; so each
/// can be told of the job, and so on step by step: nobody waits in a circle.
Result<void> Session::meet_in_real_ring(TcpListener& listener) {
  const RingJobMessage& ring = *options_.ring;
  Neighbour<RingClient>& next = *neighbours_.front();
  TRY(next.exchange(std::chrono::milliseconds(0)));
  const uint32_t previous = (ring.client_rank + ring.ranks - 1) % ring.ranks;
  TRY(take_call(listener, real_ring(ring, previous, ring.client_rank)));
  TRY(learn_job(next));
  job_ = *next.machine().job();
  const auto ours = real_ring(ring, ring.client_rank, job_.peer_rank);
  const std::string difference = job_difference(ours, job_);
  if (difference.empty()) return {};
  return fail("the next rank was given a different ring: " + difference);
}

/// The next rank always knows the job first: it is emulated, or asks its own next one, and so on to
/// an emulated one. Only then is it known what the previous one is.
Result<void> Session::meet_in_told_ring() {
  Neighbour<RingClient>& next = *neighbours_.front();
  TRY(learn_job(next));
  job_ = *next.machine().job();
  const uint32_t previous = (job_.client_rank + job_.ranks - 1) % job_.ranks;
  if (std::ranges::count(job_.real_ranks, previous) != 0) {
    auto listener = TRY(TcpListener::open(options_.previous, options_.port));
    return take_call(listener, passed_back(job_));
  }
  TRY(call_previous());
  TRY(learn_job(*neighbours_.back()));
  const std::string difference = job_difference(job_, *neighbours_.back()->machine().job());
  if (!difference.empty()) return fail("the neighbours describe different jobs: " + difference);
  std::vector<RingDirection> directions = neighbours_.front()->machine().directions();
  if (directions.front() != RingDirection::kClientSends) {
    return fail(options_.next.text() + " is not the rank after ours (rank " +
                std::to_string(job_.client_rank) + ")");
  }
  if ((job_.ranks == 2) != (neighbours_.size() == 1)) {
    return fail("a ring of " + std::to_string(job_.ranks) + " ranks has " +
                (job_.ranks == 2 ? "one neighbour" : "two different neighbours"));
  }
  return {};
}

Result<void> Session::check_options() {
  if (options_.perturb && !verifies()) {
    return fail(
        "--perturb needs results that can be verified: payload \"exact\" and, with several "
        "real ranks, --input-seed");
  }
  for (const auto& operation : job_.operations) {
    if (options_.perturb && operation.warmup + operation.iterations < 2) {
      return fail("--perturb needs at least 2 iterations (with warm-up) of each size");
    }
  }
  return {};
}

Result<void> Session::draw_input_seed() {
  input_seed_ = TRY(choose_input_seed(options_));
  return {};
}

Result<void> Session::load_profiler() {
  profiler_ = TRY(Profiler::load(job_.name, job_.client_rank, job_.ranks));
  return {};
}

bool Session::verifies() const { return verifiable(job_, options_.input_seed.has_value()); }

Result<void> Session::make_links() {
  TRY(device_.make_completion_queue(kCompletionsPerChannel * job_.channels));
  for (uint32_t c = 0; c < job_.channels; ++c) {
    auto links = TRY(VerbsLinks::make(device_, job_, c));
    channels_.push_back(std::make_unique<RankChannel>(job_, c, *links));
    links_.push_back(std::move(links));
  }
  return {};
}

Result<void> Session::connect_links() {
  for (auto& neighbour : neighbours_) {
    RingClient& client = neighbour->machine();
    for (uint32_t c = 0; c < job_.channels; ++c) {
      for (RingDirection direction : client.directions()) {
        if (caller_ != nullptr && direction == RingDirection::kPeerSends) continue;
        client.connect(links_[c]->end(direction));
      }
    }
    TRY(answer_links());
    auto waited = neighbour->wait_for("answer to the connects", options_.connect_limit,
                                      [](RingClient& m) { return m.all_connected(); });
    if (!waited) return waited;
    for (const RingLinkEnd& theirs : client.connected()) {
      TRY(links_[theirs.channel]->connect(theirs));
    }
  }
  return {};
}

/// Ready only when all links stand, so that no neighbour starts while another is still missing.
/// Beside emulated ranks the previous rank is heard before and told after the next one: emulated
/// ranks then know when all real ones are ready, and all begin together. In a ring of real ranks
/// that would be a circle.
Result<void> Session::get_ready() {
  if (!all_real()) {
    TRY(wait_for_caller());
  }
  for (auto& neighbour : neighbours_) {
    neighbour->machine().send_ready();
    TRY(neighbour->exchange(std::chrono::milliseconds(0)));
  }
  if (all_real()) {
    TRY(wait_for_caller());
    TRY(begin_caller());
    return wait_for_neighbours();
  }
  TRY(wait_for_neighbours());
  return begin_caller();
}

Result<void> Session::wait_for_caller() {
  if (caller_ == nullptr) return {};
  return caller_->wait_for("sign that it is ready", options_.connect_limit,
                           [](RealPeer& m) { return m.client_ready(); });
}

Result<void> Session::begin_caller() {
  if (caller_ == nullptr) return {};
  caller_->machine().begin();
  return caller_->exchange(std::chrono::milliseconds(0));
}

Result<void> Session::wait_for_neighbours() {
  for (auto& neighbour : neighbours_) {
    auto waited = neighbour->wait_for("sign that it is ready", options_.connect_limit,
                                      [](RingClient& m) { return m.peer_ready(); });
    if (!waited) return waited;
  }
  return {};
}

/// The links that a real previous rank asks for; ours to the next one were asked for before.
Result<void> Session::answer_links() {
  if (caller_ == nullptr) return {};
  using std::chrono::milliseconds;
  TRY(neighbours_.front()->exchange(milliseconds(0)));
  RealPeer& client = caller_->machine();
  auto waited = caller_->wait_for("connects", options_.connect_limit,
                                  [](RealPeer& m) { return m.all_asked(); });
  if (!waited) return waited;
  for (RingLinkEnd theirs : client.asked()) {
    theirs.direction = RingDirection::kPeerSends;  // it sends, and we called nobody there
    VerbsLinks& links = *links_[theirs.channel];
    RingLinkEnd ours = links.end(theirs.direction);
    theirs.mtu = ours.mtu = std::min({theirs.mtu, ours.mtu, job_.mtu});
    TRY(links.connect(theirs));
    client.answer(ours);
  }
  return caller_->exchange(milliseconds(0));
}

}  // namespace understudy
