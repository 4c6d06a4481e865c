#include "tools/nccl_decode/layout.h"

#include <array>
#include <charconv>
#include <vector>

namespace understudy::nccl_decode {
namespace {

constexpr int X = kAbsent;

//                                  bytes uuid comm cap mem fabric cuMem vers gin cross mlo
constexpr PeerInfoLayout kPeer218 = {64, X, 48, 56, X, X, X, X, X, X, X};
constexpr PeerInfoLayout kPeer220 = {96, X, 48, 56, X, 60, X, X, X, X, X};
constexpr PeerInfoLayout kPeer222 = {104, X, 48, 56, X, 60, 96, X, X, X, X};
constexpr PeerInfoLayout kPeer223 = {104, X, 48, 56, X, 60, 96, 100, X, X, X};
constexpr PeerInfoLayout kPeer227 = {120, X, 48, 56, 64, 72, 108, 112, X, X, X};
constexpr PeerInfoLayout kPeer229 = {128, X, 48, 56, 64, 72, 108, 112, 116, 120, X};
constexpr PeerInfoLayout kPeer230 = {144, 48, 64, 72, 80, 88, 124, 128, 132, 136, 140};

constexpr GraphInfoLayout graph(int bytes, int graphs, int graph_bytes, int channels,
                                bool cross_nic_ring, bool heads) {
  GraphInfoLayout g = {};
  g.bytes = bytes;
  g.graphs = graphs;
  g.graph_bytes = graph_bytes;
  g.topo = graphs * graph_bytes;
  g.channels = channels;
  g.cross_nic_ring = cross_nic_ring;
  g.nvls_heads = heads ? g.array(8) : X;
  g.cpu_arch = g.cpu_vendor = g.local_ranks = g.p2p_channels = g.nic_fused = X;
  g.p2p_max_peers = g.min_net_bandwidth = g.net_devices = g.net_bandwidth = X;
  g.coll_net_devices = g.all_nvlink = X;
  return g;
}

constexpr GraphInfoLayout with_cpu(GraphInfoLayout g, int arch) {
  g.cpu_arch = arch;
  g.cpu_vendor = arch + 4;
  return g;
}

constexpr GraphInfoLayout with_ranks(GraphInfoLayout g, int local_ranks) {
  g.local_ranks = local_ranks;
  return g;
}

constexpr GraphInfoLayout kGraph218 = graph(1192, 6, 28, 32, false, false);
constexpr GraphInfoLayout kGraph220 = graph(1196, 6, 28, 32, false, true);
constexpr GraphInfoLayout kGraph221 = graph(1220, 6, 32, 32, false, true);
constexpr GraphInfoLayout kGraph222 = with_cpu(graph(1228, 6, 32, 32, false, true), 1220);
constexpr GraphInfoLayout kGraph223 = with_cpu(graph(1260, 7, 32, 32, false, true), 1252);
constexpr GraphInfoLayout kGraph225 = with_cpu(graph(2284, 7, 32, 64, false, true), 2276);
constexpr GraphInfoLayout kGraph227 =
    with_ranks(with_cpu(graph(2288, 7, 32, 64, false, true), 2276), 2284);
constexpr GraphInfoLayout kGraph228 =
    with_ranks(with_cpu(graph(2292, 7, 32, 64, true, true), 2280), 2288);
constexpr GraphInfoLayout kGraph229 = [] {
  auto g = with_ranks(with_cpu(graph(2300, 7, 32, 64, true, true), 2280), 2288);
  g.p2p_channels = 2292;
  g.nic_fused = 2296;
  return g;
}();
constexpr GraphInfoLayout kGraph230 = [] {
  auto g = with_ranks(with_cpu(graph(2320, 7, 32, 64, true, true), 2280), 2288);
  g.p2p_channels = 2292;
  g.p2p_max_peers = 2296;
  g.min_net_bandwidth = 2300;
  g.net_devices = 2304;
  g.net_bandwidth = 2308;
  g.coll_net_devices = 2312;
  g.all_nvlink = 2316;
  return g;
}();
static_assert(kGraph228.array(1) == 224 + 260 && kGraph228.nvls_heads == 224 + 2052);

//                            bytes  qps res  len devs n names len  addr  ndevs  tc    sl  list
constexpr IbLayout kIb218 = {552, 8, X, 0, X, 0, X, 0, 544, X, X, X, 0};
constexpr IbLayout kIb219 = {2600, 8, X, 0, X, 0, X, 0, 2592, X, X, X, 0};
constexpr IbLayout kIb220 = {3336, 0, X, 0, 3072, 2, 3184, 130, 3320, 3328, X, X, 0};
constexpr IbLayout kIb224 = {3576, 0, X, 0, 3072, 4, 3296, 260, 3560, 3568, X, X, 20};
constexpr IbLayout kIb226 = {3584, 0, X, 0, 3072, 4, 3296, 260, 3560, 3568, 3572, 3576, 20};
constexpr IbLayout kIb227 = {3648, 0, X, 0, 3072, 4, 3296, 324, 3624, 3632, 3636, 3640, 20};
constexpr IbLayout kIb229 = {3744, 0, 3072, 96, 3168, 4, 3392, 324, 3720, 3728, 3732, 3736, 20};
constexpr IbLayout kIb230 = {4576, 0, 3072, 384, 3456, 8, 3904, 648, 4552, 4560, 4564, 4568, 37};

//   release  check-in        ring  1st ras  peer      graph      ib      header two-way sync bit
constexpr std::array<Layout, 14> kLayouts = {{
    {{18, 6}, 64, 8, 36, 28, 28, 0, kPeer218, kGraph218, kIb218, true, false, X, 0},
    {{19, 4}, 64, 8, 36, 28, 28, 0, kPeer218, kGraph218, kIb219, true, false, 4, 0},
    {{20, 5}, 64, 8, 36, 28, 28, 0, kPeer220, kGraph220, kIb220, true, false, 4, 0},
    {{21, 5}, 64, 8, 36, 28, 28, 0, kPeer220, kGraph221, kIb220, true, false, 4, 128},
    {{22, 3}, 64, 8, 36, 28, 28, 0, kPeer222, kGraph222, kIb220, true, false, 4, 128},
    {{23, 4}, 172, 16, 44, 128, 64, 0, kPeer223, kGraph223, kIb220, false, false, 0, 128},
    {{24, 3}, 172, 16, 44, 128, 104, 40, kPeer223, kGraph223, kIb224, false, false, 0, 128},
    {{25, 1}, 172, 16, 44, 128, 104, 40, kPeer223, kGraph225, kIb224, false, false, 0, 128},
    {{26, 6}, 172, 16, 44, 128, 120, 56, kPeer223, kGraph225, kIb226, false, false, 0, 128},
    {{27, 7}, 172, 16, 44, 128, 120, 56, kPeer227, kGraph227, kIb227, false, false, 0, 128},
    {{28, 9}, 172, 16, 44, 128, 120, 56, kPeer227, kGraph228, kIb227, false, true, 0, 128},
    {{29, 7}, 176, 20, 48, 128, 120, 56, kPeer229, kGraph229, kIb229, false, true, 0, 128},
    {{30, 7}, 176, 20, 48, 128, 120, 56, kPeer230, kGraph230, kIb230, false, true, 0, 128},
    {{31, 0}, 176, 20, 48, 128, 120, 56, kPeer230, kGraph230, kIb230, false, true, 0, 128},
}};

}  // namespace

std::string Release::text() const {
  return "2." + std::to_string(minor) + "." + std::to_string(patch);
}

std::optional<Release> Release::from_code(int64_t code) {
  if (code < 21800 || code >= 30000) return std::nullopt;
  return Release{static_cast<int>(code / 100 % 100), static_cast<int>(code % 100)};
}

std::optional<Release> Release::parse(std::string_view text) {
  std::vector<int> numbers;
  while (numbers.size() < 3) {
    const std::string_view part = text.substr(0, text.find('.'));
    int number = 0;
    const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), number);
    if (error != std::errc() || end != part.data() + part.size() || number < 0) break;
    numbers.push_back(number);
    if (part.size() == text.size()) {
      text = {};
      break;
    }
    text.remove_prefix(part.size() + 1);
  }
  if (!text.empty() || numbers.size() < 2 || numbers[0] != 2) return std::nullopt;
  Release release{numbers[1], 0};
  const Layout* layout = layout_of(release);
  if (layout == nullptr) return std::nullopt;
  release.patch = numbers.size() > 2 ? numbers[2] : layout->release.patch;
  return release;
}

std::span<const Layout> layouts() { return kLayouts; }

const Layout* layout_of(Release release) {
  for (const Layout& layout : kLayouts) {
    if (layout.release.minor == release.minor) return &layout;
  }
  return nullptr;
}

}  // namespace understudy::nccl_decode
