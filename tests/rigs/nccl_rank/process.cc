#include "tests/rigs/nccl_rank/process.h"

#include <cstring>
#include <utility>

namespace understudy::nccl_rank {

Bytes Socket::take(size_t size) {
  const auto begin = in.begin() + static_cast<ptrdiff_t>(taken);
  Bytes out(begin, begin + static_cast<ptrdiff_t>(size));
  taken += size;
  if (taken * 2 >= in.size()) {
    in.erase(in.begin(), in.begin() + static_cast<ptrdiff_t>(taken));
    taken = 0;
  }
  return out;
}

ListeningSocket* Process::listen(uint16_t port) {
  auto listener = std::make_unique<ListeningSocket>();
  listener->id = network_.new_id();
  listener->address = network_.listen(*this, address_, listener->id, port);
  return (listeners_[listener->id] = std::move(listener)).get();
}

void Process::stop(ListeningSocket* listener) {
  network_.stop_listening(listener->id);
  for (Socket* socket : listener->accepted) close(socket);
  listeners_.erase(listener->id);
}

Task<Socket*> Process::dial(SocketAddress to, uint64_t magic, int type) {
  auto owned = std::make_unique<Socket>();
  Socket* socket = owned.get();
  socket->id = network_.new_id();
  sockets_[socket->id] = std::move(owned);
  network_.dial(*this, address_, to, socket->id);
  co_await until([socket] { return socket->connected || socket->closed; });
  require(socket->connected, to.text() + " does not take a connection");
  uint8_t hello[12];
  std::memcpy(hello, &magic, 8);
  std::memcpy(hello + 8, &type, 4);
  send(socket, hello);
  co_return socket;
}

Task<Socket*> Process::accept(ListeningSocket* listener, uint64_t magic, int type) {
  for (;;) {
    co_await until([listener] { return !listener->accepted.empty(); });
    Socket* socket = listener->accepted.front();
    listener->accepted.pop_front();
    co_await until([socket] { return socket->left() >= 12 || socket->closed; });
    uint64_t got_magic = 0;
    int got_type = 0;
    if (socket->left() >= 12) {
      const Bytes hello = socket->take(12);
      std::memcpy(&got_magic, hello.data(), 8);
      std::memcpy(&got_type, hello.data() + 8, 4);
    }
    if (got_magic != magic) {
      close(socket);
      continue;
    }
    require(got_type == type, "a connection of type " + std::to_string(got_type) + " instead of " +
                                  std::to_string(type));
    co_return socket;
  }
}

void Process::send(Socket* socket, std::span<const uint8_t> bytes) {
  network_.send(socket->id, bytes);
}

void Process::send_frame(Socket* socket, std::span<const uint8_t> payload) {
  const auto size = static_cast<int32_t>(payload.size());
  uint8_t length[4];
  std::memcpy(length, &size, 4);
  send(socket, length);
  send(socket, payload);
}

Task<Bytes> Process::receive(Socket* socket, size_t size, std::string what) {
  co_await until([socket, size] { return socket->left() >= size || socket->closed; });
  require(socket->left() >= size, what + ": closed after " + std::to_string(socket->left()) +
                                      " of " + std::to_string(size) + " bytes");
  Bytes out = socket->take(size);
  co_return out;
}

Task<Bytes> Process::receive_frame(Socket* socket, size_t size, std::string what) {
  const Bytes length = co_await receive(socket, 4, what + ", its length");
  int32_t got = 0;
  std::memcpy(&got, length.data(), 4);
  require(got == static_cast<int32_t>(size), what + ": a frame of " + std::to_string(got) +
                                                 " bytes instead of " + std::to_string(size));
  Bytes payload = co_await receive(socket, size, what);
  co_return payload;
}

Task<> Process::end_of(Socket* socket, std::string what) {
  co_await until([socket] { return socket->closed || socket->left() > 0; });
  require(socket->left() == 0, what + ": more bytes than there are to be");
  close(socket);
}

void Process::close(Socket* socket) {
  network_.close(socket->id);
  sockets_.erase(socket->id);
}

void Process::close_all() {
  while (!listeners_.empty()) stop(listeners_.begin()->second.get());
  while (!sockets_.empty()) close(sockets_.begin()->second.get());
}

void Process::spawn(Task<> task) {
  tasks_.push_back(std::move(task));
  tasks_.back().start();
}

void Process::run() {
  waits_.run();
  for (size_t i = 0; i < tasks_.size(); ++i) {
    if (!tasks_[i].done()) continue;
    if (const auto error = tasks_[i].error()) {
      try {
        std::rethrow_exception(error);
      } catch (const Refused& refused) {
        if (failure_.empty()) failure_ = standing_ + ": " + refused.what();
      }
    }
    tasks_[i] = std::move(tasks_.back());
    tasks_.pop_back();
    --i;
  }
}

void Process::on_accepted(Id listener, Id stream, const SocketAddress&) {
  auto owned = std::make_unique<Socket>();
  owned->id = stream;
  owned->connected = true;
  Socket* socket = owned.get();
  sockets_[stream] = std::move(owned);
  const auto found = listeners_.find(listener);
  if (found == listeners_.end()) {
    close(socket);
  } else {
    found->second->accepted.push_back(socket);
  }
  run();
}

void Process::on_connected(Id stream) {
  if (const auto found = sockets_.find(stream); found != sockets_.end()) {
    found->second->connected = true;
    run();
  }
}

void Process::on_bytes(Id stream, std::span<const uint8_t> bytes) {
  if (const auto found = sockets_.find(stream); found != sockets_.end()) {
    Bytes& in = found->second->in;
    in.insert(in.end(), bytes.begin(), bytes.end());
    run();
  }
}

void Process::on_closed(Id stream, const std::string&) {
  if (const auto found = sockets_.find(stream); found != sockets_.end()) {
    found->second->closed = true;
    run();
  }
}

}  // namespace understudy::nccl_rank
