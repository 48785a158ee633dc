#include "infer/cpu/matrix.h"

#include <algorithm>
#include <type_traits>

#include "core/float16.h"
#include "infer/reference/reference.h"

namespace folio::infer {
namespace {

using kernels::BF16;
using kernels::F16;
using kernels::GroupMatrix;
using kernels::PanelMatrix;

float number(const GroupMatrix& m, size_t r, size_t c) {
  namespace reference = kernels::reference;
  const size_t group = c / m.group;
  const float value = reference::scale(m, r, group) * static_cast<float>(reference::quant(m, r, c) - m.zero_point);
  return m.minimums ? value + reference::minimum(m, r, group) : value;
}

}  // namespace

void Matrix::multiply(const kernels::Kernels& kernels, const Inputs& x, size_t begin, size_t end, float* out,
                      size_t out_stride, bool accumulate) const {
  const float* floats = x.packed != nullptr ? x.packed : x.floats;
  std::visit(
      [&](const auto& w) {
        using Weights = std::decay_t<decltype(w)>;
        if constexpr (std::is_same_v<Weights, GroupMatrix>) {
          kernels.matmul_groups(x.quantized, x.n_rows, w, begin, end, out, out_stride, accumulate);
        } else if constexpr (std::is_same_v<Weights, PanelMatrix>) {
          kernels.matmul_fast(x.fast, x.n_rows, w, k, begin, end, out, out_stride, accumulate);
        } else if constexpr (std::is_same_v<Weights, const F16*>) {
          const auto run = x.packed != nullptr ? kernels.matmul_packed_f16 : kernels.matmul_f16;
          run(floats, x.n_rows, w, k, begin, end, out, out_stride, accumulate);
        } else if constexpr (std::is_same_v<Weights, const BF16*>) {
          const auto run = x.packed != nullptr ? kernels.matmul_packed_bf16 : kernels.matmul_bf16;
          run(floats, x.n_rows, w, k, begin, end, out, out_stride, accumulate);
        } else {
          const auto run = x.packed != nullptr ? kernels.matmul_packed : kernels.matmul;
          run(floats, x.n_rows, w, k, begin, end, out, out_stride, accumulate);
        }
      },
      weights);
}

void Matrix::row(size_t r, std::span<float> out) const {
  std::visit(
      [&](const auto& w) {
        using Weights = std::decay_t<decltype(w)>;
        if constexpr (std::is_same_v<Weights, GroupMatrix>) {
          for (size_t c = 0; c < k; ++c) out[c] = number(w, r, c);
        } else if constexpr (std::is_same_v<Weights, PanelMatrix>) {
          for (size_t c = 0; c < k; ++c) out[c] = core::bf16_to_float(w.panels[kernels::in_panels(k, r, c)].bits);
        } else if constexpr (std::is_same_v<Weights, const F16*>) {
          std::transform(w + r * k, w + (r + 1) * k, out.begin(), [](F16 v) { return core::f16_to_float(v.bits); });
        } else if constexpr (std::is_same_v<Weights, const BF16*>) {
          std::transform(w + r * k, w + (r + 1) * k, out.begin(), [](BF16 v) { return core::bf16_to_float(v.bits); });
        } else {
          std::copy_n(w + r * k, k, out.begin());
        }
      },
      weights);
}

}  // namespace folio::infer
