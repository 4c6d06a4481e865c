// [[control]]: every knob by its key, presets, and what is refused.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "ctrl/config/read/control_knobs.h"
#include "ctrl/config/read/load.h"

namespace understudy {
namespace {

constexpr char kNode[] =
    "format = 1\n[[node]]\nname = \"a\"\nlink = { rate = \"1Gbit/s\", latency = \"1us\" }\n";

ConfigResult load(const std::string& controls) { return load_config_text(kNode + controls, "f"); }

/// The parameters of the one [[control]] whose keys are `keys`.
ControlParameters parameters(const std::string& keys) {
  const ConfigResult result = load("[[control]]\nname = \"c\"\n" + keys);
  if (!result) {
    ADD_FAILURE() << describe(result.error());
    return {};
  }
  return result->controls.at(0).parameters;
}

/// The one error, which must stand in the line that holds "#!"; without file and line.
std::string error_of(const std::string& keys) {
  const std::string text = std::string(kNode) + "[[control]]\nname = \"c\"\n" + keys;
  const ConfigResult result = load_config_text(text, "f");
  if (result || result.error().size() != 1) {
    return result ? "no error" : describe(result.error());
  }
  const auto mark = text.begin() + static_cast<std::ptrdiff_t>(text.find("#!"));
  EXPECT_EQ(result.error()[0].line, std::count(text.begin(), mark, '\n') + 1) << text;
  const std::string line = result.error()[0].text();
  return line.substr(line.find(' ') + 1);
}

TEST(ConfigControls, PresetsByName) {
  for (const ControlPreset& preset : control_presets()) {
    const std::string law(preset.controller);
    EXPECT_EQ(parameters("law = \"" + law + "\"\npreset = \"" + std::string(preset.name) + "\"\n"),
              preset.parameters);
    EXPECT_EQ(parameters("law = \"" + law + "\"\n"), find_control_preset(law, ""));
  }
}

TEST(ConfigControls, DcqcnKnobs) {
  DcqcnParameters p;
  p.g = 0.25;
  p.initial_alpha = 0.5;
  p.alpha_update = DcqcnParameters::AlphaUpdate::kCnp;
  p.alpha_period = Duration::us(55);
  p.decrease_period = Duration();
  p.min_dec_fac = 0.75;
  p.clamp_target_rate = true;
  p.clamp_target_rate_after_time_inc = false;
  p.rate_to_set_on_first_cnp = Rate::bits_per_second(500'000'000);
  p.increase_period = Duration::us(900);
  p.byte_counter = 10'000'000;
  p.fast_recovery = 5;
  p.additive_increase = Rate::bits_per_second(40'000'000);
  p.hyper_increase = Rate::bits_per_second(200'000'000);
  p.min_rate = Rate::bits_per_second(100'000'000);
  p.echo = DcqcnParameters::Echo::kAck;
  p.cnp_interval = Duration::us(50);
  p.rate_changes_gap = false;
  p.window = {WindowRule::Kind::kBytes, 65'536, true};
  EXPECT_EQ(parameters(R"(law = "dcqcn"
g = 0.25
initial_alpha = 0.5
alpha_update = "cnp"
alpha_period = "55us"
decrease_period = "0us"
min_dec_fac = 0.75
clamp_target_rate = true
clamp_target_rate_after_time_inc = false
rate_to_set_on_first_cnp = "500Mbit/s"
increase_period = "900us"
byte_counter = "10MB"
fast_recovery = 5
additive_increase = "40Mbit/s"
hyper_increase = "200Mbit/s"
min_rate = "100Mbit/s"
echo = "ack"
cnp_interval = "50us"
rate_changes_gap = false
window = "64KiB"
variable_window = true
)"),
            ControlParameters(p));
  EXPECT_EQ(parameters("law = \"dcqcn\"\nrate_to_set_on_first_cnp = \"unchanged\"\n"
                       "alpha_update = \"period\"\necho = \"cnp\"\nwindow = \"none\"\n"),
            find_control_preset("dcqcn", ""));
}

TEST(ConfigControls, KnobsOfTheOtherLaws) {
  TimelyParameters timely = std::get<TimelyParameters>(*find_control_preset("timely", "erpc"));
  timely.ewma_gain = 0.5;
  timely.beta = 0.125;
  timely.t_low = Duration::us(10);
  timely.t_high = Duration::us(10);
  timely.min_rtt = Duration::us(3);
  timely.hyper_after = 7;
  timely.additive_increase = Rate::bits_per_second(1'000'000);
  timely.hyper_increase = Rate::bits_per_second(2'000'000);
  timely.min_rate = Rate::bits_per_second(3'000'000);
  timely.window = {WindowRule::Kind::kBdp, 0, false};
  EXPECT_EQ(parameters(R"(law = "timely"
preset = "erpc"
ewma_gain = 0.5
beta = 0.125
t_low = "10us"
t_high = "10us"
min_rtt = "3us"
hyper_after = 7
additive_increase = "1Mbit/s"
hyper_increase = "2Mbit/s"
min_rate = "3Mbit/s"
window = "bdp"
)"),
            ControlParameters(timely));

  DctcpParameters dctcp;
  dctcp.g = 1;
  dctcp.additive_increase = Rate::unlimited();
  dctcp.min_rate = Rate::bits_per_second(3'000'000);
  dctcp.window = {};
  EXPECT_EQ(parameters("law = \"dctcp\"\ng = 1\nadditive_increase = \"packet\"\n"
                       "min_rate = \"3Mbit/s\"\nwindow = \"none\"\n"),
            ControlParameters(dctcp));

  HpccParameters hpcc;
  hpcc.target_utilisation = 0.98;
  hpcc.max_stage = 0;
  hpcc.additive_increase = Rate::bits_per_second(10'000'000);
  hpcc.fast_react = false;
  hpcc.min_rate = Rate::bits_per_second(3'000'000);
  hpcc.window.variable = false;
  EXPECT_EQ(parameters("law = \"hpcc\"\ntarget_utilisation = 0.98\nmax_stage = 0\n"
                       "additive_increase = \"10Mbit/s\"\nfast_react = false\n"
                       "min_rate = \"3Mbit/s\"\nvariable_window = false\n"),
            ControlParameters(hpcc));

  SwiftParameters swift;
  swift.base_target = Duration::us(25);
  swift.hop_target = Duration();
  swift.flow_scaling_range = Duration::us(1);
  swift.flow_scaling_min_cwnd = 1;
  swift.flow_scaling_max_cwnd = 2;
  swift.additive_increase = 0.5;
  swift.beta = 1;
  swift.max_mdf = 0.25;
  swift.min_cwnd = 0.5;
  swift.max_cwnd = 256;
  EXPECT_EQ(parameters(R"(law = "swift"
base_target = "25us"
hop_target = "0us"
flow_scaling_range = "1us"
flow_scaling_min_cwnd = 1
flow_scaling_max_cwnd = 2
additive_increase = 0.5
beta = 1
max_mdf = 0.25
min_cwnd = 0.5
max_cwnd = 256
)"),
            ControlParameters(swift));

  EXPECT_EQ(parameters("law = \"none\"\nwindow = \"bdp\"\n"),
            ControlParameters(NoControlParameters{{WindowRule::Kind::kBdp, 0, false}}));
}

TEST(ConfigControls, AreFoundByName) {
  const ConfigResult result = load(
      "[[control]]\nname = \"x\"\nlaw = \"hpcc\"\n"
      "[[control]]\nname = \"y\"\nlaw = \"timely\"\npreset = \"erpc\"\n");
  ASSERT_TRUE(result);
  ASSERT_EQ(result->controls.size(), 2u);
  EXPECT_EQ(result->find_control("y"), &result->controls[1]);
  EXPECT_EQ(result->find_control("z"), nullptr);
  EXPECT_EQ(result->controls[0].preset, "paper");
  EXPECT_EQ(result->controls[1].preset, "erpc");
  EXPECT_EQ(result->controls[1].line, 8u);
}

TEST(ConfigControls, TheReferenceShowsEveryKnobWithItsDefault) {
  const ConfigResult result = load_config(UNDERSTUDY_TEST_DATA "/../../configs/reference.toml");
  ASSERT_TRUE(result) << describe(result.error());
  std::string laws;
  for (const ControlConfig& control : result->controls) {
    const std::string_view law = controller_name(control.parameters);
    EXPECT_EQ(control.parameters, find_control_preset(law, "")) << law;
    laws += std::string(law) + " ";
    const size_t from = result->source_text.find(std::string("law = \"").append(law));
    const std::string table =
        result->source_text.substr(from, result->source_text.find("[[", from) - from);
    for (const std::string_view key : knobs_of(control.parameters).keys) {
      // A window is every law's; it is described once.
      if (key == "window" || key == "variable_window") continue;
      EXPECT_NE(table.find(std::string("\n").append(key).append(" = ")), std::string::npos)
          << law << key;
    }
  }
  EXPECT_EQ(laws, "dcqcn timely dctcp hpcc swift ");
}

TEST(ConfigControls, WhatIsRefused) {
  const struct {
    const char* keys;
    const char* error;
  } cases[] = {
      {"law = \"dcqn\"#!\ncolour = 1\n",
       "control.law: found \"dcqn\" (did you mean \"dcqcn\"?): expected one of none, dcqcn, "
       "timely, "
       "dctcp, hpcc, swift"},
      {"law = \"dcqcn\"\npreset = \"papers\"#!\ng = 7\n",
       "control.preset: found \"papers\" (did you mean \"paper\"?): expected one of nvidia, paper, "
       "hpcc-simulator, timers-of-paper"},
      {"law = \"swift\"\npreset = \"\"#!\n", "control.preset: found \"\": expected one of htsim"},
      {"law = \"dcqcn\"\nt_low = \"5us\"#!\n",
       "control.t_low: found \"5us\": law = \"dcqcn\" has no such knob; it belongs to timely"},
      {"law = \"none\"\nmin_rate = \"1Mbit/s\"#!\n",
       "control.min_rate: found \"1Mbit/s\": law = \"none\" has no such knob; it belongs to dcqcn, "
       "timely, dctcp, hpcc"},
      {"law = \"dcqcn\"\ng = 0#!\n", "control.g: found 0: expected a number above 0 and at most 1"},
      {"law = \"dcqcn\"\ng = nan#!\n",
       "control.g: found nan: expected a number above 0 and at most 1"},
      {"law = \"dcqcn\"\ninitial_alpha = 1.5#!\n",
       "control.initial_alpha: found 1.5: expected a number from 0 to 1"},
      {"law = \"dcqcn\"\nalpha_period = \"0us\"#!\n",
       "control.alpha_period: found \"0us\": expected a duration above zero"},
      {"law = \"dcqcn\"\nalpha_update = \"ack\"#!\n",
       "control.alpha_update: found \"ack\": expected one of period, cnp"},
      {"law = \"dcqcn\"\nbyte_counter = \"999B\"#!\n",
       "control.byte_counter: found \"999B\": expected 0B or at least 1000B"},
      {"law = \"dcqcn\"\nmin_rate = \"unlimited\"#!\n",
       "control.min_rate: found \"unlimited\": expected a rate that is not unlimited"},
      {"law = \"dcqcn\"\nrate_to_set_on_first_cnp = \"unlimited\"#!\n",
       "control.rate_to_set_on_first_cnp: found \"unlimited\": expected a rate or \"unchanged\""},
      {"law = \"dcqcn\"\nmin_rate = \"2Mbit/s\"\nrate_to_set_on_first_cnp = \"1Mbit/s\"#!\n",
       "control.rate_to_set_on_first_cnp: found \"1Mbit/s\": rate_to_set_on_first_cnp is at least "
       "min_rate"},
      {"law = \"timely\"\nt_low = \"501us\"#!\n",
       "control.t_low: found \"501us\": t_low is at most t_high"},
      {"law = \"timely\"\nt_high = \"49us\"#!\n",
       "control.t_high: found \"49us\": t_low is at most t_high"},
      {"law = \"timely\"\nhyper_after = -1#!\n",
       "control.hyper_after: found -1: expected an integer from 0 to 1000000"},
      {"law = \"swift\"\nmax_mdf = 1#!\n",
       "control.max_mdf: found 1: expected a number above 0 and below 1"},
      {"law = \"swift\"\nmax_cwnd = 1e7#!\n",
       "control.max_cwnd: found 1e+07: expected a number above 0 and at most a million"},
      {"law = \"swift\"\nflow_scaling_max_cwnd = 0.1#!\n",
       "control.flow_scaling_max_cwnd: found 0.1: flow_scaling_min_cwnd is below "
       "flow_scaling_max_cwnd"},
      {"law = \"swift\"\nmax_cwnd = 0.0001#!\n",
       "control.max_cwnd: found 0.0001: min_cwnd is at most max_cwnd"},
      {"law = \"swift\"\nwindow = \"bdp\"#!\n",
       "control.window: found \"bdp\": law = \"swift\" has no such knob; it belongs to none, "
       "dcqcn, "
       "timely, dctcp, hpcc"},
      {"law = \"hpcc\"\nwindow = \"bpd\"#!\n",
       "control.window: found \"bpd\": expected \"none\", \"bdp\" or a size as in \"64KiB\""},
      {"law = \"hpcc\"\nwindow = \"0B\"#!\n",
       "control.window: found \"0B\": expected \"none\", \"bdp\" or a size above zero"},
      {"law = \"dcqcn\"\nvariable_window = true#!\n",
       "control.variable_window: found true: there is no window to vary"},
      {"law = \"hpcc\"\nfast_react = 1#!\n", "control.fast_react: found 1: expected true or false"},
  };
  for (const auto& bad : cases) EXPECT_EQ(error_of(bad.keys), bad.error) << bad.keys;
  EXPECT_NE(error_of("law = \"dctcp\"\nmin_rat = 1#!\n").find("did you mean \"min_rate\""),
            std::string::npos);
}

TEST(ConfigControls, NamesAreGivenOnce) {
  const auto errors = [](const std::string& text) {
    const ConfigResult result = load(text);
    return result ? "" : describe(result.error());
  };
  EXPECT_EQ(errors("[[control]]\nlaw = \"none\"\n"),
            "f:5: control.name: found nothing: the key is missing: by which senders refer to it\n");
  EXPECT_EQ(errors("[[control]]\nname = \"\"\nlaw = \"none\"\n"),
            "f:6: control.name: found an empty text: expected a name\n");
  EXPECT_EQ(errors("[[control]]\nname = \"x\"\n"),
            "f:5: control.law: found nothing: the key is missing: none, dcqcn, timely, dctcp, hpcc "
            "or swift\n");
  const std::string control = "[[control]]\nname = \"x\"\nlaw = \"none\"\n";
  EXPECT_EQ(errors(control + control),
            "f:9: control.name: found \"x\": the [[control]] in line 5 has this name\n");
}

}  // namespace
}  // namespace understudy
