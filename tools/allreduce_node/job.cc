#include "tools/allreduce_node/job.h"

#include <algorithm>
#include <atomic>
#include <barrier>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <numeric>
#include <thread>

#include "dataplane/base/output_file.h"
#include "dataplane/base/text_format.h"
#include "tools/allreduce_node/local_rank.h"
#include "tools/allreduce_node/table.h"

namespace understudy {
namespace {

/// Standard output and error, and the end of the process.
class Console {
 public:
  void print(const std::string& text) {
    const std::lock_guard lock(mutex_);
    std::fputs(text.c_str(), stdout);
    std::fflush(stdout);
  }
  void complain(const std::string& text) {
    const std::lock_guard lock(mutex_);
    std::fprintf(stderr, "allreduce_node: %s\n", text.c_str());
  }
  /// The first who gives up keeps all others quiet.
  [[noreturn]] void give_up(const std::string& why) {
    mutex_.lock();
    std::fflush(stdout);
    std::fprintf(stderr, "allreduce_node: %s\n", why.c_str());
    std::_Exit(1);
  }

 private:
  std::mutex mutex_;
};

/// What each local rank is at, and since when nothing has moved.
class Watch {
 public:
  Watch(const NodeOptions& options, Console& console)
      : options_(options),
        console_(console),
        stages_(options.local.size()),
        thread_([this] { watch(); }) {}
  ~Watch() {
    {
      const std::lock_guard lock(mutex_);
      ended_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }
  void enter(size_t local, const std::string& stage) {
    const std::lock_guard lock(mutex_);
    stages_[local] = stage;
    last_ = std::chrono::steady_clock::now();
  }

 private:
  void watch() {
    std::unique_lock lock(mutex_);
    const std::chrono::duration<double> limit(options_.timeout_s);
    while (!ended_) {
      changed_.wait_for(lock, std::chrono::milliseconds(100));
      if (std::chrono::steady_clock::now() - last_ < limit) continue;
      std::string text;
      for (size_t i = 0; i < stages_.size(); ++i) {
        text +=
            format_text("%srank %u: %s", i == 0 ? "" : "; ", options_.local[i], stages_[i].c_str());
      }
      console_.give_up(format_text("nothing has moved for %g s. ", options_.timeout_s) + text +
                       ". NCCL_DEBUG=INFO tells how far NCCL came; `understudy status` what "
                       "emulated ranks wait for");
    }
  }

  const NodeOptions& options_;
  Console& console_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool ended_ = false;
  std::vector<std::string> stages_;
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
  std::thread thread_;  // last: it uses all of the above
};

class Job {
 public:
  Job(const NodeOptions& options, const ncclUniqueId& id, bool table)
      : options_(options),
        id_(id),
        table_(table),
        values_(options),
        watch_(options, console_),
        together_(static_cast<ptrdiff_t>(options.local.size())),
        measured_(options.local.size()) {
    for (const uint64_t bytes : options.sizes) {
      shapes_.push_back(*shape_of(options.kind, options.type, bytes, options.ranks));
      largest_ = std::max(largest_, shapes_.back().bytes);
    }
  }

  void run() {
    std::vector<std::jthread> threads;
    for (size_t i = 0; i < options_.local.size(); ++i) {
      threads.emplace_back([this, i] { play(i); });
    }
  }

  const std::vector<SizeRow>& rows() const { return rows_; }
  uint64_t wrong() const { return wrong_; }
  Console& console() { return console_; }

 private:
  template <class T>
  T take(size_t local, Result<T> result) {
    if (!result) {
      console_.give_up(format_text("rank %u: ", options_.local[local]) + result.error().text);
    }
    if constexpr (!std::is_void_v<T>) return std::move(*result);
  }

  void play(size_t i) {
    watch_.enter(i, "in ncclCommInitRank");
    const auto rank =
        take(i, LocalRank::join(options_, options_.local[i],
                                options_.first_device + static_cast<int>(i), id_, largest_));
    if (table_) {
      console_.print(format_text("# real rank %u of %u: CUDA device %d, %s\n", rank->rank(),
                                 options_.ranks, options_.first_device + static_cast<int>(i),
                                 rank->device_name().c_str()));
    }
    together_.arrive_and_wait();
    if (i == 0 && table_) console_.print(table_head());
    for (const Shape& shape : shapes_) {
      std::optional<Measured> out, in;
      if (options_.out_of_place) out = measure(i, *rank, shape, false);
      if (options_.in_place) in = measure(i, *rank, shape, true);
      if (i != 0) continue;
      rows_.push_back({shape, out, in});
      if (table_) console_.print(table_row(options_, rows_.back()));
    }
    watch_.enter(i, "in ncclCommDestroy");
    take(i, rank->leave());
    watch_.enter(i, "done");
  }

  /// The average over local ranks, the same on all of them.
  Measured measure(size_t i, LocalRank& rank, const Shape& shape, bool in_place) {
    const RankValues* const values = options_.verify ? &values_ : nullptr;
    const std::string what =
        format_text("%llu bytes %s", static_cast<unsigned long long>(shape.bytes),
                    in_place ? "in place" : "out of place");
    watch_.enter(i, "prepares " + what);
    take(i, rank.prepare(shape, in_place, values));
    watch_.enter(i, "in warm-up of " + what);
    take(i, rank.run(shape, in_place, options_.warmup));
    together_.arrive_and_wait();
    watch_.enter(i, "in " + what);
    measured_[i] = {take(i, rank.run(shape, in_place, options_.iterations)), std::nullopt};
    if (values != nullptr) {
      watch_.enter(i, "verifies " + what);
      if (in_place) {  // the result was the input of the next one: once more
        take(i, rank.prepare(shape, true, values));
        take(i, rank.run(shape, true, 1));
      }
      const auto difference = take(i, rank.check(shape, in_place, values_));
      measured_[i].wrong = difference.wrong;
      if (difference.wrong != 0) {
        wrong_ += difference.wrong;
        console_.complain(format_text("rank %u, %s: ", rank.rank(), what.c_str()) +
                          difference.first);
      }
    }
    together_.arrive_and_wait();
    Measured all{0, values != nullptr ? std::optional<uint64_t>(0) : std::nullopt};
    for (const Measured& one : measured_) {
      all.time_us += one.time_us / static_cast<double>(measured_.size());
      if (all.wrong) *all.wrong += *one.wrong;
    }
    together_.arrive_and_wait();  // all have read before the next one writes
    return all;
  }

  const NodeOptions& options_;
  const ncclUniqueId& id_;
  const bool table_;
  const RankValues values_;
  Console console_;
  Watch watch_;
  std::barrier<> together_;
  std::vector<Measured> measured_;
  std::vector<Shape> shapes_;
  uint64_t largest_ = 0;
  std::vector<SizeRow> rows_;
  std::atomic<uint64_t> wrong_ = 0;
};

/// nccl-tests' last line: over all sizes, out of place and in place.
double average_bus_bandwidth(const NodeOptions& options, const std::vector<SizeRow>& rows) {
  double sum = 0;
  uint32_t count = 0;
  for (const SizeRow& row : rows) {
    for (const auto& measured : {row.out_of_place, row.in_place}) {
      if (!measured) continue;
      sum += static_cast<double>(row.shape.bytes) / measured->time_us / 1000 *
             bus_factor(options.kind, options.ranks);
      ++count;
    }
  }
  return count == 0 ? 0 : sum / count;
}

}  // namespace

int run_job(const NodeOptions& options, const ncclUniqueId& id, const std::string& json_path) {
  const bool table = json_path != "-";
  Job job(options, id, table);
  job.run();
  if (table) {
    const std::string verdict = !options.verify    ? "(not verified)"
                                : job.wrong() == 0 ? "OK"
                                                   : "FAILED";
    job.console().print(
        format_text("# Out of bounds values : %llu %s\n# Avg bus bandwidth    : %g\n#\n",
                    static_cast<unsigned long long>(job.wrong()), verdict.c_str(),
                    average_bus_bandwidth(options, job.rows())));
  }
  if (json_path == "-") {
    job.console().print(json_text(options, job.rows()));
  } else if (!json_path.empty()) {
    if (const auto written = replace_file(json_path, json_text(options, job.rows())); !written) {
      job.console().complain(written.error().text);
      return 1;
    }
  }
  if (job.wrong() == 0) return 0;
  job.console().complain(std::to_string(job.wrong()) + " wrong elements");
  return 1;
}

}  // namespace understudy
