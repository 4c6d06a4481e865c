// The state of decode(): what one connection tells about the others.
#pragma once

#include <array>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tools/nccl_decode/exchange.h"
#include "tools/nccl_decode/frames.h"

namespace understudy::nccl_decode {

class Decoder {
 public:
  explicit Decoder(const DecodeOptions& options) : release_(options.release) {
    if (release_) out_.release_from = "the command line";
  }
  Exchange run(std::vector<TcpConnection> connections);

 private:
  struct Work {
    std::array<Frames, 2> sides;  ///< of bootstrap connections
  };
  /// A listening socket of a rank.
  struct Listener {
    uint64_t magic = 0;
    int rank = 0;
  };
  /// What a set-up message said of a socket that listens for net_ib.
  struct Expected {
    Listener receiver;
    int sender = 0, tag = 0, entry = 0;
  };

  template <typename F>
  void each(StreamKind kind, F step) {
    for (size_t i = 0; i < out_.streams.size(); ++i) {
      if (out_.streams[i].kind == kind) step(out_.streams[i], work_[i]);
    }
  }

  void open_stream(TcpConnection&& connection);
  // Each takes a connection that is not understood yet, and makes it what it is for.
  void check_in(Stream& stream, Work& work);
  void root_answer(Stream& stream, Work& work);
  void ring(Stream& stream, Work& work);
  void message(Stream& stream, Work& work);
  void net_ib(Stream& stream);

  GatherKind gather_kind(const Frame& frame, int number) const;
  void gather_fields(Message& message, Bytes payload);
  void learn_ring(Stream& stream, const Work& work);
  void payload_fields(Stream& stream, Message& message, Bytes payload, int tag);
  void name_release();
  void find_open_ends();

  /// Keeps the releases that fit.
  void narrow(const std::function<bool(const Layout&)>& fits);
  /// One that fits, of the likely ones if there is one.
  const Layout* layout_where(const std::function<bool(const Layout&)>& fits) const;
  Communicator& communicator(uint64_t magic);

  static Message& add(Stream& stream, size_t side, uint64_t begin, uint64_t end, std::string what);
  static Message& add(Stream& stream, size_t side, const Frame& frame, const std::string& what);
  static void unknown_rest(Stream& stream, size_t side, uint64_t from);

  Exchange out_;
  std::vector<Work> work_;  ///< beside out_.streams
  std::optional<Release> release_;
  uint32_t candidates_ = (1U << 13) - 1;  ///< a bit for each layout
  std::map<Endpoint, Listener> answer_listeners_, ring_listeners_, message_listeners_;
  std::map<Endpoint, Expected> ib_listeners_;
};

}  // namespace understudy::nccl_decode
