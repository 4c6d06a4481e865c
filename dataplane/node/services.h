// Endpoints that ordinary clients meet: memory to write and read, an endless receiver, and echoes.
#pragma once

#include <cstdint>

#include "dataplane/node/endpoint.h"

namespace understudy {

/// Answers WRITE and READ, swallows SENDs: all of it happens in the responder.
class MemoryTarget : public Endpoint {
 public:
  void on_received(Time, Qp&, const Received&) override {}
  void on_completed(Time, Qp&, uint64_t, WorkStatus) override {}
};

/// Answers each SEND with a SEND of the same bytes (ibv_rc_pingpong, ib_send_lat).
class SendEcho : public Endpoint {
 public:
  /// `buffer`: where the queue pair's receive buffer is; outlives the queue pair.
  explicit SendEcho(const uint8_t* buffer) : buffer_(buffer) {}
  void on_received(Time now, Qp& qp, const Received& message) override;
  void on_completed(Time, Qp&, uint64_t, WorkStatus) override {}

 private:
  const uint8_t* buffer_;
};

/// Answers each WRITE into its region by writing the same bytes to the client's buffer
/// (ib_write_lat).
class WriteEcho : public Endpoint {
 public:
  struct Setup {
    const uint8_t* bytes = nullptr;  ///< the exposed region's contents
    uint64_t va = 0;                 ///< its address
    uint64_t remote_va = 0;          ///< the client's buffer
    Rkey remote_rkey = 0;
  };
  explicit WriteEcho(const Setup& setup) : setup_(setup) {}
  void on_received(Time now, Qp& qp, const Received& message) override;
  void on_completed(Time, Qp&, uint64_t, WorkStatus) override {}

 private:
  Setup setup_;
};

}  // namespace understudy
