#include "ctrl/report/series/gnuplot.h"

#include <cstdio>

namespace understudy {
namespace {

constexpr int kWidth = 1200, kHeadingHeight = 40;

}  // namespace

std::string in_quotes(const std::string& text) {
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? std::string("''") : std::string(1, c);
  return out + "'";
}

bool can_plot(const std::string& file) { return file.ends_with(".svg") || file.ends_with(".png"); }

std::string plot_start(const std::string& file, const std::string& heading, size_t rows,
                       size_t columns, int row_height) {
  std::string script = "set terminal ";
  script += file.ends_with(".png") ? "pngcairo" : "svg";
  script += " size " + std::to_string(kWidth) + "," +
            std::to_string(row_height * static_cast<int>(rows) + kHeadingHeight) +
            " noenhanced background 'white'\n";
  script += "set output " + in_quotes(file) + "\n";
  script += "set multiplot layout " + std::to_string(rows) + "," + std::to_string(columns) +
            " title " + in_quotes(heading) + "\n";
  return script + "set grid\nset key outside below horizontal\n";
}

std::string plot_end() { return "unset multiplot\nunset output\n"; }

void add_plot(const std::vector<PlotSeries>& all, std::string& script) {
  std::string command;
  for (size_t i = 0; i < all.size(); ++i) {
    const std::string name = "$d" + std::to_string(i);
    script += name + " << EOD\n";
    for (const PlotPoint& p : all[i].points) {
      char line[96];
      std::snprintf(line, sizeof line, "%.9g %.10g", p.x, p.y);
      script += line;
      if (all[i].spreads) std::snprintf(line, sizeof line, " %.6g", p.spread);
      if (all[i].spreads) script += line;
      script += "\n";
    }
    script += "EOD\n";
    command += (i == 0 ? "plot " : ", ") + name +
               (all[i].spreads ? " using 1:2:3 with " : " using 1:2 with ") + all[i].style;
    command += all[i].title.empty() ? " notitle" : " title " + in_quotes(all[i].title);
  }
  script += command + "\n";
}

}  // namespace understudy
