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
  taken_.clear();
  for (size_t expert = 0; expert < n_experts; ++expert) {
    const size_t first = taken_.size();
    for (size_t row = 0; row < n_rows; ++row) {
      const float weight = routes[row * n_experts + expert];
      if (weight != 0.0F) taken_.push_back({row, weight});
    }
    if (taken_.size() > first) experts_.push_back({expert, first, taken_.size() - first});
  }
}

Inputs CpuExperts::AllInputs::of(const ExpertRows& expert) const {
  const size_t first = shared ? 0 : expert.first;
  Inputs in{.floats = nullptr, .packed = nullptr, .fast = nullptr, .quantized = {}, .n_rows = expert.n};
  if (floats != nullptr) in.floats = floats + first * k;
  if (fast != nullptr) in.fast = fast + first * kernels::panel_columns(k);
  if (quantized.values != nullptr) in.quantized = from(quantized, first, k);
  return in;
}

// Quantizes the inputs to 8 bits. If `shared`, there is a single row, which all experts read; otherwise there is one
// row per assignment. rows_of(first, n) returns the inputs (n, k) of n assignments.
template <typename RowsOf>
kernels::QuantizedInputs CpuExperts::quantize(size_t k, bool shared, RowsOf&& rows_of) {
  constexpr size_t kTogether = 16;
  const size_t n = shared ? 1 : taken_.size();
  const kernels::QuantizedInputs all = quantized_.resize(n, k);
  pieces_.clear();
  if (shared) pieces_.push_back({.expert = 0, .first = 0, .n = 1});
  for (const ExpertRows& e : experts_) {
    for (size_t i = 0; i < e.n && !shared; i += kTogether) {
      pieces_.push_back({e.expert, e.first + i, std::min(kTogether, e.n - i)});
    }
  }
  pool_.parallel_for(pieces_.size(), 1, n * k / kWorthAThread, [&](size_t begin, size_t end) {
    for (const ExpertRows& p : std::span(pieces_).subspan(begin, end - begin)) {
      kernels_.quantize(rows_of(p.first, p.n), p.n, k, from(all, p.first, k));
    }
  });
  return all;
}

// Prepares inputs from x (n_rows, k). A step's only row is shared by all experts; several rows are gathered, so
// that each expert's rows are contiguous.
CpuExperts::AllInputs CpuExperts::inputs_of_rows(const float* x, size_t k, std::span<const ExpertMatmul> products) {
  AllInputs inputs{.floats = nullptr, .quantized = {}, .fast = nullptr, .k = k, .shared = n_rows_ == 1};
  bool groups = false, floats = false, panels = false;
  for (const ExpertMatmul& p : products) {
    const Matrix& one = p.weights.front();
    (one.in_groups() ? groups : one.in_panels() ? panels : floats) = true;
  }
  const auto gather = [&](size_t first, size_t n, float* to) {
    for (size_t i = 0; i < n; ++i) std::copy_n(x + taken_[first + i].row * k, k, to + i * k);
  };
  if (groups) {
    inputs.quantized = quantize(k, inputs.shared, [&](size_t first, size_t n) -> const float* {
      if (inputs.shared) return x;
      thread_local core::AlignedVector<float> rows;
      rows.resize(n * k);
      gather(first, n, rows.data());
      return rows.data();
    });
  }
  if (floats && inputs.shared) inputs.floats = x;
  if (floats && !inputs.shared) {
    gathered_.resize(taken_.size() * k);
    pool_.parallel_for(taken_.size(), 1, taken_.size() * k / kWorthAThread,
                       [&](size_t begin, size_t end) { gather(begin, end - begin, &gathered_[begin * k]); });
    inputs.floats = gathered_.data();
  }
  if (panels) {
    const size_t n = inputs.shared ? 1 : taken_.size();
    inputs.fast = rounded_.round(pool_, kernels_, n, k, [&](size_t i) { return x + taken_[i].row * k; });
  }
  return inputs;
}

// Prepares inputs from x (assignments, k), which is sorted by expert.
CpuExperts::AllInputs CpuExperts::inputs_of_takings(const float* x, const Matrix& weight) {
  const size_t k = weight.k;
  AllInputs inputs{.floats = x, .quantized = {}, .fast = nullptr, .k = k, .shared = false};
  const auto input = [&](size_t i, size_t /*n*/ = 1) { return x + i * k; };
  if (weight.in_groups()) inputs.quantized = quantize(k, false, input);
  if (weight.in_panels()) inputs.fast = rounded_.round(pool_, kernels_, taken_.size(), k, input);
  return inputs;
}

// Calls body(expert, begin, end) on all threads to process tiles [begin, end) of the expert. Each expert has n_tiles
// tiles of k columns. The tiles are divided among threads by cost, which grows with an expert's number of rows.
template <typename Body>
void CpuExperts::for_tiles(size_t n_tiles, size_t k, Body&& body) {
  constexpr size_t kReading = 8;  // rows that can be multiplied in the time to read a tile from memory
  const auto cost = [](const ExpertRows& e) { return e.n + kReading; };
  size_t total = 0;
  for (const ExpertRows& e : experts_) total += n_tiles * cost(e);
  const size_t work = taken_.size() * n_tiles * kernels::kLanes * k / kWorthAThread;
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
void CpuExperts::multiply(const Matrix& weight, const float* bias, const Inputs& in, size_t begin, size_t end,
                          float* out, size_t stride) {
  for (size_t row = 0; bias != nullptr && row < in.n_rows; ++row) {
    std::copy(bias + begin, bias + end, out + row * stride + begin);
  }
  weight.multiply(kernels_, in, begin, end, out, stride, bias != nullptr);
}

void CpuExperts::project(const float* x, std::span<const ExpertMatmul> products, size_t stride) {
  const Matrix& one = products.front().weights.front();
  if (one.n_out == 0) return;  // this rank holds no rows of the matrices
  const AllInputs inputs = inputs_of_rows(x, one.k, products);
  const size_t tiles = in_lanes(one.n_out) / kernels::kLanes;
  for_tiles(products.size() * tiles, one.k, [&](const ExpertRows& e, size_t begin, size_t end) {
    for (size_t p = begin / tiles; p * tiles < end; ++p) {
      const Matrix& weight = products[p].weights[e.expert];
      const size_t from = std::max(begin, p * tiles) - p * tiles;
      const size_t to = std::min(end, (p + 1) * tiles) - p * tiles;
      const float* biases = products[p].biases;
      multiply(weight, biases == nullptr ? nullptr : biases + e.expert * stride + weight.first, inputs.of(e),
               from * kernels::kLanes, std::min(weight.n_out, to * kernels::kLanes),
               products[p].out + e.first * stride + weight.first, stride);
    }
  });
}

// With many assignments, each thread owns columns of the residual and adds the experts' outputs one after the other.
// With few, memory bandwidth is the limit: all products run first, in long sequential reads, and the sums follow.
void CpuExperts::combine(const float* x, std::span<const Matrix> weights, const float* biases, float* residual,
                         size_t dim) {
  constexpr size_t kFewTaken = 128;
  constexpr size_t kPieces = 4;  // pieces of work per thread
  const size_t n_out = weights.front().n_out;
  if (n_out == 0) return;
  const AllInputs inputs = inputs_of_takings(x, weights.front());
  const size_t tiles = in_lanes(n_out) / kernels::kLanes;
  const auto bias_of = [&](size_t expert) {
    return biases == nullptr ? nullptr : biases + expert * dim + weights.front().first;
  };
  // Adds columns [begin, end) of assignments [first, first + n) to the residual. Rows of `out` are `stride` apart.
  const auto add = [&](size_t first, size_t n, size_t begin, size_t end, const float* out, size_t stride) {
    for (size_t i = 0; i < n; ++i, out += stride) {
      const Taken& taken = taken_[first + i];
      float* to = residual + taken.row * dim + weights.front().first + begin;
      for (size_t j = 0; j < end - begin; ++j) to[j] += taken.weight * out[j];
    }
  };
  if (taken_.size() <= kFewTaken) {
    outputs_.resize(taken_.size() * n_out);
    for_tiles(tiles, inputs.k, [&](const ExpertRows& e, size_t begin, size_t end) {
      multiply(weights[e.expert], bias_of(e.expert), inputs.of(e), begin * kernels::kLanes,
               std::min(n_out, end * kernels::kLanes), &outputs_[e.first * n_out], n_out);
    });
    pool_.parallel_for(n_out, kernels::kLanes, outputs_.size() / kWorthAThread,
                       [&](size_t begin, size_t end) { add(0, taken_.size(), begin, end, &outputs_[begin], n_out); });
    return;
  }
  const size_t grain = std::max<size_t>(1, tiles / (kPieces * pool_.size())) * kernels::kLanes;
  const size_t work = taken_.size() * n_out * inputs.k / kWorthAThread;
  pool_.parallel_for(n_out, grain, work, [&](size_t begin, size_t end) {
    thread_local core::AlignedVector<float> out;
    const size_t n = end - begin;
    for (const ExpertRows& e : experts_) {
      out.resize(e.n * n);
      multiply(weights[e.expert], bias_of(e.expert), inputs.of(e), begin, end, out.data() - begin, n);
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
  pool_.parallel_for(n_rows_, 1, n_rows_ * n_experts * 16 / kWorthAThread, [&](size_t begin, size_t end) {
    for (size_t row = begin; row < end; ++row) kernels::route(at(Slot::Routes) + row * n_experts, bias, routing);
  });
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

// Sends this rank's columns of all assignments to other ranks. The slot stores width / expert_dim assignments per row.
void CpuStage::exchange_taken(Slot slot, bool in_eight_bits) {
  if (shard_.exchange == nullptr) return;
  const auto expert_dim = static_cast<size_t>(config_.expert_dim);
  const Share own = rows_of_rank(expert_dim, shard_.rank, shard_.n_ranks);
  const size_t in_row = width(slot) / expert_dim;
  for (size_t i = 0; i < experts_.taken().size() && own.first < own.last; ++i) {
    const size_t first = i % in_row * expert_dim;
    shard_.exchange->give({.slot = slot,
                           .in_eight_bits = in_eight_bits,
                           .first_row = i / in_row,
                           .n_rows = 1,
                           .first = first + own.first,
                           .last = first + own.last});
  }
  shard_.exchange->meet();
}

void CpuStage::run(const GateRows& o) {
  const size_t dim = width(Slot::Normed);
  const size_t n = width(o.slot);
  const float* w = weights_.vector(o.weight);
  pool_.parallel_for(n_rows_, 1, n_rows_ * (dim + n) / kWorthAThread, [&](size_t begin, size_t end) {
    for (size_t row = begin; row < end; ++row) {
      float sum = 0.0F;
      kernels_.matmul(at(Slot::Normed) + row * dim, 1, w, dim, 0, 1, &sum, 1, false);
      const float gate = 1.0F / (1.0F + kernels::reference::exp(-sum));
      float* x = at(o.slot) + row * n;
      for (size_t i = 0; i < n; ++i) x[i] *= gate;
    }
  });
}

}  // namespace folio::infer
