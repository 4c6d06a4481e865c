// The virtual-time link: a cable without length between two ports in one process. It takes no time
// (rates and latencies are the fabric's), keeps order and loses nothing.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "dataplane/port/port.h"

namespace understudy {

/// One end of a virtual link.
class VirtualPort final : public Port, private TxSink {
 public:
  VirtualPort(std::string name, uint32_t mtu) : name_(std::move(name)), mtu_(mtu) {}
  VirtualPort(const VirtualPort&) = delete;
  VirtualPort& operator=(const VirtualPort&) = delete;

  const std::string& name() const override { return name_; }
  uint32_t mtu() const override { return mtu_; }
  /// A burst of frames with one time of arrival, next_arrival(). Ask only once that time has come.
  std::span<const std::span<const uint8_t>> rx() override;
  TxSink& tx() override { return *this; }
  /// Committed frames arrive at the other end at `now`.
  void flush(Time now) override;
  PortCounters counters() const override { return counters_; }

  /// When the oldest frame that waits here came in; never() when none does.
  Time next_arrival() const { return inbox_.empty() ? Time::never() : inbox_.front().at; }

 private:
  friend class VirtualLink;
  struct Frame {
    Time at;         ///< in an inbox: arrival
    Time scheduled;  ///< in an outbox: modelled departure
    std::vector<uint8_t> bytes;
  };

  uint8_t* reserve(uint32_t bytes) override;
  void commit(uint32_t bytes, Time scheduled) override;

  std::string name_;
  uint32_t mtu_;
  VirtualPort* other_ = nullptr;
  std::deque<Frame> inbox_;
  std::vector<Frame> outbox_;  ///< the last one may be reserved only
  bool reserved_ = false;
  std::array<Frame, kRxBurst> burst_;
  std::array<std::span<const uint8_t>, kRxBurst> views_;
  PortCounters counters_;
};

/// Two ends, joined. Neither moves.
class VirtualLink {
 public:
  VirtualLink(std::string name_a, std::string name_b, uint32_t mtu)
      : a_(std::move(name_a), mtu), b_(std::move(name_b), mtu) {
    a_.other_ = &b_;
    b_.other_ = &a_;
  }
  VirtualPort& a() { return a_; }
  VirtualPort& b() { return b_; }

 private:
  VirtualPort a_, b_;
};

}  // namespace understudy
