// Times the kernels of a mixture of experts one by one, as kernels.cpp does for other kernels: a layer of
// Qwen3-30B-A3B's shape with random routes. Counted bytes only include experts that a row is routed to.
#include "infer/cuda/experts.h"

#include <set>

#include "apps/cuda_bench/bench.h"
#include "apps/cuda_bench/models.h"
#include "apps/cuda_bench/operands.h"

namespace folio::infer::gpu::bench {
namespace {

struct Mixture {
  uint32_t n_experts;
  uint32_t n_chosen;
  size_t dim;
  size_t width;  ///< hidden dimension of an expert
};
Mixture mixture_of(const std::string& shape_name) {
  if (shape_name == "tiny") return {.n_experts = 8, .n_chosen = 2, .dim = 64, .width = 32};
  return {.n_experts = 128, .n_chosen = 8, .dim = 2048, .width = 768};
}

// The routing of the rows in device memory, and the number of distinct experts that they use.
struct Routed {
  Routed(Stream& stream, const Mixture& m, size_t n_rows)
      : routing{.n_experts = m.n_experts, .n_chosen = m.n_chosen, .normalizes = true},
        logits(random_floats(stream, n_rows * m.n_experts, 6)),
        routes(zeros(stream, logits.bytes())),
        experts(zeros(stream, n_rows * m.n_chosen * sizeof(int32_t))),
        weights(zeros(stream, n_rows * m.n_chosen * sizeof(float))),
        assignments(zeros(stream, m.n_experts * n_rows * sizeof(int32_t))),
        counts(zeros(stream, (m.n_experts + 1) * sizeof(uint32_t))),
        grouped(group_sizes(n_rows * m.n_chosen, m.n_experts)) {
    groups = zeros(stream, grouped.n_groups * sizeof(ExpertGroup));
    grouped.groups = groups.as<ExpertGroup>();
    grouped.assignments = assignments.as<int32_t>();
    grouped.counts = counts.as<uint32_t>();
    choose(stream, n_rows);
    group_assignments(stream, assigned(), routing, n_rows, grouped);
    std::vector<int32_t> all(n_rows * m.n_chosen);
    stream.copy_out(all.data(), experts.as<void>(), experts.bytes());
    stream.wait();
    n_active = std::set<int32_t>(all.begin(), all.end()).size();
  }
  [[nodiscard]] Assignments assigned() const { return {experts.as<int32_t>(), weights.as<float>()}; }
  void choose(Stream& stream, size_t n_rows) const {
    stream.copy_within(routes.as<void>(), logits.as<void>(), logits.bytes());
    route(stream, routes.as<float>(), nullptr, routing, n_rows, assigned());
  }

  Routing routing;
  DeviceMemory logits, routes, experts, weights, assignments, counts, groups;
  Grouped grouped;
  size_t n_active = 0;
};

class ExpertTable {
 public:
  ExpertTable(const Bench& bench, const std::string& shape_name, size_t n_rows)
      : bench_(bench),
        shape_name_(shape_name),
        mixture_(mixture_of(shape_name)),
        n_(n_rows),
        routed_(bench.stream, mixture_, n_rows) {}

  void run() {
    const double scores = static_cast<double>(n_ * mixture_.n_experts * sizeof(float));
    // The time includes a copy of the logits, because the kernel overwrites them.
    add("route", "f32", 4 * scores, 1, [&](size_t) { routed_.choose(bench_.stream, n_); });
    const size_t n_assignments = n_ * mixture_.n_chosen;
    add("group assignments", "int32", static_cast<double>(n_assignments * 2 * sizeof(int32_t)), 1,
        [&](size_t) { group_assignments(bench_.stream, routed_.assigned(), routed_.routing, n_, routed_.grouped); });
    for (const core::DType type : {core::DType::F16, core::DType::Q8_0, core::DType::Q4_0}) time_products(type);
  }

 private:
  void add(const std::string& kernel, const std::string& type, double bytes, size_t n_copies,
           const std::function<void(size_t)>& launch, double operations = 0.0) {
    const double us = microseconds(bench_.stream, bench_.options.effort, n_copies, launch);
    bench_.results.add({{"part", "kernels"},
                        {"shape", shape_name_},
                        {"kernel", kernel},
                        {"type", type},
                        {"rows", n_},
                        {"form", "fast"},
                        {"us", us},
                        {"gb_per_s", bytes / us / 1e3},
                        {"tflop_per_s", operations / us / 1e6},
                        {"share_of_copy", bytes / us * 1e6 / bench_.bandwidth}});
  }

  // Each copy of the weights is one matrix with the experts' rows in order, as in a stacked tensor.
  void time_products(core::DType type) {
    const Mixture& m = mixture_;
    const size_t n_assignments = n_ * m.n_chosen;
    const size_t n_copies = copies_of(m.n_experts * m.width * m.dim, bench_.options.effort);
    const Matrices gate(bench_.stream, type, m.n_experts * m.width, m.dim, n_copies);
    const Matrices up(bench_.stream, type, m.n_experts * m.width, m.dim, n_copies);
    const Matrices down(bench_.stream, type, m.n_experts * m.dim, m.width, n_copies);
    const auto of_one = [&](PackedMatrix all, size_t n_out) {
      all.n_out = static_cast<uint32_t>(n_out);
      return all;
    };
    const DeviceMemory x = random_floats(bench_.stream, n_ * m.dim, 1);
    const DeviceMemory gates = random_floats(bench_.stream, n_assignments * m.width, 2);
    const DeviceMemory ups = random_floats(bench_.stream, n_assignments * m.width, 3);
    const DeviceMemory outs = zeros(bench_.stream, n_assignments * m.dim * sizeof(float));
    const Grouped& grouped = routed_.grouped;
    const Inputs wide(bench_.stream, grouped.slots(), m.dim, gate[0].kind);
    const Inputs narrow(bench_.stream, grouped.slots(), m.width, gate[0].kind);
    const std::string name(core::info(type).name);
    const auto number = static_cast<double>(number_bytes(gate[0].kind));
    const auto rows = static_cast<double>(n_assignments * m.dim);
    const auto middles = static_cast<double>(n_assignments * m.width);
    const double share = static_cast<double>(routed_.n_active) / m.n_experts;

    add("experts: pack", name, rows * (4 + number), 1,
        [&](size_t) { pack_assignments(bench_.stream, x.as<float>(), m.n_chosen, grouped, wide.packed); });
    add(
        "experts: gate, up", name, 2 * share * static_cast<double>(gate.bytes()) + rows * number + 8 * middles,
        n_copies,
        [&](size_t copy) {
          const Matmul products[] = {{.weight = of_one(gate[copy], m.width), .out = gates.as<float>()},
                                     {.weight = of_one(up[copy], m.width), .out = ups.as<float>()}};
          multiply_experts(bench_.stream, wide.packed, products, 2, grouped);
        },
        4 * rows * static_cast<double>(m.width));
    add("experts: swiglu, pack", name, middles * (12 + number), 1, [&](size_t) {
      activate_assignments(bench_.stream, Activation::Silu, gates.as<float>(), ups.as<float>(), grouped, narrow.packed);
    });
    add(
        "experts: down", name, share * static_cast<double>(down.bytes()) + middles * number + 4 * rows, n_copies,
        [&](size_t copy) {
          const Matmul product{.weight = of_one(down[copy], m.dim), .out = outs.as<float>()};
          multiply_experts(bench_.stream, narrow.packed, &product, 1, grouped);
        },
        2 * rows * static_cast<double>(m.width));
    const DeviceMemory residual = zeros(bench_.stream, n_ * m.dim * sizeof(float));
    add("experts: combine", name, 4 * rows + 8 * static_cast<double>(n_ * m.dim), 1, [&](size_t) {
      combine_experts(bench_.stream, residual.as<float>(), outs.as<float>(), nullptr, routed_.assigned(), m.n_chosen,
                      n_, m.dim);
    });
  }

  const Bench& bench_;
  std::string shape_name_;
  Mixture mixture_;
  size_t n_;
  Routed routed_;
};

}  // namespace

void time_experts(const Bench& bench, const std::string& shape_name) {
  for (const int64_t rows : bench.options.rows) ExpertTable(bench, shape_name, static_cast<size_t>(rows)).run();
}

}  // namespace folio::infer::gpu::bench
