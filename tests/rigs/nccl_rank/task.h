// Coroutines that wait for conditions: NCCL's blocking code, written down as it runs.
#pragma once

#include <coroutine>
#include <cstddef>
#include <exception>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

namespace understudy::nccl_rank {

template <typename T>
class Task;

namespace detail {

struct PromiseBase {
  std::coroutine_handle<> next;
  std::exception_ptr error;
  struct Final {
    bool await_ready() noexcept { return false; }
    template <typename P>
    std::coroutine_handle<> await_suspend(std::coroutine_handle<P> done) noexcept {
      const auto next = done.promise().next;
      return next ? next : std::noop_coroutine();
    }
    void await_resume() noexcept {}
  };
  std::suspend_always initial_suspend() noexcept { return {}; }
  Final final_suspend() noexcept { return {}; }
  void unhandled_exception() noexcept { error = std::current_exception(); }
};

template <typename T>
struct Promise : PromiseBase {
  std::optional<T> value;
  Task<T> get_return_object();
  void return_value(T v) { value = std::move(v); }
  T take() { return std::move(*value); }
};

template <>
struct Promise<void> : PromiseBase {
  Task<void> get_return_object();
  void return_void() {}
  void take() {}
};

}  // namespace detail

/// Begins when it is awaited or started; what it throws comes out where it is awaited.
template <typename T = void>
class Task {
 public:
  using promise_type = detail::Promise<T>;
  explicit Task(std::coroutine_handle<promise_type> handle) : handle_(handle) {}
  Task(Task&& other) noexcept : handle_(std::exchange(other.handle_, {})) {}
  Task& operator=(Task&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~Task() {
    if (handle_) handle_.destroy();
  }
  bool await_ready() const { return false; }
  std::coroutine_handle<> await_suspend(std::coroutine_handle<> next) {
    handle_.promise().next = next;
    return handle_;
  }
  T await_resume() {
    if (handle_.promise().error) std::rethrow_exception(handle_.promise().error);
    return handle_.promise().take();
  }
  void start() { handle_.resume(); }
  bool done() const { return handle_.done(); }
  std::exception_ptr error() const { return handle_.promise().error; }

 private:
  std::coroutine_handle<promise_type> handle_;
};

namespace detail {
template <typename T>
Task<T> Promise<T>::get_return_object() {
  return Task<T>(std::coroutine_handle<Promise<T>>::from_promise(*this));
}
inline Task<void> Promise<void>::get_return_object() {
  return Task<void>(std::coroutine_handle<Promise<void>>::from_promise(*this));
}
}  // namespace detail

/// Coroutines that stand at a condition.
class Waits {
 public:
  using Condition = std::function<bool()>;
  struct Until {
    Waits& waits;
    Condition condition;
    bool await_ready() const { return condition(); }
    void await_suspend(std::coroutine_handle<> handle) {
      waits.waiting_.push_back({std::move(condition), handle});
    }
    void await_resume() const {}
  };
  Until until(Condition condition) { return {*this, std::move(condition)}; }
  /// Goes on with all whose condition holds, until none does.
  void run() {
    for (bool again = true; again;) {
      again = false;
      for (size_t i = 0; i < waiting_.size(); ++i) {
        if (!waiting_[i].condition()) continue;
        const auto handle = waiting_[i].handle;
        waiting_[i] = std::move(waiting_.back());
        waiting_.pop_back();
        handle.resume();
        again = true;
        break;
      }
    }
  }
  bool empty() const { return waiting_.empty(); }

 private:
  struct Entry {
    Condition condition;
    std::coroutine_handle<> handle;
  };
  std::vector<Entry> waiting_;
};

}  // namespace understudy::nccl_rank
