#include "train/parallel/collectives.h"

#include "train/lora/with_backward.h"

namespace folio::train::parallel {

using torch::Tensor;
using variable_list = std::vector<Tensor>;

Tensor gather_rows(const Tensor& x, int64_t dim, Group& group) {
  return with_backward(
      {x}, [&] { return group.gather(x, dim); },
      [&group, dim](const Tensor& dy) { return variable_list{group.sum_scatter(dy, dim)}; });
}

Tensor sum_scatter_rows(const Tensor& x, int64_t dim, Group& group) {
  return with_backward(
      {x}, [&] { return group.sum_scatter(x, dim); },
      [&group, dim](const Tensor& dy) { return variable_list{group.gather(dy, dim)}; });
}

Tensor exchange_rows(const Tensor& x, const std::vector<int64_t>& sent, const std::vector<int64_t>& received,
                     Group& group) {
  return with_backward(
      {x}, [&] { return group.exchange(x, sent, received); },
      [&group, sent, received](const Tensor& dy) { return variable_list{group.exchange(dy, received, sent)}; });
}

}  // namespace folio::train::parallel
