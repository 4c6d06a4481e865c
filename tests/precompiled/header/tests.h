// What many tests include, for -Dprecompiled_tests=true; each includes what it needs all the same.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <chrono>
#include <cmath>
#include <deque>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iomanip>
#include <iostream>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <random>
#include <set>
#include <span>
#include <sstream>
#include <string>
#include <string_view>
#include <thread>
#include <tl/expected.hpp>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <variant>
#include <vector>

#include "ctrl/config/read/load.h"
#include "ctrl/report/json.h"
#include "ctrl/report/table.h"
#include "dataplane/engine/shard.h"
#include "tests/ctrl/nccl_virtual/rig.h"
#include "tests/ctrl/run/simulate_rig.h"
#include "tests/engine/rig.h"
#include "tests/rigs/compile_and_simulate.h"
#include "tests/tools/roce_check/conversation.h"
#include "tests/wire/frames.h"
