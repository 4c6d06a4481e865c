// Runs in a real or virtual node: exercises the memory of an emulated node's service on plain verbs
// and compares every byte.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <string>

#include "tools/rigs/memory_check/exercise.h"

int main(int argc, char** argv) {
  using namespace understudy;
  TargetOptions target;
  ExerciseOptions exercise;
  std::string server;
  unsigned timeout = target.timeout;
  CLI::App app{
      "Random WRITEs, READs and ATOMICs on the memory of a [[service]] with memory = \"backed\";\n"
      "every byte read is compared. Status 0: all were right.\n"
      "example: memory_check --mtu 1024 10.9.0.2"};
  app.add_option("server", server, "address of the emulated node")->required();
  app.add_option("-p,--port", target.port, "TCP port of the service")->capture_default_str();
  app.add_option("-m,--mtu", target.mtu, "path MTU")
      ->capture_default_str()
      ->check(CLI::IsMember({256, 512, 1024, 2048, 4096}));
  app.add_option("-u,--timeout", timeout, "ACK timeout, 4.096 us << value")
      ->capture_default_str()
      ->check(CLI::Range(1, 31));
  app.add_option("-s,--size", exercise.bytes, "bytes of memory to use, rounded to whole 8")
      ->capture_default_str()
      ->check(CLI::Range(8, 1 << 26));
  app.add_option("-n,--rounds", exercise.rounds, "rounds of 8 WRITEs or ATOMICs and 2 READs")
      ->capture_default_str();
  app.add_option("--seed", exercise.seed, "of offsets, lengths and contents")
      ->capture_default_str();
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  const auto address = IpAddress::parse(server);
  if (!address) {
    std::fprintf(stderr, "memory_check: \"%s\" is no IP address\n", server.c_str());
    return 2;
  }
  target.server = *address;
  target.timeout = static_cast<uint8_t>(timeout);
  exercise.bytes -= exercise.bytes % 8;
  auto connected = Target::connect(target);
  if (!connected) {
    std::fprintf(stderr, "memory_check: %s\n", connected.error().text.c_str());
    return 1;
  }
  auto counts = Exercise::run(*connected, exercise);
  if (!counts) {
    std::fprintf(stderr, "memory_check: %s\n", counts.error().text.c_str());
    return 1;
  }
  if (auto ended = connected->finish(); !ended) {
    std::fprintf(stderr, "memory_check: %s\n", ended.error().text.c_str());
    return 1;
  }
  std::printf("memory_check: %llu writes, %llu atomics, %llu reads, %llu bytes, %llu wrong%s%s\n",
              static_cast<unsigned long long>(counts->writes),
              static_cast<unsigned long long>(counts->atomics),
              static_cast<unsigned long long>(counts->reads),
              static_cast<unsigned long long>(counts->bytes),
              static_cast<unsigned long long>(counts->wrong), counts->wrong == 0 ? "" : ": ",
              counts->first_wrong.c_str());
  return counts->wrong == 0 ? 0 : 1;
}
