#include "train/report/matrix_peak.h"

#include <torch/cuda.h>
#include <torch/utils.h>

#include <algorithm>
#include <chrono>

#include "core/seconds_since.h"

namespace folio::train {
namespace {

double time_product(const torch::Tensor& a, torch::Tensor& out) {
  const auto start = std::chrono::steady_clock::now();
  torch::mm_out(out, a, a);
  if (a.is_cuda()) torch::cuda::synchronize();
  return core::seconds_since(start);
}

}  // namespace

int64_t active_elements(const core::ModelConfig& c, const core::TensorSpec& spec) {
  return spec.of_experts() ? spec.elements() / c.n_experts * c.experts_per_token : spec.elements();
}

int64_t active_parameters(const core::ModelConfig& c) {
  int64_t count = 0;
  for (const core::TensorSpec& spec : core::tensor_manifest(c)) count += active_elements(c, spec);
  return count;
}

double operations_per_token(const core::ModelConfig& c, int64_t window, bool frozen) {
  const int64_t looked_up = c.tie_embeddings ? 0 : c.vocab_size * c.dim;
  const int64_t used_again = c.n_tokens_ahead * c.vocab_size * c.dim;  // the MTP module uses the output head again
  const int64_t parameters = active_parameters(c) - looked_up + used_again;
  return (frozen ? 4.0 : 6.0) * static_cast<double>(parameters) +
         12.0 * static_cast<double>((c.n_layers + c.n_tokens_ahead) * c.n_heads * c.head_dim) *
             static_cast<double>(window);
}

MatrixPeak matrix_peak(Precision dtype, torch::Device device) {
  constexpr int kRepetitions = 5;  // the fastest is used, since other programs may slow some of them
  constexpr double kSeconds = 0.02;
  constexpr double kLongEnough = 4e-3;  // sizes are doubled until a product takes this many seconds
  constexpr int64_t kLargest = 8192;
  const torch::NoGradGuard no_grad;
  const auto type = dtype == Precision::Bf16 ? torch::kBFloat16 : torch::kFloat32;
  MatrixPeak peak{.operations_per_s = 0.0, .size = 0};
  double seconds = 0.0;
  for (int64_t n = 512; n <= kLargest && seconds < kLongEnough; n *= 2) {
    const torch::Tensor a = torch::linspace(-1, 1, n * n, torch::TensorOptions().device(device)).view({n, n}).to(type);
    torch::Tensor out = torch::empty_like(a);
    static_cast<void>(time_product(a, out));  // warm-up
    seconds = time_product(a, out);
    double spent = seconds;
    for (int i = 1; i < kRepetitions || spent < kSeconds; ++i) {
      const double again = time_product(a, out);
      spent += again;
      seconds = std::min(seconds, again);
    }
    const auto size = static_cast<double>(n);
    const double speed = 2.0 * size * size * size / seconds;
    if (speed > peak.operations_per_s) peak = {.operations_per_s = speed, .size = n};
  }
  return peak;
}

Precision faster_precision(torch::Device device) {
  constexpr int kRounds = 3;  // each measures both types, since other programs may slow some measurements
  double f32 = 0.0, bf16 = 0.0;
  for (int i = 0; i < kRounds; ++i) {
    f32 = std::max(f32, matrix_peak(Precision::F32, device).operations_per_s);
    bf16 = std::max(bf16, matrix_peak(Precision::Bf16, device).operations_per_s);
  }
  return bf16 > f32 ? Precision::Bf16 : Precision::F32;
}

}  // namespace folio::train
