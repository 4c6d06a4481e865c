// What every TCP connection of NCCL's bootstrap carries (docs/nccl 1.2): from the side that
// connects 12 bytes, then from either side frames of an i32 size and as many bytes.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace understudy {

inline constexpr size_t kNcclHandshakeBytes = 12;
/// NCCL's socket types (include/socket.h).
inline constexpr uint32_t kNcclBootstrapType = 1;
/// Larger than anything NCCL sends in one frame: all channels' entries of two ranks take 32 KiB.
inline constexpr uint32_t kNcclLargestFrame = 1u << 20;

/// u64 magic, i32 type.
void append_handshake(std::vector<uint8_t>& to, uint64_t magic);
void append_frame_size(std::vector<uint8_t>& to, uint32_t size);
void append_frame(std::vector<uint8_t>& to, std::span<const uint8_t> payload);

/// Cuts a byte stream into its handshake, sizes and payloads. Holds at most one frame.
class FrameReader {
 public:
  explicit FrameReader(bool with_handshake) : wants_(with_handshake ? kHandshake : kSize) {}

  enum Kind : uint8_t {
    kNone,       ///< more bytes are needed
    kHandshake,  ///< magic, type
    kSize,       ///< of the payload that follows, also if that is 0
    kPayload,
    kAbsurd,  ///< a size that is negative or larger than kNcclLargestFrame; nothing comes after it
  };
  struct Event {
    Kind kind = kNone;
    uint64_t magic = 0;
    uint32_t type = 0;
    int32_t size = 0;
    std::span<const uint8_t> payload;  ///< valid until the next call
  };

  /// More of the stream; next() is to be called until it gives kNone before the next feed().
  void feed(std::span<const uint8_t> bytes) { input_ = bytes; }
  Event next();
  /// Nothing of a handshake, size or payload has come without its rest.
  bool at_boundary() const { return wants_ != kPayload && wants_ != kAbsurd && held_.empty(); }

 private:
  /// `need` bytes in one piece, if they have come.
  bool take(size_t need, std::span<const uint8_t>& bytes);

  Kind wants_;
  uint32_t size_ = 0;
  std::span<const uint8_t> input_;
  std::vector<uint8_t> held_, given_;
};

}  // namespace understudy
