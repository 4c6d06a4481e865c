// Time, rate and size as strong types. Time is integer picoseconds: at 400 Gbit/s a 64-byte frame
// lasts 1.68 ns, so nanoseconds would be too coarse. No floating point on the packet path.
#pragma once

#include <compare>
#include <cstdint>
#include <limits>

namespace understudy {

/// A span of time in picoseconds; may be negative.
class Duration {
 public:
  constexpr Duration() = default;
  static constexpr Duration ps(int64_t v) { return Duration(v); }
  static constexpr Duration ns(int64_t v) { return Duration(v * 1'000); }
  static constexpr Duration us(int64_t v) { return Duration(v * 1'000'000); }
  static constexpr Duration ms(int64_t v) { return Duration(v * 1'000'000'000); }
  static constexpr Duration s(int64_t v) { return Duration(v * 1'000'000'000'000); }
  static constexpr Duration max() { return Duration(std::numeric_limits<int64_t>::max()); }

  constexpr int64_t ps() const { return ps_; }
  constexpr double seconds() const { return static_cast<double>(ps_) * 1e-12; }
  constexpr double microseconds() const { return static_cast<double>(ps_) * 1e-6; }

  constexpr auto operator<=>(const Duration&) const = default;
  constexpr Duration operator+(Duration o) const { return Duration(ps_ + o.ps_); }
  constexpr Duration operator-(Duration o) const { return Duration(ps_ - o.ps_); }
  constexpr Duration operator-() const { return Duration(-ps_); }
  constexpr Duration operator*(int64_t k) const { return Duration(ps_ * k); }
  constexpr Duration operator/(int64_t k) const { return Duration(ps_ / k); }
  constexpr Duration& operator+=(Duration o) {
    ps_ += o.ps_;
    return *this;
  }
  constexpr Duration& operator-=(Duration o) {
    ps_ -= o.ps_;
    return *this;
  }

 private:
  explicit constexpr Duration(int64_t v) : ps_(v) {}
  int64_t ps_ = 0;
};

/// A point in time in picoseconds since the start of the run (the epoch of a run is its own).
class Time {
 public:
  constexpr Time() = default;
  static constexpr Time from_ps(int64_t v) { return Time(v); }
  static constexpr Time zero() { return Time(0); }
  /// Later than every other time: "no wake-up needed".
  static constexpr Time never() { return Time(std::numeric_limits<int64_t>::max()); }

  constexpr int64_t ps() const { return ps_; }
  constexpr double seconds() const { return static_cast<double>(ps_) * 1e-12; }
  constexpr bool is_never() const { return *this == never(); }

  constexpr auto operator<=>(const Time&) const = default;
  constexpr Time operator+(Duration d) const { return Time(ps_ + d.ps()); }
  constexpr Time operator-(Duration d) const { return Time(ps_ - d.ps()); }
  constexpr Duration operator-(Time o) const { return Duration::ps(ps_ - o.ps_); }
  constexpr Time& operator+=(Duration d) {
    ps_ += d.ps();
    return *this;
  }

 private:
  explicit constexpr Time(int64_t v) : ps_(v) {}
  int64_t ps_ = 0;
};

/// A link or queue rate in bits per second; zero means "unlimited" (takes no time).
class Rate {
 public:
  constexpr Rate() = default;
  static constexpr Rate bits_per_second(uint64_t v) { return Rate(v); }
  static constexpr Rate unlimited() { return Rate(0); }

  constexpr uint64_t bps() const { return bps_; }
  constexpr bool is_unlimited() const { return bps_ == 0; }
  constexpr auto operator<=>(const Rate&) const = default;

  /// Time that `bytes` take at this rate, rounded down. Exact up to 9.2 EB*ps by 128-bit division.
  constexpr Duration time_for(uint64_t bytes) const {
    if (bps_ == 0) return Duration();
    if (bytes <= UINT64_MAX / kPsBitsPerByte) {
      return Duration::ps(static_cast<int64_t>(bytes * kPsBitsPerByte / bps_));
    }
    return Duration::ps(
        static_cast<int64_t>(static_cast<unsigned __int128>(bytes) * kPsBitsPerByte / bps_));
  }

  static constexpr uint64_t kPsBitsPerByte = 8'000'000'000'000ULL;  ///< 8 bit/byte * 1e12 ps/s

 private:
  explicit constexpr Rate(uint64_t v) : bps_(v) {}
  uint64_t bps_ = 0;
};

/// Turns byte counts into times at a rate without losing the remainder: the sum of the times of
/// many packets differs from the exact value by less than one picosecond.
class Serializer {
 public:
  explicit constexpr Serializer(Rate rate = Rate()) : rate_(rate) {}

  constexpr Rate rate() const { return rate_; }
  /// Changing the rate drops the carried remainder (under one picosecond).
  constexpr void set_rate(Rate rate) {
    rate_ = rate;
    remainder_ = 0;
    bytes_ = 0;
    whole_ = part_ = 0;
  }

  /// Time the next `bytes` (up to 2 MB at once) take on the wire.
  constexpr Duration next(uint64_t bytes) {
    const Duration whole = time_for(bytes);
    remainder_ += part_;
    if (remainder_ < rate_.bps() || rate_.is_unlimited()) return whole;
    remainder_ -= rate_.bps();
    return whole + Duration::ps(1);
  }
  /// The longest that next() can say of as many: what is carried over may add a picosecond.
  constexpr Duration most_for(uint64_t bytes) {
    const Duration whole = time_for(bytes);
    return part_ == 0 ? whole : whole + Duration::ps(1);
  }
  /// Without the remainder that is carried.
  constexpr Duration time_for(uint64_t bytes) {
    // Packets are mostly as long as the one before: divisions are done when that changes.
    if (bytes != bytes_ && !rate_.is_unlimited()) {
      bytes_ = bytes;
      whole_ = bytes * Rate::kPsBitsPerByte / rate_.bps();
      part_ = bytes * Rate::kPsBitsPerByte % rate_.bps();
    }
    return Duration::ps(static_cast<int64_t>(whole_));
  }

 private:
  Rate rate_;
  uint64_t remainder_ = 0;
  uint64_t bytes_ = 0;             ///< what was asked for last ...
  uint64_t whole_ = 0, part_ = 0;  ///< ... and its picoseconds, and what they leave over
};

}  // namespace understudy
