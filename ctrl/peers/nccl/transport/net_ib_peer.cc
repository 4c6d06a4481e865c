#include "ctrl/peers/nccl/transport/net_ib_peer.h"

#include <algorithm>
#include <utility>

#include "ctrl/peers/nccl/bootstrap/bytes.h"

namespace understudy {
namespace {

// What NCCL gives its queue pairs (docs/nccl 2.4).
constexpr uint8_t kNetIbTimeout = 20;
constexpr uint8_t kNetIbRetryCount = 7;
constexpr uint8_t kNetIbRnrRetry = 7;
constexpr uint8_t kNetIbMinRnrTimer = 12;

constexpr size_t kNetIbHelloBytes = 12;  // u64 magic, i32 type
constexpr size_t kNetIbWordBytes = 4;    // i32 ready

/// 2.29.2 and 2.29.3 leave out what 2.29.7 has before the devices, where it has zeros as a rule.
bool looks_early(std::span<const uint8_t> bytes) {
  return read_net_ib(early_net_ib_layout_2_29(), bytes, 1).has_value();
}

/// NCCL on the real node and the job do not agree on what one NIC is; empty if they do.
std::string why_other_devices(size_t devices, const NetIbSettings& settings) {
  const size_t expected = settings.real_addresses.size();
  if (devices == expected) return "";
  const std::string text = "the real rank's NIC is " + std::to_string(devices) + " device" +
                           (devices > 1 ? "s that NCCL merged" : "") + ", the job has " +
                           std::to_string(expected) + ": ";
  return text + (devices > 1 ? "set merged_nics = " + std::to_string(devices) +
                                   " in the job if all are NICs of the node here, or on the real "
                                   "node NCCL_IB_MERGE_NICS=0 and NCCL_IB_MERGE_VFS=0, or name one "
                                   "port in NCCL_IB_HCA"
                             : "leave merged_nics out, or let NCCL merge them on the real node "
                               "(NCCL_IB_HCA, NCCL_IB_MERGE_NICS)");
}

std::string addresses_text(const std::vector<IpAddress>& addresses) {
  std::string text;
  for (const IpAddress& address : addresses) text += (text.empty() ? "" : " or ") + address.text();
  return text;
}

std::string why_other_gid(const IpAddress& gid, const NetIbSettings& settings) {
  const std::string text = "the real rank's GID is " + gid.text() + ", its address is " +
                           addresses_text(settings.real_addresses) + ": ";
  if (std::ranges::find(settings.real_node, gid) == settings.real_node.end()) {
    return text + "NCCL_IB_GID_INDEX must name the RoCE v2 GID of that";
  }
  return text +
         "NCCL took another NIC of its node. NCCL_IB_HCA must name those that the job uses "
         "(understudy env), and the node's NICs must have the order of the GPUs that they are next "
         "to";
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

/// NCCL closes a connection with another magic and goes on accepting (docs/nccl 1.2).
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

/// Up to 2.23 an end makes as many queue pairs as its own devices ask for, whatever the other one
/// has (source: transport/net_ib.cc): there ours are not more than the real rank's.
uint32_t NetIbPeer::own_devices() const {
  size_t most = layout_->most_devices;
  if (layout_->device_list_bytes == 0) most = std::min(most, settings_.real_addresses.size());
  return static_cast<uint32_t>(std::min(settings_.local.size(), most));
}

/// Their numbers in our node.
void NetIbPeer::send_devices() {
  const size_t at = output_.size();
  output_.resize(at + layout_->device_list_bytes);
  output_[at] = static_cast<uint8_t>(own_devices());
  for (uint32_t d = 0; d < own_devices(); ++d) {
    const uint32_t number = settings_.first_device + d;
    put_nccl_i32(output_, at + (d + 1) * sizeof(int32_t), static_cast<int32_t>(number));
  }
}

void NetIbPeer::devices(Time now) {
  const auto devices = nccl_i32(piece_, 0);
  if (devices < 1 || devices > layout_->most_devices) {
    return fail(now, "the real rank's list of devices has " + std::to_string(devices) +
                         ", NCCL has 1 to " + std::to_string(layout_->most_devices));
  }
  if (auto why = why_other_devices(static_cast<size_t>(devices), settings_); !why.empty()) {
    return fail(now, std::move(why));
  }
  if (!connector_.real_sends) return ask(now, true);
  send_devices();
  step_ = Step::kMetadata;
}

/// As NCCL counts them at both ends (docs/nccl 3.15).
NcclLinkRequest::Failover NetIbPeer::failover_with(size_t theirs) const {
  const size_t own = own_devices();
  const size_t senders = connector_.real_sends ? theirs : own;
  NcclLinkRequest::Failover out;
  out.probing = static_cast<uint32_t>(senders);
  if (settings_.recovery) out.recovery = static_cast<uint32_t>(std::max(own, theirs));
  return out;
}

std::string NetIbPeer::why_other_failover(const NetIbEnd& end) const {
  const std::string failover = "NCCL_IB_RESILIENCY_PORT_FAILOVER",
                    recovery = "NCCL_IB_RESILIENCY_PORT_RECOVERY";
  const auto differ = [&](bool on, const std::string& name) {
    return std::string("the real rank has ") + name + (on ? " on" : " off") + ", and here it is " +
           (on ? "off" : "on") + ": say the same in [nccl] environment, " +
           "which emulated ranks take, as there";
  };
  if (end.probing.empty() != !settings_.failover) return differ(!end.probing.empty(), failover);
  if (!settings_.failover) return "";
  if (end.recovery.empty() == settings_.recovery) {
    return differ(!end.recovery.empty(), recovery);
  }
  const auto expected = failover_with(end.devices.size());
  if (end.probing.size() == expected.probing && end.recovery.size() == expected.recovery) return "";
  return "the real rank has " + std::to_string(end.probing.size()) +
         " queue pairs for probes and " + std::to_string(end.recovery.size()) +
         " for recovery, NCCL has " + std::to_string(expected.probing) + " and " +
         std::to_string(expected.recovery);
}

/// Why the real rank's end is none that can be served; empty if it is.
std::string NetIbPeer::why_not(const NetIbEnd& end) const {
  if (auto why = why_other_failover(end); !why.empty()) return why;
  if (auto why = why_other_devices(end.devices.size(), settings_); !why.empty()) return why;
  for (size_t d = 0; d < end.devices.size(); ++d) {
    const IpAddress& gid = end.devices[d].gid;
    if (std::ranges::find(settings_.real_addresses, gid) == settings_.real_addresses.end()) {
      return why_other_gid(gid, settings_);
    }
    for (size_t other = 0; other < d; ++other) {
      if (end.devices[other].gid == gid) {
        return "two devices of the real rank have the GID " + gid.text();
      }
    }
    for (const IpAddress& local : settings_.local) {
      if (gid.is_v4() != local.is_v4()) {
        return "the real rank's GID " + gid.text() + " is not of the family of " + local.text();
      }
    }
    if (connector_.real_sends && (end.address == 0 || end.devices[d].rkey == 0)) {
      return "the real rank gave no memory for credits";
    }
  }
  if (!connector_.real_sends && end.qpns.size() != ours_.qpns.size()) {
    return "the real rank has " + std::to_string(end.qpns.size()) +
           " queue pairs for the connection and we have " + std::to_string(ours_.qpns.size()) +
           ": NCCL_IB_QPS_PER_CONNECTION differs";
  }
  return "";
}

NcclLinkRequest NetIbPeer::link_to(const NetIbEnd& end) const {
  NcclLinkRequest link;
  link.connector = connector_;
  link.queue_pairs = static_cast<uint32_t>(end.qpns.size());
  link.remote_qpns = end.qpns;
  link.remote_device = end.device_of;
  for (const NetIbDevice& device : end.devices) link.devices.push_back({device.gid, device.rkey});
  link.split = end.qpns.size() > 1 && settings_.split_data.value_or(layout_->split_data);
  link.parts = std::max(static_cast<uint32_t>(end.devices.size()), own_devices());
  link.fifo_address = end.address;
  if (settings_.failover) {
    link.failover = failover_with(end.devices.size());
    link.failover->remote_probing = end.probing;
    link.failover->remote_recovery = end.recovery;
  }
  return link;
}

void NetIbPeer::metadata(Time now) {
  const auto read = read_net_ib(*layout_, piece_, settings_.queue_pairs);
  if (!read) {
    return fail(now, "the real rank's metadata, taken for that of NCCL " +
                         std::string(layout_->name) + ": " + read.error().text);
  }
  const NetIbEnd& end = *read;
  if (auto why = why_not(end); !why.empty()) return fail(now, std::move(why));
  theirs_ = std::move(piece_);
  if (seen_.metadata.empty()) seen_ = {layout_, theirs_};

  request_.remote = end.devices[end.device_of.front()].gid;
  request_.remote_qpn = end.qpns.front();
  request_.mtu = std::min(settings_.mtu, path_mtu_bytes(end.devices.front().mtu));
  request_.nccl = link_to(end);
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
  request.local = settings_.local.front();
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
    const size_t theirs = settings_.real_addresses.size();
    request.nccl->queue_pairs =
        settings_.queue_pairs * static_cast<uint32_t>(std::max<size_t>(own_devices(), theirs));
    if (settings_.failover) request.nccl->failover = failover_with(theirs);
  } else {
    request.reserved = ours_.qpn;
  }
  const auto end = settings_.local.begin() + own_devices();
  request.nccl->local.assign(settings_.local.begin(), end);
  requests_.push_back(std::move(request));
  step_ = reserve ? Step::kNumbers : Step::kQueuePairs;
}

/// Of a connection whose data are ours.
uint8_t NetIbPeer::own_traffic_class() const {
  if (settings_.traffic_class) return *settings_.traffic_class;
  if (layout_->traffic_class == 0 || seen_.metadata.empty()) return settings_.sender.traffic_class;
  const auto read = read_net_ib(*layout_, seen_.metadata, settings_.queue_pairs);
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
    if (const auto read = read_net_ib(*layout_, bytes, settings_.queue_pairs)) end = *read;
  }
  if (bytes.size() != layout_->bytes) {
    bytes.assign(layout_->bytes, 0);
    name_net_ib(*layout_, "understudy", bytes);
  } else if (!layout_->cleared) {  // what its stack had is not passed on
    const std::string name = name_in_net_ib(*layout_, bytes);
    bytes.assign(layout_->bytes, 0);
    name_net_ib(*layout_, name, bytes);
  }
  end.qpns = ours.qpns;
  end.device_of.clear();
  // Ports of the device are mirrored; what the real rank has not is as its first one.
  if (end.devices.empty()) end.devices.emplace_back();
  const NetIbDevice first = end.devices.front();
  end.devices.resize(own_devices(), first);
  for (size_t d = 0; d < end.devices.size(); ++d) {
    end.devices[d].gid = settings_.local[d];
    end.devices[d].mtu = path_mtu_code(settings_.mtu);
    end.devices[d].rkey = ours.rkey;
  }
  for (size_t q = 0; q < end.qpns.size(); ++q) {
    end.device_of.push_back(static_cast<uint8_t>(q % end.devices.size()));
  }
  end.probing = ours.probing;
  end.recovery = ours.recovery;
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
    fail(now,
         "the real rank closed the connection while we waited for " + waiting() +
             "; NCCL says why there (NCCL_DEBUG=WARN), and NCCL_IB_QPS_PER_CONNECTION has to be " +
             std::to_string(ours_.qpns.size()) + " there, as queue_pairs of join is here");
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
