// nccl-decode CAPTURE: exit 0 when it was read, 2 when the arguments or the file are bad.
#include <CLI/CLI.hpp>
#include <iostream>
#include <string>

#include "ctrl/report/version.h"
#include "dataplane/base/confinement.h"
#include "dataplane/base/output_file.h"
#include "tools/nccl_decode/print.h"

int main(int argc, char** argv) {
  using namespace understudy::nccl_decode;
  std::string path, nccl;
  bool json = false;
  CLI::App app{
      "Says in words what NCCL's processes told each other over TCP in a capture (pcap or "
      "pcapng):\n"
      "check-in with the root, rings and their all-gathers, set-up of connections, net_ib's "
      "exchange\n"
      "of queue pairs; and what was begun and is not complete. For NCCL 2.18 to 2.31."};
  app.name("nccl-decode");
  app.set_version_flag("--version", std::string("nccl-decode ") + understudy::kVersion);
  app.add_option("capture", path, "pcap or pcapng file")->required();
  app.add_option("--nccl", nccl,
                 "release, such as 2.28 or 2.28.9, where the capture does not tell it");
  app.add_flag("--json", json, "print JSON (schema understudy-nccl-decode/1)");
  app.footer(
      "A capture of a hanging job, on its node: tcpdump -i any -s 0 -w job.pcap tcp\n"
      "Exit status: 0 the capture was read, 2 bad arguments or file.\n"
      "Example: nccl-decode job.pcap");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  DecodeOptions options;
  if (!nccl.empty()) {
    options.release = Release::parse(nccl);
    if (!options.release) {
      std::cerr << "nccl-decode: --nccl " << nccl << ": not a release from 2.18 to 2.31\n";
      return 2;
    }
  }
  auto file = CaptureFile::open(path);
  if (!file) {
    std::cerr << "nccl-decode: " << file.error().text << '\n';
    return 2;
  }
  if (const auto why = understudy::confine(); !why.empty()) {
    std::cerr << "nccl-decode: goes on without a filter of system calls: " << why << '\n';
  }
  auto capture = file->read();
  if (!capture) {
    std::cerr << "nccl-decode: " << capture.error().text << '\n';
    return 2;
  }
  const Exchange exchange = decode(std::move(capture->connections), options);
  std::cout << (json ? json_of(path, *capture, exchange) : text_of(path, *capture, exchange));
  return understudy::finish_output("nccl-decode", 0);
}
