// CudaStage's mixture-of-experts operations: Route, ProjectExperts, CombineExperts and GateRows.
#include "infer/cuda/cuda_experts.h"

#include <algorithm>
#include <utility>

#include "infer/cuda/cuda_stage.h"

namespace folio::infer {

size_t CudaStage::bytes_for_experts(size_t n_rows) const {
  const CudaExperts& e = experts_;
  if (e.routing.n_experts == 0) return 0;
  const size_t n_assignments = e.assignments_of(n_rows);
  const size_t slots = e.grouped(n_rows).slots();
  size_t bytes =
      n_assignments * (width(Slot::Residual) + 2) * sizeof(float) + e.routing.n_experts * n_rows * sizeof(int32_t);
  for (size_t kind = 0; kind < kKinds; ++kind) {
    if (weights_.stacks_use(static_cast<gpu::Kind>(kind))) {
      bytes += packed_bytes(slots, widest_of_experts(), static_cast<gpu::Kind>(kind));
    }
  }
  return bytes;
}

size_t CudaStage::widest_of_experts() const {
  return std::max(width(Slot::Residual), width(Slot::ExpertGate) / experts_.routing.n_chosen);
}

void CudaStage::make_room_for_experts() {
  CudaExperts& e = experts_;
  if (e.routing.n_experts == 0) return;
  const size_t n_assignments = e.assignments_of(n_rows_);
  const gpu::Grouped grouped = e.grouped(n_rows_);
  grow(e.experts, n_assignments * sizeof(int32_t));
  grow(e.weights, n_assignments * sizeof(float));
  grow(e.groups, grouped.n_groups * sizeof(gpu::ExpertGroup));
  grow(e.assignments, e.routing.n_experts * n_rows_ * sizeof(int32_t));
  grow(e.counts, (e.routing.n_experts + 1) * sizeof(uint32_t));
  for (size_t kind = 0; kind < kKinds; ++kind) {
    if (!weights_.stacks_use(static_cast<gpu::Kind>(kind))) continue;
    grow(e.packed[kind], packed_bytes(grouped.slots(), widest_of_experts(), static_cast<gpu::Kind>(kind)));
  }
  grow(e.row_scales, grouped.slots() * sizeof(float));
  grow(e.outs, n_assignments * width(Slot::Residual) * sizeof(float));
}

gpu::PackedInputs CudaStage::expert_inputs(size_t k, gpu::Kind kind) const {
  return {.data = experts_.packed[static_cast<size_t>(kind)].as<uint8_t>(),
          .row_scales = experts_.row_scales.as<float>(),
          .n_rows = static_cast<uint32_t>(experts_.grouped(n_rows_).slots()),
          .k = static_cast<uint32_t>(k),
          .kind = kind};
}

void CudaStage::run(const Route& o, const FusedOperation& fused) {
  const gpu::PackedMatrix& matrix = weights_.matrix(o.weight);
  const gpu::Matmul product{.weight = matrix, .bias = vector_or_null(o.bias), .out = at(Slot::Routes)};
  gpu::multiply(stream_, pack(Slot::Normed, matrix.kind, fused), &product, 1, options_.fast);
  const float* bias = vector_or_null(o.selection_bias);
  gpu::route(stream_, at(Slot::Routes), bias, experts_.routing, n_rows_, experts_.assigned());
  gpu::group_assignments(stream_, experts_.assigned(), experts_.routing, n_rows_, experts_.grouped(n_rows_));
}

void CudaStage::run(const ProjectExperts& o, const FusedOperation& /*fused*/) {
  const gpu::Grouped grouped = experts_.grouped(n_rows_);
  const std::array products{gpu::Matmul{.weight = weights_.matrix(o.gate.weight), .out = at(Slot::ExpertGate)},
                            gpu::Matmul{.weight = weights_.matrix(o.up.weight), .out = at(Slot::ExpertUp)}};
  const bool together = gpu::same_format(products[0].weight, products[1].weight);
  for (size_t i = 0; i < products.size(); i += together ? 2 : 1) {
    const gpu::PackedInputs x = expert_inputs(width(Slot::Normed), products[i].weight.kind);
    gpu::pack_assignments(stream_, at(Slot::Normed), experts_.routing.n_chosen, grouped, x);
    gpu::multiply_experts(stream_, x, &products[i], together ? 2 : 1, grouped);
  }
  const size_t n = width(Slot::ExpertGate) / experts_.routing.n_chosen;
  for (const auto& [bias, slot] : {std::pair{o.gate.bias, Slot::ExpertGate}, std::pair{o.up.bias, Slot::ExpertUp}}) {
    if (!bias.exists()) continue;
    gpu::add_biases(stream_, at(slot), weights_.vector(bias), experts_.assigned(), experts_.assignments_of(n_rows_), n);
  }
}

void CudaStage::run(const CombineExperts& o, const FusedOperation& fused) {
  const gpu::Grouped grouped = experts_.grouped(n_rows_);
  const gpu::Matmul product{.weight = weights_.matrix(o.down.weight), .out = experts_.outs.as<float>()};
  const gpu::PackedInputs x = expert_inputs(width(Slot::ExpertGate) / experts_.routing.n_chosen, product.weight.kind);
  if (fused.activate != nullptr) {
    gpu::activate_assignments(stream_, activation_, at(Slot::ExpertGate), at(Slot::ExpertUp), grouped, x);
  } else {
    gpu::pack_assignments(stream_, at(Slot::ExpertGate), 1, grouped, x);
  }
  gpu::multiply_experts(stream_, x, &product, 1, grouped);
  gpu::combine_experts(stream_, at(Slot::Residual), experts_.outs.as<float>(), vector_or_null(o.down.bias),
                       experts_.assigned(), experts_.routing.n_chosen, n_rows_, width(Slot::Residual));
}

void CudaStage::run(const GateRows& o, const FusedOperation& /*fused*/) {
  gpu::gate_rows(stream_, at(o.slot), width(o.slot), at(Slot::Normed), weights_.vector(o.weight), n_rows_,
                 width(Slot::Normed));
}

}  // namespace folio::infer
