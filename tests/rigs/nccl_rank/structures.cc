#include "tests/rigs/nccl_rank/structures.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <map>
#include <set>

#include "tools/nccl_decode/fields.h"

namespace understudy::nccl_rank {
namespace {

using nccl_decode::Field;
using nccl_decode::FieldKind;
using nccl_decode::i32_at;
using nccl_decode::kAbsent;
using nccl_decode::u64_at;

void put_float(Bytes& bytes, int at, float value) {
  put32(bytes, at, std::bit_cast<uint32_t>(value));
}

void put_optional(Bytes& bytes, int at, uint32_t value) {
  if (at != kAbsent) put32(bytes, at, value);
}

/// Fields that an emulated rank takes over from a real one.
bool mirrored(const Field& field, const std::set<std::string>& own) {
  return field.kind == FieldKind::kValue && !own.contains(field.name);
}

}  // namespace

void put32(Bytes& bytes, int at, uint32_t value) { std::memcpy(bytes.data() + at, &value, 4); }
void put64(Bytes& bytes, int at, uint64_t value) { std::memcpy(bytes.data() + at, &value, 8); }

void put_address(Bytes& bytes, int at, const SocketAddress& address) {
  uint8_t* to = bytes.data() + at;
  to[0] = address.address.is_v4() ? 2 : 10;
  to[2] = static_cast<uint8_t>(address.port >> 8);
  to[3] = static_cast<uint8_t>(address.port);
  if (address.address.is_v4()) {
    std::memcpy(to + 4, address.address.v4_data(), 4);
  } else {
    std::memcpy(to + 8, address.address.data(), 16);
  }
}

SocketAddress read_address(const Bytes& bytes, int at, const std::string& what) {
  const auto found = nccl_decode::address_at(bytes, static_cast<size_t>(at));
  require(found && found->port != 0 && !found->address.is_unset(), what + ": no address");
  Bytes again(28);
  put_address(again, 0, {found->address, found->port});
  require(std::equal(again.begin(), again.end(), bytes.begin() + at),
          what + ": more than an address");
  return {found->address, found->port};
}

void require_zero(const Bytes& bytes, size_t from, const std::string& what) {
  for (size_t i = from; i < bytes.size(); ++i) {
    require(bytes[i] == 0, what + ": byte " + std::to_string(i) + " is not 0");
  }
}

Bytes build_check_in(const World& world, int rank, int ranks, const SocketAddress& answer_to,
                     const SocketAddress& ring) {
  const auto& layout = world.layout();
  Bytes out(static_cast<size_t>(layout.check_in_bytes));
  put32(out, 0, static_cast<uint32_t>(rank));
  put32(out, 4, static_cast<uint32_t>(ranks));
  if (layout.check_in_listener >= 16) put32(out, 12, 1);  // one root, of number 0
  put_address(out, layout.check_in_listener, answer_to);
  put_address(out, layout.check_in_ring, ring);
  return out;
}

Bytes build_addresses(const World& world, const SocketAddress& messages, const SocketAddress& proxy,
                      uint64_t uds, bool shared) {
  Bytes out(static_cast<size_t>(world.layout().addresses_bytes));
  put_address(out, 0, messages);
  if (shared) return out;
  put_address(out, 28, proxy);
  put64(out, 56, uds);
  return out;
}

Bytes build_peer_info(const World& world, const Members& members) {
  const auto& layout = world.layout().peer;
  const int rank = members.of[static_cast<size_t>(members.own)];
  const auto local = world.local(rank);
  const auto place = std::find(local.begin(), local.end(), rank) - local.begin();
  const auto index = static_cast<uint32_t>(place);
  const auto node = static_cast<uint64_t>(world.node(rank));
  Bytes out(static_cast<size_t>(layout.bytes));
  put32(out, 0, static_cast<uint32_t>(members.own));
  put32(out, 4, index);
  put32(out, 8, index);
  put32(out, 12, 1);
  put64(out, 16, 0x5ca1ab1e00000000 + node * 0x10001);
  put64(out, 24, 0x0ddba11500000000 + static_cast<uint64_t>(rank) * 0x101);
  put64(out, 32, 0x1b);
  put64(out, 40, (index + 1) * 0x1000);
  if (layout.gpu_uuid != kAbsent) {
    put64(out, layout.gpu_uuid, 0xabcd + static_cast<uint64_t>(rank));
  }
  put64(out, layout.comm, 0x7f0000001000 + static_cast<uint64_t>(rank) * 0x1000);
  put32(out, layout.capability, 90);
  if (layout.memory != kAbsent) put64(out, layout.memory, uint64_t{80} << 30);
  if (layout.fabric != kAbsent) {
    put32(out, layout.fabric, 0x02000024);  // its version; a clique and a state behind it
    put32(out, layout.fabric + 8, 0xfab);
    put32(out, layout.fabric + 28, 3);
  }
  put_optional(out, layout.cu_mem, world.lazy ? 1 : 0);
  put_optional(out, layout.version, static_cast<uint32_t>(world.release.code()));
  put_optional(out, layout.gin, 2);
  if (layout.cross_nic != kAbsent) out[static_cast<size_t>(layout.cross_nic)] = 1;
  put_optional(out, layout.mlo_part, 5);
  return out;
}

Bytes build_graph_info(const World& world, const Members& members) {
  const auto& layout = world.layout().graph;
  Bytes out(static_cast<size_t>(layout.bytes));
  const int rank = members.of[static_cast<size_t>(members.own)];
  // Numbers of the communicator, of those of the node that are in it.
  std::vector<int> local;
  for (int r = 0; r < members.size(); ++r) {
    if (world.node(members.of[static_cast<size_t>(r)]) == world.node(rank)) local.push_back(r);
  }
  const int count = static_cast<int>(local.size());
  const auto graph = [&](int which, uint32_t pattern, int channels) {
    const int at = which * layout.graph_bytes;
    put32(out, at, pattern);
    put32(out, at + 4, static_cast<uint32_t>(channels));
    if (channels == 0) return;
    put32(out, at + 8, 1);
    put_float(out, at + 12, 24);
    put_float(out, at + 16, 12);
    put32(out, at + 20, 1);
    put32(out, at + 24, 8);
  };
  // TREE: a node's first GPU has both children; BALANCED_TREE: its second one the first of them;
  // SPLIT_TREE: that has both.
  const uint32_t tree_pattern = count == 1 ? 3 : world.split_tree ? 2 : 1;
  graph(0, tree_pattern, world.search_channels);
  graph(1, 4, world.search_channels);
  graph(2, 6, 0);
  graph(3, 3, 0);
  graph(4, 5, world.nvls_channels);
  graph(5, 5, world.nvls_channels);
  if (layout.graphs > 6) graph(6, tree_pattern, world.search_channels);
  for (int c = 0; c < world.search_channels; ++c) {
    // Each channel begins at another GPU.
    std::vector<int> order(local.size());
    int own = 0;
    for (int i = 0; i < count; ++i) {
      order[static_cast<size_t>(i)] = local[static_cast<size_t>((i + c) % count)];
      if (order[static_cast<size_t>(i)] == members.own) own = i;
    }
    const auto at = [&](int i) { return i < 0 || i >= count ? -1 : order[static_cast<size_t>(i)]; };
    const int values[7] = {at(0),
                           at(count - 1),
                           at(own - 1),
                           at(own + 1),
                           at(0),
                           tree_pattern == 3 ? at(0) : at(1),
                           tree_pattern == 2 ? at(1) : at(0)};
    for (int a = 0; a < 7; ++a) {
      put32(out, layout.array(a) + 4 * c, static_cast<uint32_t>(values[a]));
    }
  }
  put_optional(out, layout.cpu_arch, 1);
  put_optional(out, layout.cpu_vendor, 2);
  put_optional(out, layout.local_ranks, static_cast<uint32_t>(count));
  put_optional(out, layout.p2p_channels, 2);
  if (layout.nic_fused != kAbsent) out[static_cast<size_t>(layout.nic_fused)] = 1;
  put_optional(out, layout.p2p_max_peers, 7);
  if (layout.min_net_bandwidth != kAbsent) put_float(out, layout.min_net_bandwidth, 48.5F);
  put_optional(out, layout.net_devices, 1);
  if (layout.net_bandwidth != kAbsent) put_float(out, layout.net_bandwidth, 50);
  put_optional(out, layout.all_nvlink, 1);
  return out;
}

void judge_peer_infos(const World& world, const Members& members, const std::vector<Bytes>& infos) {
  const auto& layout = world.layout().peer;
  const auto& own = infos[static_cast<size_t>(members.own)];
  const auto own_fields = nccl_decode::describe_peer_info(own, layout);
  std::map<uint64_t, int> node_of_host;
  std::map<int, uint64_t> host_of_node;
  std::set<uint64_t> processes;
  std::set<std::pair<uint64_t, uint64_t>> devices;
  for (int r = 0; r < members.size(); ++r) {
    const Bytes& info = infos[static_cast<size_t>(r)];
    const int world_rank = members.of[static_cast<size_t>(r)];
    const int node = world.node(world_rank);
    const std::string who = "peer info of " + rank_text(r);
    require(i32_at(info, 0) == r, who + ": says that it is of " + rank_text(i32_at(info, 0)));
    const uint64_t host = u64_at(info, 16), process = u64_at(info, 24), bus = u64_at(info, 40);
    require(node_of_host.try_emplace(host, node).first->second == node,
            who + ": another node has its host hash");
    require(host_of_node.try_emplace(node, host).first->second == host,
            who + ": its node has another host hash");
    require(processes.insert(process).second, who + ": another rank has its process hash");
    require(devices.insert({host, bus}).second, who + ": Duplicate GPU detected");
    const auto fields = nccl_decode::describe_peer_info(info, layout);
    for (size_t i = 0; i < fields.size(); ++i) {
      require(fields[i].kind != FieldKind::kUnknown, who + ": " + fields[i].name + " is not 0");
      if (world.real(world_rank) ||
          !mirrored(fields[i], {"rank", "cuda_dev", "nvml_dev", "bus_id"}))
        continue;
      require(fields[i] == own_fields.at(i), who + ": " + fields[i].name + " is " +
                                                 fields[i].value + " instead of " +
                                                 own_fields.at(i).value);
    }
    if (!world.real(world_rank) && layout.fabric != kAbsent) {
      const auto fabric = info.begin() + layout.fabric;
      require(std::all_of(fabric, fabric + 36, [](uint8_t b) { return b == 0; }),
              who + ": it claims an NVLink fabric");
    }
  }
}

void judge_graph_infos(const World& world, const Members& members,
                       const std::vector<Bytes>& infos) {
  const auto& layout = world.layout().graph;
  const auto own_fields =
      nccl_decode::describe_graph_info(infos[static_cast<size_t>(members.own)], layout);
  const std::set<std::string> ranks = {
      "ring_recv",      "ring_send",      "ring_prev",  "ring_next",         "tree_to_parent",
      "tree_to_child0", "tree_to_child1", "nvls_heads", "nvls_heads_number", "local_ranks"};
  int nvls = world.nvls_channels;
  for (int r = 0; r < members.size(); ++r) {
    const Bytes& info = infos[static_cast<size_t>(r)];
    const int world_rank = members.of[static_cast<size_t>(r)];
    nvls = std::min(nvls, i32_at(info, static_cast<size_t>(4 * layout.graph_bytes + 4)));
    if (world.real(world_rank)) continue;
    const std::string who = "graph info of " + rank_text(r);
    const auto fields = nccl_decode::describe_graph_info(info, layout);
    for (const Field& field : fields) {
      // Entries of channels that are not in use may be anything: NCCL does not read them.
      require(field.kind != FieldKind::kUnknown || world.nvls_channels > 0,
              who + ": " + field.name + " is " + field.value);
      if (!mirrored(field, ranks) || field.name.starts_with("nvls")) continue;
      require(std::find(own_fields.begin(), own_fields.end(), field) != own_fields.end(),
              who + ": " + field.name + " is " + field.value + ", which no real rank says");
    }
  }
  require(nvls == 0 || std::all_of(members.of.begin(), members.of.end(),
                                   [&](int r) { return world.real(r); }),
          "NVLS would be used with emulated nodes");
}

}  // namespace understudy::nccl_rank
