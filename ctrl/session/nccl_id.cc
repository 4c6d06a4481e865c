#include "ctrl/session/nccl_id.h"

#include <utility>

namespace understudy {
namespace {

/// The first communicator of the default process group: that of all ranks.
bool is_first(const UniqueIdKey& key) { return key.group == "0" && key.member == "0"; }

}  // namespace

/// The store's machines on the sockets of one emulated rank.
class NcclId::Store final : public StoreHost {
 public:
  Store(NcclSockets& sockets, uint32_t rank, SocketAddress master)
      : sockets_(sockets), rank_(rank), master_(master) {}
  StreamId new_stream() override { return sockets_.new_stream(); }
  void dial(StreamId stream) override { sockets_.dial(rank_, master_, stream); }
  void send(StreamId stream, std::span<const uint8_t> bytes) override {
    sockets_.send(stream, bytes);
  }
  void close(StreamId stream) override { sockets_.close(stream); }
  void say(const std::string& line) override { sockets_.say(line); }

 private:
  NcclSockets& sockets_;
  const uint32_t rank_;
  const SocketAddress master_;
};

NcclId::NcclId(Setup setup, NcclSockets& root, SocketAdapter& adapter,
               NcclSockets::Callbacks callbacks)
    : setup_(std::move(setup)),
      root_(root),
      sockets_(adapter, setup_.addresses, std::move(callbacks)) {
  sockets_.attach(*this);
}

NcclId::~NcclId() = default;

uint32_t NcclId::first_emulated() const {
  uint32_t rank = 0;
  while (setup_.ranks[rank].real) ++rank;
  return rank;
}

Result<void> NcclId::make_root() {
  root_listener_ = root_.new_listener();
  const auto root = root_.listen(0, root_listener_);
  if (!root) return fail(root.error().text);
  id_ = make_unique_id(setup_.seed, setup_.number, *root);
  return {};
}

Result<void> NcclId::open() {
  const NcclJoinConfig& join = *setup_.job->join;
  switch (join.way) {
    case NcclJoinConfig::Way::kCommId: {
      auto id = unique_id_of_comm_id(join_address().text(), setup_.job->nccl);
      if (!id) return fail(id.error().text);
      id_ = *id;
      if (!emulated_root()) return {};
      root_listener_ = root_.new_listener();
      return root_.listen_at(0, join.port, root_listener_);
    }
    case NcclJoinConfig::Way::kFile: {
      if (!emulated_root()) {
        file_.emplace(join.file);
        return {};
      }
      if (auto made = make_root(); !made) return made;
      return write_unique_id_file(join.file, *id_);
    }
    case NcclJoinConfig::Way::kStore:
      return open_store();
  }
  return {};
}

Result<void> NcclId::open_store() {
  RendezvousSettings settings;
  settings.ranks = setup_.ranks;
  settings.master = join_address();
  std::optional<NcclUniqueId> ours;
  if (emulated_root()) {
    if (auto made = make_root(); !made) return made;
    ours = std::exchange(id_, std::nullopt);
    if (auto opened = sockets_.listen_at(0, settings.master.port, sockets_.new_listener());
        !opened) {
      return opened;
    }
  } else {
    settings.generation = store_generation_of_release(setup_.job->join->torch);
  }
  RendezvousCallbacks callbacks;
  callbacks.learned = [this](Time, const UniqueIdKey& key, const NcclUniqueId& id) {
    learned(key, id);
  };
  callbacks.provide = [this, ours](Time, const UniqueIdKey& key) -> std::optional<NcclUniqueId> {
    if (!ours || !is_first(key)) return std::nullopt;
    id_ = ours;
    return ours;
  };
  store_ = std::make_unique<Store>(sockets_, first_emulated(), settings.master);
  sockets_.wait_for(settings.master);
  rendezvous_ = Rendezvous::make(std::move(settings), *store_, std::move(callbacks));
  return {};
}

void NcclId::learned(const UniqueIdKey& key, const NcclUniqueId& id) {
  if (is_first(key)) {
    if (!id_) id_ = id;
    return;
  }
  sockets_.say("PyTorch makes another communicator, " + key.member + " of its process group " +
               key.group + ": emulated ranks join the first one of all ranks only");
}

void NcclId::poll(Time now) {
  if (file_ && !id_) {
    if (const auto& read = file_->poll(now); read) {
      if (*read) {
        id_ = **read;
      } else {
        failure_ = read->error().text;
      }
    }
  }
  if (rendezvous_ == nullptr) return;
  if (!std::exchange(started_, true)) rendezvous_->start(now);
  rendezvous_->poll(now);
  sockets_.poll();
  if (!rendezvous_->failure().empty()) failure_ = rendezvous_->failure();
}

std::vector<std::string> NcclId::waiting() const {
  if (rendezvous_ != nullptr) return rendezvous_->waiting();
  if (file_ && !id_) return {"rank 0's unique id is to come in " + setup_.job->join->file};
  return {};
}

void NcclId::on_accepted(Time, ListenerId, StreamId stream, const SocketAddress& from) {
  rendezvous_->on_accepted(stream, from);
}

void NcclId::on_connected(Time now, StreamId stream) { rendezvous_->on_connected(now, stream); }

void NcclId::on_bytes(Time now, StreamId stream, std::span<const uint8_t> bytes) {
  rendezvous_->on_bytes(now, stream, bytes);
}

void NcclId::on_closed(Time now, StreamId stream, const std::string&) {
  rendezvous_->on_closed(now, stream);
}

}  // namespace understudy
