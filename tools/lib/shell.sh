# Shell functions that tools/check and tools/quickstart share. To be sourced by a script in tools/
# after `set -euo pipefail`; runs in bash.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
program=$(basename "$0")
export PYTHONDONTWRITEBYTECODE=1 # the checkout may belong to another user
export HOME=${HOME:-$(getent passwd "$(id -u)" | cut -d: -f6)}

say() { echo "$program: $*"; }

die() { # TEXT [STATUS]
  echo "$program: $1" >&2
  exit "${2:-1}"
}

# The folder for all build directories: build/ in the checkout, or, where that is not ours to write,
# one in the user's cache that belongs to this checkout. Printed.
build_root() {
  local here=$root/build
  if [ -d "$here" ]; then
    [ -O "$here" ] && [ -w "$here" ] && echo "$here" && return
  elif [ -O "$root" ] || { [ "$(id -u)" != 0 ] && [ -w "$root" ]; }; then
    mkdir -p "$here" && echo "$here" && return
  fi
  here=${XDG_CACHE_HOME:-$HOME/.cache}/understudy/build-$(echo "$root" | cksum | cut -d' ' -f1)
  mkdir -p "$here" || die "there is no folder for the build: neither $root/build nor $here can be written"
  echo "$here"
}

# Sets up a build directory, anew if it was set up for something else; ninja keeps it up to date.
configure() { # DIRECTORY MESON_OPTION...
  local directory=$1 wanted
  shift
  wanted="$root ${CXX:-} $*"
  [ -f "$directory/build.ninja" ] && [ "$(cat "$directory/set-up-for" 2>/dev/null)" = "$wanted" ] && return
  rm -rf "$directory"
  mkdir -p "$directory"
  meson setup "$@" "$directory" "$root" >"$directory/set-up.txt" 2>&1 || { cat "$directory/set-up.txt" && return 1; }
  echo "$wanted" >"$directory/set-up-for"
}

# Runs a step and says how long it took.
timed() { # LABEL COMMAND...
  local label=$1 start=$SECONDS status=0
  shift
  say "$label ..."
  "$@" || status=$?
  say "$label: $([ $status = 0 ] && echo done || echo "FAILED (status $status)") after $((SECONDS - start)) s"
  return $status
}

# Sanitizers' builds are clang's: it needs half of g++'s time for them, and it is a second opinion. Its linker needs a quarter
# of the other's time.
with_clang() { # COMMAND...
  local CXX CXX_LD
  CXX="$(command -v ccache || true) clang++"
  ! command -v ld.lld >/dev/null || local -x CXX_LD=lld
  local -x CXX
  "$@"
}

# Files of a library are compiled ten at a time, for most of what they cost there is what they include.
unity=(-Dunity=on -Dunity_size=10)
instrumented=(-Dbuildtype=plain -Doptimization=1 -Db_lundef=false -Dcpp_args=-gline-tables-only "${unity[@]}")
# Tests and fuzzers share it: their libraries are compiled once.
sanitized=("${instrumented[@]}" -Db_sanitize=address,undefined -Dfuzz=true -Dlong_tests=false)
