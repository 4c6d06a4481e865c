#include "tools/nccl_decode/fields.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "dataplane/base/text_format.h"

namespace understudy::nccl_decode {
namespace {

/// Reads a structure's fields, and knows which bytes were none.
class Reader {
 public:
  explicit Reader(Bytes bytes) : bytes_(bytes), known_(bytes.size()) {}

  void number(const std::string& name, int at, FieldKind kind = FieldKind::kValue) {
    if (at == kAbsent || !take(at, 4)) return;
    add(name, std::to_string(i32_at(bytes_, static_cast<size_t>(at))), kind);
  }
  void byte(const std::string& name, int at) {
    if (at == kAbsent || !take(at, 1)) return;
    add(name, std::to_string(bytes_[static_cast<size_t>(at)]), FieldKind::kValue);
  }
  void real(const std::string& name, int at) {
    if (at == kAbsent || !take(at, 4)) return;
    const auto value = std::bit_cast<float>(u32_at(bytes_, static_cast<size_t>(at)));
    add(name, format_text("%g", static_cast<double>(value)), FieldKind::kValue);
  }
  void hex32(const std::string& name, int at, FieldKind kind) {
    if (at == kAbsent || !take(at, 4)) return;
    add(name, format_text("0x%x", u32_at(bytes_, static_cast<size_t>(at))), kind);
  }
  void hex64(const std::string& name, int at, FieldKind kind) {
    if (at == kAbsent || !take(at, 8)) return;
    const auto value = static_cast<unsigned long long>(u64_at(bytes_, static_cast<size_t>(at)));
    add(name, format_text("0x%llx", value), kind);
  }
  void address(const std::string& name, int at) {
    if (at == kAbsent || static_cast<size_t>(at) + kAddressBytes > bytes_.size()) return;
    const auto part = bytes_.subspan(static_cast<size_t>(at), kAddressBytes);
    const auto address = address_at(part, 0);
    const bool zero = std::all_of(part.begin(), part.end(), [](uint8_t b) { return b == 0; });
    if (address || zero) {
      constexpr size_t kFourBytes = 8;  // of an IPv4 address; nothing is to lie behind it
      take(at, address && address->address.is_v4() ? kFourBytes : kAddressBytes);
      add(name, address ? address->text() : "none", FieldKind::kAddress);
    }
  }
  void gid(const std::string& name, int at) {
    if (at == kAbsent || !take(at, 16)) return;
    add(name, IpAddress::v6_bytes(bytes_.data() + at).text(), FieldKind::kAddress);
  }
  void raw(const std::string& name, int at, int size, FieldKind kind) {
    if (at == kAbsent || size == 0 || !take(at, static_cast<size_t>(size))) return;
    const auto part = bytes_.subspan(static_cast<size_t>(at), static_cast<size_t>(size));
    const bool zero = std::all_of(part.begin(), part.end(), [](uint8_t b) { return b == 0; });
    add(name, zero ? "0" : hex_text(part, 64), kind);
  }
  void text(const std::string& name, int at, int size) {
    if (at == kAbsent || !take(at, static_cast<size_t>(size))) return;
    std::string out;
    for (int i = 0; i < size; ++i) {
      const uint8_t c = bytes_[static_cast<size_t>(at + i)];
      if (c == 0) break;
      out += c >= 32 && c < 127 ? static_cast<char>(c) : '?';
    }
    add(name, out, FieldKind::kValue);
  }
  /// The first `count` numbers of an array.
  void numbers(const std::string& name, int at, int count) {
    if (at == kAbsent || count <= 0 || !take(at, static_cast<size_t>(count) * 4)) return;
    std::string out;
    for (int i = 0; i < count; ++i) {
      out += (i == 0 ? "" : " ") + std::to_string(i32_at(bytes_, static_cast<size_t>(at + 4 * i)));
    }
    add(name, out, FieldKind::kValue);
  }
  Bytes bytes() const { return bytes_; }

  Fields finish() {
    for (size_t i = 0; i < bytes_.size();) {
      size_t end = i;
      while (end < bytes_.size() && !known_[end]) ++end;
      // The run's zeros at both ends say nothing.
      size_t first = i, last = end;
      while (first < last && bytes_[first] == 0) ++first;
      while (last > first && bytes_[last - 1] == 0) --last;
      if (first < last) last = std::min(end, first + (last - first + 3) / 4 * 4);
      if (first < last) {
        add("bytes " + std::to_string(first) + ".." + std::to_string(last - 1),
            hex_text(bytes_.subspan(first, last - first)), FieldKind::kUnknown);
      }
      i = end == i ? i + 1 : end;
    }
    return std::move(fields_);
  }

 private:
  /// Marks the bytes as known, if the structure has them.
  bool take(int at, size_t size) {
    const auto begin = static_cast<size_t>(at);
    if (begin + size > bytes_.size()) return false;
    std::fill_n(known_.begin() + at, size, true);
    return true;
  }
  void add(const std::string& name, const std::string& value, FieldKind kind) {
    fields_.push_back({name, value, kind});
  }

  Bytes bytes_;
  std::vector<bool> known_;
  Fields fields_;
};

constexpr std::array kGraphs = {"tree",     "ring", "collnet_direct", "collnet_chain", "nvls",
                                "nvlstree", "pat"};
constexpr std::array kArrays = {"ring_recv",      "ring_send",      "ring_prev",      "ring_next",
                                "tree_to_parent", "tree_to_child0", "tree_to_child1", "nvls_heads"};

/// The queue pairs of releases with entries of 24 bytes: those that there are.
void queue_pairs(Reader& reader, const IbLayout& layout) {
  constexpr int kMost = 128, kEntry = 24;
  for (int i = 0; i < kMost; ++i) {
    const int at = layout.queue_pairs + i * kEntry;
    if (u32_at(reader.bytes(), static_cast<size_t>(at)) == 0) continue;
    const std::string name = "qp" + std::to_string(i);
    reader.number(name + ".qpn", at, FieldKind::kRandom);
    reader.number(name + ".ece", at + 16);
    if (i32_at(reader.bytes(), static_cast<size_t>(at + 16)) != 0) {
      reader.raw(name + ".ece_values", at + 4, 12, FieldKind::kValue);
    }
    reader.number(name + ".device", at + 20);
  }
}

/// Of port failover, as many as devices: for probes, then for recovery (docs/nccl 3.15).
void further_queue_pairs(Reader& reader, const IbLayout& layout) {
  constexpr int kEntry = 24;
  for (int i = 0; i < layout.resiliency_bytes / kEntry; ++i) {
    const int at = layout.resiliency + i * kEntry;
    if (u32_at(reader.bytes(), static_cast<size_t>(at)) == 0) continue;
    const bool recovery = i >= layout.device_count;
    const std::string name =
        (recovery ? "recovery" : "probing") + std::to_string(i % layout.device_count);
    reader.number(name + ".qpn", at, FieldKind::kRandom);
    reader.number(name + ".device", at + 20);
  }
}

/// Of releases before 2.20: one port, and numbers of queue pairs.
void one_port(Reader& reader, const IbLayout& layout) {
  reader.number("lid", 0);
  reader.byte("port", 4);
  reader.byte("link_layer", 5);
  constexpr int kMost = 128;
  for (int i = 0; i < kMost; ++i) {
    const int at = layout.queue_pairs + 4 * i;
    if (u32_at(reader.bytes(), static_cast<size_t>(at)) == 0) continue;
    reader.number("qp" + std::to_string(i) + ".qpn", at, FieldKind::kRandom);
    // 2.19 has 128 ECE values of 12 bytes and as many flags behind them.
    constexpr int kEce = 520, kEceFlags = 2056, kEceEnd = 2568;
    if (layout.address > kEceEnd) {
      reader.number("qp" + std::to_string(i) + ".ece", kEceFlags + 4 * i);
      if (u32_at(reader.bytes(), static_cast<size_t>(kEceFlags + 4 * i)) != 0) {
        reader.raw("qp" + std::to_string(i) + ".ece_values", kEce + 12 * i, 12, FieldKind::kValue);
      }
    }
  }
  reader.gid("gid", layout.address - 24);
  reader.number("mtu", layout.address - 8);
  reader.hex32("rkey", layout.address - 4, FieldKind::kRandom);
}

}  // namespace

uint32_t u32_at(Bytes bytes, size_t at) {
  uint32_t value = 0;
  if (at + sizeof value <= bytes.size()) std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

uint64_t u64_at(Bytes bytes, size_t at) {
  uint64_t value = 0;
  if (at + sizeof value <= bytes.size()) std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

std::optional<Endpoint> address_at(Bytes bytes, size_t at) {
  if (at + kAddressBytes > bytes.size()) return std::nullopt;
  bytes = bytes.subspan(at, kAddressBytes);
  const int family = bytes[0] | bytes[1] << 8;
  Endpoint out;
  out.port = static_cast<uint16_t>(bytes[2] << 8 | bytes[3]);
  if (family == 2) {
    out.address = IpAddress::v4_bytes(bytes.data() + 4);
  } else if (family == 10) {
    out.address = IpAddress::v6_bytes(bytes.data() + 8);
  } else {
    return std::nullopt;
  }
  return out;
}

std::string hex_text(Bytes bytes, size_t most) {
  std::string out;
  for (size_t i = 0; i < std::min(bytes.size(), most); ++i) out += format_text("%02x", bytes[i]);
  if (bytes.size() > most) out += "... (" + std::to_string(bytes.size()) + " bytes)";
  return out;
}

Fields describe_check_in(Bytes bytes, const Layout& layout) {
  Reader reader(bytes);
  reader.number("rank", 0);
  reader.number("ranks", 4);
  if (layout.check_in_listener >= 16) {
    reader.number("root", 8);
    reader.number("roots", 12);
  }
  if (layout.check_in_listener >= 20) reader.number("offset", 16);
  reader.address("answer_to", layout.check_in_listener);
  reader.address("ring_listener", layout.check_in_ring);
  return reader.finish();
}

Fields describe_ring_address(Bytes bytes) {
  Reader reader(bytes);
  reader.address("ring_listener", 0);
  return reader.finish();
}

Fields describe_addresses(Bytes bytes, const Layout& layout) {
  Reader reader(bytes);
  reader.address("messages_to", 0);
  reader.address("proxy", 28);
  reader.hex64("uds", 56, FieldKind::kRandom);
  if (layout.ras_bytes > 0) {
    constexpr int kRas = 64;
    reader.address("ras", kRas);
    reader.number("ras.pid", kRas + 28, FieldKind::kRandom);
    reader.number("ras.cuda_dev", kRas + 32);
    reader.number("ras.nvml_dev", kRas + 36);
    if (layout.ras_bytes >= 56) {
      reader.hex64("ras.host_hash", kRas + 40, FieldKind::kRandom);
      reader.hex64("ras.pid_hash", kRas + 48, FieldKind::kRandom);
    }
  }
  return reader.finish();
}

Fields describe_peer_info(Bytes bytes, const PeerInfoLayout& layout) {
  Reader reader(bytes);
  reader.number("rank", 0);
  reader.number("cuda_dev", 4);
  reader.number("nvml_dev", 8);
  reader.number("gdr", 12);
  reader.hex64("host_hash", 16, FieldKind::kRandom);
  reader.hex64("pid_hash", 24, FieldKind::kRandom);
  reader.hex64("shm_dev", 32, FieldKind::kRandom);
  reader.hex64("bus_id", 40, FieldKind::kValue);
  reader.raw("gpu_uuid", layout.gpu_uuid, 16, FieldKind::kRandom);
  reader.hex64("comm", layout.comm, FieldKind::kRandom);
  reader.number("compute_capability", layout.capability);
  reader.hex64("memory", layout.memory, FieldKind::kValue);
  reader.raw("fabric", layout.fabric, 36, FieldKind::kRandom);
  reader.number("cu_mem", layout.cu_mem);
  reader.number("version", layout.version);
  reader.number("gin_type", layout.gin);
  if (layout.cross_nic != kAbsent) {
    reader.byte("cross_nic", layout.cross_nic);
    reader.byte("rma_plugin", layout.cross_nic + 1);
    reader.byte("cu_mem_gdr", layout.cross_nic + 2);
  }
  reader.number("mlo_part", layout.mlo_part);
  return reader.finish();
}

Fields describe_graph_info(Bytes bytes, const GraphInfoLayout& layout) {
  Reader reader(bytes);
  int used = 0;
  for (int i = 0; i < layout.graphs; ++i) {
    const int at = i * layout.graph_bytes;
    const std::string name = kGraphs[static_cast<size_t>(i)];
    reader.number(name + ".pattern", at);
    reader.number(name + ".channels", at + 4);
    const bool found = i32_at(bytes, static_cast<size_t>(at + 4)) != 0;
    // Of a graph that was not found the rest is of interest only if it is there.
    const auto rest =
        bytes.subspan(static_cast<size_t>(at + 8), static_cast<size_t>(layout.graph_bytes - 8));
    if (found || std::any_of(rest.begin(), rest.end(), [](uint8_t b) { return b != 0; })) {
      reader.number(name + ".same_channels", at + 8);
      reader.real(name + ".bw_intra", at + 12);
      reader.real(name + ".bw_inter", at + 16);
      reader.number(name + ".type_intra", at + 20);
      reader.number(name + ".type_inter", at + 24);
      if (layout.graph_bytes > 28) reader.number(name + ".cross_nic", at + 28);
    }
    if (i < 2) used = std::max(used, i32_at(bytes, static_cast<size_t>(at + 4)));
  }
  if (layout.cross_nic_ring) reader.number("cross_nic_ring", layout.topo);
  // Only the channels that were found are set, before they are doubled.
  used = std::clamp(used, 1, layout.channels);
  for (size_t i = 0; i < kArrays.size(); ++i) {
    reader.numbers(kArrays[i], layout.array(static_cast<int>(i)), used);
  }
  reader.number("nvls_heads_number", layout.nvls_heads);
  reader.number("cpu_arch", layout.cpu_arch);
  reader.number("cpu_vendor", layout.cpu_vendor);
  reader.number("local_ranks", layout.local_ranks);
  reader.number("p2p_channels_per_peer", layout.p2p_channels);
  if (layout.nic_fused != kAbsent) reader.byte("nic_fused", layout.nic_fused);
  reader.number("p2p_max_peers", layout.p2p_max_peers);
  reader.real("min_net_bandwidth", layout.min_net_bandwidth);
  reader.number("net_devices", layout.net_devices);
  reader.real("net_bandwidth", layout.net_bandwidth);
  reader.number("collnet_devices", layout.coll_net_devices);
  reader.number("all_nvlink", layout.all_nvlink);
  return reader.finish();
}

Fields describe_setup(Bytes bytes) {
  Reader reader(bytes);
  constexpr int kMagic = 32, kGdr = 128;
  if (u64_at(bytes, kMagic) == kIbMagic) {
    reader.address("listener", 0);
    reader.hex64("magic", kMagic, FieldKind::kValue);
    reader.number("gdr", kGdr);
    return reader.finish();
  }
  const auto rest = bytes.subspan(std::min<size_t>(bytes.size(), 4));
  const bool only_rank = std::all_of(rest.begin(), rest.end(), [&](const uint8_t& byte) {
    const auto at = static_cast<size_t>(&byte - bytes.data());
    return byte == 0 || (at >= kGdr && at < kGdr + 4);
  });
  if (only_rank) {
    reader.number("sending_rank", 0);
    reader.number("gdr", kGdr);
  }
  return reader.finish();
}

Fields describe_device_list(Bytes bytes) {
  Reader reader(bytes);
  reader.number("devices", 0);
  const int most = bytes.size() >= 36 ? 8 : 4;
  const int count = std::clamp(i32_at(bytes, 0), 0, most);
  reader.numbers("numbers", 4, count);
  if (bytes.size() == 37) reader.byte("out_of_order", 36);
  return reader.finish();
}

Fields describe_ib(Bytes bytes, const IbLayout& layout) {
  Reader reader(bytes);
  if (layout.devices == kAbsent) {
    one_port(reader, layout);
  } else {
    queue_pairs(reader, layout);
    further_queue_pairs(reader, layout);
    reader.number("devices", layout.device_number);
    const int devices = std::clamp(i32_at(bytes, static_cast<size_t>(layout.device_number)), 0,
                                   layout.device_count);
    for (int i = 0; i < devices; ++i) {
      const int at = layout.devices + 56 * i;
      const std::string name = "device" + std::to_string(i);
      reader.number(name + ".lid", at);
      reader.byte(name + ".port", at + 4);
      reader.number(name + ".mtu", at + 8);
      reader.byte(name + ".link_layer", at + 12);
      reader.gid(name + ".gid", at + 16);
      reader.hex32(name + ".rkey", at + 32, FieldKind::kRandom);
    }
    reader.text("name", layout.names, layout.name_bytes);
    reader.number("traffic_class", layout.traffic_class);
    reader.number("service_level", layout.service_level);
  }
  reader.hex64("address", layout.address, FieldKind::kRandom);
  return reader.finish();
}

}  // namespace understudy::nccl_decode
