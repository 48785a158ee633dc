#include "infer/cpu/cpu_experts.h"

#include <algorithm>
#include <array>

#include "infer/cpu/cpu_stage.h"
#include "infer/reference/reference.h"
#include "infer/reference/route.h"

namespace folio::infer {

void CpuExperts::begin(std::span<const float> routes, size_t n_rows, size_t n_experts) {
  n_rows_ = n_rows;
  experts_.clear();
  assignments_.clear();
  for (size_t expert = 0; expert < n_experts; ++expert) {
    const size_t first = assignments_.size();
    for (size_t row = 0; row < n_rows; ++row) {
      const float weight = routes[row * n_experts + expert];
      if (weight != 0.0F) assignments_.push_back({row, weight});
    }
    if (assignments_.size() > first) experts_.push_back({{first, assignments_.size() - first}, expert});
  }
}

// Calls body(expert, begin, end) on all threads to process tiles [begin, end) of the expert. Each expert has n_tiles
// tiles of 16 weight rows and k columns. The tiles are divided among threads by cost, which grows with an expert's
// number of input rows.
template <typename Body>
void CpuExperts::for_tiles(size_t n_tiles, size_t k, Body&& body) {
  constexpr size_t kReading = 8;  // rows that can be multiplied in the time it takes to read a tile from memory
  const auto cost = [](const ExpertRows& e) { return e.n + kReading; };
  size_t total = 0;
  for (const ExpertRows& e : experts_) total += n_tiles * cost(e);
  const size_t work = assignments_.size() * n_tiles * kernels::kLanes * k / kWorthAThread;
  pool_.parallel_for(total, 1, work, [&](size_t begin, size_t end) {
    size_t first = 0;  // cost of all tiles of the earlier experts
    for (const ExpertRows& e : experts_) {
      const auto tile_at = [&](size_t at) {
        return at <= first ? 0 : std::min(n_tiles, (at - first + cost(e) - 1) / cost(e));
      };
      if (tile_at(begin) < tile_at(end)) body(e, tile_at(begin), tile_at(end));
      first += n_tiles * cost(e);
    }
  });
}

// Computes out = in · weightᵀ + bias for columns [begin, end) of out. bias is (n_out) or null.
void CpuExperts::multiply(const Matrix& weight, const float* bias, const InputsView& in, size_t begin, size_t end,
                          float* out, size_t stride) {
  for (size_t row = 0; bias != nullptr && row < in.n_rows; ++row) {
    std::copy(bias + begin, bias + end, out + row * stride + begin);
  }
  weight.multiply(kernels_, in, begin, end, out, stride, bias != nullptr);
}

// If the step has only one row, all experts read it. Otherwise rows are copied, so each expert's rows are adjacent.
void CpuExperts::project(const float* x, std::span<const ExpertMatmul> products, size_t stride) {
  const Matrix& one = products.front().weights.front();
  if (one.n_out == 0) return;  // this rank holds no rows of the matrices
  const bool shared = n_rows_ == 1;
  ProductInputs::Formats formats;
  for (const ExpertMatmul& p : products) formats.add(p.weights.front());
  if (shared) {
    inputs_.take(std::array{Segment{0, 1}}, one.k, formats, x);
  } else {
    inputs_.gather(experts_, one.k, formats, [&](size_t first, size_t n, float* to) {
      for (size_t i = 0; i < n; ++i) std::copy_n(x + assignments_[first + i].row * one.k, one.k, to + i * one.k);
    });
  }
  const size_t tiles = in_lanes(one.n_out) / kernels::kLanes;
  for_tiles(products.size() * tiles, one.k, [&](const ExpertRows& e, size_t begin, size_t end) {
    for (size_t p = begin / tiles; p * tiles < end; ++p) {
      const Matrix& weight = products[p].weights[e.expert];
      const size_t from = std::max(begin, p * tiles) - p * tiles;
      const size_t to = std::min(end, (p + 1) * tiles) - p * tiles;
      const float* biases = products[p].biases;
      multiply(weight, biases == nullptr ? nullptr : biases + e.expert * stride + weight.first,
               inputs_.of(shared ? Segment{0, 1} : Segment{e}), from * kernels::kLanes,
               std::min(weight.n_out, to * kernels::kLanes), products[p].out + e.first * stride + weight.first, stride);
    }
  });
}

// With many assignments, each thread owns columns of the residual and adds the experts' outputs one expert at a time.
// With few assignments, memory bandwidth is the limit: first all products are computed, in long sequential reads, then
// the sums.
void CpuExperts::combine(const float* x, std::span<const Matrix> weights, const float* biases, float* residual,
                         size_t dim) {
  constexpr size_t kFewAssignments = 128;
  constexpr size_t kPieces = 4;  // chunks of columns per thread, to balance the load
  const size_t n_out = weights.front().n_out;
  if (n_out == 0) return;
  const size_t k = weights.front().k;
  ProductInputs::Formats formats;
  formats.add(weights.front());
  inputs_.take(experts_, k, formats, x);
  const size_t tiles = in_lanes(n_out) / kernels::kLanes;
  const auto bias_of = [&](size_t expert) {
    return biases == nullptr ? nullptr : biases + expert * dim + weights.front().first;
  };
  // Adds columns [begin, end) of the weighted outputs of assignments [first, first + n) to the residual. Rows of `out`
  // are `stride` apart.
  const auto add = [&](size_t first, size_t n, size_t begin, size_t end, const float* out, size_t stride) {
    for (size_t i = 0; i < n; ++i, out += stride) {
      const Assignment& assignment = assignments_[first + i];
      float* to = residual + assignment.row * dim + weights.front().first + begin;
      for (size_t j = 0; j < end - begin; ++j) to[j] += assignment.weight * out[j];
    }
  };
  if (assignments_.size() <= kFewAssignments) {
    outputs_.resize(assignments_.size() * n_out);
    for_tiles(tiles, k, [&](const ExpertRows& e, size_t begin, size_t end) {
      multiply(weights[e.expert], bias_of(e.expert), inputs_.of(e), begin * kernels::kLanes,
               std::min(n_out, end * kernels::kLanes), &outputs_[e.first * n_out], n_out);
    });
    pool_.parallel_for(n_out, kernels::kLanes, outputs_.size() / kWorthAThread, [&](size_t begin, size_t end) {
      add(0, assignments_.size(), begin, end, &outputs_[begin], n_out);
    });
    return;
  }
  const size_t grain = std::max<size_t>(1, tiles / (kPieces * pool_.size())) * kernels::kLanes;
  const size_t work = assignments_.size() * n_out * k / kWorthAThread;
  pool_.parallel_for(n_out, grain, work, [&](size_t begin, size_t end) {
    thread_local core::AlignedVector<float> out;
    const size_t n = end - begin;
    for (const ExpertRows& e : experts_) {
      out.resize(e.n * n);
      multiply(weights[e.expert], bias_of(e.expert), inputs_.of(e), begin, end, out.data() - begin, n);
      add(e.first, e.n, begin, end, out.data(), n);
    }
  });
}

// ---- CpuStage's operations for mixture of experts ----

void CpuStage::run(const Route& o) {
  const std::array projections{Projection{o.weight, o.bias, Slot::Routes}};
  multiply(Slot::Normed, projections, false);
  exchange({Slot::Routes});
  const size_t n_experts = width(Slot::Routes);
  const float* bias = vector_or_null(o.selection_bias);
  const kernels::Routing routing = kernels::routing_of(config_);
  for_rows(n_experts * 16, [&](size_t row) { kernels::route(at(Slot::Routes) + row * n_experts, bias, routing); });
  experts_.begin({at(Slot::Routes), n_rows_ * n_experts}, n_rows_, n_experts);
}

void CpuStage::run(const ProjectExperts& o) {
  const auto n_experts = static_cast<size_t>(config_.n_experts);
  const std::array products{
      CpuExperts::ExpertMatmul{weights_.stack(o.gate.weight, n_experts), vector_or_null(o.gate.bias),
                               at(Slot::ExpertGate)},
      CpuExperts::ExpertMatmul{weights_.stack(o.up.weight, n_experts), vector_or_null(o.up.bias), at(Slot::ExpertUp)}};
  experts_.project(at(Slot::Normed), products, static_cast<size_t>(config_.expert_dim));
}

void CpuStage::run(const CombineExperts& o) {
  const std::span<const Matrix> weights = weights_.stack(o.down.weight, static_cast<size_t>(config_.n_experts));
  experts_.combine(at(Slot::ExpertGate), weights, vector_or_null(o.down.bias), at(Slot::Residual),
                   width(Slot::Residual));
  exchange({Slot::Residual});
}

// Sends this rank's columns of all assignments to the other ranks, and receives theirs. The slot stores width /
// expert_dim assignments per row. in_eight_bits: the columns may be sent in 8 bits.
void CpuStage::exchange_assignments(Slot slot, bool in_eight_bits) {
  if (shard_.exchange == nullptr) return;
  const auto expert_dim = static_cast<size_t>(config_.expert_dim);
  const Share own = rows_of_rank(expert_dim, shard_.rank, shard_.n_ranks);
  const size_t in_row = width(slot) / expert_dim;
  for (size_t i = 0; i < experts_.assignments().size() && own.first < own.last; ++i) {
    const size_t first = i % in_row * expert_dim;
    shard_.exchange->queue({.slot = slot,
                            .in_eight_bits = in_eight_bits,
                            .first_row = i / in_row,
                            .n_rows = 1,
                            .first = first + own.first,
                            .last = first + own.last});
  }
  shard_.exchange->all_gather();
}

void CpuStage::run(const GateRows& o) {
  const size_t dim = width(Slot::Normed);
  const size_t n = width(o.slot);
  const float* w = weights_.vector(o.weight);
  for_rows(dim + n, [&](size_t row) {
    float sum = 0.0F;
    kernels_.matmul(at(Slot::Normed) + row * dim, 1, w, dim, 0, 1, &sum, 1, false);
    const float gate = 1.0F / (1.0F + kernels::reference::exp(-sum));
    float* x = at(o.slot) + row * n;
    for (size_t i = 0; i < n; ++i) x[i] *= gate;
  });
}

}  // namespace folio::infer
