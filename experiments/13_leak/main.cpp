// scratch
#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <cstdlib>

#include "experiments/13_leak/leaks.h"
#include "experiments/13_leak/training.h"
using namespace folio;
using namespace folio::experiments;
int main(int argc, char** argv) {
  const Shakespeare text = load_shakespeare(0.1, 0.1);
  tutorial::Config c;
  const int norm = std::atoi(argv[1]);
  c.norm = static_cast<tutorial::NormOver>(norm);
  const int64_t steps = std::atoi(argv[2]);
  c.dim = std::atoi(argv[3]);
  c.n_heads = std::atoi(argv[4]);
  c.n_layers = std::atoi(argv[5]);
  at::set_num_threads(argc > 7 ? std::atoi(argv[7]) : 1);
  const double minutes = argc > 8 ? std::atof(argv[8]) : 1e9;
  tutorial::Training t(c, text, static_cast<uint64_t>(std::atoi(argv[6])), argc > 9 ? argv[9] : "");
  for (int64_t at = std::max<int64_t>(t.steps() / 500 * 500 + 500, 500);; at += 500) {
    const bool done = t.train_to(std::min(at, steps), minutes / 1);
    auto curve = t.curve();
    fmt::print("step {} tutorial {:.3f}", t.steps(), curve.back().y);
    for (double x : tutorial::losses_by_position(t.model(), text.splits.validation, 512)) fmt::print(" {:.2f}", x);
    fmt::print("\n");
    std::fflush(stdout);
    if (!done || at >= steps) break;
  }
  auto p = [](const char* n, const std::vector<double>& v) {
    double s = 0;
    fmt::print("{}", n);
    for (double x : v) {
      fmt::print(" {:.3f}", x);
      s += x;
    }
    fmt::print("  mean {:.3f}\n", s / v.size());
  };
  p("own", tutorial::losses_by_position(t.model(), text.splits.validation, 512));
  p("other", tutorial::losses_with_other_futures(t.model(), text.splits.validation, 512));
  p("none", tutorial::losses_without_future(t.model(), text.splits.validation, 512));
  fmt::print("change {}\n", tutorial::change_from_last_character(t.model(), text.splits.validation));
}
