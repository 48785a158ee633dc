// Tests the expert kernels: a row's experts and weights equal the reference bit for bit, each assignment is in exactly
// one group, and each row's product equals multiply() with its expert's matrix, independent of other rows.
#include <cmath>
#include <map>

#include "infer/cuda/cuda_experts.h"
#include "infer/reference/reference.h"
#include "infer/reference/route.h"
#include "tests/infer/cuda/host/emulator.h"
#include "tests/infer/cuda/operands.h"

namespace folio::infer::gpu {
namespace {

using core::DType;
using infer::test::random_floats;
using infer::test::same_bits;
using test::on_device;
using test::on_host;
using test::unwritten;

// Memory for the experts of n_rows rows and their weights.
CudaExperts experts_of(Stream& stream, size_t n_rows, const Routing& r) {
  CudaExperts e;
  e.routing = r;
  e.experts = unwritten(stream, e.assignments_of(n_rows) * sizeof(int32_t));
  e.weights = unwritten(stream, e.assignments_of(n_rows) * sizeof(float));
  return e;
}

// Rows that random logits route to experts, and their assignments in groups, in device memory.
struct RoutedRows {
  RoutedRows(Stream& stream, size_t n_rows, const Routing& r)
      : routes(on_device(stream, random_floats(n_rows * r.n_experts, 7, 3.0))), of(experts_of(stream, n_rows, r)) {
    of.groups = unwritten(stream, of.grouped(n_rows).n_groups * sizeof(ExpertGroup));
    of.assignments = unwritten(stream, r.n_experts * n_rows * sizeof(int32_t));
    of.counts = on_device(stream, std::vector<uint32_t>(r.n_experts + 1, 0));
    grouped = of.grouped(n_rows);
    route(stream, routes.as<float>(), nullptr, r, n_rows, of.assigned());
    group_assignments(stream, of.assigned(), r, n_rows, grouped);
  }

  DeviceMemory routes;
  CudaExperts of;
  Grouped grouped;
};

// The reference's result for all rows. `routes` has the weights of all experts, 0 if not selected. `experts` lists
// only the selected experts, and `weights` their weights.
struct Expected {
  std::vector<float> routes;
  std::vector<int32_t> experts;
  std::vector<float> weights;
};
Expected reference_of(std::vector<float> logits, const float* bias, const Routing& r) {
  Expected e;
  for (size_t at = 0; at < logits.size(); at += r.n_experts) {
    kernels::route(&logits[at], bias, r);
    for (size_t i = 0; i < r.n_experts; ++i) {
      if (logits[at + i] == 0.0F) continue;
      e.experts.push_back(static_cast<int32_t>(i));
      e.weights.push_back(logits[at + i]);
    }
  }
  e.routes = std::move(logits);
  return e;
}

void expect_reference(const std::vector<float>& logits, const std::vector<float>& bias, const Routing& r) {
  Stream stream(0);
  const size_t n_rows = logits.size() / r.n_experts;
  const DeviceMemory routes = on_device(stream, logits);
  const DeviceMemory device_bias = on_device(stream, bias.empty() ? std::vector<float>{0.0F} : bias);
  const CudaExperts of = experts_of(stream, n_rows, r);
  route(stream, routes.as<float>(), bias.empty() ? nullptr : device_bias.as<float>(), r, n_rows, of.assigned());
  const Expected expected = reference_of(logits, bias.empty() ? nullptr : bias.data(), r);
  const std::string what = std::to_string(r.n_chosen) + " of " + std::to_string(r.n_experts);
  ASSERT_EQ(on_host<int32_t>(stream, of.experts), expected.experts) << what;
  ASSERT_TRUE(same_bits(on_host<float>(stream, routes), expected.routes)) << what;
  ASSERT_TRUE(same_bits(on_host<float>(stream, of.weights), expected.weights)) << what;
}

TEST(Route, MatchesTheReferenceExactly) {
  for (const uint32_t n : {1U, 2U, 5U, 31U, 32U, 33U, 64U, 100U, 257U}) {
    const auto logits = random_floats(3 * n, n, 5.0);
    const auto bias = random_floats(n, n + 1, 0.5);
    for (const uint32_t chosen : {1U, 2U, 8U, n}) {
      if (chosen > n) continue;
      Routing r{.n_experts = n, .n_chosen = chosen};
      expect_reference(logits, {}, r);
      r.normalizes = true;
      r.scale = 2.5F;
      expect_reference(logits, bias, r);
      r.sigmoid = true;
      expect_reference(logits, bias, r);
      r.normalizes = false;
      expect_reference(logits, {}, r);
    }
  }
}

TEST(Route, ExpertGroupsMatchTheReferenceExactly) {
  for (const auto& [n, groups, of_row, chosen] :
       {std::array{12U, 4U, 2U, 4U}, {8U, 8U, 3U, 2U}, {256U, 8U, 4U, 8U}, {66U, 33U, 32U, 5U}, {70U, 35U, 34U, 60U}}) {
    const auto logits = random_floats(4 * n, n, 5.0);
    const auto bias = random_floats(n, 3, 0.5);
    for (const bool sigmoid : {false, true}) {
      const Routing r{.n_experts = n,
                      .n_chosen = chosen,
                      .n_groups = groups,
                      .groups_chosen = of_row,
                      .sigmoid = sigmoid,
                      .normalizes = sigmoid,
                      .scale = 0.5F};
      expect_reference(logits, {}, r);
      expect_reference(logits, bias, r);
    }
  }
}

TEST(Route, TiesSelectTheFirstExperts) {
  std::vector<float> logits(40, 1.0F);
  expect_reference(logits, {}, {.n_experts = 40, .n_chosen = 6});
  for (const size_t i : {39U, 7U, 33U, 8U}) logits[i] = 2.0F;
  expect_reference(logits, {}, {.n_experts = 40, .n_chosen = 3});
  expect_reference(logits, {}, {.n_experts = 40, .n_chosen = 7});
}

// Even if logits are NaN or infinite, the selected experts of a row must be valid and distinct.
TEST(Route, NonFiniteLogitsSelectDistinctExperts) {
  Stream stream(0);
  for (const bool sigmoid : {false, true}) {
    for (const float bad : {std::nanf(""), INFINITY, -INFINITY}) {
      for (const size_t n_bad : {1U, 35U}) {
        auto logits = random_floats(35, 2);
        for (size_t i = 0; i < n_bad; ++i) logits[i] = bad;
        const DeviceMemory routes = on_device(stream, logits);
        const Routing r{.n_experts = 35, .n_chosen = 4, .sigmoid = sigmoid};
        const CudaExperts of = experts_of(stream, 1, r);
        route(stream, routes.as<float>(), nullptr, r, 1, of.assigned());
        int32_t before = -1;
        for (const int32_t expert : on_host<int32_t>(stream, of.experts)) {
          if (expert == -1) continue;
          EXPECT_GT(expert, before);
          EXPECT_LT(expert, 35);
          before = expert;
        }
      }
    }
  }
}

// Returns the assignments (indices into `experts`) of each expert, in the order of the rows.
std::map<int32_t, std::vector<int32_t>> by_expert(const std::vector<int32_t>& experts) {
  std::map<int32_t, std::vector<int32_t>> lists;
  for (size_t i = 0; i < experts.size(); ++i) {
    if (experts[i] >= 0) lists[experts[i]].push_back(static_cast<int32_t>(i));
  }
  return lists;
}

struct Mixture {
  uint32_t n_experts, n_chosen;
  size_t n_rows;
};
const std::vector<Mixture> kMixtures{{5, 2, 1},    {5, 2, 3},  {5, 2, 70},  {40, 3, 9},
                                     {300, 4, 20}, {8, 8, 33}, {1, 1, 150}, {300, 2, 700}};

TEST(Group, EachAssignmentIsInOneGroup) {
  Stream stream(0);
  for (const Mixture& c : kMixtures) {
    const Routing r{.n_experts = c.n_experts, .n_chosen = c.n_chosen};
    const RoutedRows rows(stream, c.n_rows, r);
    for (const bool again : {false, true}) {
      // Requires that the first call, RoutedRows', reset its counters.
      if (again) group_assignments(stream, rows.of.assigned(), r, c.n_rows, rows.grouped);
      auto lists = by_expert(on_host<int32_t>(stream, rows.of.experts));
      const auto groups = on_host<ExpertGroup>(stream, rows.of.groups);
      const auto assignments = on_host<int32_t>(stream, rows.of.assignments);
      bool ended = false;
      for (const ExpertGroup& g : groups) {
        ASSERT_LE(g.n, rows.grouped.size);
        ended = ended || g.n == 0;
        ASSERT_EQ(g.n == 0, ended) << "those in use come first";
        if (g.n == 0) continue;
        auto& list = lists[g.expert];
        ASSERT_LE(g.n, list.size());
        for (uint32_t i = 0; i < g.n; ++i) ASSERT_EQ(assignments[g.first + i], list[i]);
        list.erase(list.begin(), list.begin() + g.n);
        ASSERT_TRUE(list.empty() || g.n == rows.grouped.size);
      }
      for (const auto& [expert, list] : lists) ASSERT_TRUE(list.empty()) << expert;
    }
  }
}

// A stack of random matrices, one for each expert, and the same matrices one by one.
struct Stack {
  Stack(Stream& stream, DType type, size_t n, size_t n_out, size_t k, uint64_t seed) {
    std::vector<uint8_t> bytes;
    for (size_t i = 0; i < n; ++i) {
      each.emplace_back(stream, type, n_out, k, seed + i);
      const auto tiles = on_host<uint8_t>(stream, each.back().memory);
      bytes.insert(bytes.end(), tiles.begin(), tiles.end());
    }
    memory = on_device(stream, bytes);
    matrix = each[0].matrix;
    matrix.data = memory.as<uint8_t>();
  }
  std::vector<test::Weights> each;
  DeviceMemory memory;
  PackedMatrix matrix;
};

class ExpertTypes : public ::testing::TestWithParam<DType> {};
INSTANTIATE_TEST_SUITE_P(Types, ExpertTypes, ::testing::ValuesIn(test::kTypes),
                         [](const auto& info) { return std::string(core::info(info.param).name); });

// For each assignment of a row to an expert, the grouped products and SwiGLU equal, bit for bit, separate products with
// that expert's matrices. So results depend neither on other rows nor on the grouping.
TEST_P(ExpertTypes, AssignmentsMatchSingleMatmuls) {
  Stream stream(0);
  const size_t block = core::info(GetParam()).block_elements;
  const size_t dim = block == 1 ? 33 : block;
  const size_t width = block == 1 ? 21 : block;
  for (const Mixture& c : {Mixture{5, 2, 1}, Mixture{5, 2, 13}, Mixture{3, 2, 67}}) {
    const Routing r{.n_experts = c.n_experts, .n_chosen = c.n_chosen};
    const Stack gate(stream, GetParam(), c.n_experts, width, dim, 1);
    const Stack up(stream, GetParam(), c.n_experts, width, dim, 50);
    const Stack down(stream, GetParam(), c.n_experts, dim, width, 100);
    const RoutedRows routed(stream, c.n_rows, r);
    const Grouped& grouped = routed.grouped;
    const auto rows = random_floats(c.n_rows * dim, 4);
    const size_t n_assignments = c.n_rows * c.n_chosen;
    const DeviceMemory x = on_device(stream, rows);
    const DeviceMemory gates = unwritten(stream, n_assignments * width * sizeof(float));
    const DeviceMemory ups = unwritten(stream, n_assignments * width * sizeof(float));
    const DeviceMemory outs = unwritten(stream, n_assignments * dim * sizeof(float));
    const test::Packing in(stream, grouped.slots(), dim, gate.matrix.kind);
    const test::Packing middle(stream, grouped.slots(), width, gate.matrix.kind);
    const std::array products{Matmul{.weight = gate.matrix, .out = gates.as<float>()},
                              Matmul{.weight = up.matrix, .out = ups.as<float>()}};
    pack_assignments(stream, x.as<float>(), c.n_chosen, grouped, in.view);
    multiply_experts(stream, in.view, products.data(), 2, grouped);
    activate_assignments(stream, Activation::Silu, gates.as<float>(), ups.as<float>(), grouped, middle.view);
    const Matmul last{.weight = down.matrix, .out = outs.as<float>()};
    multiply_experts(stream, middle.view, &last, 1, grouped);

    const auto experts = on_host<int32_t>(stream, routed.of.experts);
    const auto got_gates = on_host<float>(stream, gates);
    const auto got = on_host<float>(stream, outs);
    for (size_t i = 0; i < n_assignments; ++i) {
      const auto e = static_cast<size_t>(experts[i]);
      const auto row = rows.begin() + static_cast<ptrdiff_t>(i / c.n_chosen * dim);
      const test::Inputs one(stream, {row, row + static_cast<ptrdiff_t>(dim)}, dim, gate.matrix.kind);
      const auto up_of = test::product(stream, one, up.each[e]);
      auto hidden = test::product(stream, one, gate.each[e]);
      kernels::reference::swiglu(hidden.data(), up_of.data(), width, hidden.data());
      ASSERT_TRUE(same_bits(std::span(got_gates).subspan(i * width, width), hidden))
          << c.n_rows << ", assignment " << i;
      const test::Inputs two(stream, hidden, width, down.matrix.kind);
      ASSERT_TRUE(same_bits(std::span(got).subspan(i * dim, dim), test::product(stream, two, down.each[e])))
          << c.n_rows << ", assignment " << i;
    }
    // Packing SwiGLU's stored output in a separate step gives the same packed inputs as activate_assignments().
    const test::Packing apart(stream, grouped.slots(), width, gate.matrix.kind);
    const DeviceMemory again = unwritten(stream, outs.bytes());
    pack_assignments(stream, gates.as<float>(), 1, grouped, apart.view);
    const Matmul same{.weight = down.matrix, .out = again.as<float>()};
    multiply_experts(stream, apart.view, &same, 1, grouped);
    EXPECT_TRUE(same_bits(on_host<float>(stream, again), got));
  }
}

// A head's output must begin with the product of the head's first k elements and its matrix, equal bit for bit to a
// separate product. If out_dim is larger, the head's next elements are copied after the product.
TEST_P(ExpertTypes, HeadsMatchSingleMatmuls) {
  Stream stream(0);
  constexpr size_t kHeads = 3;
  const size_t block = core::info(GetParam()).block_elements;
  const size_t k = block == 1 ? 33 : block;
  const size_t n_out = block == 1 ? 21 : block;
  const Stack stack(stream, GetParam(), kHeads, n_out, k, 1);
  for (const auto& [n_rows, copied] : {std::pair{1U, 6U}, {1U, 0U}, {8U, 6U}, {9U, 6U}, {70U, 6U}}) {
    const size_t in_dim = k + 6;
    const size_t out_dim = n_out + copied;
    const auto rows = random_floats(n_rows * kHeads * in_dim, 4);
    const DeviceMemory in = on_device(stream, rows);
    const DeviceMemory out = unwritten(stream, n_rows * kHeads * out_dim * sizeof(float));
    const HeadsProduct product{.weight = stack.matrix,
                               .in = in.as<float>(),
                               .out = out.as<float>(),
                               .in_dim = static_cast<uint32_t>(in_dim),
                               .out_dim = static_cast<uint32_t>(out_dim),
                               .n_heads = kHeads,
                               .n_rows = n_rows};
    const test::Packing x(stream, kHeads * product.padded_rows(), k, stack.matrix.kind);
    multiply_heads(stream, product, x.view);
    const auto got = on_host<float>(stream, out);
    for (size_t i = 0; i < n_rows * kHeads; ++i) {
      const auto head = rows.begin() + static_cast<ptrdiff_t>(i * in_dim);
      const test::Inputs one(stream, {head, head + static_cast<ptrdiff_t>(k)}, k, stack.matrix.kind);
      auto expected = test::product(stream, one, stack.each[i % kHeads]);
      expected.insert(expected.end(), head + static_cast<ptrdiff_t>(k), head + static_cast<ptrdiff_t>(k + copied));
      ASSERT_TRUE(same_bits(std::span(got).subspan(i * out_dim, out_dim), expected)) << n_rows << " rows, at " << i;
    }
  }
}

TEST(Experts, DoNotDependOnThreadOrder) {
  Stream stream(0);
  const Routing r{.n_experts = 20, .n_chosen = 3};
  const Stack stack(stream, DType::Q8_0, r.n_experts, 40, 64, 1);
  for (const size_t n_rows : {3U, 40U}) {
    host::require_same_in_all_orders(
        [&] {
          const RoutedRows rows(stream, n_rows, r);
          const DeviceMemory x = on_device(stream, random_floats(n_rows * 64, 4));
          const DeviceMemory out = unwritten(stream, n_rows * r.n_chosen * 40 * sizeof(float));
          const test::Packing in(stream, rows.grouped.slots(), 64, stack.matrix.kind);
          pack_assignments(stream, x.as<float>(), r.n_chosen, rows.grouped, in.view);
          const Matmul product{.weight = stack.matrix, .out = out.as<float>()};
          multiply_experts(stream, in.view, &product, 1, rows.grouped);
          return test::bytes_of(stream, {&rows.routes, &rows.of.experts, &rows.of.weights, &rows.of.groups, &out});
        },
        1);
  }
}

// A grid has at most 65,535 blocks in y and z.
TEST(Experts, AddsBiasesToMoreAssignmentsThanAGridHasBlocksInY) {
  Stream stream(0);
  const size_t n = 65'536;
  const DeviceMemory x = on_device(stream, std::vector<float>(n, 1.0F));
  const DeviceMemory biases = on_device(stream, std::vector<float>{2.0F});
  const DeviceMemory experts = on_device(stream, std::vector<int32_t>(n, 0));
  add_biases(stream, x.as<float>(), biases.as<float>(), {experts.as<int32_t>(), nullptr}, n, 1);
  EXPECT_EQ(on_host<float>(stream, x), std::vector<float>(n, 3.0F));
}

TEST(Experts, CombinesExpertsInOrder) {
  Stream stream(0);
  for (const size_t dim : test::kSizes) {
    const size_t n_rows = 3;
    const size_t n_chosen = 5;
    std::vector<int32_t> experts(n_rows * n_chosen, 1);
    experts[n_chosen + 4] = -1;  // row 1 selects only four experts
    const auto weights = random_floats(n_rows * n_chosen, 2);
    const auto outs = random_floats(n_rows * n_chosen * dim, 3);
    auto expected = random_floats(n_rows * dim, 4);
    const DeviceMemory x = on_device(stream, expected);
    for (size_t i = 0; i < n_rows * n_chosen; ++i) {
      for (size_t d = 0; d < dim && experts[i] >= 0; ++d)
        expected[i / n_chosen * dim + d] += weights[i] * outs[i * dim + d];
    }
    const DeviceMemory device_experts = on_device(stream, experts);
    const DeviceMemory device_weights = on_device(stream, weights);
    const DeviceMemory device_outs = on_device(stream, outs);
    combine_experts(stream, x.as<float>(), device_outs.as<float>(), nullptr,
                    {device_experts.as<int32_t>(), device_weights.as<float>()}, n_chosen, n_rows, dim);
    EXPECT_TRUE(same_bits(on_host<float>(stream, x), expected)) << dim;
  }
}

// The tolerance is the error of a sum of dim terms times the sigmoid's slope (at most 1/4), plus 8 further roundings.
TEST(Experts, GatesEachRow) {
  Stream stream(0);
  for (const size_t dim : test::kSizes) {
    const size_t n = dim + 3;
    const auto x = random_floats(4 * n, 1);
    const auto normed = random_floats(4 * dim, 2);
    const auto weight = random_floats(dim, 3);
    const DeviceMemory device_x = on_device(stream, x);
    const DeviceMemory device_normed = on_device(stream, normed);
    const DeviceMemory device_weight = on_device(stream, weight);
    gate_rows(stream, device_x.as<float>(), n, device_normed.as<float>(), device_weight.as<float>(), 4, dim);
    const auto got = on_host<float>(stream, device_x);
    for (size_t row = 0; row < 4; ++row) {
      double sum = 0.0;
      double magnitudes = 0.0;
      for (size_t i = 0; i < dim; ++i) {
        const double product = static_cast<double>(normed[row * dim + i]) * weight[i];
        sum += product;
        magnitudes += std::abs(product);
      }
      const double gate = 1.0 / (1.0 + std::exp(-sum));
      const double error = magnitudes * static_cast<double>(dim) * 0x1p-24 / 4.0 + 8 * 0x1p-24;
      for (size_t i = 0; i < n; ++i) ASSERT_NEAR(got[row * n + i], x[row * n + i] * gate, error) << dim;
    }
  }
}

}  // namespace
}  // namespace folio::infer::gpu
