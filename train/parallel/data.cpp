#include "train/parallel/data.h"

#include <ATen/ops/_foreach_norm.h>
#include <torch/utils.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/comm.hpp>
#include <torch/csrc/distributed/c10d/reducer.hpp>
#include <utility>

namespace folio::train::parallel {
namespace {

using torch::Tensor;

constexpr size_t kBucketBytes = size_t{25} << 20U;  // as DistributedDataParallel has it: larger ones wait longer, and
constexpr size_t kFirstBytes = size_t{1} << 20U;    // smaller ones cost more calls; the first begins early

std::vector<Tensor> parameters_of_pieces(const std::vector<Piece>& pieces) {
  std::vector<Tensor> parameters;
  for (const Piece& piece : pieces) {
    if (piece.local.requires_grad()) parameters.push_back(piece.local);
  }
  return parameters;
}

// The sums of many small tensors as one of a large one.
void sum_together(const std::vector<Tensor>& gradients, Group& group) {
  if (group.size() == 1) return;
  size_t first = 0;
  while (first < gradients.size()) {
    std::vector<Tensor> bucket;
    size_t bytes = 0, last = first;
    for (; last < gradients.size() && (bucket.empty() || bytes + gradients[last].nbytes() <= kBucketBytes); ++last) {
      bucket.push_back(gradients[last].flatten());
      bytes += gradients[last].nbytes();
    }
    Tensor all = torch::cat(bucket);
    group.sum(all);
    int64_t at = 0;
    for (size_t i = first; i < last; ++i) {
      Tensor gradient = gradients[i];
      gradient.copy_(all.narrow(0, at, gradient.numel()).view(gradient.sizes()));
      at += gradient.numel();
    }
    first = last;
  }
}

// By default the Reducer divides gradients by the number of ranks; here they are parts of one mean already.
class SumHook : public c10d::CppCommHookInterface<c10::intrusive_ptr<c10d::ProcessGroup>> {
 public:
  using CppCommHookInterface::CppCommHookInterface;
  c10::intrusive_ptr<c10::ivalue::Future> runHook(c10d::GradBucket& bucket) override {
    std::vector<Tensor> tensors{bucket.getBufferRef()};
    return state_->allreduce(tensors)->getFuture();
  }
};

}  // namespace

struct GradientSums::Overlapped {
  Overlapped(const std::vector<Tensor>& parameters, const c10::intrusive_ptr<c10d::ProcessGroup>& group)
      : reducer(parameters, buckets_of(parameters), group, std::vector<bool>(parameters.size(), false), kBucketBytes,
                /*find_unused_parameters=*/false, /*gradient_as_bucket_view=*/false, /*param_names=*/{}, kFirstBytes,
                /*skip_all_reduce_unused_params=*/false, /*use_python_reducer=*/false, /*bucket_bytes_cap_list=*/{}) {
    reducer.register_comm_hook(std::make_unique<SumHook>(group));
    for (const Tensor& p : parameters) bytes += static_cast<int64_t>(p.nbytes());
  }

  static std::vector<std::vector<size_t>> buckets_of(const std::vector<Tensor>& parameters) {
    auto buckets = std::get<0>(c10d::compute_bucket_assignment_by_size(parameters, {kFirstBytes, kBucketBytes},
                                                                       std::vector<bool>(parameters.size(), false)));
    std::reverse(buckets.begin(), buckets.end());  // the last layers' come first
    return buckets;
  }

  c10d::Reducer reducer;
  int64_t bytes = 0;  ///< of all parameters
  int64_t sums = 0;
};

bool is_data_alone(const MeshShape& shape) { return shape.n_ranks() == shape[Axis::Data]; }

GradientSums::GradientSums(std::vector<Piece>& pieces, World& world, const std::vector<int64_t>& owners)
    : pieces_(pieces), world_(world) {
  const MeshShape& shape = world.mesh().shape();
  if (shape.n_ranks() == 1 || !is_data_alone(shape)) return;
  std::vector<int64_t> owners_of_parameters;
  for (size_t i = 0; i < owners.size(); ++i) {
    if (pieces[i].local.requires_grad()) owners_of_parameters.push_back(owners[i]);
  }
  const std::vector<Tensor> parameters = parameters_of_pieces(pieces);
  shared_ = SharedGradients::open(parameters, std::move(owners_of_parameters), world.everyone());
  if (!shared_) overlapped_ = std::make_unique<Overlapped>(parameters, world.everyone().process_group());
}

GradientSums::~GradientSums() = default;

void GradientSums::before_last_backward() {
  if (!overlapped_) return;
  overlapped_->reducer.prepare_for_backward({});
  ++overlapped_->sums;
}

void GradientSums::finish() {
  if (shared_) shared_->sum();
  if (shared_ || overlapped_) return;  // c10d's ends with the backward pass
  const torch::NoGradGuard no_grad;
  std::map<std::vector<Axis>, std::vector<Tensor>> by_copies;
  for (Piece& piece : pieces_) {
    if (!piece.local.requires_grad()) continue;
    // A rank none of whose tokens took part has none.
    if (!piece.local.grad().defined()) piece.local.mutable_grad() = torch::zeros_like(piece.local);
    by_copies[piece.copies()].push_back(piece.local.grad());
  }
  for (const auto& [axes, gradients] : by_copies) sum_together(gradients, world_.along(axes));
  for (const Piece& piece : pieces_) {
    if (piece.tied_ends) world_.ends_of_pipeline().sum(piece.local.grad());
  }
}

bool GradientSums::share() {
  if (shared_) shared_->share();
  return shared_ != nullptr;
}

int64_t GradientSums::bytes_sent() const {
  if (shared_) return shared_->bytes_sent();
  if (!overlapped_) return 0;
  const int64_t n = world_.everyone().size();
  return 2 * overlapped_->bytes * (n - 1) / n * overlapped_->sums;
}

double norm_of(const std::vector<Tensor>& gradients) {
  const torch::NoGradGuard no_grad;
  return torch::stack(at::_foreach_norm(gradients)).norm().item<double>();
}

double gradient_norm(const std::vector<Piece>& pieces, World& world, bool at_owners) {
  const torch::NoGradGuard no_grad;
  std::vector<Tensor> gradients;
  std::vector<double> copies;
  for (const Piece& piece : pieces) {
    if (!piece.local.grad().defined()) continue;
    gradients.push_back(piece.local.grad());
    const int64_t n = piece.n_copies(world.mesh());
    copies.push_back(static_cast<double>(at_owners ? n / world.mesh().size(Axis::Data) : n));
  }
  if (!at_owners && is_data_alone(world.mesh().shape())) return norm_of(gradients);
  Tensor sum = torch::zeros({1}, torch::kDouble);
  const std::vector<Tensor> norms = gradients.empty() ? gradients : at::_foreach_norm(gradients);
  for (size_t i = 0; i < norms.size(); ++i) sum += std::pow(norms[i].item<double>(), 2) / copies[i];
  world.everyone().sum(sum);
  return std::sqrt(sum.item<double>());
}

}  // namespace folio::train::parallel
