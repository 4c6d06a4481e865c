#include "tools/rigs/ring_node/verbs/verbs_link.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "dataplane/base/try.h"

namespace understudy {

namespace {

constexpr int kAccess = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;

}  // namespace

VerbsLink::VerbsLink(std::vector<const VerbsDevice*> devices, const Settings& settings)
    : settings_(settings), whole_(static_cast<uint32_t>(devices.size()), kFifoSlots) {
  for (const VerbsDevice* device : devices) ways_.push_back({.device = device, .qp = {}});
  // Their devices take turns: the first one comes again.
  while (near_devices_ < devices.size() && devices[near_devices_] != devices.front()) {
    ++near_devices_;
  }
}

Result<RegisteredMemory> VerbsLink::memory(size_t bytes) const {
  auto made = TRY(RegisteredMemory::make(ways_.front().device->domain(), bytes, kAccess));
  for (uint32_t d = 1; d < near_devices_; ++d) {
    TRY(made.add(ways_[d].device->domain(), kAccess));
  }
  return made;
}

Result<std::unique_ptr<VerbsLink>> VerbsLink::make(std::vector<const VerbsDevice*> devices,
                                                   const Settings& settings) {
  std::unique_ptr<VerbsLink> link(new VerbsLink(std::move(devices), settings));
  link->buffer_ =
      TRY(link->memory(std::max<size_t>(size_t{settings.slots} * settings.slot_bytes, 1)));
  link->credits_ = TRY(link->memory(kRingFifoBytes));
  for (Way& way : link->ways_) way.qp = TRY(make_queue_pair(*way.device));
  return link;
}

void VerbsLink::describe(RingLinkEnd& end) const {
  const auto fifo_rkey = [&](size_t q) {
    return settings_.sends ? credits_.rkey(q % near_devices_) : 0;
  };
  end.qpn = ways_.front().qp->qp_num;
  end.psn = Psn(0);
  end.mtu = ways_.front().device->mtu();
  end.gid = ways_.front().device->gid();
  end.fifo_address = settings_.sends ? credits_.address() : 0;
  end.fifo_rkey = fifo_rkey(0);
  for (size_t q = 1; q < ways_.size(); ++q) {
    const Way& way = ways_[q];
    end.more.push_back({way.qp->qp_num, way.device->gid(), fifo_rkey(q)});
    end.mtu = std::min(end.mtu, way.device->mtu());
  }
}

Result<void> VerbsLink::connect(const RingLinkEnd& theirs, uint8_t traffic_class) {
  for (size_t q = 0; q < ways_.size(); ++q) {
    const RingLinkEnd::More first{theirs.qpn, theirs.gid, theirs.fifo_rkey};
    const RingLinkEnd::More& far = q == 0 ? first : theirs.more.at(q - 1);
    ways_[q].fifo_rkey = far.fifo_rkey;
    TRY(connect_queue_pair(ways_[q].qp.get(), *ways_[q].device,
                           {.gid = far.gid,
                            .qpn = far.qpn,
                            .psn = theirs.psn.value(),
                            .mtu = theirs.mtu,
                            .traffic_class = traffic_class}));
  }
  fifo_address_ = theirs.fifo_address;
  return {};
}

Result<void> VerbsLink::grant(uint64_t k, uint32_t capacity) {
  for (uint32_t q = 0; q < ways_.size(); ++q) {
    TRY(post_receive(ways_[q].qp.get(), work_id(settings_.number, q, kReceive)));
  }
  // Credits take the devices in turn (docs/nccl 3.1).
  const auto device = static_cast<uint32_t>(k % near_devices_);
  const Way& way = ways_[device];
  const uint64_t offset = k % kFifoSlots * kFifoStride;
  CreditEntry entry{.address = buffer_.address() + slot_offset(k),
                    .size = capacity,
                    .rkeys = {},
                    .nreqs = 1,
                    .tag = settings_.sender_rank,
                    .idx = k + 1};
  for (uint32_t d = 0; d < near_devices_; ++d) entry.rkeys[d] = buffer_.rkey(d);
  settings_.form.write(entry, credits_.data() + offset);
  return post_write(way.qp.get(),
                    // One completion per round of the FIFO and device lets the driver reclaim the
                    // send queue (docs/nccl 3.1).
                    {.id = work_id(settings_.number, device, kCredit),
                     .local = credits_.address() + offset,
                     .bytes = CreditForm::kBytes,
                     .lkey = credits_.lkey(device),
                     .remote = fifo_address_ + offset,
                     .rkey = way.fifo_rkey,
                     .signalled = k % kFifoSlots < near_devices_,
                     .immediate = {}},
                    "a credit");
}

const CreditEntry* VerbsLink::credit(uint64_t k) {
  std::byte* entry = credits_.data() + k % kFifoSlots * kFifoStride;
  // The device writes behind the compiler's back; idx is the last word of a credit to arrive.
  auto& word = *reinterpret_cast<uint64_t*>(entry + settings_.form.idx_at());
  if (std::atomic_ref(word).load(std::memory_order_acquire) != k + 1) return nullptr;
  read_ = settings_.form.read(entry);
  return &read_;
}

Result<void> VerbsLink::send(uint64_t k, const CreditEntry& credit, uint32_t bytes) {
  const auto parts = static_cast<uint32_t>(ways_.size());
  for (uint32_t q = 0; q < parts; ++q) {
    const MessagePart part = message_part(bytes, parts, q);
    TRY(post_write(ways_[q].qp.get(),
                   {.id = work_id(settings_.number, q, kData),
                    .local = buffer_.address() + slot_offset(k) + part.from,
                    .bytes = static_cast<uint32_t>(part.bytes),
                    .lkey = buffer_.lkey(q % near_devices_),
                    .remote = credit.address + part.from,
                    .rkey = credit.rkeys[q % settings_.far_devices],
                    .signalled = true,
                    .immediate = bytes},  // host byte order up to NCCL 2.28 (docs/nccl 3.2)
                   "data"));
  }
  return {};
}

bool VerbsLink::makes_whole(uint64_t id) { return whole_.take(ways_[id >> 2 & 15].parts++) > 0; }

std::string completion_fault(const ibv_wc& completion, const std::string& event) {
  static constexpr const char* kKinds[] = {"data write", "receive", "credit write"};
  return std::string(kKinds[completion.wr_id & 3]) + ": " + ibv_wc_status_str(completion.status) +
         " (status " + std::to_string(completion.status) + ", vendor error " +
         std::to_string(completion.vendor_err) + ")" + (event.empty() ? "" : "; " + event);
}

}  // namespace understudy
