#include "train/parallel/zero.h"

#include <ATen/ops/_foreach_copy.h>
#include <ATen/ops/_foreach_norm.h>
#include <torch/csrc/utils/tensor_flatten.h>
#include <torch/utils.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <ranges>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/comm.hpp>
#include <torch/csrc/distributed/c10d/reducer.hpp>
#include <utility>

#include "train/parallel/shared_gradients.h"

namespace folio::train::parallel {
namespace {

using torch::Tensor;

constexpr size_t kBucketBytes = size_t{25} << 20U;  // bucket size of DistributedDataParallel
constexpr size_t kFirstBytes = size_t{1} << 20U;    // a smaller first bucket, so that communication starts early

// Returns the gradient, after setting it to zeros if none of the rank's tokens used the parameter.
Tensor& gradient_or_zeros(Piece& piece) {
  Tensor& gradient = piece.local.mutable_grad();
  if (!gradient.defined()) gradient = torch::zeros_like(piece.local);
  return gradient;
}

// All-reduces gradients in buckets: many small tensors in one call.
void sum_together(const std::vector<Tensor>& gradients, Group& group) {
  if (group.size() == 1) return;
  for (size_t last = 0; last < gradients.size();) {
    std::vector<Tensor> bucket;
    size_t bytes = 0;
    for (; last < gradients.size() && (bucket.empty() || bytes + gradients[last].nbytes() <= kBucketBytes); ++last) {
      bucket.push_back(gradients[last]);
      bytes += gradients[last].nbytes();
    }
    const Tensor all = torch::utils::flatten_dense_tensors(bucket);
    group.sum(all);
    at::_foreach_copy_(bucket, torch::utils::unflatten_dense_tensors(all, bucket));
  }
}

// Sums gradients. The Reducer's default also divides by the number of ranks, but losses here are parts of one mean.
class SumHook : public c10d::CppCommHookInterface<c10::intrusive_ptr<c10d::ProcessGroup>> {
 public:
  using CppCommHookInterface::CppCommHookInterface;
  c10::intrusive_ptr<c10::ivalue::Future> runHook(c10d::GradBucket& bucket) override {
    std::vector<Tensor> tensors{bucket.getBufferRef()};
    return state_->allreduce(tensors)->getFuture();
  }
};

}  // namespace

void assign_owners(std::vector<Piece>& pieces, int64_t n_data) {
  std::vector<Piece*> order;
  for (Piece& piece : pieces) order.push_back(&piece);
  // Tied embeddings first: both ends of a pipeline hold them and must assign the same owner.
  std::ranges::stable_sort(order, std::greater<>(),
                           [](const Piece* piece) { return std::pair(piece->tied_ends, piece->local.numel()); });
  std::vector<int64_t> held(static_cast<size_t>(n_data), 0);
  for (Piece* piece : order) {
    const auto least = std::ranges::min_element(held);
    piece->owner = least - held.begin();
    *least += piece->local.numel();
  }
}

Zero::Zero(std::vector<Piece>& pieces, World& world, int64_t stage)
    : pieces_(pieces), world_(world), stage_(world.mesh().size(Axis::Data) > 1 ? stage : 0) {
  const MeshShape& shape = world.mesh().shape();
  for (Piece& piece : pieces) piece.owner = world.mesh().at(Axis::Data);
  if (stage_ > 0) assign_owners(pieces, shape[Axis::Data]);
  if (stage_ >= 2 || shape.n_ranks() == 1 || !shape.is_data_alone()) return;
  std::vector<Tensor> parameters;
  std::vector<int64_t> owners;
  for (const Piece& piece : pieces) {
    if (!piece.local.requires_grad()) continue;
    parameters.push_back(piece.local);
    bytes_ += static_cast<int64_t>(piece.local.nbytes());
    if (stage_ == 1) owners.push_back(piece.owner);
  }
  if (parameters.empty()) return;
  shared_ = SharedGradients::open(parameters, std::move(owners), world.everyone());
  if (shared_) return;
  const std::vector<bool> sparse(parameters.size(), false);
  auto buckets = std::get<0>(c10d::compute_bucket_assignment_by_size(parameters, {kFirstBytes, kBucketBytes}, sparse));
  std::ranges::reverse(buckets);  // the last layers' gradients are ready first
  const auto& group = world.everyone().process_group();
  reducer_.reset(new c10d::Reducer(
      std::move(parameters), std::move(buckets), group, sparse, kBucketBytes, /*find_unused_parameters=*/false,
      /*gradient_as_bucket_view=*/false, /*param_names=*/{}, kFirstBytes, /*skip_all_reduce_unused_params=*/false,
      /*use_python_reducer=*/false, /*bucket_bytes_cap_list=*/{}));
  reducer_->register_comm_hook(std::make_unique<SumHook>(group));
}

Zero::~Zero() = default;

void Zero::before_last_backward() {
  if (!reducer_) return;
  reducer_->prepare_for_backward({});
  world_.everyone().count_sum(bytes_);
}

void Zero::finish() {
  const torch::NoGradGuard no_grad;
  if (reducer_ || world_.mesh().shape().n_ranks() == 1) return;  // summed by the Reducer already, or nothing to sum
  if (shared_) {
    shared_->sum();
    world_.everyone().count_sum(bytes_);
  } else if (stage_ < 2) {
    sum_to_all();
  } else {
    sum_to_owners();
  }
}

void Zero::sum_to_all() {
  std::map<std::vector<Axis>, std::vector<Tensor>> by_copies;
  for (Piece& piece : pieces_) {
    if (piece.local.requires_grad()) by_copies[piece.copies()].push_back(gradient_or_zeros(piece));
  }
  for (const auto& [axes, gradients] : by_copies) sum_together(gradients, world_.along(axes));
  for (const Piece& piece : pieces_) {
    if (piece.tied_ends) world_.ends_of_pipeline().sum(piece.local.grad());
  }
}

void Zero::sum_to_owners() {
  for (Piece& piece : std::views::reverse(pieces_)) {
    if (!is_sent(piece)) continue;
    Tensor& gradient = gradient_or_zeros(piece);
    sum_at_owner(gradient, piece, world_);
    if (!piece.is_owned_by(world_.mesh())) gradient.reset();
  }
}

void Zero::share() {
  if (stage_ == 0) return;
  if (shared_) return shared_->share();
  for (const Piece& piece : pieces_) {
    if (is_sent(piece)) broadcast_from_owner(piece, world_);
  }
}

// Returns false for parameters without a gradient, and for those of sharded blocks, which the blocks send themselves.
bool Zero::is_sent(const Piece& piece) const {
  return piece.local.requires_grad() && !(stage_ == 3 && piece.name.starts_with("layers."));
}

double Zero::gradient_norm() {
  const torch::NoGradGuard no_grad;
  std::vector<Tensor> gradients;
  std::vector<double> copies;
  for (const Piece& piece : pieces_) {
    if (!piece.local.grad().defined()) continue;
    gradients.push_back(piece.local.grad());
    const int64_t n = piece.n_copies(world_.mesh());
    copies.push_back(static_cast<double>(stage_ >= 2 ? n / world_.mesh().size(Axis::Data) : n));
  }
  const std::vector<Tensor> norms = gradients.empty() ? gradients : at::_foreach_norm(gradients);
  // If every rank has all gradients, each computes the norm as a single process would, with bitwise equal results.
  if (stage_ < 2 && world_.mesh().shape().is_data_alone()) return torch::stack(norms).norm().item<double>();
  double sum = 0.0;
  for (size_t i = 0; i < norms.size(); ++i) sum += std::pow(norms[i].item<double>(), 2) / copies[i];
  return std::sqrt(world_.sum(sum));
}

}  // namespace folio::train::parallel
