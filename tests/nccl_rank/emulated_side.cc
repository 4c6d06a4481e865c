#include "tests/nccl_rank/emulated_side.h"

#include <utility>

namespace understudy::nccl_rank {

EmulatedSide::~EmulatedSide() = default;

SocketAddress EmulatedSide::open_root(uint32_t rank) {
  settings_.emulated_root = true;
  settings_.root_rank = rank;
  settings_.root_listener = network_.new_id();
  return network_.listen(*this, address(rank), settings_.root_listener);
}

void EmulatedSide::start(const SocketAddress& root) {
  settings_.version.minor = static_cast<uint32_t>(world_.release.minor);
  settings_.id = {world_.magic, root};
  for (const World::Rank& rank : world_.ranks) {
    settings_.ranks.push_back({rank.real, static_cast<uint32_t>(rank.node)});
  }
  communicator_ = std::make_unique<NcclCommunicator>(settings_, *this);
  communicator_->start(now_);
}

void EmulatedSide::on_accepted(Id listener, Id stream, const SocketAddress& from) {
  communicator_->on_accepted(now_, listener, stream, from);
  now_ = now_ + Duration::us(1);
}

void EmulatedSide::on_connected(Id stream) {
  communicator_->on_connected(now_, stream);
  now_ = now_ + Duration::us(1);
}

void EmulatedSide::on_bytes(Id stream, std::span<const uint8_t> bytes) {
  communicator_->on_bytes(now_, stream, bytes);
  now_ = now_ + Duration::us(1);
}

void EmulatedSide::on_closed(Id stream, const std::string& why) {
  communicator_->on_closed(now_, stream, why);
  now_ = now_ + Duration::us(1);
}

Result<SocketAddress> EmulatedSide::listen(uint32_t rank, ListenerId listener) {
  return network_.listen(*this, address(rank), listener);
}

void EmulatedSide::dial(uint32_t rank, const SocketAddress& to, StreamId stream) {
  network_.dial(*this, address(rank), to, stream);
}

Process& EmulatedSide::process(uint32_t rank) {
  auto& process = processes_[world_.node(static_cast<int>(rank))];
  if (process == nullptr) process = std::make_unique<Process>(network_, address(rank));
  return *process;
}

IbSide EmulatedSide::own_side(const NcclConnector& connector) {
  IbSide side;
  for (int q = 0; q < world_.queue_pairs; ++q) side.qpns.push_back(++last_qpn_);
  side.gid = address(connector.emulated);
  side.address = 0x770000000000 + last_qpn_ * 0x100000ULL;
  side.rkey = 0x2000 + last_qpn_;
  side.traffic_class = static_cast<uint32_t>(world_.traffic_class);
  return side;
}

Result<SocketAddress> EmulatedSide::expect(const NcclConnector& connector) {
  struct Take {
    static Task<> one(EmulatedSide* self, Process* process, NcclConnector connector,
                      ListeningSocket* listener) {
      IbSide theirs = co_await ib_receive(*process, self->world_, listener,
                                          self->own_side(connector), self->address(connector.real));
      self->connected_[connector] = std::move(theirs);
      self->communicator_->on_connector_ready(self->now_, connector);
    }
  };
  Process& owner = process(connector.emulated);
  ListeningSocket* listener = owner.listen();
  const SocketAddress address = listener->address;
  owner.spawn(Take::one(this, &owner, connector, listener));
  return address;
}

void EmulatedSide::connect(const NcclConnector& connector, const SocketAddress& listener,
                           uint64_t magic) {
  struct Dial {
    static Task<> one(EmulatedSide* self, Process* process, NcclConnector connector,
                      SocketAddress listener, uint64_t magic) {
      require(magic == nccl_decode::kIbMagic, "net_ib: another magic");
      IbSide theirs = co_await ib_send(*process, self->world_, listener, self->own_side(connector),
                                       self->address(connector.real));
      self->connected_[connector] = std::move(theirs);
      self->communicator_->on_connector_ready(self->now_, connector);
    }
  };
  Process& owner = process(connector.emulated);
  owner.spawn(Dial::one(this, &owner, connector, listener, magic));
}

std::string EmulatedSide::ib_failure() const {
  for (const auto& [node, process] : processes_) {
    if (!process->failure().empty()) return process->failure();
  }
  return "";
}

}  // namespace understudy::nccl_rank
