#include "train/parallel/shared_gradients.h"

#include <ATen/record_function.h>
#include <torch/utils.h>

#include <algorithm>
#include <utility>

namespace folio::train::parallel {
namespace {

using torch::Tensor;

constexpr int64_t kAligned = 16;               // numbers: whole vectors
constexpr int64_t kBlock = int64_t{1} << 17U;  // numbers that stay in a core's cache between their sum and its copies

int64_t rounded_up(int64_t n) { return (n + kAligned - 1) / kAligned * kAligned; }

}  // namespace

std::unique_ptr<SharedGradients> SharedGradients::open(std::vector<Tensor> parameters, std::vector<int64_t> owners,
                                                       Group& group) {
  if (parameters.empty() || !parameters.front().is_cpu()) return nullptr;
  std::unique_ptr<SharedGradients> opened(new SharedGradients(std::move(parameters), std::move(owners), group));
  return opened->rooms_ ? std::move(opened) : nullptr;
}

SharedGradients::SharedGradients(std::vector<Tensor> parameters, std::vector<int64_t> owners, Group& group)
    : parameters_(std::move(parameters)), owners_(std::move(owners)), group_(group) {
  for (const Tensor& p : parameters_)
    gradients_.push_back(std::exchange(n_gradients_, n_gradients_ + rounded_up(p.numel())));
  std::vector<int64_t> ends(static_cast<size_t>(group.size()), n_gradients_);
  for (size_t i = 0; i < owners_.size(); ++i) {
    int64_t& end = ends[static_cast<size_t>(owners_[i])];
    weights_.push_back(std::exchange(end, end + rounded_up(parameters_[i].numel())));
  }
  rooms_ = SharedRooms::open(group, *std::max_element(ends.begin(), ends.end()), parameters_.front().scalar_type());
}

Tensor SharedGradients::at(int64_t rank, int64_t begin, size_t i) const {
  return rooms_->room(rank).narrow(0, begin, parameters_[i].numel()).view(parameters_[i].sizes());
}

void SharedGradients::sum() {
  const torch::NoGradGuard no_grad;
  const int64_t n = group_.size();
  for (size_t i = 0; i < parameters_.size(); ++i) {
    Tensor own = at(group_.index(), gradients_[i], i);
    Tensor& gradient = parameters_[i].mutable_grad();
    if (gradient.defined()) {
      own.copy_(gradient);
    } else {
      own.zero_();
    }
    gradient = own;
  }
  group_.meet();
  {
    RECORD_FUNCTION("folio::sum", {});
    const int64_t part = rounded_up((n_gradients_ + n - 1) / n);
    const int64_t end = std::min(n_gradients_, (group_.index() + 1) * part);
    for (int64_t begin = group_.index() * part; begin < end; begin += kBlock) {
      const auto block = [&](int64_t rank) {
        return rooms_->room(rank).narrow(0, begin, std::min(kBlock, end - begin));
      };
      Tensor sum = block(0);
      for (int64_t rank = 1; rank < n; ++rank) sum.add_(block(rank));
      for (int64_t rank = 1; rank < n; ++rank) block(rank).copy_(sum);
    }
  }
  group_.meet();
  int64_t bytes = 0;
  for (const Tensor& p : parameters_) bytes += static_cast<int64_t>(p.nbytes());
  bytes_sent_ += 2 * bytes * (n - 1) / n;
}

void SharedGradients::share() {
  const torch::NoGradGuard no_grad;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    if (owners_[i] != group_.index()) continue;
    at(owners_[i], weights_[i], i).copy_(parameters_[i]);
    bytes_sent_ += (group_.size() - 1) * static_cast<int64_t>(parameters_[i].nbytes());
  }
  group_.meet();
  for (size_t i = 0; i < parameters_.size(); ++i) {
    if (owners_[i] != group_.index()) parameters_[i].copy_(at(owners_[i], weights_[i], i));
  }
  // They are written anew after the next sum, at which all meet: whoever comes to it has read these.
}

}  // namespace folio::train::parallel
