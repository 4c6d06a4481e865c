#include "ctrl/report/draw.h"

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "dataplane/base/output_file.h"

namespace understudy {
namespace {

Error cannot_start(const DrawingProgram& program, int error) {
  return {program.name + ", which draws " + program.what + ": " + std::strerror(error) +
          " (Debian: " + program.package + ")"};
}

Result<void> run(const DrawingProgram& program, std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), program.name);
  std::vector<char*> words;
  for (std::string& argument : arguments) words.push_back(argument.data());
  words.push_back(nullptr);
  pid_t child = 0;
  const int error =
      ::posix_spawnp(&child, program.name.c_str(), nullptr, nullptr, words.data(), environ);
  if (error != 0) return tl::unexpected(cannot_start(program, error));
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
    return fail(program.name + " could not draw " + program.what);
  }
  return {};
}

}  // namespace

Result<void> find_program(const DrawingProgram& program) {
  const char* path = std::getenv("PATH");
  std::string folders = path != nullptr ? path : "";
  for (size_t from = 0; from <= folders.size();) {
    const size_t end = std::min(folders.find(':', from), folders.size());
    const std::string file = folders.substr(from, end - from) + "/" + program.name;
    if (::access(file.c_str(), X_OK) == 0) return {};
    from = end + 1;
  }
  return tl::unexpected(cannot_start(program, ENOENT));
}

Result<void> draw_with(const DrawingProgram& program, std::vector<std::string> arguments,
                       const std::string& script) {
  std::string path = (std::filesystem::temp_directory_path() / "understudy_XXXXXX").string();
  const int file = ::mkstemp(path.data());
  if (file < 0) return fail(path + ": " + std::strerror(errno));
  const bool written =
      ::write(file, script.data(), script.size()) == static_cast<ssize_t>(script.size());
  ::close(file);
  Result<void> done = fail(path + ": cannot be written");
  arguments.push_back(path);
  if (written) done = run(program, std::move(arguments));
  ::unlink(path.c_str());
  return done;
}

Result<void> write_text(const std::string& file, const std::string& text) {
  return replace_file(file, text);
}

}  // namespace understudy
