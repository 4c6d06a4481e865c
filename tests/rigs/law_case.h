// Random networks and random traffic for the laws that hold of every run: configurations as text,
// so that one that breaks a law can be kept and run by hand.
#pragma once

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "ctrl/config/read/load.h"
#include "ctrl/topology/topology.h"
#include "ctrl/traffic/flow_routes.h"
#include "ctrl/traffic/traffic.h"

namespace understudy {

struct LawOptions {
  bool losses = false;    ///< lossy classes with small buffers, links that lose and that fail
  bool controls = false;  ///< any congestion control; else line rate, some with a window
  bool spray = false;     ///< some cases spray packets
  bool cycles = true;     ///< tori too, where PFC could deadlock
  bool pfc = true;        ///< else unlimited buffers and nothing is paused
  bool paths = false;     ///< flows have their paths; else each switch chooses the next link
  int64_t k = 1;          ///< all rates times k, all times by k; 1, 2, 4: exact in picoseconds
};

class LawCase {
 public:
  LawCase(uint64_t seed, const LawOptions& options) : options_(options), random_(seed) {
    text_ = write(seed);
    const ConfigResult read = load_config_text(text_, "law.toml");
    if (!read) {
      ADD_FAILURE() << describe(read.error()) << text_;
      return;
    }
    config = *read;
    auto built = build_topology(config);
    if (!built) {
      ADD_FAILURE() << describe(built.error()) << text_;
      return;
    }
    topology = std::move(*built);
    auto traffic = build_traffic(config, topology);
    if (!traffic) {
      ADD_FAILURE() << describe(traffic.error()) << text_;
      return;
    }
    flows = std::move(traffic->flows);
    const auto routed = route_flows(topology, config.seed, flows);
    EXPECT_TRUE(routed) << text_;
    ok = static_cast<bool>(routed);
    if (ok && options_.paths) give_paths();
  }

  const std::string& text() const { return text_; }
  const Graph& graph() const { return topology.graph; }
  NextHops next_hops() const { return topology.next_hops(config.seed); }

  Config config;
  Topology topology;
  std::vector<FlowSpec> flows;
  bool ok = false;

 private:
  void give_paths() {
    Routes routes = topology.routes(config.seed);
    for (FlowSpec& flow : flows) {
      flow.back = path_back_of(routes, flow);
      flow.path = path_of(routes, flow);
    }
  }

  uint64_t below(uint64_t n) { return random_() % n; }
  bool one_in(uint64_t n) { return below(n) == 0; }

  /// A byte takes 320, 160, 80, 40 or 20 ps, divided by k.
  std::string rate() {
    return "\"" + std::to_string((int64_t{25} << below(5)) * options_.k) + "Gbit/s\"";
  }
  std::string time(uint64_t most_ns) {
    const auto ps = static_cast<int64_t>(8 * (1 + below(most_ns / 8))) * 1000 / options_.k;
    return "\"" + std::to_string(ps) + "ps\"";
  }
  std::string link() { return "{ rate = " + rate() + ", latency = " + time(2000) + " }"; }

  std::string topology_text(unsigned& nodes) {
    std::string text = "[topology]\nkind = ";
    const std::string dims[] = {"[2, 2]", "[3, 2]", "[2, 2, 2]", "[4, 3]", "[3, 3]"};
    const unsigned places[] = {4, 6, 8, 12, 9};
    const uint64_t d = below(5);
    switch (below(options_.cycles ? 7 : 4)) {
      case 0:
        nodes = 2 + static_cast<unsigned>(below(7));
        return text + "\"single_switch\"\n";
      case 1:
        nodes = 4 + static_cast<unsigned>(below(9));
        text += "\"leaf_spine\"\nhosts_per_leaf = " + std::to_string(2 + below(3)) +
                "\nspines = " + std::to_string(1 + below(3)) + "\nuplink = " + link() + "\n";
        break;
      case 2:
        nodes = 4 + static_cast<unsigned>(below(5));
        text += "\"rail\"\nhosts_per_leaf = 4\nspines = 2\nuplink = " + link() + "\n";
        break;
      case 3:
        nodes = 8 + static_cast<unsigned>(below(9));
        text += "\"fat_tree\"\nk = 4\nuplink = " + link() + "\ncore_uplink = " + link() + "\n";
        break;
      case 4:
      case 5:
        nodes = places[d];
        text += (one_in(2) ? "\"torus\"\ndims = " : "\"mesh\"\ndims = ") + dims[d] +
                "\nlink = " + link() + "\n" +
                (one_in(2) ? "routing = \"dimension_order\"\n" : "routing = \"ecmp\"\n");
        return text;
      default:
        nodes = 8;
        text += "\"dimensions\"\ndimensions = [ { kind = \"ring\", size = 4, link = " + link() +
                " }, { kind = \"switch\", size = 2, link = " + link() + " } ]\n";
        return text;
    }
    if (options_.spray && one_in(3)) text += "routing = \"spray\"\n";
    return text;
  }

  std::string overrides() {
    std::string text;
    if (one_in(2)) text += "[[topology.override]]\nlink = \"w1 - *\"\nrate = " + rate() + "\n";
    if (!options_.losses) return text;
    if (one_in(2)) text += "[[topology.override]]\nlink = \"* -> w0\"\nloss = 0.01\n";
    if (one_in(3)) {
      const auto us = [&](int64_t n) { return std::to_string(n * 1'000'000 / options_.k) + "ps"; };
      text += "[[topology.override]]\nlink = \"w1 - *\"\ndown = [{ from = \"" + us(20) +
              "\", to = \"" + us(50) + "\" }]\n";
    }
    return text;
  }

  std::string queues() {
    const std::string ecn = one_in(2) ? "ecn = { kmin = \"20KB\", kmax = \"80KB\", pmax = 0.2 }\n"
                                      : "ecn = { kmin = \"5KB\", kmax = \"100KB\", pmax = 0.01 }\n";
    std::string text = "[queues]\n";
    if (options_.losses) {
      text += "buffer = \"100KB\"\n[[queues.class]]\npriorities = [3]\n" + ecn;
    } else if (options_.pfc) {
      text += "buffer = \"200KB\"\n[[queues.class]]\npriorities = [3]\n" + ecn +
              "[queues.class.pfc]\nheadroom = \"auto\"\n";
    } else {
      text += "[[queues.class]]\npriorities = [3]\n" + ecn;
    }
    if (one_in(2)) text += "[[queues.class]]\npriorities = [6]\nscheduling = \"strict\"\n";
    text += "[[queues.class]]\nweight = " + std::to_string(1 + below(3)) + "\n";
    if (options_.pfc && !options_.losses) text += "[queues.class.pfc]\nheadroom = \"auto\"\n";
    return text;
  }

  std::string flows_text() {
    const int64_t timeout = (options_.losses ? 200 : 60'000) * int64_t{1'000'000} / options_.k;
    std::string text = "[flows]\noverhead = \"62B\"\nack_every = " + std::to_string(1 + below(4)) +
                       "\ntimeout = \"" + std::to_string(timeout) + "ps\"\ncatch_up = \"" +
                       std::to_string(10'000'000 / options_.k) + "ps\"\n";
    if (one_in(3)) text += "payload = \"1000B\"\n";
    if (one_in(3)) text += "ack_priority = 0\n";
    return text;
  }

  std::string control() {
    const std::string laws[] = {"dcqcn", "timely", "dctcp", "hpcc", "swift"};
    if (options_.controls && !one_in(6)) {
      return "[[control]]\nname = \"c\"\nlaw = \"" + laws[below(5)] + "\"\n";
    }
    return "[[control]]\nname = \"c\"\nlaw = \"none\"\nwindow = \"" +
           std::to_string(4096 * (1 + below(40))) + "B\"\n";
  }

  std::string traffic(unsigned nodes) {
    std::string text;
    const std::string controlled[] = {"", "control = \"c\"\n"};
    for (uint64_t tables = 1 + below(3); tables > 0; --tables) {
      text += "[[traffic]]\npriority = " + std::string(one_in(4) ? "0" : "3") +
              "\nat = " + time(20'000) + "\nstagger = " + time(800) + "\n" + controlled[below(2)];
      const std::string size = "size = \"" + std::to_string(1 + below(60'000)) + "B\"\n";
      switch (below(4)) {
        case 0:
          text +=
              "pattern = \"permutation\"\nfrom = \"w*\"\nrepeat = " + std::to_string(1 + below(2)) +
              "\n" + size;
          break;
        case 1:
          text += "pattern = \"all_to_all\"\nfrom = \"w*\"\nconcurrent = " +
                  std::to_string(1 + below(nodes - 1)) + "\nsize = \"" +
                  std::to_string(1 + below(12'000)) + "B\"\n";
          break;
        case 2:
          text += "pattern = \"ring\"\nfrom = \"w*\"\nsteps = 3\n" + size;
          break;
        default:
          text += "pattern = \"incast\"\nfrom = [\"w1\", \"w2\", \"w3\"]\nto = \"w0\"\n" + size;
      }
    }
    return text;
  }

  std::string write(uint64_t seed) {
    unsigned nodes = 0;
    const std::string top = topology_text(nodes);
    nodes = std::max(nodes, 4u);
    std::string text = "format = 1\nseed = " + std::to_string(seed) +
                       "\n[[node]]\nname = \"w\"\ncount = " + std::to_string(nodes) +
                       "\nlink = " + link() + "\n" + top + overrides();
    text += "[fabric]\nswitching = " +
            std::string(one_in(2) ? "\"cut-through\"\n" : "\"store-and-forward\"\n");
    return text + queues() + flows_text() + control() + traffic(nodes);
  }

  LawOptions options_;
  std::mt19937_64 random_;
  std::string text_;
};

}  // namespace understudy
