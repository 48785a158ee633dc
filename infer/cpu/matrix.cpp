#include "infer/cpu/matrix.h"

#include <algorithm>
#include <type_traits>

#include "infer/reference/reference.h"

namespace folio::infer {
namespace {

using kernels::GroupMatrix;
using kernels::PanelMatrix;

float number(const GroupMatrix& m, size_t r, size_t c) {
  namespace reference = kernels::reference;
  const size_t group = c / m.group;
  const float value = reference::scale(m, r, group) * static_cast<float>(reference::quant(m, r, c) - m.zero_point);
  return m.minimums ? value + reference::minimum(m, r, group) : value;
}

}  // namespace

void Matrix::multiply(const kernels::Kernels& kernels, const InputsView& x, size_t begin, size_t end, float* out,
                      size_t out_stride, bool accumulate) const {
  std::visit(
      [&](const auto& w) {
        using Weights = std::decay_t<decltype(w)>;
        if constexpr (std::is_same_v<Weights, GroupMatrix>) {
          kernels.matmul_groups(x.quantized, x.n_rows, w, begin, end, out, out_stride, accumulate);
        } else if constexpr (std::is_same_v<Weights, PanelMatrix>) {
          kernels.matmul_fast(x.fast, x.n_rows, w, k, begin, end, out, out_stride, accumulate);
        } else if (x.packed != nullptr) {
          kernels.matmul_packed(x.packed, x.n_rows, w, k, begin, end, out, out_stride, accumulate);
        } else {
          kernels.matmul(x.floats, x.n_rows, w, k, begin, end, out, out_stride, accumulate);
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
          for (size_t c = 0; c < k; ++c) out[c] = kernels::reference::widened(w.panels[kernels::in_panels(k, r, c)]);
        } else {
          std::transform(w + r * k, w + (r + 1) * k, out.begin(),
                         [](auto v) { return kernels::reference::widened(v); });
        }
      },
      weights);
}

}  // namespace folio::infer
