#include "tools/rigs/ring_node/verbs/verbs_device.h"

#include <fcntl.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

namespace understudy {
namespace {

constexpr size_t kPage = 4096;
/// As many as the kernel's interface can carry: it counts the table's bytes in 16 bits.
constexpr size_t kMaxGids = 65535 / sizeof(ibv_gid_entry);

using DeviceList = std::unique_ptr<ibv_device*, VerbsDeleter<ibv_free_device_list>>;

struct Found {
  uint8_t port = 0;
  uint32_t gid_index = 0;
  IpAddress gid;
};

/// The wanted entry of an open device's GID table.
std::optional<Found> find_gid(ibv_context* context, const IpAddress& address,
                              std::optional<uint32_t> gid_index) {
  std::vector<ibv_gid_entry> entries(kMaxGids);
  const ssize_t count = ibv_query_gid_table(context, entries.data(), entries.size(), 0);
  if (count < 0) return std::nullopt;
  entries.resize(static_cast<size_t>(count));
  for (const ibv_gid_entry& entry : entries) {
    if (entry.gid_type != IBV_GID_TYPE_ROCE_V2 || entry.gid_index > 255) continue;
    const IpAddress gid = IpAddress::v6_bytes(entry.gid.raw);
    if (gid_index ? entry.gid_index != *gid_index : gid != address) continue;
    ibv_port_attr port{};
    const uint8_t port_number = static_cast<uint8_t>(entry.port_num);
    if (ibv_query_port(context, port_number, &port) != 0 || port.state != IBV_PORT_ACTIVE) continue;
    return Found{port_number, entry.gid_index, gid};
  }
  return std::nullopt;
}

bool is_fatal(ibv_event_type type) {
  switch (type) {
    case IBV_EVENT_CQ_ERR:
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
    case IBV_EVENT_PATH_MIG_ERR:
    case IBV_EVENT_DEVICE_FATAL:
    case IBV_EVENT_PORT_ERR:
    case IBV_EVENT_WQ_FATAL:
      return true;
    default:
      return false;
  }
}

}  // namespace

void RegisteredMemory::Free::operator()(std::byte* p) const { std::free(p); }

Result<RegisteredMemory> RegisteredMemory::make(ibv_pd* domain, size_t bytes, int access) {
  const size_t rounded = (bytes + kPage - 1) / kPage * kPage;
  RegisteredMemory out;
  out.memory_.reset(static_cast<std::byte*>(std::aligned_alloc(kPage, rounded)));
  if (!out.memory_) return fail("no memory for a buffer of " + std::to_string(rounded) + " bytes");
  std::memset(out.memory_.get(), 0, rounded);
  out.bytes_ = rounded;
  if (auto added = out.add(domain, access); !added) return fail(added.error().text);
  return out;
}

Result<void> RegisteredMemory::add(ibv_pd* domain, int access) {
  registrations_.emplace_back(ibv_reg_mr(domain, memory_.get(), bytes_, access));
  if (registrations_.back()) return {};
  return fail("ibv_reg_mr of " + std::to_string(bytes_) + " bytes: " + std::strerror(errno) +
              " (the limit on locked memory may be too low: ulimit -l)");
}

Result<VerbsDevice> VerbsDevice::open(const std::string& name, const IpAddress& address,
                                      std::optional<uint32_t> gid_index) {
  int count = 0;
  const DeviceList list(ibv_get_device_list(&count));
  if (!list) return fail(std::string("ibv_get_device_list: ") + std::strerror(errno));
  std::string seen;
  for (int i = 0; i < count; ++i) {
    ibv_device* device = list.get()[i];
    seen += std::string(seen.empty() ? "" : ", ") + ibv_get_device_name(device);
    if (!name.empty() && name != ibv_get_device_name(device)) continue;
    VerbsDevice out;
    out.context_.reset(ibv_open_device(device));
    if (!out.context_) continue;
    const auto found = find_gid(out.context_.get(), address, gid_index);
    if (!found) continue;
    out.port_ = found->port;
    out.gid_index_ = static_cast<uint8_t>(found->gid_index);
    out.gid_ = found->gid;
    ibv_port_attr port{};
    ibv_query_port(out.context_.get(), out.port_, &port);
    out.mtu_ = 128u << port.active_mtu;  // IBV_MTU_256 is 1
    out.domain_.reset(ibv_alloc_pd(out.context_.get()));
    if (!out.domain_) return fail(std::string("ibv_alloc_pd: ") + std::strerror(errno));
    // Events are looked for only when nothing else happens, and never waited for.
    const int fd = out.context_->async_fd;
    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
    return out;
  }
  const std::string wanted =
      gid_index ? "RoCE v2 GID at index " + std::to_string(*gid_index) : "GID " + address.text();
  return fail("no RDMA device" + (name.empty() ? "" : " \"" + name + "\"") +
              " with an active port and " + wanted +
              " (devices: " + (seen.empty() ? "none" : seen) + ")");
}

Result<void> VerbsDevice::make_completion_queue(unsigned entries) {
  cq_.reset(ibv_create_cq(context_.get(), static_cast<int>(entries), nullptr, nullptr, 0));
  if (!cq_) return fail(std::string("ibv_create_cq: ") + std::strerror(errno));
  return {};
}

std::string VerbsDevice::text() const {
  return std::string(ibv_get_device_name(context_->device)) + " port " + std::to_string(port_) +
         ", GID " + std::to_string(gid_index_) + " " + gid_.text() + ", MTU " +
         std::to_string(mtu_);
}

std::string VerbsDevice::fatal_event() const {
  ibv_async_event event{};
  while (ibv_get_async_event(context_.get(), &event) == 0) {
    const ibv_event_type type = event.event_type;
    ibv_ack_async_event(&event);
    if (is_fatal(type)) return ibv_event_type_str(type);
  }
  return {};
}

}  // namespace understudy
