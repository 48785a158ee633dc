#include "train/parallel/shared_gradients.h"

#include <ATen/record_function.h>
#include <torch/utils.h>

#include <algorithm>
#include <utility>

namespace folio::train::parallel {
namespace {

using torch::Tensor;

constexpr int64_t kAligned = 16;               // alignment in elements, for vector instructions
constexpr int64_t kBlock = int64_t{1} << 17U;  // elements per block; fits in a core's cache while summed and copied

int64_t rounded_up(int64_t n) { return (n + kAligned - 1) / kAligned * kAligned; }

bool all_can(bool can, Group& group) { return group.largest(can ? 0.0 : 1.0) == 0.0; }

// Returns shared memory that all ranks have mapped, or empty memory if a rank cannot map it.
core::SharedMemory map_together(Group& group, size_t bytes) {
  struct Name {                                         // rank 0 unlinks the name after all ranks have opened it
    std::string text = core::SharedMemory::new_name();  // has the same length on all ranks, as broadcast() requires
    bool is_mine = false;
    ~Name() {
      if (is_mine) core::SharedMemory::unlink(text);
    }
  } name;
  core::SharedMemory memory;
  if (group.index() == 0) {
    memory = core::SharedMemory::create(name.text, bytes);
    name.is_mine = true;
  }
  // Rank 0 broadcasts the name. A rank that cannot open it is on another host or in another container.
  group.broadcast(torch::from_blob(name.text.data(), {static_cast<int64_t>(name.text.size())}, torch::kByte), 0);
  if (group.index() != 0) memory = core::SharedMemory::open(name.text, bytes);
  return all_can(static_cast<bool>(memory), group) ? std::move(memory) : core::SharedMemory();
}

}  // namespace

std::unique_ptr<SharedGradients> SharedGradients::open(std::vector<Tensor> parameters, std::vector<int64_t> owners,
                                                       Group& group) {
  if (parameters.empty() || !parameters.front().is_cpu()) return nullptr;
  if (group.size() == 1 || !all_can(core::ranks_share_memory(), group)) return nullptr;
  std::unique_ptr<SharedGradients> opened(new SharedGradients(std::move(parameters), std::move(owners), group));
  return opened->memory_ ? std::move(opened) : nullptr;
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
  buffer_size_ = *std::max_element(ends.begin(), ends.end());
  memory_ = map_together(group, static_cast<size_t>(group.size() * buffer_size_) * parameters_.front().element_size());
}

Tensor SharedGradients::view(int64_t rank, int64_t begin, int64_t n) const {
  const Tensor& like = parameters_.front();
  const int64_t bytes = (rank * buffer_size_ + begin) * static_cast<int64_t>(like.element_size());
  return torch::from_blob(memory_.data() + bytes, {n}, like.scalar_type());
}

Tensor SharedGradients::at(int64_t rank, int64_t begin, size_t i) const {
  return view(rank, begin, parameters_[i].numel()).view(parameters_[i].sizes());
}

void SharedGradients::sum() {
  const torch::NoGradGuard no_grad;
  const int64_t n = group_.size();
  for (size_t i = 0; i < parameters_.size(); ++i) {
    Tensor own = at(group_.index(), gradients_[i], i);
    Tensor& gradient = parameters_[i].mutable_grad();
    gradient.defined() ? own.copy_(gradient) : own.zero_();
    gradient = own;
  }
  group_.meet();
  {
    RECORD_FUNCTION("folio::sum", {});
    const int64_t part = rounded_up((n_gradients_ + n - 1) / n);
    const int64_t end = std::min(n_gradients_, (group_.index() + 1) * part);
    for (int64_t begin = group_.index() * part; begin < end; begin += kBlock) {
      const auto block = [&](int64_t rank) { return view(rank, begin, std::min(kBlock, end - begin)); };
      Tensor sum = block(0);
      for (int64_t rank = 1; rank < n; ++rank) sum.add_(block(rank));
      for (int64_t rank = 1; rank < n; ++rank) block(rank).copy_(sum);
    }
  }
  group_.meet();
}

void SharedGradients::share() {
  const torch::NoGradGuard no_grad;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    if (owners_[i] != group_.index()) continue;
    at(owners_[i], weights_[i], i).copy_(parameters_[i]);
    group_.count_sent((group_.size() - 1) * static_cast<int64_t>(parameters_[i].nbytes()));
  }
  group_.meet();
  for (size_t i = 0; i < parameters_.size(); ++i) {
    if (owners_[i] != group_.index()) parameters_[i].copy_(at(owners_[i], weights_[i], i));
  }
  // No barrier needed: the next share(), which overwrites these weights, follows the barriers of the next sum().
}

}  // namespace folio::train::parallel
