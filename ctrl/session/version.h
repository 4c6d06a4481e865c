#pragma once

namespace understudy {

inline constexpr const char* kVersion = "0.1.0";  ///< as in meson.build

}  // namespace understudy
