// `understudy workload partition`.
#pragma once

namespace CLI {
class App;
}

namespace understudy {

/// Adds the command to `workload`, and leaves its exit status.
void add_workload_partition(CLI::App& workload, int& status);

}  // namespace understudy
