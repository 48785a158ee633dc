#include "train/parallel/zero.h"

#include <ATen/ops/_foreach_copy.h>
#include <ATen/ops/_foreach_norm.h>
#include <torch/csrc/utils/tensor_flatten.h>
#include <torch/utils.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/comm.hpp>
#include <torch/csrc/distributed/c10d/reducer.hpp>

#include "train/parallel/shared_gradients.h"

namespace folio::train::parallel {
namespace {

using torch::Tensor;

constexpr size_t kBucketBytes = size_t{25} << 20U;  // as in DistributedDataParallel: larger ones wait longer, and
constexpr size_t kFirstBytes = size_t{1} << 20U;    // smaller ones cost more calls; the first begins early

// A rank none of whose tokens used the parameter has none.
Tensor& gradient_or_zeros(Piece& piece) {
  Tensor& gradient = piece.local.mutable_grad();
  if (!gradient.defined()) gradient = torch::zeros_like(piece.local);
  return gradient;
}

// The sums of many small tensors as one of a large one.
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

struct Zero::Overlapped {
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

std::vector<int64_t> owners_of(const std::vector<Piece>& pieces, int64_t n_data) {
  std::vector<size_t> order(pieces.size());
  std::iota(order.begin(), order.end(), size_t{0});
  // Both ends of a pipeline hold tied embeddings, and must give them to the same data coordinate: they come first.
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    if (pieces[a].tied_ends != pieces[b].tied_ends) return pieces[a].tied_ends;
    return pieces[a].local.numel() > pieces[b].local.numel();
  });
  std::vector<int64_t> owners(pieces.size(), 0), held(static_cast<size_t>(n_data), 0);
  for (const size_t i : order) {
    const auto least = std::min_element(held.begin(), held.end());
    owners[i] = least - held.begin();
    *least += pieces[i].local.numel();
  }
  return owners;
}

bool is_data_alone(const MeshShape& shape) { return shape.n_ranks() == shape[Axis::Data]; }

Zero::Zero(std::vector<Piece>& pieces, World& world, int64_t stage)
    : pieces_(pieces),
      world_(world),
      stage_(world.mesh().size(Axis::Data) > 1 ? stage : 0),
      owners_(owners_of(pieces, world.mesh().size(Axis::Data))) {
  const MeshShape& shape = world.mesh().shape();
  if (stage_ >= 2 || shape.n_ranks() == 1 || !is_data_alone(shape)) return;
  std::vector<Tensor> parameters;
  std::vector<int64_t> owners;
  for (size_t i = 0; i < pieces.size(); ++i) {
    if (!pieces[i].local.requires_grad()) continue;
    parameters.push_back(pieces[i].local);
    if (stage_ == 1) owners.push_back(owners_[i]);
  }
  if (parameters.empty()) return;
  shared_ = SharedGradients::open(parameters, std::move(owners), world.everyone());
  if (!shared_) overlapped_ = std::make_unique<Overlapped>(parameters, world.everyone().process_group());
}

Zero::~Zero() = default;

void Zero::before_last_backward() {
  if (!overlapped_) return;
  overlapped_->reducer.prepare_for_backward({});
  ++overlapped_->sums;
}

void Zero::finish() {
  const torch::NoGradGuard no_grad;
  if (overlapped_) return;  // c10d's sums end with the backward pass
  if (shared_) {
    shared_->sum();
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
  for (size_t i = pieces_.size(); i-- > 0;) {
    if (!is_sent(pieces_[i])) continue;
    Tensor& gradient = gradient_or_zeros(pieces_[i]);
    sum_at_owner(gradient, pieces_[i], owners_[i], world_);
    if (!owns(i)) {
      gradient.reset();
    } else if (pieces_[i].tied_ends) {
      world_.ends_of_pipeline().sum(gradient);
    }
  }
}

void Zero::share() {
  if (stage_ == 0) return;
  if (shared_) return shared_->share();
  for (size_t i = 0; i < pieces_.size(); ++i) {
    if (is_sent(pieces_[i])) broadcast_from_owner(pieces_[i], owners_[i], world_);
  }
}

// Sharded blocks have their sums, and their weights when they need them.
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
  if (stage_ < 2 && is_data_alone(world_.mesh().shape())) return norm_of(gradients);
  double sum = 0.0;
  const std::vector<Tensor> norms = gradients.empty() ? gradients : at::_foreach_norm(gradients);
  for (size_t i = 0; i < norms.size(); ++i) sum += std::pow(norms[i].item<double>(), 2) / copies[i];
  return std::sqrt(world_.sum(sum));
}

double norm_of(const std::vector<Tensor>& gradients) {
  const torch::NoGradGuard no_grad;
  return torch::stack(at::_foreach_norm(gradients)).norm().item<double>();
}

int64_t Zero::bytes_sent() const {
  if (shared_) return shared_->bytes_sent();
  if (!overlapped_) return 0;
  const int64_t n = world_.everyone().size();
  return 2 * overlapped_->bytes * (n - 1) / n * overlapped_->sums;
}

}  // namespace folio::train::parallel
