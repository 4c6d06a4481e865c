#include "ctrl/report/slowdown.h"

#include <algorithm>
#include <map>

#include "dataplane/base/text_format.h"

namespace understudy {
namespace {

constexpr uint64_t kSmallestBorder = 100;
constexpr uint32_t kThousand = 1000;

/// From 1 on.
uint64_t rank_of(uint64_t flows, uint32_t per_thousand) {
  return (flows * per_thousand + kThousand - 1) / kThousand;
}

/// 100, 300, 1000, 3000 ...: the first that is no smaller.
uint64_t border_of(uint64_t bytes, uint64_t& below) {
  uint64_t border = kSmallestBorder;
  below = 0;
  for (bool three = false; border < bytes; three = !three) {
    below = border;
    border = three ? border / 3 * 10 : border * 3;
  }
  return border;
}

/// `slowdowns` in any order; they are sorted.
void fill(SlowdownBucket& bucket, std::vector<double>& slowdowns) {
  bucket.flows = slowdowns.size();
  if (slowdowns.empty()) return;
  std::ranges::sort(slowdowns);
  for (size_t i = 0; i < kPercentiles.size(); ++i) {
    bucket.at[i] = slowdowns[rank_of(bucket.flows, kPercentiles[i].per_thousand) - 1];
  }
  bucket.largest = slowdowns.back();
}

std::string line(const std::string& name, const SlowdownBucket& bucket) {
  std::string text =
      format_text("%-24s %8llu", name.c_str(), static_cast<unsigned long long>(bucket.flows));
  for (size_t i = 0; i < kPercentiles.size(); ++i) {
    text += format_text(" %11.3f%c", bucket.at[i], bucket.is_largest(i) ? '*' : ' ');
  }
  return text + format_text(" %11.3f\n", bucket.largest);
}

}  // namespace

bool SlowdownBucket::is_largest(size_t percentile) const {
  return rank_of(flows, kPercentiles[percentile].per_thousand) == flows;
}

SlowdownBucket slowdown_of_all(std::span<const FlowSlowdown> flows) {
  SlowdownBucket all;
  std::vector<double> slowdowns;
  for (const FlowSlowdown& flow : flows) {
    slowdowns.push_back(flow.slowdown);
    all.most = std::max(all.most, flow.bytes);
  }
  fill(all, slowdowns);
  return all;
}

std::vector<SlowdownBucket> slowdown_buckets(std::span<const FlowSlowdown> flows) {
  std::map<uint64_t, std::vector<double>> by_border;
  for (const FlowSlowdown& flow : flows) {
    uint64_t below = 0;
    by_border[border_of(flow.bytes, below)].push_back(flow.slowdown);
  }
  std::vector<SlowdownBucket> buckets;
  for (auto& [border, slowdowns] : by_border) {
    SlowdownBucket& bucket = buckets.emplace_back();
    bucket.most = border_of(border, bucket.above);
    fill(bucket, slowdowns);
  }
  return buckets;
}

std::string bucket_text(const SlowdownBucket& bucket) {
  constexpr std::array<const char*, 5> kUnits = {"B", "KB", "MB", "GB", "TB"};
  uint64_t bytes = bucket.most;
  size_t unit = 0;
  for (; bytes >= kThousand && bytes % kThousand == 0 && unit + 1 < kUnits.size(); ++unit) {
    bytes /= kThousand;
  }
  return format_text("<= %llu %s", static_cast<unsigned long long>(bytes), kUnits[unit]);
}

std::string slowdown_table(const std::string& traffic, std::span<const FlowSlowdown> flows) {
  std::string text = "# slowdown of " + traffic + ": time over the time alone in the network\n" +
                     format_text("# %-22s %8s", "size", "flows");
  bool too_few = false;
  for (const Percentile& percentile : kPercentiles) text += format_text(" %11s ", percentile.name);
  text += format_text(" %11s\n", "largest");
  for (const SlowdownBucket& bucket : slowdown_buckets(flows)) {
    text += line(bucket_text(bucket), bucket);
    for (size_t i = 0; i < kPercentiles.size(); ++i) too_few |= bucket.is_largest(i);
  }
  text += line("all", slowdown_of_all(flows));
  if (too_few) text += "# *: the largest, for a percentile needs more flows than these\n";
  return text;
}

}  // namespace understudy
