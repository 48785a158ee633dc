// The lesson's functions that the emulator and GPUs share: inputs, and the comparison of outputs.
#include <cmath>
#include <random>

#include "experiments/33_cuda/lesson.h"

namespace folio::experiments {

std::vector<float> Lesson::random(size_t n, uint64_t stream) const {
  std::mt19937_64 bits(report_.seed() * 1000 + stream);
  std::vector<float> values(n);
  for (float& v : values) v = static_cast<float>(static_cast<int32_t>(bits() >> 40U) - (1 << 23)) * 0x1p-23F;
  return values;
}

std::vector<Measured> Lesson::measure_all(const std::string& title, const std::vector<Kernel>& kernels,
                                          const Expected& expected) {
  std::vector<Measured> all;
  double largest = 0.0;
  for (const Kernel& kernel : kernels) {
    kernel.prepare ? kernel.prepare() : stream_.fill(kernel.out->as<float>(), 0xFF, kernel.out->bytes());
    all.push_back(measure(kernel));
    const std::vector<float> out = infer::gpu::test::on_host<float>(stream_, *kernel.out);
    if (out.size() != expected.values.size()) largest = NAN;
    for (size_t i = 0; i < out.size() && !std::isnan(largest); ++i) {
      const double error = std::abs(out[i] - expected.values[i]);
      const double share = error == 0.0 ? 0.0 : error / (expected.bound * std::abs(expected.values[i]));
      largest = larger(largest, share);
    }
  }
  report_.check_below(title + ": the largest error of a kernel, as a share of its bound", largest, 1.0);
  return all;
}

}  // namespace folio::experiments
