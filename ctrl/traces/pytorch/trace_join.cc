#include "ctrl/traces/pytorch/trace_join.h"

#include <algorithm>
#include <map>
#include <utility>

#include "ctrl/traces/pytorch/event_order.h"
#include "dataplane/base/try.h"

namespace understudy {
namespace {

constexpr int64_t kGapNs = 1'000'000;
constexpr uint32_t kNowhere = ~uint32_t{0};

class Join {
 public:
  Join(const HostTrace& host, const DeviceTrace& device) : host_(host), device_(device) {}

  Result<JoinedTraces> run() {
    if (host_.process != 0 && device_.process && *device_.process != host_.process) {
      return fail("it is of process " + std::to_string(*device_.process) +
                  ", the host trace of process " + std::to_string(host_.process));
    }
    joined_.operations.resize(host_.nodes.size());
    node_of_.assign(device_.events.size(), kNowhere);
    joined_.by_number = device_.numbers_operations;
    TRY(joined_.by_number ? find_by_number() : find_by_name());
    take_own_times();
    wait_for_other_threads();
    TRY(find_kernels());
    wait_for_kernels();
    return std::move(joined_);
  }

 private:
  void pair(uint32_t node, uint32_t event) {
    joined_.operations[node].event = event;
    node_of_[event] = node;
    ++joined_.found;
  }

  Result<void> find_by_number() {
    std::map<uint64_t, uint32_t> events;
    for (uint32_t i = 0; i < device_.events.size(); ++i) {
      const uint64_t number = device_.events[i].record_function;
      if (number != 0 && device_.events[i].kind == DeviceEventKind::kCpu) events[number] = i;
    }
    uint64_t other_names = 0;
    for (uint32_t node = 0; node < host_.nodes.size(); ++node) {
      const auto found = events.find(host_.nodes[node].record_function);
      if (host_.nodes[node].record_function == 0 || found == events.end()) continue;
      if (device_.events[found->second].name != host_.nodes[node].name) ++other_names;
      pair(node, found->second);
    }
    if (joined_.found == 0) {
      return fail("no 'Record function id' in it is the rf_id of a node of the host trace");
    }
    if (other_names * 2 > joined_.found) {
      return fail("of " + std::to_string(joined_.found) +
                  " operations with numbers of the host trace, " + std::to_string(other_names) +
                  " have other names there: it is of another process");
    }
    return {};
  }

  Result<void> find_by_name() {
    find_alike([this](uint32_t event) { return device_.events[event].thread; },
               [this](uint32_t node) { return host_.nodes[node].thread; });
    find_alike([](uint32_t) { return 0; }, [](uint32_t) { return 0; });
    uint64_t operations = 0;
    for (const HostNode& node : host_.nodes) {
      if (node.kind != HostNodeKind::kProcess && node.kind != HostNodeKind::kThread) ++operations;
    }
    // Both record every operation of the same span; those of another run fit here and there.
    if (joined_.found * 10 < operations * 9) {
      return fail("only " + std::to_string(joined_.found) + " of " + std::to_string(operations) +
                  " nodes of the host trace are found in it by name and order: it is of another "
                  "process, or of another part of the run");
    }
    return {};
  }

  /// Pairs what is left of events and nodes where as many have the same name and thread.
  template <typename ThreadOfEvent, typename ThreadOfNode>
  void find_alike(ThreadOfEvent thread_of_event, ThreadOfNode thread_of_node) {
    std::map<std::pair<std::string, int64_t>, std::vector<uint32_t>> events, nodes;
    for (uint32_t i = 0; i < device_.events.size(); ++i) {
      if (device_.events[i].kind != DeviceEventKind::kCpu || node_of_[i] != kNowhere) continue;
      events[{device_.events[i].name, thread_of_event(i)}].push_back(i);
    }
    for (uint32_t i = 0; i < host_.nodes.size(); ++i) {
      if (joined_.operations[i].event) continue;
      nodes[{host_.nodes[i].name, thread_of_node(i)}].push_back(i);
    }
    for (const auto& [key, named] : nodes) {
      const auto found = events.find(key);
      if (found == events.end() || found->second.size() != named.size()) continue;
      for (size_t i = 0; i < named.size(); ++i) pair(named[i], found->second[i]);
    }
  }

  void take_own_times() {
    const std::vector<int64_t> own = exclusive_times(device_);
    for (JoinedOperation& operation : joined_.operations) {
      if (operation.event) operation.exclusive_ns = own[*operation.event];
    }
  }

  void wait_for_other_threads() {
    struct Thread {
      int64_t busy_until = 0;
      uint32_t waits_for = kNowhere;  ///< event
    };
    std::map<int64_t, Thread> threads;
    // The latest event, and the latest of another thread than that.
    uint32_t latest = kNowhere, other = kNowhere;
    for (uint32_t i = 0; i < device_.events.size(); ++i) {
      const DeviceEvent& event = device_.events[i];
      if (event.kind != DeviceEventKind::kCpu || communicates_on_cpu(event.name)) continue;
      const auto [at, is_new] = threads.try_emplace(event.thread);
      Thread& thread = at->second;
      if (is_new || event.start_ns - thread.busy_until > kGapNs) {
        const bool is_other = latest != kNowhere && device_.events[latest].thread != event.thread;
        const uint32_t last = is_other ? latest : other;
        const bool earlier = last != kNowhere && device_.events[last].start_ns < event.start_ns;
        thread.waits_for = earlier ? last : kNowhere;
      }
      thread.busy_until = is_new ? event.end_ns() : std::max(thread.busy_until, event.end_ns());
      const uint32_t waits_for =
          thread.waits_for == kNowhere ? kNowhere : node_of_[thread.waits_for];
      if (node_of_[i] != kNowhere && waits_for != kNowhere) {
        joined_.operations[node_of_[i]].waits_for = waits_for;
      }
      if (latest != kNowhere && device_.events[latest].thread != event.thread) other = latest;
      latest = i;
    }
  }

  Result<void> find_kernels() {
    std::map<int64_t, uint32_t> launches;
    for (uint32_t i = 0; i < device_.events.size(); ++i) {
      const DeviceEvent& event = device_.events[i];
      if (event.kind != DeviceEventKind::kLaunch || !event.correlation) continue;
      if (!launches.emplace(*event.correlation, i).second) {
        return fail("two launches have the correlation " + std::to_string(*event.correlation));
      }
    }
    const OperationsByThread operations(device_);
    for (uint32_t i = 0; i < device_.events.size(); ++i) {
      const DeviceEvent& kernel = device_.events[i];
      if (kernel.kind != DeviceEventKind::kGpu) continue;
      const auto launch = kernel.correlation ? launches.find(*kernel.correlation) : launches.end();
      std::optional<uint32_t> operation;
      if (launch != launches.end()) {
        operation = operations.launching(kernel, device_.events[launch->second]);
      }
      if (!operation || node_of_[*operation] == kNowhere) {
        ++joined_.lost_kernels;
        continue;
      }
      launched_.push_back(device_.events[launch->second].start_ns);
      joined_.kernels.push_back({i, node_of_[*operation], {}});
    }
    return {};
  }

  void wait_for_kernels() {
    // Kernels of a stream by their ends.
    std::map<int64_t, std::vector<uint32_t>> streams;
    for (uint32_t i = 0; i < joined_.kernels.size(); ++i) {
      streams[device_.events[joined_.kernels[i].event].stream].push_back(i);
    }
    const auto end = [this](uint32_t kernel) {
      return device_.events[joined_.kernels[kernel].event].end_ns();
    };
    for (auto& [stream, kernels] : streams) {
      std::stable_sort(kernels.begin(), kernels.end(),
                       [&end](uint32_t a, uint32_t b) { return end(a) < end(b); });
    }
    const OperationsByThread operations(device_);
    for (const DeviceEvent& wait : device_.events) {
      if (wait.kind != DeviceEventKind::kWait) continue;
      const auto next = operations.first_after(wait.thread, wait.end_ns());
      if (!next || node_of_[*next] == kNowhere) continue;
      uint32_t last_of_all = kNowhere;
      for (const auto& [stream, kernels] : streams) {
        if (wait.stream >= 0 && wait.stream != stream) continue;
        auto at =
            std::upper_bound(kernels.begin(), kernels.end(), wait.end_ns(),
                             [&end](int64_t time, uint32_t kernel) { return time < end(kernel); });
        while (at != kernels.begin() && launched_[*(at - 1)] >= wait.start_ns) --at;
        if (at == kernels.begin()) continue;
        const uint32_t kernel = *(at - 1);
        if (wait.stream != -2) {
          joined_.kernels[kernel].waiting.push_back(node_of_[*next]);
        } else if (last_of_all == kNowhere || end(last_of_all) < end(kernel)) {
          last_of_all = kernel;
        }
      }
      if (last_of_all != kNowhere) joined_.kernels[last_of_all].waiting.push_back(node_of_[*next]);
    }
    std::stable_sort(
        joined_.kernels.begin(), joined_.kernels.end(),
        [](const JoinedKernel& a, const JoinedKernel& b) { return a.operation < b.operation; });
  }

  const HostTrace& host_;
  const DeviceTrace& device_;
  JoinedTraces joined_;
  std::vector<uint32_t> node_of_;  ///< by event
  std::vector<int64_t> launched_;  ///< by kernel, as they are found
};

}  // namespace

Result<JoinedTraces> join_traces(const HostTrace& host, const DeviceTrace& device) {
  return Join(host, device).run();
}

}  // namespace understudy
