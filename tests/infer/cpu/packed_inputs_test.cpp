#include "infer/cpu/packed_inputs.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <utility>
#include <vector>

#include "infer/cpu/cpu.h"

namespace folio::infer {
namespace {

std::vector<float> packed_by_kernels(const kernels::Kernels& kernels, const std::vector<float>& x, size_t k) {
  const size_t n = x.size() / k;
  const size_t together = kernels.packed_inputs;
  std::vector<float> out((n + together - 1) / together * together * kernels::in_lanes(k));
  for (size_t i = 0; i < n; i += together)
    kernels.pack(&x[i * k], std::min(together, n - i), k, &out[i * kernels::in_lanes(k)]);
  return out;
}

// Two PackedInputs share one thread pool and pack inputs of different widths in turn. In each product, every thread
// must read the inputs of that product's PackedInputs, not those of the other PackedInputs.
TEST(PackedInputs, ThreadsUseTheCurrentMatmulsInputs) {
  for (const size_t n_threads : {1, 2, 3, 5}) {
    Cpu cpu({.n_threads = n_threads});
    const kernels::Kernels& kernels = cpu.kernels();
    if (kernels.pack == nullptr) GTEST_SKIP() << "these kernels pack no inputs";
    PackedInputs users[2] = {{cpu.pool(), kernels}, {cpu.pool(), kernels}};
    float number = 0.0F;
    for (const auto& [n, k] : {std::pair<size_t, size_t>{70, 33}, {128, 576}, {64, 1500}, {1, 5}, {96, 32}}) {
      for (PackedInputs& user : users) {
        std::vector<float> x(n * k);
        for (float& v : x) v = ++number;
        user.begin(x.data(), n, k);
        const std::vector<float> expected = packed_by_kernels(kernels, x, k);
        std::atomic<size_t> n_wrong{0};
        cpu.pool().parallel_for(64, 1, [&](size_t, size_t) {
          if (!std::equal(expected.begin(), expected.end(), user.of_thread())) ++n_wrong;
        });
        EXPECT_EQ(n_wrong, 0U) << n << " inputs of " << k << " numbers, " << n_threads << " threads";
      }
    }
  }
}

}  // namespace
}  // namespace folio::infer
