// [[traffic]] written out as flows: who sends to whom, when, after whom, over which connection.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "collective_model/nccl/double_tree.h"
#include "ctrl/traffic/traffic.h"

namespace understudy {
namespace {

/// Nodes w0 .. w4 on two switches, joined by two cables.
struct Rig {
  Rig() {
    Graph& graph = topology.graph;
    for (const char* name : {"left", "right"}) add({VertexKind::kSwitch, name, 0, 0, 1});
    for (uint32_t i = 0; i < 5; ++i) {
      Vertex vertex{VertexKind::kNic, "w", i, 0, 0};
      vertex.name += std::to_string(i);
      const VertexId nic = add(vertex);
      graph.connect(nic, i < 3 ? 0 : 1, rate, Duration::us(1));
      topology.nics.push_back({nic});
    }
    for (int i = 0; i < 2; ++i) graph.connect(0, 1, rate, Duration::us(1));
  }
  VertexId add(const Vertex& vertex) {
    return topology.by_name[vertex.name] = topology.graph.add_vertex(vertex);
  }
  std::vector<FlowSpec> flows(const std::string& keys, uint64_t seed = 1) {
    const std::string text =
        "format = 1\nseed = " + std::to_string(seed) +
        "\n[[node]]\nname = \"w\"\ncount = 5\nlink = { rate = \"10Gbit/s\", latency = \"1us\" }\n"
        "[[traffic]]\nname = \"t\"\n" +
        keys;
    const FileReader reader = [this](const std::string&, size_t) { return file; };
    const ConfigResult config = load_config_text(text, "f", reader);
    if (!config) {
      ADD_FAILURE() << describe(config.error());
      return {};
    }
    auto traffic = build_traffic(*config, topology);
    if (!traffic) {
      error = describe(traffic.error());
      return {};
    }
    EXPECT_EQ(traffic->first,
              (std::vector<uint32_t>{0, static_cast<uint32_t>(traffic->flows.size())}));
    return traffic->flows;
  }
  VertexId nic(uint32_t node) const { return topology.nics[node][0]; }

  Rate rate = Rate::bits_per_second(10'000'000'000);
  Topology topology;
  tl::expected<std::string, ConfigError> file;
  std::string error;
};

TEST(BuildTraffic, Incast) {
  Rig rig;
  const auto flows = rig.flows(
      "pattern = \"incast\"\nfrom = [\"w0\", \"w4\", \"w2\"]\nto = \"w1\"\nsize = \"2MB\"\n"
      "at = \"1ms\"\nstagger = \"10us\"\npriority = 3\n");
  ASSERT_EQ(flows.size(), 3u);
  const uint32_t from[] = {0, 4, 2};
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(flows[i].name, "t " + std::to_string(i));
    EXPECT_EQ(flows[i].from, rig.nic(from[i]));
    EXPECT_EQ(flows[i].to, rig.nic(1));
    EXPECT_EQ(flows[i].bytes, 2'000'000u);
    EXPECT_EQ(flows[i].start, Duration::ms(1) + Duration::us(10) * static_cast<int64_t>(i));
    EXPECT_EQ(flows[i].priority, 3);
    EXPECT_EQ(flows[i].control, kNoControl);
    EXPECT_EQ(flows[i].connection, kNoConnection);
    EXPECT_TRUE(flows[i].after.empty());
    EXPECT_TRUE(flows[i].path.empty());
  }
}

TEST(BuildTraffic, RoundsFollowOneAnother) {
  Rig rig;
  const auto flows = rig.flows(
      "pattern = \"flow\"\nfrom = [\"w0\", \"w1\"]\nto = [\"w2\", \"w3\"]\nsize = \"1KB\"\n"
      "at = \"1us\"\nrepeat = 3\noff = \"5us\"\n");
  ASSERT_EQ(flows.size(), 6u);
  for (uint32_t i = 0; i < 6; ++i) {
    EXPECT_EQ(flows[i].to, rig.nic(2 + i % 2));
    EXPECT_EQ(flows[i].connection, flows[i % 2].connection);
    EXPECT_EQ(flows[i].start, i < 2 ? Duration::us(1) : Duration::us(5));
    EXPECT_EQ(flows[i].after, i < 2 ? std::vector<uint32_t>{} : std::vector<uint32_t>{i - 2});
  }
  EXPECT_NE(flows[0].connection, flows[1].connection);
}

TEST(BuildTraffic, PermutationIsOneForEachSeed) {
  Rig rig;
  std::set<std::vector<VertexId>> seen;
  for (uint64_t seed = 1; seed <= 400; ++seed) {
    const std::string keys = "pattern = \"permutation\"\nfrom = \"w*\"\nsize = \"1KB\"\n";
    const auto flows = rig.flows(keys, seed);
    ASSERT_EQ(flows.size(), 5u);
    std::vector<VertexId> to;
    std::set<VertexId> receivers;
    for (uint32_t i = 0; i < 5; ++i) {
      EXPECT_EQ(flows[i].from, rig.nic(i));
      EXPECT_NE(flows[i].to, flows[i].from);
      receivers.insert(flows[i].to);
      to.push_back(flows[i].to);
    }
    EXPECT_EQ(receivers.size(), 5u);
    seen.insert(to);
    const auto again = rig.flows(keys, seed);
    for (uint32_t i = 0; i < 5; ++i) EXPECT_EQ(again[i].to, to[i]);
  }
  EXPECT_EQ(seen.size(), 44u);  // all derangements of five
}

TEST(BuildTraffic, AllToAllWithAWindow) {
  Rig rig;
  const auto flows = rig.flows(
      "pattern = \"all_to_all\"\nfrom = \"w*\"\nsize = \"1KB\"\nconcurrent = 2\nrepeat = 2\n"
      "off = \"9us\"\n");
  ASSERT_EQ(flows.size(), 40u);
  std::set<std::pair<VertexId, VertexId>> pairs;
  for (uint32_t i = 0; i < 40; ++i) {
    EXPECT_NE(flows[i].from, flows[i].to);
    if (i < 20) pairs.emplace(flows[i].from, flows[i].to);
    EXPECT_EQ(flows[i].connection, flows[i % 20].connection);
    if (i < 10) {
      EXPECT_TRUE(flows[i].after.empty());
      continue;
    }
    EXPECT_EQ(flows[i].after, std::vector<uint32_t>{i - 10});
    EXPECT_EQ(flows[i - 10].from, flows[i].from);  // the sender's last but one
    EXPECT_EQ(flows[i].start, i >= 20 && i < 30 ? Duration::us(9) : Duration()) << i;
  }
  EXPECT_EQ(pairs.size(), 20u);
}

TEST(BuildTraffic, RingStepsPassOnWhatCame) {
  Rig rig;
  const auto flows = rig.flows(
      "pattern = \"ring\"\nfrom = \"w*\"\nsize = \"64KiB\"\nsteps = 8\nchannels = 2\nrepeat = 2\n"
      "off = \"1us\"\nstagger = \"2us\"\n");
  ASSERT_EQ(flows.size(), 5u * 8 * 2 * 2);
  std::set<uint32_t> connections;
  for (uint32_t i = 0; i < flows.size(); ++i) {
    const uint32_t rank = i % 5, step = i / 5 % 16, channel = i / 80;
    EXPECT_EQ(flows[i].from, rig.nic(rank));
    EXPECT_EQ(flows[i].to, rig.nic((rank + 1) % 5));
    connections.insert(flows[i].connection);
    EXPECT_EQ(flows[i].connection, channel * 5 + rank);
    if (step == 0) {
      EXPECT_TRUE(flows[i].after.empty());
      EXPECT_EQ(flows[i].start, Duration::us(2) * (channel * 5 + rank));
      continue;
    }
    ASSERT_EQ(flows[i].after.size(), 1u);
    const FlowSpec& before = flows[flows[i].after[0]];
    EXPECT_EQ(before.to, flows[i].from);
    EXPECT_EQ(flows[i].after[0] / 5, i / 5 - 1);
    EXPECT_EQ(flows[i].start, step == 8 ? Duration::us(1) : Duration());
  }
  EXPECT_EQ(connections.size(), 10u);
}

// Of n ranks: by tree and rank, its parent and children, -1 for none (worked out from NCCL's
// source).
struct TreeCase {
  size_t ranks;
  std::array<std::vector<std::array<int, 3>>, 2> trees;
};
const TreeCase kTrees[] = {
    {2, {{{{-1, -1, 1}, {0, -1, -1}}, {{1, -1, -1}, {-1, -1, 0}}}}},
    {4,
     {{{{-1, -1, 2}, {2, -1, -1}, {0, 1, 3}, {2, -1, -1}},
       {{1, -1, -1}, {3, 2, 0}, {1, -1, -1}, {-1, -1, 1}}}}},
    {5,
     {{{{-1, -1, 4}, {2, -1, -1}, {4, 1, 3}, {2, -1, -1}, {0, 2, -1}},
       {{1, 3, -1}, {-1, -1, 0}, {3, -1, -1}, {0, 2, 4}, {3, -1, -1}}}}},
    {8,
     {{{{-1, -1, 4},
        {2, -1, -1},
        {4, 1, 3},
        {2, -1, -1},
        {0, 2, 6},
        {6, -1, -1},
        {4, 5, 7},
        {6, -1, -1}},
       {{1, -1, -1},
        {3, 2, 0},
        {1, -1, -1},
        {7, 5, 1},
        {5, -1, -1},
        {3, 6, 4},
        {5, -1, -1},
        {-1, -1, 3}}}}},
};

TEST(DoubleTree, IsNccls) {
  for (const TreeCase& c : kTrees) {
    const DoubleTree trees(static_cast<uint32_t>(c.ranks));
    const auto children = trees.children();
    for (uint32_t tree = 0; tree < 2; ++tree) {
      for (uint32_t rank = 0; rank < c.ranks; ++rank) {
        const uint32_t place = trees.place(tree, rank);
        EXPECT_EQ(trees.rank(tree, place), rank);
        const auto& [parent, first, second] = c.trees[tree][rank];
        std::set<int> expected = {first, second}, found;
        expected.erase(-1);
        for (const uint32_t child : children[place]) {
          found.insert(static_cast<int>(trees.rank(tree, child)));
        }
        EXPECT_EQ(place == 0 ? -1 : static_cast<int>(trees.rank(tree, trees.parent(place))),
                  parent);
        EXPECT_EQ(found, expected) << c.ranks << " " << tree << " " << rank;
      }
    }
  }
}

// Carried out: what each flow sends is what its sender has by then, all ranks end with all parts of
// both trees, and nobody is an inner node of both.
TEST(BuildTraffic, TreesReduceAndSpread) {
  for (uint32_t n = 2; n <= 5; ++n) {
    Rig rig;
    std::string from = "from = [\"w0\"";
    for (uint32_t i = 1; i < n; ++i) from += ", \"w" + std::to_string(i) + "\"";
    const uint32_t chunks = 3, rounds = 2, channels = 2;
    const auto flows = rig.flows("pattern = \"tree\"\n" + from +
                                 "]\nsize = \"64KiB\"\nchunks = 3\nchannels = 2\nrepeat = 2\n"
                                 "off = \"1us\"\nat = \"5us\"\nstagger = \"2us\"\n");
    ASSERT_EQ(flows.size(), 4 * (n - 1) * chunks * rounds * channels);
    std::map<uint32_t, std::pair<VertexId, VertexId>> pair_of;
    std::map<VertexId, uint64_t> sent, received;
    std::vector<std::set<VertexId>> parts(flows.size());  // whose contributions a flow carries
    std::vector<bool> up(flows.size());
    std::map<std::pair<uint32_t, VertexId>, uint32_t> sums;  // by chunk of a tree, in all, and rank
    // Flows in order of their dependencies: chunk by chunk, up before down.
    std::vector<bool> done(flows.size());
    for (size_t left = flows.size(); left != 0;) {
      const size_t before = left;
      for (uint32_t i = 0; i < flows.size(); ++i) {
        const FlowSpec& flow = flows[i];
        if (done[i] || !std::all_of(flow.after.begin(), flow.after.end(),
                                    [&](uint32_t a) { return done[a]; })) {
          continue;
        }
        done[i] = true;
        --left;
        const uint32_t tree_chunk = i / (2 * (n - 1));
        up[i] = i / (n - 1) % 2 == 0;
        parts[i].insert(flow.from);
        for (const uint32_t a : flow.after) {
          // What a flow waits for has come to its sender, of this chunk or of the last round.
          EXPECT_EQ(flows[a].to, flow.from);
          if (a / (2 * (n - 1)) == tree_chunk) {
            parts[i].insert(parts[a].begin(), parts[a].end());
          } else {
            EXPECT_EQ(a / (4 * (n - 1)) % (chunks * rounds), chunks - 1);
            EXPECT_GE(i / (4 * (n - 1)) % (chunks * rounds), chunks);
            EXPECT_EQ(parts[a].size() + (up[a] ? 1 : 0), n);
          }
        }
        if (!up[i]) {
          EXPECT_EQ(parts[i].size(), n);
          ++sums[{tree_chunk, flow.to}];
        }
        EXPECT_EQ(flow.bytes, 65'536u);
        sent[flow.from] += flow.bytes;
        received[flow.to] += flow.bytes;
        const auto [pair, fresh] = pair_of.try_emplace(flow.connection, flow.from, flow.to);
        EXPECT_EQ(pair->second, (std::pair(flow.from, flow.to)));
        const uint32_t round = i / (4 * (n - 1) * chunks) % rounds;
        if (flow.after.empty()) {
          const uint32_t channel = i / (4 * (n - 1) * chunks * rounds);
          EXPECT_EQ(round, 0u);
          EXPECT_EQ(flow.start, Duration::us(5 + 2 * (channel * n + flow.from - rig.nic(0))));
        } else {
          EXPECT_TRUE(flow.start == Duration() || (round == 1 && flow.start == Duration::us(1)));
        }
      }
      ASSERT_NE(left, before) << "flows that wait for one another";
    }
    EXPECT_EQ(pair_of.size(), 4 * (n - 1) * channels);
    // All but the root of a tree are told each sum once; the root has it.
    EXPECT_EQ(sums.size(), 2 * (n - 1) * chunks * rounds * channels);
    for (const auto& [what, times] : sums) EXPECT_EQ(times, 1u);
    for (uint32_t rank = 0; rank < n; ++rank) {
      // Three edges in one tree and one in the other, at most.
      EXPECT_EQ(sent[rig.nic(rank)], received[rig.nic(rank)]);
      EXPECT_LE(sent[rig.nic(rank)], 4 * 65'536u * chunks * rounds * channels);
    }
  }
}

TEST(BuildTraffic, BurstsAtFixedTimes) {
  Rig rig;
  const auto flows = rig.flows(
      "pattern = \"on_off\"\nfrom = [\"w0\", \"w1\"]\nto = \"w2\"\non = \"8us\"\noff = \"2us\"\n"
      "stagger = \"1us\"\nrepeat = 3\n");
  ASSERT_EQ(flows.size(), 6u);
  for (uint32_t i = 0; i < 6; ++i) {
    EXPECT_EQ(flows[i].start, Duration::us(i / 3) + Duration::us(10) * (i % 3));
    EXPECT_EQ(flows[i].bytes, 10'000u);
    EXPECT_EQ(flows[i].connection, i / 3);
    EXPECT_TRUE(flows[i].after.empty());
  }
}

TEST(BuildTraffic, FileWithPaths) {
  Rig rig;
  rig.file =
      "id,from,to,bytes,start,after,via\n"
      "a,w0,w3,1KB,1us,,left;right\n"
      "b,w0,w3,1KB,2us,a,left;right\n"
      "c,w0,w1,1KB,,,\n";
  const auto flows = rig.flows("pattern = \"file\"\nfile = \"x\"\nat = \"1ms\"\n");
  ASSERT_EQ(flows.size(), 3u) << rig.error;
  EXPECT_EQ(flows[0].name, "a");
  EXPECT_EQ(flows[0].start, Duration::ms(1) + Duration::us(1));
  EXPECT_EQ(flows[1].start, Duration::us(2));
  EXPECT_EQ(flows[1].after, std::vector<uint32_t>{0});
  EXPECT_TRUE(flows[2].path.empty());
  for (uint32_t i = 0; i < 2; ++i) {
    ASSERT_EQ(flows[i].path.size(), 3u);
    VertexId at = rig.nic(0);
    for (const LinkId link : flows[i].path) {
      EXPECT_EQ(rig.topology.graph.link(link).from, at);
      at = rig.topology.graph.link(link).to;
    }
    EXPECT_EQ(at, rig.nic(3));
  }
  EXPECT_NE(flows[0].path[1], flows[1].path[1]);  // parallel cables take turns
}

TEST(BuildTraffic, PathsThatAreNone) {
  const std::pair<const char*, const char*> cases[] = {
      {"middle", "f.csv:2: via: found \"middle\": there is no switch of this name"},
      {"left", "f.csv:2: via: found \"w3\": no cable leads here from left"},
      {"right", "f.csv:2: via: found \"right\": no cable leads here from w0"},
      {"w1", "f.csv:2: via: found \"w1\": this is no switch"},
  };
  for (const auto& [via, error] : cases) {
    Rig rig;
    rig.file = std::string("id,from,to,bytes,via\na,w0,w3,1KB,") + via + "\n";
    EXPECT_TRUE(rig.flows("pattern = \"file\"\nfile = \"f.csv\"\n").empty());
    EXPECT_EQ(rig.error.substr(0, std::string(error).size()), error);
  }
}

}  // namespace
}  // namespace understudy
