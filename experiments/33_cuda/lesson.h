// Runs and measures the kernels of the lesson's steps, prints them as rows of tables, and checks their counts. The same
// steps are compiled twice: for the emulator, which counts operations (lesson.cpp), and by nvcc for a GPU, which is
// timed (device/lesson_device.cpp).
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "experiments/33_cuda/cards.h"
#include "experiments/33_cuda/tiles.h"
#include "experiments/common/report.h"
#include "infer/cuda/device.h"
#include "tests/infer/cuda/host/counts.h"

namespace folio::experiments {

/// A kernel to measure. Each of the step's tables has a row for it.
struct Kernel {
  std::string name;                               ///< the row's name, such as "a thread a row"
  std::string symbol;                             ///< "FILE:KERNEL" of its row in resources.txt, for its register count
  double bytes = 0.0;                             ///< bytes that any kernel must move: each input and output once
  std::function<void()> run;                      ///< launches the kernel once
  const infer::gpu::DeviceMemory* out = nullptr;  ///< the floats that `run` writes, checked against Expected
  std::function<void()> prepare{};                ///< called before `run`; default: fills `out` with NaN
  infer::gpu::host::TracedWarp traced{};
};

/// The expected outputs of a table's kernels. Each must satisfy |output - value| <= bound * |value|.
struct Expected {
  std::vector<double> values;
  double bound;
};

struct Measured {
  infer::gpu::host::Counts counts;                  ///< zero on a GPU
  std::vector<infer::gpu::host::WarpAccess> trace;  ///< empty on a GPU
  double microseconds = 0.0;                        ///< zero on the emulator
};

class Lesson {
 public:
  explicit Lesson(Report& report) : report_(report) {}

  /// Returns true on the emulator, which counts operations, and false on a GPU.
  [[nodiscard]] bool counts() const;
  [[nodiscard]] Report& report() { return report_; }
  [[nodiscard]] infer::gpu::Stream& stream() { return stream_; }

  /// Returns n floats, uniform in [-1, 1), that depend on the study's seed and on `stream`.
  [[nodiscard]] std::vector<float> random(size_t n, uint64_t stream) const;
  /// Returns memory for n floats, filled with NaN.
  [[nodiscard]] infer::gpu::DeviceMemory unwritten(size_t n) {
    return infer::gpu::test::unwritten(stream_, n * sizeof(float));
  }

  /// Measures the kernels and checks their outputs. Prints the tables "TITLE: counts" and "TITLE: limits", or on a GPU
  /// "TITLE: times". Returns one measurement per kernel.
  [[nodiscard]] std::vector<Measured> table(const std::string& title, const std::vector<Kernel>& kernels,
                                            const Expected& expected);
  /// Checks that `run` fails with an error that contains `part`, and prints the error. `what` is the check's name. On a
  /// GPU, it only prints that the check is skipped.
  void check_error(const std::string& what, const std::string& part, const std::function<void()>& run);

 private:
  /// Runs and measures a kernel. The caller must have called kernel.prepare, or filled the output with NaN.
  [[nodiscard]] Measured measure(const Kernel& kernel);
  /// Prepares the output of each kernel, measures the kernel, and checks the output.
  [[nodiscard]] std::vector<Measured> measure_all(const std::string& title, const std::vector<Kernel>& kernels,
                                                  const Expected& expected);

  Report& report_;
  infer::gpu::Stream stream_{0};
};

// The steps of the lesson.
void step_a(Lesson& lesson);  ///< SwiGLU with one thread per element
void step_b(Lesson& lesson);  ///< RMSNorm with one block per row
void step_c(Lesson& lesson);  ///< transposition with coalesced accesses
void step_d(Lesson& lesson);  ///< product of a matrix and a vector
void step_e(Lesson& lesson);  ///< product of two matrices
void step_f(Lesson& lesson);  ///< products on tensor cores
void step_g(Lesson& lesson);  ///< attention over a paged cache
void step_h(Lesson& lesson);  ///< a decoding step as a CUDA graph

}  // namespace folio::experiments
