// Poisson arrivals: their rate, sizes and receivers, and what they depend on.
#include "ctrl/traffic/poisson.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <string>

#include "ctrl/config/read/load.h"

namespace understudy {
namespace {

constexpr char kUntil[] = "until = \"100ms\"\n";

std::vector<Arrival> arrivals(const std::string& keys, uint64_t seed = 1, uint64_t stream = 1) {
  const std::string text =
      "format = 1\nseed = " + std::to_string(seed) +
      "\n[[node]]\nname = \"w\"\ncount = 6\nlink = { rate = \"100Gbit/s\", latency = \"1us\" }\n"
      "[[node]]\nname = \"slow\"\nlink = { rate = \"25Gbit/s\", latency = \"1us\" }\n"
      "[[traffic]]\npattern = \"poisson\"\nsizes = \"fb-hadoop\"\n" +
      keys;
  const ConfigResult config = load_config_text(text, "f");
  if (!config) {
    ADD_FAILURE() << describe(config.error());
    return {};
  }
  return poisson_arrivals(*config, config->traffic[0], stream);
}

std::vector<Arrival> of_sender(const std::vector<Arrival>& all, NodeId from) {
  std::vector<Arrival> own;
  std::ranges::copy_if(all, std::back_inserter(own),
                       [from](const Arrival& a) { return a.from == from; });
  return own;
}

/// The largest distance of drawn values from the distribution function that they should have, times
/// the root of their number: above 1.95 once in a thousand times (Kolmogorov).
template <typename Function>
double distance(std::vector<double> values, const Function& function) {
  std::ranges::sort(values);
  const auto n = static_cast<double>(values.size());
  double most = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    const double expected = function(values[i]);
    most = std::max({most, std::abs(expected - static_cast<double>(i) / n),
                     std::abs(expected - static_cast<double>(i + 1) / n)});
  }
  return most * std::sqrt(n);
}
constexpr double kOnceInAThousand = 1.95;

TEST(Poisson, PausesAreExponentialAtTheLoadOfEachLink) {
  const auto all = arrivals("from = [\"w*\", \"slow\"]\nload = 0.4\n" + std::string(kUntil));
  const double mean_bytes = 120'420.75;
  for (const auto& [node, rate] : std::map<NodeId, double>{{2, 100e9}, {6, 25e9}}) {
    const std::vector<Arrival> own = of_sender(all, node);
    const double per_second = 0.4 * rate / 8 / mean_bytes;
    ASSERT_GT(own.size(), 900u);
    std::vector<double> pauses;
    for (size_t i = 1; i < own.size(); ++i) {
      ASSERT_LE(own[i - 1].at, own[i].at);
      pauses.push_back((own[i].at - own[i - 1].at).seconds());
    }
    EXPECT_LT(distance(pauses, [&](double x) { return 1 - std::exp(-per_second * x); }),
              kOnceInAThousand);
    const double expected = per_second * 0.1;
    EXPECT_NEAR(static_cast<double>(own.size()), expected, 4 * std::sqrt(expected));
  }
}

TEST(Poisson, SizesHaveTheirDistributionAndReceiversAreEven) {
  const auto all = arrivals("from = \"w*\"\nload = 0.5\nflows = 30000\n");
  ASSERT_EQ(all.size(), 30'000u);
  std::vector<double> sizes;
  std::map<std::pair<NodeId, NodeId>, int> pairs;
  for (const Arrival& a : all) {
    EXPECT_NE(a.from, a.to);
    sizes.push_back(static_cast<double>(a.bytes));
    ++pairs[{a.from, a.to}];
  }
  std::span<const SizePoint> points;
  for (const KnownSizes& known : known_sizes()) {
    if (known.name == "fb-hadoop") points = known.points;
  }
  // Sizes are whole bytes, which moves the function by half a byte.
  const auto share = [&](double bytes) {
    size_t i = 1;
    while (points[i].bytes < bytes && i + 1 < points.size()) ++i;
    const SizePoint &a = points[i - 1], &b = points[i];
    return a.share + (b.share - a.share) * (bytes - a.bytes) / (b.bytes - a.bytes);
  };
  EXPECT_LT(distance(sizes, share), kOnceInAThousand);
  EXPECT_EQ(pairs.size(), 30u);
  for (const auto& [pair, count] : pairs) EXPECT_NEAR(count, 1000, 4 * std::sqrt(1000));
}

TEST(Poisson, OrderedAndWithinItsTime) {
  const auto all = arrivals("from = \"w*\"\nload = 0.5\nat = \"90ms\"\n" + std::string(kUntil));
  ASSERT_FALSE(all.empty());
  EXPECT_TRUE(std::ranges::is_sorted(all, {}, &Arrival::at));
  EXPECT_GE(all.front().at, Duration::ms(90));
  EXPECT_LT(all.back().at, Duration::ms(100));
}

bool equal(const Arrival& a, const Arrival& b) {
  return a.at == b.at && a.from == b.from && a.to == b.to && a.bytes == b.bytes;
}

TEST(Poisson, EqualSeedsGiveEqualFlowsAndOthersDoNot) {
  const std::string keys = "from = \"w*\"\nload = 0.5\nflows = 500\n";
  EXPECT_TRUE(std::ranges::equal(arrivals(keys), arrivals(keys), equal));
  EXPECT_FALSE(std::ranges::equal(arrivals(keys), arrivals(keys, 2), equal));
  EXPECT_FALSE(std::ranges::equal(arrivals(keys), arrivals(keys, 1, 2), equal));
}

TEST(Poisson, ASenderDoesNotDependOnOthers) {
  const std::string rest = "to = \"w*\"\nload = 0.5\n" + std::string(kUntil);
  const auto all = arrivals("from = [\"slow\", \"w5\", \"w2\", \"w0\"]\n" + rest);
  const auto alone = arrivals("from = \"w2\"\n" + rest);
  ASSERT_FALSE(alone.empty());
  EXPECT_TRUE(std::ranges::equal(of_sender(all, 2), alone, equal));
}

TEST(Poisson, TheLoadMovesFlowsOnly) {
  const std::string rest = "flows = 400\nfrom = \"w2\"\nto = \"w*\"\n";
  const auto half = arrivals(rest + "load = 0.4\n"), whole = arrivals(rest + "load = 0.8\n");
  ASSERT_EQ(half.size(), whole.size());
  for (size_t i = 0; i < half.size(); ++i) {
    EXPECT_EQ(half[i].bytes, whole[i].bytes);
    EXPECT_EQ(half[i].to, whole[i].to);
    EXPECT_NEAR(half[i].at.seconds(), 2 * whole[i].at.seconds(), 1e-11);
  }
}

TEST(Poisson, SomeReceiveAndDoNotSend) {
  for (const Arrival& a :
       arrivals("from = [\"w0\", \"w1\"]\nto = [\"w1\", \"slow\"]\nload = 0.5\nflows = 200\n")) {
    EXPECT_TRUE(a.to == 6 || (a.to == 1 && a.from == 0)) << a.from << " " << a.to;
  }
}

}  // namespace
}  // namespace understudy
