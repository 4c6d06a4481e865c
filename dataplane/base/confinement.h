// Confinement: what a program may ask of the kernel once its files are open and all that is left is to read them, to compute and
// to write. Whoever takes over a parser by what it reads gets no further file, socket, program or process. By seccomp(2).
#pragma once

#include <cstdint>
#include <string>

namespace understudy {

/// Whether confine() does anything: not without libseccomp, and not in sanitized builds, which open files of their own.
bool can_confine();

/// What it needs besides what is open.
enum class Further : uint8_t {
  kNothing,
  kFilesToRead,  ///< opens more files, to read them only
  kPackets,      ///< receives on a packet socket that is open, and asks what that has dropped
};

/// From here on this process and all of its threads may read and write what is open, use memory and end; they may neither map
/// memory for executing nor start threads. What asks for another process, program, socket or namespace ends it at once (SIGSYS);
/// anything else, such as opening a file, fails with EPERM. For good. An empty text, or why the kernel would not.
std::string confine(Further further = Further::kNothing);

}  // namespace understudy
