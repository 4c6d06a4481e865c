// Small floats against the nearest of all their values.
#include "dataplane/base/half.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "dataplane/base/pattern.h"

namespace understudy {
namespace {

/// All finite values of a type without a sign, ascending, by their bits.
template <typename T>
std::vector<double> values(uint32_t largest) {
  std::vector<double> all;
  for (uint32_t bits = 0; bits <= largest; ++bits) {
    T t;
    t.bits = static_cast<decltype(t.bits)>(bits);
    all.push_back(static_cast<double>(t.value()));
  }
  return all;
}

template <typename T>
void expect_nearest(uint32_t largest, float v) {
  static const std::vector<double> kAll = values<T>(largest);
  const double magnitude = std::abs(static_cast<double>(v));
  const auto above = std::lower_bound(kAll.begin(), kAll.end(), magnitude);
  auto right = static_cast<uint32_t>(above - kAll.begin());
  if (right > largest) right = largest;
  if (right > 0) {
    const double up = std::abs(kAll[right] - magnitude),
                 down = std::abs(magnitude - kAll[right - 1]);
    if (down < up || (down == up && right % 2 == 1)) --right;
  }
  EXPECT_EQ(T::of(v).bits & (sizeof(T) == 1 ? 0x7f : 0x7fff), right) << v;
  EXPECT_EQ(std::signbit(T::of(v).value()), std::signbit(v)) << v;
}

TEST(Half, EveryValueIsItsOwn) {
  for (uint32_t bits = 0; bits < 0x7c00; ++bits) {
    const Float16 h{static_cast<uint16_t>(bits)};
    ASSERT_EQ(Float16::of(h.value()).bits, bits);
    ASSERT_EQ(Float16::of(-h.value()).bits, bits | 0x8000);
  }
  for (uint32_t bits = 0; bits < 0x7f80; ++bits) {
    const Bfloat16 b{static_cast<uint16_t>(bits)};
    ASSERT_EQ(Bfloat16::of(b.value()).bits, bits);
  }
  for (uint32_t bits = 0; bits <= 0x7e; ++bits) {
    ASSERT_EQ(Float8E4m3::of(Float8E4m3{static_cast<uint8_t>(bits)}.value()).bits, bits);
  }
  for (uint32_t bits = 0; bits <= 0x7b; ++bits) {
    ASSERT_EQ(Float8E5m2::of(Float8E5m2{static_cast<uint8_t>(bits)}.value()).bits, bits);
  }
}

TEST(Half, KnownValues) {
  EXPECT_EQ(Float16{0x3c00}.value(), 1.0F);
  EXPECT_EQ(Float16{0x7bff}.value(), 65504.0F);
  EXPECT_EQ(Float16{0x0001}.value(), 0x1p-24F);
  EXPECT_EQ(Bfloat16{0x3f80}.value(), 1.0F);
  EXPECT_EQ(Float8E4m3{0x38}.value(), 1.0F);
  EXPECT_EQ(Float8E4m3{0x7e}.value(), 448.0F);
  EXPECT_EQ(Float8E4m3{0x01}.value(), 0x1p-9F);
  EXPECT_EQ(Float8E5m2{0x3c}.value(), 1.0F);
  EXPECT_EQ(Float8E5m2{0x7b}.value(), 57344.0F);
}

TEST(Half, RoundsToTheNearest) {
  std::mt19937 random(8);
  for (int i = 0; i < 200000; ++i) {
    // All magnitudes, and many that lie halfway between two values.
    const auto exponent = static_cast<int>(random() % 40) - 26;
    const auto mantissa = static_cast<float>((random() % 4096) * (i % 2 == 0 ? 1 : 0) +
                                             (i % 2 == 0 ? 4096 : random() % 8192));
    const float v = std::ldexp(mantissa, exponent - 12) * (random() % 2 == 0 ? 1 : -1);
    if (std::abs(v) < 65519) expect_nearest<Float16>(0x7bff, v);
    expect_nearest<Bfloat16>(0x7f7f, v);
    expect_nearest<Float8E4m3>(0x7e, v);
    expect_nearest<Float8E5m2>(0x7b, v);
  }
  EXPECT_EQ(Float16::of(65520.0F).bits, 0x7c00);
  EXPECT_EQ(Float16::of(-1e9F).bits, 0xfc00);
}

TEST(Half, PatternsAreOddAndNeitherSmallNorLarge) {
  const Pattern pattern(5, 3);
  for (uint64_t i = 0; i < 5000; ++i) {
    for (const double v :
         {static_cast<double>(pattern.float16_at(i).value()),
          static_cast<double>(pattern.bfloat16_at(i).value()),
          static_cast<double>(pattern.float8_at<3>(i).value()),
          static_cast<double>(pattern.float8_at<2>(i).value()), pattern.double_at(i)}) {
      EXPECT_TRUE(std::abs(v) > 0.5 && std::abs(v) < 2) << v;
    }
    EXPECT_EQ(pattern.bits_at(i) % 2, 1u);
  }
}

}  // namespace
}  // namespace understudy
