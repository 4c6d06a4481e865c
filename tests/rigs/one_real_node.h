// The network that many tests have in common, as a configuration: a real node and emulated ones.
#pragma once

#include <string>

namespace understudy {

/// "gpu" is real, "w0" and so on are emulated. What follows its text are jobs, or other tables.
struct OneRealNode {
  unsigned emulated = 3;  ///< more than one
  std::string rate = "10Gbit/s";
  std::string emulated_rate = rate;

  std::string text() const {
    return "format = 1\n[[prefix]]\nnic = 0\nv4 = \"10.9.0.0/24\"\n"
           "[[node]]\nname = \"gpu\"\nreal = true\nlink = { rate = \"" +
           rate +
           "\", latency = \"1us\" }\n[[node]]\nname = \"w\"\ncount = " + std::to_string(emulated) +
           "\nlink = { rate = \"" + emulated_rate +
           "\", latency = \"1us\" }\n[[port]]\nreal = \"gpu\"\ndevice = \"virtual\"\n";
  }
};

}  // namespace understudy
