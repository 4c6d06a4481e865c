#include "ctrl/peers/sockets/torch_meeting.h"

#include <algorithm>
#include <utility>

#include "dataplane/base/try.h"

namespace understudy {
namespace {

/// Restarts of torchrun's workers whose keys are looked for: each has some of its own.
constexpr uint64_t kMostAttempts = 8;

bool is_ours(const RendezvousSettings& settings) {
  return settings.ranks.empty() || !settings.ranks.front().real;
}

}  // namespace

Result<void> TorchMeeting::start(RendezvousSettings settings, RendezvousCallbacks callbacks) {
  const SocketAddress master = settings.master;
  if (is_ours(settings)) TRY(workers_.listen(master));
  workers_.start(Rendezvous::make(std::move(settings), workers_, std::move(callbacks)), master);
  return {};
}

Result<void> TorchMeeting::start(TorchAgentsSettings agents, RendezvousSettings workers,
                                 RendezvousCallbacks callbacks) {
  settings_ = std::move(workers);
  callbacks_ = std::move(callbacks);
  callbacks_.learned = [this, learned = callbacks_.learned](Time now, const UniqueIdKey& key,
                                                            const NcclUniqueId& id) {
    learned_.insert(id);
    if (learned) learned(now, key, id);
  };
  settings_.agents = false;
  if (is_ours(settings_)) agents.master.port = TRY(workers_.listen({agents.master.address, 0}));
  if (agents.serves) TRY(agents_.listen(agents.endpoint));
  const SocketAddress endpoint = agents.endpoint;
  agents_.start(std::make_unique<TorchAgents>(
                    std::move(agents), agents_,
                    [this](Time now, const TorchRound& round) { on_round(now, round); }),
                endpoint);
  return {};
}

void TorchMeeting::on_round(Time, const TorchRound& round) {
  ++rounds_;
  RendezvousSettings settings = settings_;
  settings.master = round.master;
  settings.attempts = static_cast<uint32_t>(std::min(round.number, kMostAttempts));
  settings.former = learned_;
  settings.again = true;
  workers_.start(Rendezvous::make(std::move(settings), workers_, callbacks_), round.master);
}

void TorchMeeting::poll() {
  agents_.poll();
  workers_.poll();
}

void TorchMeeting::look_for_next() {
  // A round that began while others were in the last communicator is the next one's.
  const bool other = std::exchange(rounds_, std::min(rounds_, 1u)) > 1;
  if (workers_.started() && !other) workers_.machine().look_for_next();
}

void TorchMeeting::leave() {
  if (agents_.started()) agents().leave();
}

bool TorchMeeting::finished() const {
  if (agents_.started()) return agents_.machine().finished();
  return !workers_.started() || workers_.machine().finished();
}

std::string TorchMeeting::failure() const {
  for (const StoreSockets* sockets : {&agents_, &workers_}) {
    if (sockets->started() && !sockets->machine().failure().empty()) {
      return sockets->machine().failure();
    }
  }
  return {};
}

std::vector<std::string> TorchMeeting::waiting() const {
  std::vector<std::string> lines;
  for (const StoreSockets* sockets : {&agents_, &workers_}) {
    if (!sockets->started()) continue;
    for (std::string& line : sockets->machine().waiting()) lines.push_back(std::move(line));
  }
  return lines;
}

}  // namespace understudy
