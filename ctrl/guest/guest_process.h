// The processes of a guest in virtual time: User-mode Linux with the virtual node's kernel and root
// file system (tools/rigs/vnode builds them), in a folder of its own. They live in a PID namespace that
// ends with us or with this object, for a kernel of this kind that is killed would leave the
// processes that it traced to the host.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "dataplane/base/address.h"
#include "dataplane/base/result.h"
#include "dataplane/base/unique_fd.h"

namespace understudy {

/// One network device of a guest and the Soft-RoCE device on it.
struct GuestNetwork {
  MacAddress mac;
  std::vector<std::string> addresses;  ///< with prefix length
  uint32_t mtu = 1500;                 ///< of IP packets
  std::optional<uint16_t> vlan;
  uint8_t pcp = 0;  ///< of the VLAN's frames
};

struct GuestSettings {
  std::string name;
  uint32_t number = 0;  ///< different for each guest of a run
  uint32_t memory_mb = 256;
  std::vector<GuestNetwork> networks;
  std::string preload;  ///< library that goes into its programs; may be empty
  std::string program;  ///< a shell script
  std::string share;  ///< directory of the host's that the guest sees as /mnt; empty: an empty one
};

/// Kernel and root file system, where tools/rigs/vnode keeps them. Error: what to run first.
struct GuestImage {
  std::string kernel, initramfs;
  static Result<GuestImage> find();
};

class GuestProcess {
 public:
  /// Makes a folder for the guest's sockets and files under `parent`.
  static Result<std::unique_ptr<GuestProcess>> create(const GuestSettings& settings,
                                                      const std::string& parent);
  GuestProcess(const GuestProcess&) = delete;
  GuestProcess& operator=(const GuestProcess&) = delete;
  /// Ends all of its processes and removes its folder.
  ~GuestProcess();

  /// Where GuestNode makes its sockets, before start().
  const std::string& folder() const { return folder_; }
  Result<void> start(const GuestImage& image);
  /// Can be read once it has ended.
  int process() const { return process_.get(); }
  /// Ends all of its processes; none is left when this returns.
  void end();
  /// For what is about to end, so that how_it_ended() knows; a second at most.
  void await_end() const;
  /// With a comma before it; empty while it runs.
  std::string how_it_ended() const;

  /// What its program has printed since the last call.
  std::string take_output();
  /// The program's exit status; nothing while it runs, or if the guest ended before it.
  std::optional<int> status() const;
  /// Last lines of what its kernel said.
  std::string last_words() const;

 private:
  GuestProcess(GuestSettings settings, std::string folder)
      : settings_(std::move(settings)), folder_(std::move(folder)) {}
  Result<void> lay_out() const;
  std::vector<std::string> command_line(const GuestImage& image, int output) const;

  const GuestSettings settings_;
  const std::string folder_;
  pid_t pid_ = -1;
  UniqueFd process_;
  size_t read_ = 0;  ///< bytes of its output
};

}  // namespace understudy
