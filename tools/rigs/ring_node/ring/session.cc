#include "tools/rigs/ring_node/ring/session.h"

#include <algorithm>
#include <chrono>

#include "dataplane/base/try.h"
#include "tools/rigs/ring_node/base/polling.h"
#include "tools/rigs/ring_node/ring/values.h"

namespace understudy {
namespace {

using std::chrono::milliseconds;

}  // namespace

Result<SizeOutcome> Session::run_size(uint32_t index) {
  const RingJobMessage::Operation& operation = job_.operations[index];
  const uint64_t count = operation.bytes / RankCutting::kElement;
  const bool verify = verifies();
  std::vector<float> input = input_values(input_seed_, job_.client_rank, count);
  std::vector<float> expected;
  if (verify) expected = expected_values(job_, input_seed_, input);
  std::vector<float> output(count);

  SizeOutcome outcome;
  outcome.bytes = operation.bytes;
  uint64_t wrong = 0;
  const uint64_t runs = uint64_t{operation.warmup} + operation.iterations;
  for (uint64_t run = 0; run < runs; ++run) {
    const bool perturbed = options_.perturb && run + 1 == runs;
    const uint64_t element = options_.perturb.value_or(0) % count;
    std::vector<float> before;
    if (perturbed) {
      // `output` is what came out of the unchanged input; the other sign is always seen in a sum.
      before = output;
      input[element] = -input[element];
      expected = expected_values(job_, input_seed_, input);
    }
    std::ranges::fill(output, 0.0f);
    TRY(wait_before_operation(options_));
    const auto time = run_operation(input, output);
    if (!time) return fail(std::to_string(operation.bytes) + " bytes: " + time.error().text);
    if (run >= operation.warmup) outcome.times_ns.push_back(*time);
    if (const uint64_t differences = verify ? count_differences(output, expected) : 0) {
      if (wrong == 0)
        outcome.first_wrong =
            "run " + std::to_string(run) + ", " + first_difference(output, expected);
      wrong += differences;
    }
    if (perturbed && only_difference(before, output) != element) {
      outcome.perturbation_seen = false;
    }
  }
  if (verify) outcome.wrong = wrong;
  Neighbour<RingClient>& next = *neighbours_.front();
  next.machine().send_result({.operation = index,
                              .bytes = outcome.bytes,
                              .times_ns = outcome.times_ns,
                              .wrong = outcome.wrong});
  TRY(next.exchange(milliseconds(0)));
  return outcome;
}

Result<uint64_t> Session::run_operation(std::span<const float> input, std::span<float> output) {
  const RankCutting cutting(job_);
  const std::vector<ElementRange> parts = cutting.parts(input.size());
  if (profiler_ != nullptr) {
    const auto used = std::ranges::count_if(parts, [](const auto& part) { return part.count > 0; });
    profiler_->start(input.size(), static_cast<uint32_t>(used));
  }
  const uint64_t start = now_ns();
  for (size_t c = 0; c < channels_.size(); ++c) {
    channels_[c]->start(parts[c], input.data(), output.data());
  }
  TRY(work_while_not(&RankChannel::done));
  return now_ns() - start;
}

Result<void> Session::work_while_not(bool (RankChannel::*over)() const) {
  const auto is_over = [&](const auto& channel) { return (*channel.*over)(); };
  return work_until([&] { return std::ranges::all_of(channels_, is_over); }, [&] { return work(); },
                    [&](uint64_t idle_ns) { return look_for_trouble(idle_ns); });
}

Result<bool> Session::work() {
  bool moved = false;
  for (auto& channel : channels_) {
    const auto progressed = TRY(channel->progress());
    moved = moved || progressed;
  }
  // What there is to do is done before it looks: a look may wait.
  return moved ? true : poll_completions();
}

Result<bool> Session::poll_completions() {
  ibv_wc completions[16];
  const int count = ibv_poll_cq(device_.completion_queue(), 16, completions);
  if (count < 0) return fail("ibv_poll_cq failed");
  for (int i = 0; i < count; ++i) {
    const ibv_wc& wc = completions[i];
    const VerbsLink::Kind kind = VerbsLink::kind_of(wc.wr_id);
    const uint32_t number = VerbsLink::number_of(wc.wr_id);
    if (wc.status != IBV_WC_SUCCESS) {
      return fail("channel " + std::to_string(number) + ", " +
                  completion_fault(wc, device_.fatal_event()) + "; " +
                  channel(number).waiting_for());
    }
    if (kind == VerbsLink::kData) {
      channel(number).on_sent();
    } else if (kind == VerbsLink::kReceive) {
      TRY(channel(number).on_received(wc.imm_data));
    }
  }
  return count > 0;
}

Result<void> Session::look_for_trouble(uint64_t idle_ns) {
  if (const std::string event = device_.fatal_event(); !event.empty()) return fail(event);
  for (auto& neighbour : neighbours_) {
    TRY(neighbour->exchange(milliseconds(0)));
  }
  if (caller_ != nullptr) {
    TRY(caller_->exchange(milliseconds(0)));
  }
  if (milliseconds(idle_ns / 1'000'000) < options_.progress_limit) return {};
  std::string text = "no progress for " + std::to_string(idle_ns / 1'000'000) + " ms";
  for (const auto& channel : channels_) {
    if (!channel->idle()) text += "; " + channel->waiting_for();
  }
  return fail(text);
}

void Session::pass_results() {
  if (caller_ == nullptr || all_real()) return;  // a circle: the program's own output shows them
  for (const RingResultMessage& result : caller_->machine().take_results()) {
    neighbours_.front()->machine().send_result(result);
  }
}

Result<void> Session::finish() {
  TRY(work_while_not(&RankChannel::idle));
  // A real one may still need acknowledgements of ours, and has results to pass on.
  const auto wait_for_caller = [&]() -> Result<void> {
    if (caller_ == nullptr) return {};
    return caller_->wait_for("end of its operations", options_.progress_limit,
                             [](RealPeer& m) { return m.done(); });
  };
  if (!all_real()) {
    TRY(wait_for_caller());
    pass_results();
  }
  for (auto& neighbour : neighbours_) {
    neighbour->machine().send_done();
    TRY(neighbour->exchange(milliseconds(0)));
  }
  return all_real() ? wait_for_caller() : Result<void>();
}

void Session::give_up(const std::string& why) {
  // Whether it arrives no longer matters to us: there is a better error to show.
  for (auto& neighbour : neighbours_) {
    neighbour->machine().send_error(why);
    static_cast<void>(neighbour->exchange(milliseconds(0)));
  }
  if (caller_ == nullptr) return;
  caller_->machine().send_error(why);
  static_cast<void>(caller_->exchange(milliseconds(0)));
}

}  // namespace understudy
