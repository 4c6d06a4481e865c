#include "ctrl/peers/nccl/net_ib_peer.h"

#include <algorithm>
#include <utility>

#include "ctrl/peers/nccl/bytes.h"
#include "ctrl/peers/nccl/net_ib_metadata.h"

namespace understudy {
namespace {

// What NCCL gives its queue pairs (nccl-wire 2.4).
constexpr uint8_t kNetIbTimeout = 20;
constexpr uint8_t kNetIbRetryCount = 7;
constexpr uint8_t kNetIbRnrRetry = 7;
constexpr uint8_t kNetIbMinRnrTimer = 12;

constexpr size_t kNetIbHelloBytes = 12;  // u64 magic, i32 type
constexpr size_t kNetIbWordBytes = 4;    // i32 ready

/// 2.29.2 and 2.29.3 leave out what 2.29.7 has before the devices, where it has zeros as a rule.
bool looks_early(std::span<const uint8_t> bytes) {
  return read_net_ib(early_net_ib_layout_2_29(), bytes).has_value();
}

std::string addresses_text(const std::vector<IpAddress>& addresses) {
  std::string text;
  for (const IpAddress& address : addresses) text += (text.empty() ? "" : " or ") + address.text();
  return text;
}

}  // namespace

NetIbPeer::NetIbPeer(const NcclConnector& connector, NetIbSettings settings, NetIbSeen& seen,
                     NetIbObserver& observer)
    : connector_(connector),
      settings_(std::move(settings)),
      seen_(seen),
      observer_(observer),
      layout_(&net_ib_layout(settings_.version)),
      step_(connector.real_sends ? Step::kHello : Step::kConnecting) {
  if (!connector.real_sends && seen.layout != nullptr) layout_ = seen.layout;
}

std::string NetIbPeer::waiting() const {
  const auto of = [&](const char* what) {
    return std::string(what) + " (" + std::to_string(in_.size()) + " of " +
           std::to_string(wanted()) + " bytes)";
  };
  switch (step_) {
    case Step::kConnecting:
      return "the real rank to accept";
    case Step::kHello:
      return of("the real rank's magic");
    case Step::kDevices:
      return of("the real rank's devices");
    case Step::kMetadata:
      return of("the real rank's metadata");
    case Step::kNumbers:
    case Step::kQueuePairs:
      return "the dataplane's queue pairs";
    case Step::kWord:
      return "the real rank's word that it is ready";
    case Step::kReady:
      break;
  }
  return "";
}

/// Bytes of what comes next; 0: nothing.
size_t NetIbPeer::wanted() const {
  switch (step_) {
    case Step::kHello:
      return kNetIbHelloBytes;
    case Step::kDevices:
      return layout_->device_list_bytes;
    case Step::kMetadata:
      return layout_->bytes;
    case Step::kWord:
      return kNetIbWordBytes;
    default:
      return 0;
  }
}

/// Moves the next `bytes` into piece_, if they are here.
bool NetIbPeer::take(size_t bytes) {
  if (in_.size() < bytes) return false;
  const auto end = in_.begin() + static_cast<std::ptrdiff_t>(bytes);
  piece_.assign(in_.begin(), end);
  in_.erase(in_.begin(), end);
  return true;
}

void NetIbPeer::on_bytes(Time now, std::span<const uint8_t> bytes) {
  if (finished_ || step_ == Step::kReady) return;  // NCCL says no more
  in_.insert(in_.end(), bytes.begin(), bytes.end());
  advance(now);
  // All that it may say, while we wait for the dataplane.
  if (!finished_ && in_.size() > layout_->bytes + size_t{layout_->device_list_bytes} + 64) {
    fail(now, "the real rank says more than NCCL does");
  }
}

void NetIbPeer::advance(Time now) {
  while (!finished_) {
    const Step before = step_;
    if (step_ == Step::kMetadata && connector_.real_sends && layout_ == &net_ib_layout({29})) {
      const NetIbLayout& early = early_net_ib_layout_2_29();
      if (in_.size() >= early.bytes && looks_early(std::span(in_).first(early.bytes))) {
        layout_ = &early;
      }
    }
    const size_t bytes = wanted();
    if (bytes == 0 || !take(bytes)) return;
    switch (before) {
      case Step::kHello:
        hello(now);
        break;
      case Step::kDevices:
        devices(now);
        break;
      case Step::kMetadata:
        metadata(now);
        break;
      default: {
        const auto word = nccl_i32(piece_, 0);
        if (word != 1) {
          return fail(now, "the real rank's word that it is ready is " + std::to_string(word) +
                               ", NCCL says 1");
        }
        step_ = Step::kReady;
        in_.clear();
        observer_.on_connector_ready(now, connector_);
        return;
      }
    }
  }
}

/// NCCL closes a connection with another magic and goes on accepting (nccl-wire 1.2).
void NetIbPeer::hello(Time now) {
  static_cast<void>(now);
  const auto magic = nccl_u64(piece_, 0);
  const auto type = nccl_i32(piece_, sizeof magic);
  if (magic != settings_.magic || type != kNetIbSocketType) {
    failure_ = magic != settings_.magic
                   ? "who dialled is no net_ib of this communicator: its magic is wrong"
                   : "who dialled says that its socket is of type " + std::to_string(type) +
                         ", net_ib's is " + std::to_string(kNetIbSocketType);
    finished_ = true;
    return;
  }
  claimed_ = true;
  step_ = layout_->device_list_bytes == 0 ? Step::kMetadata : Step::kDevices;
}

void NetIbPeer::on_connected(Time now) {
  if (finished_ || step_ != Step::kConnecting) return;
  claimed_ = true;
  output_.resize(kNetIbHelloBytes);
  put_nccl_u64(output_, 0, settings_.magic);
  put_nccl_i32(output_, sizeof settings_.magic, kNetIbSocketType);
  if (layout_->device_list_bytes == 0) return ask(now, true);
  send_devices();
  step_ = Step::kDevices;
}

/// One device, the first of the node.
void NetIbPeer::send_devices() {
  const size_t at = output_.size();
  output_.resize(at + layout_->device_list_bytes);
  output_[at] = 1;
}

void NetIbPeer::devices(Time now) {
  const auto devices = nccl_i32(piece_, 0);
  if (devices < 1 || devices > layout_->most_devices) {
    return fail(now, "the real rank's list of devices has " + std::to_string(devices) +
                         ", NCCL has 1 to " + std::to_string(layout_->most_devices));
  }
  if (devices > 1) {
    return fail(now, "the real rank's NIC is " + std::to_string(devices) +
                         " devices that NCCL merged, one is done here: set NCCL_IB_MERGE_NICS=0 "
                         "and NCCL_IB_MERGE_VFS=0 on the real node, or name one port in "
                         "NCCL_IB_HCA");
  }
  if (!connector_.real_sends) return ask(now, true);
  send_devices();
  step_ = Step::kMetadata;
}

void NetIbPeer::metadata(Time now) {
  const auto read = read_net_ib(*layout_, piece_);
  if (!read) {
    return fail(now, "the real rank's metadata, taken for that of NCCL " +
                         std::string(layout_->name) + ": " + read.error().text);
  }
  const NetIbEnd& end = *read;
  if (end.further_queue_pairs) {
    return fail(now,
                "the real rank has queue pairs for a port that takes over, which is not done here: "
                "unset NCCL_IB_RESILIENCY_PORT_FAILOVER");
  }
  if (std::ranges::find(settings_.real_addresses, end.gid) == settings_.real_addresses.end()) {
    return fail(now, "the real rank's GID is " + end.gid.text() + ", its address is " +
                         addresses_text(settings_.real_addresses) +
                         ": NCCL_IB_GID_INDEX must name the RoCE v2 GID of that");
  }
  if (end.gid.is_v4() != settings_.local.is_v4()) {
    return fail(now, "the real rank's GID " + end.gid.text() + " is not of the family of " +
                         settings_.local.text());
  }
  if (connector_.real_sends && (end.address == 0 || end.rkey == 0)) {
    return fail(now, "the real rank gave no memory for credits");
  }
  if (!connector_.real_sends && end.qpns.size() != ours_.qpns.size()) {
    return fail(now, "the real rank has " + std::to_string(end.qpns.size()) +
                         " queue pairs for the connection and we have " +
                         std::to_string(ours_.qpns.size()) +
                         ": NCCL_IB_QPS_PER_CONNECTION differs");
  }
  theirs_ = std::move(piece_);
  if (seen_.metadata.empty()) seen_ = {layout_, theirs_};

  request_.remote = end.gid;
  request_.remote_qpn = end.qpns.front();
  request_.mtu = std::min(settings_.mtu, path_mtu_bytes(end.mtu));
  request_.nccl = NcclLinkRequest{
      .connector = connector_,
      .queue_pairs = static_cast<uint32_t>(end.qpns.size()),
      .remote_qpns = end.qpns,
      .split = end.qpns.size() > 1 && settings_.split_data.value_or(layout_->split_data),
      .fifo_address = end.address,
      .fifo_rkey = end.rkey};
  // Both ends take the sender's traffic class where it is told (2.26).
  if (connector_.real_sends && layout_->traffic_class != 0) {
    request_.sender.traffic_class = static_cast<uint8_t>(end.traffic_class);
  }
  ask(now, false);
}

/// Asks for queue pairs, or for their numbers before the others are known.
void NetIbPeer::ask(Time, bool reserve) {
  const uint8_t traffic_class = request_.sender.traffic_class;
  const bool told = connector_.real_sends && layout_->traffic_class != 0 && !reserve;
  EndpointRequest request = request_;
  request.behaviour = Behaviour::kNccl;
  request.local = settings_.local;
  request.sender = settings_.sender;
  if (told) request.sender.traffic_class = traffic_class;
  if (!connector_.real_sends) request.sender.traffic_class = own_traffic_class();
  request.timeout = kNetIbTimeout;
  request.retry_count = kNetIbRetryCount;
  request.rnr_retry = kNetIbRnrRetry;
  request.min_rnr_timer = kNetIbMinRnrTimer;
  request.reserve = reserve;
  if (reserve) {
    request.remote = settings_.real_addresses.front();
    request.nccl.emplace();
    request.nccl->connector = connector_;
    request.nccl->queue_pairs = settings_.queue_pairs;
  } else {
    request.reserved = ours_.qpn;
  }
  requests_.push_back(std::move(request));
  step_ = reserve ? Step::kNumbers : Step::kQueuePairs;
}

/// Of a connection whose data are ours.
uint8_t NetIbPeer::own_traffic_class() const {
  if (settings_.traffic_class) return *settings_.traffic_class;
  if (layout_->traffic_class == 0 || seen_.metadata.empty()) return settings_.sender.traffic_class;
  const auto read = read_net_ib(*layout_, seen_.metadata);
  return read ? static_cast<uint8_t>(read->traffic_class) : settings_.sender.traffic_class;
}

void NetIbPeer::on_endpoint(Time now, const EndpointReady& ready) {
  if (finished_) return;
  if (step_ == Step::kNumbers) {
    ours_ = ready;
    send_metadata(ready);
    step_ = Step::kMetadata;
    return advance(now);
  }
  if (step_ != Step::kQueuePairs) return;
  if (connector_.real_sends) {
    send_metadata(ready);
    step_ = Step::kWord;
    return advance(now);
  }
  output_.insert(output_.end(), {1, 0, 0, 0});
  step_ = Step::kReady;
  in_.clear();
  observer_.on_connector_ready(now, connector_);
}

/// A copy of what the real rank sent, here or earlier, with what is our own.
void NetIbPeer::send_metadata(const EndpointReady& ours) {
  const std::vector<uint8_t>& copied = connector_.real_sends ? theirs_ : seen_.metadata;
  std::vector<uint8_t> bytes = copied;
  NetIbEnd end;
  if (bytes.size() == layout_->bytes) {
    // What was copied has been read before.
    if (const auto read = read_net_ib(*layout_, bytes)) end = *read;
  } else {
    bytes.assign(layout_->bytes, 0);
    name_net_ib(*layout_, "understudy", bytes);
  }
  end.qpns = ours.qpns;
  end.gid = settings_.local;
  end.mtu = path_mtu_code(settings_.mtu);
  end.rkey = ours.rkey;
  end.address = ours.address;
  if (!connector_.real_sends) end.traffic_class = own_traffic_class();
  write_net_ib(*layout_, end, bytes);
  output_.insert(output_.end(), bytes.begin(), bytes.end());
}

void NetIbPeer::on_refused(Time now, const std::string& reason) {
  if (!finished_) fail(now, reason);
}

void NetIbPeer::on_closed(Time now) {
  if (finished_) return;
  if (step_ == Step::kReady) {
    finished_ = true;
    observer_.on_connector_closed(now, connector_);
  } else if (claimed_ || !connector_.real_sends) {
    fail(now, "the real rank closed the connection while we waited for " + waiting());
  } else {
    finished_ = true;
    failure_ = "who dialled closed the connection and said nothing";
  }
}

void NetIbPeer::fail(Time now, std::string why) {
  failure_ = std::move(why);
  finished_ = true;
  observer_.on_connector_failed(now, connector_, failure_);
}

}  // namespace understudy
