// Cold-path errors are values with a text that names the file, line or field at fault.
#pragma once

#include <string>
#include <tl/expected.hpp>
#include <utility>

namespace understudy {

struct Error {
  std::string text;
};

template <typename T>
using Result = tl::expected<T, Error>;

inline tl::unexpected<Error> fail(std::string text) {
  return tl::unexpected<Error>(Error{std::move(text)});
}

}  // namespace understudy
