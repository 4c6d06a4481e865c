// allreduce_node: real ranks of an NCCL communicator whose other ranks may be emulated, measured as
// nccl-tests do, on plain NCCL and the CUDA runtime. Exit status: 0 all operations completed and
// nothing was wrong, 2 bad command line, 1 anything else.
#include <chrono>
#include <cstdio>

#include "dataplane/base/output_file.h"
#include "tools/allreduce_node/arguments.h"
#include "tools/allreduce_node/job.h"
#include "tools/allreduce_node/unique_id.h"

namespace {

int give_up(const std::string& why, int status) {
  std::fprintf(stderr, "allreduce_node: %s\n", why.c_str());
  return status;
}

}  // namespace

int main(int argc, char** argv) {
  using namespace understudy;
  Arguments arguments;
  CLI::App app;
  describe(app, arguments);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  if (const std::string fault = complete(arguments); !fault.empty()) return give_up(fault, 2);
  const NodeOptions& options = arguments.node;
  const auto patience = std::chrono::milliseconds(static_cast<int64_t>(options.timeout_s * 1000));
  const auto id = unique_id_for(options, patience);
  if (!id) return give_up(id.error().text, 1);
  return finish_output("allreduce_node", run_job(options, *id, arguments.json));
}
