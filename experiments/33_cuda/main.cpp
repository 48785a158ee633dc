// Study: why is one CUDA kernel faster than another? An emulator counts the kernels' operations, so no GPU is needed.
// The results are explained in README.md.
#include "experiments/33_cuda/lesson.h"

namespace {

using namespace folio;  // NOLINT: a program, never included by another file

void study(experiments::Report& report) {
  experiments::Lesson lesson(report);
  for (auto* step : {experiments::step_a, experiments::step_b, experiments::step_c, experiments::step_d,
                     experiments::step_e, experiments::step_f, experiments::step_g, experiments::step_h}) {
    step(lesson);
  }
}

}  // namespace

int main(int argc, char** argv) { return experiments::run_study(argc, argv, "33_cuda", study); }
