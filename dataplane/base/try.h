// Passing another call's error on. For cold paths, as all of Result is.
#pragma once

#include <tl/expected.hpp>
#include <type_traits>
#include <utility>

namespace understudy {

template <typename T, typename E>
T value_of(tl::expected<T, E>&& result) {
  if constexpr (std::is_void_v<T>) {
    return;
  } else {
    return *std::move(result);
  }
}

}  // namespace understudy

/// The value of a Result, moved out of it: `auto file = TRY(open(path));`. If it is an error, the
/// function (or lambda) around it returns this error. Not for coroutines, which cannot return.
/// A statement expression of GCC and Clang: the argument is evaluated once, errors keep their text.
#define TRY(...)                                                             \
  ({                                                                         \
    auto try_result = (__VA_ARGS__);                                         \
    if (!try_result) return ::tl::unexpected(std::move(try_result).error()); \
    ::understudy::value_of(std::move(try_result));                           \
  })
