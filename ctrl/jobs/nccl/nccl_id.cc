#include "ctrl/jobs/nccl/nccl_id.h"

#include <algorithm>
#include <utility>

#include "dataplane/base/try.h"

namespace understudy {
namespace {

/// The first communicator of the default process group: that of all ranks.
bool is_first(const UniqueIdKey& key) { return key.group == "0" && key.member == "0"; }

/// At the file of an id that is known.
constexpr Duration kFileEvery = Duration::ms(20);
/// A job that shares the place and has no communicator takes an id sooner.
constexpr Duration kOthersTake = Duration::ms(200);

}  // namespace

NcclId::NcclId(Setup setup, NcclSockets& sockets, PeerNetwork& network,
               std::function<void(const std::string&)> say)
    : setup_(std::move(setup)),
      sockets_(sockets),
      meeting_(network, setup_.from, say),
      say_(std::move(say)) {}

Result<void> NcclId::make_root() {
  root_listener_ = sockets_.new_listener();
  const auto root = TRY(sockets_.listen(0, root_listener_));
  id_ = make_unique_id(setup_.seed, setup_.number, root);
  return {};
}

Result<void> NcclId::open() {
  const NcclJoinConfig& join = *setup_.job->join;
  switch (join.way) {
    case NcclJoinConfig::Way::kCommId: {
      id_ = TRY(unique_id_of_comm_id(join_address().text(), setup_.job->nccl));
      if (!emulated_root()) return {};
      root_listener_ = sockets_.new_listener();
      return sockets_.listen_at(0, join.port, root_listener_);
    }
    case NcclJoinConfig::Way::kFile: {
      if (!emulated_root()) {
        file_.emplace(join.file);
        return {};
      }
      TRY(make_root());
      return write_unique_id_file(join.file, *id_);
    }
    case NcclJoinConfig::Way::kStore:
    case NcclJoinConfig::Way::kRendezvous:
      return open_store();
  }
  return {};
}

Result<void> NcclId::open_store() {
  RendezvousSettings settings;
  settings.ranks = setup_.ranks;
  settings.master = join_address();
  settings.again = !setup_.job->join->joins_once();
  std::optional<NcclUniqueId> ours;
  if (emulated_root()) {
    TRY(make_root());
    ours = std::exchange(id_, std::nullopt);
  } else {
    settings.generation = store_generation_of_release(setup_.job->join->torch);
  }
  RendezvousCallbacks callbacks;
  settings.awaited = setup_.groups->awaited();
  settings.ours = setup_.groups->ours();
  callbacks.learned = [this](Time now, const UniqueIdKey& key, const NcclUniqueId& id) {
    learned(now, key, id);
  };
  callbacks.provide = [this, ours](Time now,
                                   const UniqueIdKey& key) -> std::optional<NcclUniqueId> {
    if (!is_first(key)) return setup_.groups->provide(now, key);
    if (!ours) return std::nullopt;
    id_ = ours;
    return ours;
  };
  if (way() == NcclJoinConfig::Way::kStore) {
    return meeting_.start(std::move(settings), std::move(callbacks));
  }
  return meeting_.start(agents(), std::move(settings), std::move(callbacks));
}

TorchAgentsSettings NcclId::agents() const {
  TorchAgentsSettings agents;
  agents.endpoint = join_address();
  agents.run_id = setup_.job->join->run_id;
  agents.ranks = setup_.ranks;
  agents.serves = std::ranges::none_of(setup_.ranks, [&](const RendezvousSettings::Rank& rank) {
    return rank.real && rank.address == agents.endpoint.address;
  });
  agents.master = {setup_.ranks.front().address, 0};
  agents.generation = store_generation_of_release(setup_.job->join->torch);
  return agents;
}

void NcclId::learned(Time now, const UniqueIdKey& key, const NcclUniqueId& id) {
  if (!is_first(key)) return setup_.groups->learned(now, key, id);
  if (!id_) {
    id_ = id;
  } else if (*id_ != id) {
    next_ = id;
    next_since_ = now;
  }
}

bool NcclId::has_next() const {
  return next_ && !setup_.place->taken.contains(*next_) && now_ - next_since_ >= kOthersTake;
}

bool NcclId::may_call() {
  std::optional<uint32_t>& calling = setup_.place->calling;
  if (file_ || emulated_root() || has_store()) return true;
  if (!calling) calling = setup_.number;
  return calling == setup_.number;
}

void NcclId::called() {
  std::optional<uint32_t>& calling = setup_.place->calling;
  if (calling == setup_.number) calling.reset();
}

void NcclId::look_for_next() {
  called();
  if (has_store()) {
    meeting_.look_for_next();
    if (!emulated_root()) id_ = std::exchange(next_, std::nullopt);
  }
  if (!file_) return;
  id_ = std::exchange(next_, std::nullopt);
  if (id_ && !setup_.place->taken.insert(*id_).second) id_.reset();
}

void NcclId::poll_file(Time now) {
  const auto& read = file_->poll(now);
  if (!read) return;
  if (!*read) {
    // Of a next one it may be half written for longer.
    if (!id_) failure_ = read->error().text;
    if (id_) file_->look_for_next();
    return;
  }
  if (id_) {
    next_ = **read;
    next_since_ = now;
  } else if (setup_.place->taken.insert(**read).second) {
    id_ = **read;
    if (file_->is_old()) {
      say_(setup_.job->join->file +
           " was there before this run. If an earlier run left it, nobody is at " +
           id_->root.text() + " any more: end this run, remove the file, and start both again");
    }
  }
  file_->look_for_next();
}

void NcclId::poll(Time now) {
  now_ = now;
  if (file_ && (!id_ || now >= look_)) {
    look_ = now + kFileEvery;
    poll_file(now);
  }
  if (!has_store()) return;
  meeting_.poll();
  if (failure_.empty()) failure_ = meeting_.failure();
}

std::vector<std::string> NcclId::waiting() const {
  if (has_store()) return meeting_.waiting();
  if (file_ && !id_) return {"rank 0's unique id is to come in " + setup_.job->join->file};
  return {};
}

}  // namespace understudy
