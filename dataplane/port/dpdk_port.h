// A port on any DPDK Ethernet device: one receive and one transmit queue, one frame per buffer.
#pragma once

#include <rte_mempool.h>

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "dataplane/base/result.h"
#include "dataplane/port/device_clock.h"
#include "dataplane/port/dpdk_device.h"
#include "dataplane/port/dpdk_vhost.h"
#include "dataplane/port/port.h"

struct rte_mbuf;

namespace understudy {

/// Memory one port takes for its buffers.
inline constexpr uint32_t kDpdkPortMegabytes = 48;

struct DpdkPortOptions {
  std::string name;    ///< as the user knows it: appears in errors and captures
  std::string device;  ///< PCI address or virtual device, see DpdkDevice
  /// Frames are given to the device before their time, which it keeps by its clock. Not every
  /// device can; it may want to be told so in its arguments (ConnectX: tx_pp=500).
  bool transmit_time_stamps = false;
  uint32_t mtu = 4200;  ///< wanted: largest IP packet. 4200 lets RoCE choose path MTU 4096
};

class DpdkPort final : public Port, private TxSink {
 public:
  /// Opens and starts the device; the EAL must be up (app/eal.h). Errors name port and device.
  static Result<std::unique_ptr<DpdkPort>> open(const DpdkPortOptions& options);
  ~DpdkPort() override;
  DpdkPort(const DpdkPort&) = delete;
  DpdkPort& operator=(const DpdkPort&) = delete;

  const std::string& name() const override { return name_; }
  uint32_t mtu() const override { return mtu_; }
  std::span<const std::span<const uint8_t>> rx() override;
  TxSink& tx() override { return *this; }
  void flush(Time now) override;
  PortCounters counters() const override;

  // For threads of a StagedPort, one that receives and one that sends.
  /// Frames that have come in, a buffer each, which are the caller's from now on; how many.
  uint32_t receive_buffers(std::span<rte_mbuf*, kRxBurst> buffers);
  /// Whether add() may be called: no frame waits for the device.
  bool takes_more() const { return !blocked_ && pending_ < kTxBurst; }
  /// For a frame to send; null, and counted, when the device has all.
  rte_mbuf* empty_buffer();
  /// A frame of `bytes` stands in the buffer, which leaves at the next flush().
  void add(rte_mbuf* buffer, uint32_t bytes, Time scheduled);

  /// Is there a carrier, or a guest at the vhost socket? A guest may come late, leave and return.
  /// Any thread may ask.
  bool link_up() const;
  /// Whether the device can send frames at times of our choice. Of DPDK 22.11's drivers only that
  /// of ConnectX cards does it.
  bool has_transmit_time_stamps() const { return has_time_stamps_; }
  /// Whether it does: asked to, and its clock could be read. For the thread that sends, or for
  /// others once it has ended.
  bool uses_transmit_time_stamps() const { return clock_.known(); }

 private:
  static constexpr uint32_t kTxBurst = 64;
  /// Longer than the loop's turns, short beside what may change a departure.
  static constexpr Duration kLead = Duration::us(20);

  explicit DpdkPort(const DpdkPortOptions& options)
      : name_(options.name), mtu_(options.mtu), stamps_(options.transmit_time_stamps) {}
  Result<void> attach(const std::string& device);
  Result<void> start();
  std::string where() const;

  bool have_buffer();
  uint8_t* reserve(uint32_t bytes) override;
  uint8_t* reserve_zeros(uint32_t head, uint32_t zeros, uint32_t tail) override;
  void commit(uint32_t bytes, Time scheduled) override;
  Duration lead() const override { return clock_.known() ? kLead : Duration(); }
  Result<void> prepare_time_stamps(uint64_t& offloads);
  void read_device_clock(Time now);
  void stamp(Time now);
  void capture_sent(Time now, uint32_t sent);
  uint32_t give_up(uint32_t sent, Time now);

  std::string name_;
  uint32_t mtu_;
  DpdkDevice device_;
  VhostSocket vhost_;
  bool attached_ = false;
  bool started_ = false;
  bool has_time_stamps_ = false;
  bool stamps_ = false;      ///< frames carry their times
  int stamp_offset_ = 0;     ///< of the field in a buffer
  uint64_t stamp_flag_ = 0;  ///< of a buffer that has it
  DeviceClock clock_;        ///< of the device; known only if frames carry times
  uint16_t id_ = 0;
  rte_mempool* rx_pool_ = nullptr;
  rte_mempool* tx_pool_ = nullptr;

  // Receiving and sending may be two threads' work.
  alignas(64) std::array<rte_mbuf*, kRxBurst> rx_mbufs_{};
  std::array<std::span<const uint8_t>, kRxBurst> frames_{};
  uint32_t received_ = 0;  ///< mbufs of the last burst, freed by the next call of rx()
  PortCounters rx_counted_;

  alignas(64) std::array<rte_mbuf*, kTxBurst> tx_mbufs_{};
  std::array<Time, kTxBurst> scheduled_{};
  uint32_t pending_ = 0;  ///< committed, not yet taken by the device
  bool blocked_ = false;  ///< the device did not take everything at the last flush
  Time moved_;            ///< when it took something last, or began not to
  rte_mbuf* reserved_ = nullptr;
  PortCounters tx_counted_;
};

}  // namespace understudy
