#include "tests/rigs/nccl_rank/verbs/verbs_connection.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstring>
#include <utility>

namespace understudy::nccl_rank {
namespace {

constexpr int kAccess = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
constexpr unsigned kCompletions = 16384;

template <typename T>
T taken(Result<T> result) {
  if (!result) throw Refused(result.error().text);
  return std::move(*result);
}
void well(const Result<void>& result) {
  if (!result) throw Refused(result.error().text);
}

template <typename T>
void put(std::byte* at, T value) {
  std::memcpy(at, &value, sizeof value);
}
template <typename T>
T get(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

/// Of all devices of a NIC.
RegisteredMemory memory(const std::deque<VerbsDevice>& devices, size_t bytes) {
  RegisteredMemory made = taken(RegisteredMemory::make(devices.front().domain(), bytes, kAccess));
  for (size_t d = 1; d < devices.size(); ++d) well(made.add(devices[d].domain(), kAccess));
  return made;
}

/// As ibv_mtu, and back.
int mtu_code(uint32_t bytes) { return std::countr_zero(bytes) - 7; }

}  // namespace

VerbsConnection::VerbsConnection(const std::deque<VerbsDevice>& devices, const Settings& settings,
                                 const Link& link)
    : DataConnection(link),
      devices_(devices),
      settings_(settings),
      layout_(credit_layout(settings.release)),
      fifo_(memory(devices, kMostFifoBytes)) {
  for (int q = 0; q < settings.queue_pairs; ++q) {
    qps_.push_back(taken(make_queue_pair(devices_[own_device(qps_.size())])));
    own_.qpns.push_back(qps_.back()->qp_num);
  }
  // A sender's credits come here. A receiver names where sizes of several messages would come.
  own_.address = fifo_.address();
  own_.mtu = mtu_code(devices_.front().mtu());
  for (size_t d = 0; d < devices_.size(); ++d) {
    own_.gids.push_back(devices_[d].gid());
    own_.rkeys.push_back(fifo_.rkey(d));
  }
}

void VerbsConnection::make_buffer(uint64_t bytes) {
  buffer_ = std::make_unique<RegisteredMemory>(memory(devices_, bytes));
}

void VerbsConnection::connect(const IbSide& theirs) {
  theirs_ = theirs;
  const IbSide& sender = link_.sends ? own_ : theirs;
  for (size_t q = 0; q < qps_.size(); ++q) {
    well(connect_queue_pair(qps_[q].get(), devices_[own_device(q)],
                            {.gid = theirs.gids[their_device(q)],
                             .qpn = theirs.qpns.at(q),
                             .psn = 0,
                             .mtu = 128U << std::min(own_.mtu, theirs.mtu),
                             .traffic_class = static_cast<uint8_t>(sender.traffic_class)}));
  }
}

void VerbsConnection::grant() {
  const uint64_t k = granted_++;
  missing_[k % kKept] = static_cast<uint8_t>(parts());
  for (unsigned p = 0; p < parts(); ++p) {
    well(post_receive(qps_[part(k, p)].get(), id(Kind::kReceive, k)));
  }
  const uint64_t at = k % layout_.slots * layout_.stride();
  std::byte* entry = fifo_.data() + at;
  std::memset(entry, 0, layout_.bytes);
  put<uint64_t>(entry, buffer_->address() + offset(k));
  put<uint32_t>(entry + 8, use_.capacity);
  for (size_t d = 0; d < devices_.size(); ++d) {
    put<uint32_t>(entry + layout_.rkey + 4 * d, buffer_->rkey(d));
  }
  put<uint32_t>(entry + layout_.receives, 1);
  put<uint32_t>(entry + layout_.tag, settings_.sender);
  put<uint64_t>(entry + layout_.number, k + 1);
  // Credits take turns over the receiver's devices; now and then one of each is signalled.
  const size_t q = k % devices_.size();
  well(post_write(qps_[q].get(),
                  {.id = id(Kind::kCredit, k),
                   .local = fifo_.address() + at,
                   .bytes = layout_.bytes,
                   .lkey = fifo_.lkey(q),
                   .remote = theirs_.address + at,
                   .rkey = theirs_.rkeys[their_device(q)],
                   .signalled = k % layout_.slots == q,
                   .immediate = {}},
                  "a credit"));
}

bool VerbsConnection::post(uint32_t bytes) {
  const uint64_t k = posted_;
  std::byte* entry = fifo_.data() + k % layout_.slots * layout_.stride();
  // The device writes behind the compiler's back; the number is the last word to arrive.
  auto* number = reinterpret_cast<uint64_t*>(entry + layout_.number);
  if (std::atomic_ref(*number).load(std::memory_order_acquire) != k + 1) return false;
  const std::string what = "credit " + std::to_string(k) + " of " + rank_text(link_.peer);
  const uint64_t room =
      layout_.size_bytes == 8 ? get<uint64_t>(entry + 8) : get<uint32_t>(entry + 8);
  const auto to = get<uint64_t>(entry);
  require(get<uint32_t>(entry + layout_.receives) == 1, what + ": not of one message");
  require(get<uint32_t>(entry + layout_.tag) == settings_.sender, what + ": not for our rank");
  require(room >= bytes, what + ": room for " + std::to_string(room) + " bytes, the message has " +
                             std::to_string(bytes));
  missing_[k % kKept] = static_cast<uint8_t>(parts());
  ++posted_;
  const uint32_t chunk = ((bytes + parts() - 1) / parts() + 127) / 128 * 128;
  for (unsigned p = 0; p < parts(); ++p) {
    const size_t q = part(k, p);
    const uint32_t begin = std::min(bytes, p * chunk);
    const uint32_t size = parts() == 1 ? bytes : std::min(chunk, bytes - begin);
    const auto rkey = get<uint32_t>(entry + layout_.rkey + 4 * their_device(q));
    require(to != 0 && rkey != 0, what + ": no memory");
    well(post_write(qps_[q].get(),
                    {.id = id(Kind::kData, k),
                     .local = buffer_->address() + offset(k) + begin,
                     .bytes = size,
                     .lkey = buffer_->lkey(own_device(q)),
                     .remote = to + begin,
                     .rkey = rkey,
                     .signalled = true,
                     .immediate = immediate(settings_.release, bytes)},
                    "data"));
  }
  return true;
}

void VerbsConnection::complete(uint64_t id, uint32_t value) {
  const Kind kind = kind_of(id);
  if (kind == Kind::kCredit) return;
  const auto at = static_cast<uint32_t>(id) % kKept;
  require(missing_[at] > 0, "a completion that nobody waits for");
  --missing_[at];
  if (kind == Kind::kReceive) {
    sizes_[at] = immediate(settings_.release, value);
    while (arrived_ < granted_ && missing_[arrived_ % kKept] == 0) ++arrived_;
  } else {
    while (acknowledged_ < posted_ && missing_[acknowledged_ % kKept] == 0) ++acknowledged_;
  }
}

VerbsAdapter::VerbsAdapter(const World& world, int rank, std::optional<int> in_child)
    : world_(world), rank_(rank), number_(in_child.value_or(rank)) {
  for (const IpAddress& gid : world.nic(rank).gids) {
    devices_.push_back(taken(VerbsDevice::open("", gid, {})));
    well(devices_.back().make_completion_queue(kCompletions));
  }
}

std::string VerbsAdapter::text() const {
  std::string all;
  for (const VerbsDevice& device : devices_) all += (all.empty() ? "" : "; ") + device.text();
  return all;
}

IbSide VerbsAdapter::open(const Link& link) {
  VerbsConnection::Settings settings;
  settings.release = world_.release;
  settings.queue_pairs = world_.connection_queue_pairs();
  settings.parts = settings.queue_pairs / world_.queue_pairs;
  settings.split = world_.split_data;
  settings.number = static_cast<uint32_t>(connections_.size());
  settings.sender = static_cast<uint32_t>(link.sends ? number_ : link.peer);
  connections_.push_back(std::make_unique<VerbsConnection>(devices_, settings, link));
  IbSide own = connections_.back()->own();
  own.first_device = world_.nic(rank_).first;
  by_qpn_[own.qpns[0]] = settings.number;
  by_link_[link] = settings.number;
  return own;
}

void VerbsAdapter::connect(const IbSide& own, const IbSide& theirs) {
  connections_.at(by_qpn_.at(own.qpns.at(0)))->connect(theirs);
}

bool VerbsAdapter::poll() {
  bool any = false;
  for (const VerbsDevice& device : devices_) any = poll(device) || any;
  return any;
}

bool VerbsAdapter::poll(const VerbsDevice& device) {
  ibv_wc completions[32];
  const int count = ibv_poll_cq(device.completion_queue(), 32, completions);
  require(count >= 0, "ibv_poll_cq failed");
  for (int i = 0; i < count; ++i) {
    const ibv_wc& wc = completions[i];
    VerbsConnection& connection = *connections_.at(VerbsConnection::number_of(wc.wr_id));
    if (wc.status != IBV_WC_SUCCESS) {
      const Link& link = connection.link();
      static constexpr const char* kKinds[] = {"data", "a receive", "a credit"};
      throw Refused(std::string(kKinds[static_cast<int>(VerbsConnection::kind_of(wc.wr_id))]) +
                    (link.sends ? " to " : " of ") + rank_text(link.peer) + ", channel " +
                    std::to_string(link.channel) + ": " + ibv_wc_status_str(wc.status) + " " +
                    device.fatal_event());
    }
    connection.complete(wc.wr_id, wc.imm_data);
  }
  return count > 0;
}

}  // namespace understudy::nccl_rank
