// Endpoints that ordinary clients meet: memory to write and read, an endless receiver, and echoes.
#pragma once

#include <cstdint>
#include <span>

#include "dataplane/node/endpoint.h"

namespace understudy {

/// What a client has told of its memory, for endpoints that speak first.
struct RemoteBuffer {
  uint64_t va = 0;
  Rkey rkey = 0;
  uint32_t opening_bytes = 0;  ///< WriteEcho: length of the first WRITE
};

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
  explicit SendEcho(std::span<const uint8_t> buffer) : buffer_(buffer) {}
  void on_received(Time now, Qp& qp, const Received& message) override;
  void on_completed(Time, Qp&, uint64_t, WorkStatus) override {}

 private:
  std::span<const uint8_t> buffer_;
};

/// perftest's ib_write_lat server, which writes first: once started one WRITE of bytes that are all
/// 1, then each WRITE into its region is answered by the same bytes with the last one counted up.
class WriteEcho : public Endpoint {
 public:
  struct Setup {
    uint8_t* bytes = nullptr;  ///< the exposed region's contents
    uint64_t va = 0;           ///< its address
    uint64_t length = 0;       ///< its size in bytes
  };
  explicit WriteEcho(const Setup& setup) : setup_(setup) {}
  void set_qp(Qp& qp) { qp_ = &qp; }  ///< before the first wake
  /// The cookie is the address of a RemoteBuffer, which outlives this object: the client waits for
  /// the first WRITE.
  void on_wake(Time now, uint64_t cookie) override;
  void on_received(Time now, Qp& qp, const Received& message) override;
  void on_completed(Time, Qp&, uint64_t, WorkStatus) override {}

 private:
  void write(Time now, Qp& qp, uint64_t offset, uint32_t length);

  Setup setup_;
  const RemoteBuffer* start_ =
      nullptr;  ///< null until the client waits; nothing is answered before
  Qp* qp_ = nullptr;
};

}  // namespace understudy
