#include "infer/cpu/cpu_adapters.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <utility>

#include "infer/cpu/cpu.h"

namespace folio::infer {
namespace {

using core::Role;

// Returns the matrices that share an input in forward(), one list per input.
const std::array<std::vector<Role>, 5>& roles_of_inputs() {
  static const std::array<std::vector<Role>, 5> all{{{Role::Wq, Role::Wk, Role::Wv, Role::WqA, Role::WkvA},
                                                     {Role::WqB},
                                                     {Role::Wo},
                                                     {Role::W1, Role::W3},
                                                     {Role::W2}}};
  return all;
}

// Prefetches elements [begin, end) into L2. The ranges are too short for the hardware prefetcher.
void prefetch(const auto& numbers, size_t begin, size_t end) {
  std::visit(
      [&](const auto& all) {
        constexpr size_t kLine = 64 / sizeof(all[0]);
        for (size_t i = begin; i < end; i += kLine) __builtin_prefetch(&all[i], 0, 2);
      },
      numbers);
}

using Floats = core::AlignedVector<float>;

// Factors that scale an adapter's matrices before rounding to 8 bits: row j of a is multiplied by per_a[j], and column
// j of b by per_b[j]. Dividing element j of t = x · aᵀ by both factors undoes this. All are 1 without rounding to 8
// bits.
struct Steps {
  explicit Steps(size_t rank) : per_a(rank, 1.0F), per_b(rank, 1.0F) {}
  std::vector<float> per_a, per_b;
};

bool is_finite(const core::Adapter::Part& part) {
  const auto finite = [](float x) { return std::isfinite(x); };
  return std::ranges::all_of(part.a, finite) && std::ranges::all_of(part.b, finite);
}

// Computes the factors for rounding to 8 bits. Uses all rows of b, so that ranks with different rows of b use the same
// factors.
Steps steps_of(const core::Adapter::Part& part) {
  constexpr float kMost = 127.0F;
  constexpr float kTiny = 1e-30F;  // lower limit of a maximum, so that factors are finite
  Steps largest(part.rank);
  std::ranges::fill(largest.per_a, kTiny);
  std::ranges::fill(largest.per_b, kTiny);
  const size_t k = part.a.size() / part.rank;
  for (size_t i = 0; i < part.a.size(); ++i) largest.per_a[i / k] = std::max(largest.per_a[i / k], std::abs(part.a[i]));
  for (size_t i = 0; i < part.b.size(); ++i) {
    float& most = largest.per_b[i % part.rank];
    most = std::max(most, std::abs(part.b[i]));
  }
  for (auto* all : {&largest.per_a, &largest.per_b}) {
    for (float& x : *all) x = kMost / x;
  }
  return largest;
}

// Returns the rows of b for the matrix's outputs, with column j times steps.per_b[j], in tiles of 16 rows:
// (ceil(n_out / 16), rank, 16), padded with zeros, as Kernels::add_low_rank reads them.
Floats panels_of(const core::Adapter::Part& part, const Steps& steps, const Matrix& matrix) {
  Floats b(in_lanes(matrix.n_out) * part.rank);
  for (size_t i = 0; i < matrix.n_out; ++i) {
    const size_t panel = i / kernels::kLanes * part.rank;
    for (size_t j = 0; j < part.rank; ++j) {
      b[(panel + j) * kernels::kLanes + i % kernels::kLanes] =
          part.b[(matrix.first + i) * part.rank + j] * steps.per_b[j];
    }
  }
  return b;
}

// Rounds to the nearest integer, ties to even.
core::AlignedVector<kernels::Q8> rounded(const Floats& floats) {
  core::AlignedVector<kernels::Q8> quants(floats.size());
  std::ranges::transform(floats, quants.begin(),
                         [](float x) { return kernels::Q8{static_cast<int8_t>(std::nearbyint(x))}; });
  return quants;
}

std::variant<Floats, core::AlignedVector<kernels::BF16>, core::AlignedVector<kernels::Q8>> as_floats_or_bf16(
    Floats floats) {
  const bool fits = std::ranges::all_of(floats, [](float x) { return (std::bit_cast<uint32_t>(x) & 0xFFFFU) == 0; });
  if (!fits) return floats;
  core::AlignedVector<kernels::BF16> halves(floats.size());
  std::ranges::transform(floats, halves.begin(), [](float x) {
    return kernels::BF16{static_cast<uint16_t>(std::bit_cast<uint32_t>(x) >> 16U)};
  });
  return halves;
}

}  // namespace

void CpuAdapters::load(int32_t number, const core::Adapter& adapter, LayerRange layers, const CpuWeights& weights) {
  std::map<std::pair<int64_t, Role>, const core::Adapter::Part*> by_place;
  for (const core::Adapter::Part& part : adapter.parts) by_place[{part.layer, part.role}] = &part;
  Loaded own;
  for (int64_t layer = layers.first; layer < layers.last; ++layer) {
    for (const auto& roles : roles_of_inputs()) {
      std::vector<const core::Adapter::Part*> parts;
      bool narrow = true;
      for (const Role role : roles) {
        const auto found = by_place.find({layer, role});
        if (found == by_place.end()) continue;
        parts.push_back(found->second);
        narrow = narrow && weights.matrix(weights.by_role()(role, layer)).in_groups() && is_finite(*found->second);
      }
      if (parts.empty()) continue;
      auto input = std::make_unique<Input>();
      core::AlignedVector<float> a;
      for (const core::Adapter::Part* part : parts) {
        const WeightId id = weights.by_role()(part->role, layer);
        const Steps steps = narrow ? steps_of(*part) : Steps(part->rank);
        core::AlignedVector<float> b = panels_of(*part, steps, weights.matrix(id));
        for (size_t i = 0; i < part->a.size(); ++i)
          a.push_back(part->a[i] * steps.per_a[i / (part->a.size() / part->rank)]);
        input->parts.push_back({.weight = id.index, .rank = part->rank, .first = input->n_t(), .b = {}});
        input->parts.back().b = narrow ? Numbers(rounded(b)) : as_floats_or_bf16(std::move(b));
        for (size_t j = 0; j < part->rank; ++j) input->scales.push_back(part->scale / steps.per_a[j] / steps.per_b[j]);
        if (own.of.size() <= static_cast<size_t>(id.index)) own.of.resize(static_cast<size_t>(id.index) + 1);
        own.of[static_cast<size_t>(id.index)] = input.get();
      }
      input->a = narrow ? Numbers(rounded(a)) : as_floats_or_bf16(std::move(a));
      own.inputs.push_back(std::move(input));
    }
  }
  adapters_[number] = std::move(own);
}

void CpuAdapters::begin(std::span<const StepRow> rows) {
  groups_.clear();
  for (size_t i = 0; i < rows.size(); ++i) {
    if (rows[i].adapter == kNoAdapter) continue;
    const Loaded* adapter = &adapters_.at(rows[i].adapter);
    // Searches from the last group, which usually matches because the rows of a sequence are adjacent.
    auto group = std::find_if(groups_.rbegin(), groups_.rend(), [&](const Group& g) { return g.adapter == adapter; });
    if (group == groups_.rend()) {
      groups_.push_back({.adapter = adapter, .rows = {}});
      group = groups_.rbegin();
    }
    group->adjacent = group->adjacent && (group->rows.empty() || group->rows.back() + 1 == i);
    group->rows.push_back(i);
  }
}

void CpuAdapters::project(core::ThreadPool& pool, const kernels::Kernels& kernels,
                          std::span<const Projection> projections, const float* x, size_t k) {
  size_t n_t = 0;         // total number of elements of the groups' products t = x · aᵀ
  size_t n_columns = 0;   // total number of columns of these products
  size_t n_gathered = 0;  // rows of x to copy, for groups whose rows are not consecutive
  for (Group& group : groups_) {
    group.input = nullptr;
    for (const Projection& p : projections) {
      const auto id = static_cast<size_t>(p.weight.index);
      if (id < group.adapter->of.size() && group.adapter->of[id] != nullptr) group.input = group.adapter->of[id];
    }
    if (group.input == nullptr) continue;
    group.first_t = n_t;
    n_t += group.rows.size() * group.input->n_t();
    n_columns += group.input->n_t();
    if (!group.adjacent) n_gathered += group.rows.size();
  }
  if (n_t == 0) return;
  t_.resize(std::max(t_.size(), n_t));
  gathered_.resize(std::max(gathered_.size(), n_gathered * k));
  float* to = gathered_.data();
  for (Group& group : groups_) {
    if (group.input == nullptr) continue;
    group.x = group.adjacent ? x + group.rows.front() * k : to;
    for (size_t i = 0; i < group.rows.size() && !group.adjacent; ++i, to += k)
      std::copy_n(x + group.rows[i] * k, k, to);
  }
  // Computes columns [from, until) of t = scale · x · aᵀ for a group's rows.
  const auto sums = [&](const Group& group, size_t from, size_t until) {
    const Input& input = *group.input;
    const size_t n = group.rows.size();
    float* t = t_.data() + group.first_t;
    std::visit(
        [&](const auto& a) {
          const auto multiply = [&](const auto& kernel) {
            kernel(group.x, n, a.data(), k, from, until, t, input.n_t(), false);
          };
          n <= 16 ? multiply(kernels.matmul_near) : multiply(kernels.matmul);  // matmul_near is for few rows
        },
        input.a);
    for (size_t row = 0; row < n; ++row) {
      for (size_t j = from; j < until; ++j) t[row * input.n_t() + j] *= input.scales[j];
    }
  };
  constexpr size_t kGrain = 4;
  pool.parallel_for(n_columns, kGrain, n_t * k / kWorthAThread, [&](size_t begin, size_t end) {
    size_t first = 0;
    const Group* before = nullptr;  // the previous group, multiplied while the current group's matrix a is prefetched
    size_t begin_before = 0;
    size_t end_before = 0;
    for (const Group& group : groups_) {
      if (group.input == nullptr) continue;
      const size_t n = group.input->n_t();
      const size_t from = std::max(begin, first);
      const size_t until = std::min(end, first + n);
      if (from < until) {
        prefetch(group.input->a, (from - first) * k, (until - first) * k);
        if (before != nullptr) sums(*before, begin_before, end_before);
        before = &group;
        begin_before = from - first;
        end_before = until - first;
      }
      first += n;
    }
    if (before != nullptr) sums(*before, begin_before, end_before);
  });
}

void CpuAdapters::add(const kernels::Kernels& kernels, WeightId weight, size_t begin, size_t end, float* out,
                      size_t stride) const {
  const auto add_part = [&](const Group& group, const Part& part) {
    const float* t = t_.data() + group.first_t + part.first;
    for (const size_t row : group.rows) {
      float* to = out + row * stride + begin;
      std::visit(
          [&](const auto& b) { kernels.add_low_rank(t, part.rank, b.data() + begin * part.rank, end - begin, to); },
          part.b);
      t += group.input->n_t();
    }
  };
  const size_t until = in_lanes(end);
  const Group* before = nullptr;
  const Part* part_before = nullptr;
  for (const Group& group : groups_) {
    if (group.input == nullptr) continue;
    for (const Part& part : group.input->parts) {
      if (part.weight != weight.index) continue;
      prefetch(part.b, begin * part.rank, until * part.rank);
      if (before != nullptr) add_part(*before, *part_before);
      before = &group;
      part_before = &part;
    }
  }
  if (before != nullptr) add_part(*before, *part_before);
}

}  // namespace folio::infer
