#include "core/adapter.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <set>
#include <utility>

#include "core/error.h"
#include "core/thread_pool.h"

namespace folio::core {
namespace {

// Concatenates two parts along the rank: A = [A1; A2], B = [s1 B1, s2 B2] with the parts' scales s1 and s2, scale = 1.
Adapter::Part concatenated(const Adapter::Part& one, const Adapter::Part& two) {
  Adapter::Part both{
      .role = one.role, .layer = one.layer, .rank = one.rank + two.rank, .scale = 1.0F, .a = one.a, .b = {}};
  both.a.insert(both.a.end(), two.a.begin(), two.a.end());
  both.b.reserve(one.b.size() + two.b.size());
  for (size_t i = 0; i < one.b.size() / one.rank; ++i) {
    for (const Adapter::Part* part : {&one, &two}) {
      for (size_t j = 0; j < part->rank; ++j) both.b.push_back(part->scale * part->b[i * part->rank + j]);
    }
  }
  return both;
}

// Adds scale · B A of `part` to the matrix w (n_out, k).
void add_product(const Adapter::Part& part, std::span<float> w, ThreadPool& pool) {
  const size_t k = part.a.size() / part.rank;
  pool.parallel_for(w.size() / k, 1, [&](size_t begin, size_t end) {
    std::vector<float> row(k);
    for (size_t i = begin; i < end; ++i) {
      std::ranges::fill(row, 0.0F);
      for (size_t r = 0; r < part.rank; ++r) {
        const float b = part.b[i * part.rank + r];
        const float* a = part.a.data() + r * k;
        for (size_t j = 0; j < k; ++j) row[j] += b * a[j];
      }
      for (size_t j = 0; j < k; ++j) w[i * k + j] += part.scale * row[j];
    }
  });
}

}  // namespace

float AdapterInfo::scale(float factor) const {
  const auto r = static_cast<double>(rank);
  return static_cast<float>(factor * alpha / (by_root ? std::sqrt(r) : r));
}

std::vector<TensorSpec> adaptable_matrices(const ModelConfig& config) {
  std::vector<TensorSpec> matrices = tensor_manifest(config);
  std::erase_if(matrices, [&](const TensorSpec& spec) {
    return spec.layer < 0 || spec.layer >= config.n_layers || !spec.is_matrix() || spec.is_stack() || spec.is_fused() ||
           spec.role == Role::Router;
  });
  return matrices;
}

const Adapter::Part* Adapter::find(Role role, int64_t layer) const {
  const auto found =
      std::ranges::find_if(parts, [&](const Part& part) { return part.role == role && part.layer == layer; });
  return found == parts.end() ? nullptr : &*found;
}

const TensorSpec& matrix_of(const Adapter::Part& part, std::span<const TensorSpec> matrices, const std::string& where) {
  const auto found = std::ranges::find_if(
      matrices, [&](const TensorSpec& spec) { return spec.role == part.role && spec.layer == part.layer; });
  require(found != matrices.end(), "{}: the model has no layer {}", where, part.layer);
  return *found;
}

std::vector<Role> roles_of(const Adapter& adapter) {
  std::set<Role> roles;
  for (const Adapter::Part& part : adapter.parts) roles.insert(part.role);
  return {roles.begin(), roles.end()};
}

void require_parts_of(const Adapter& adapter, const AdapterInfo& info, const std::string& where) {
  for (const Adapter::Part& part : adapter.parts) {
    require(std::cmp_equal(part.rank, info.rank) && part.scale == info.scale(),
            "{}: a part has rank {} and scale {}, but the adapter has {} and {}", where, part.rank, part.scale,
            info.rank, info.scale());
  }
}

Adapter sum_of(std::span<const Adapter> adapters) {
  Adapter sum = adapters.front();
  for (const Adapter& adapter : adapters.subspan(1)) {
    sum.path += " and " + adapter.path;
    for (const Adapter::Part& part : adapter.parts) {
      const auto found = std::ranges::find_if(
          sum.parts, [&](const Adapter::Part& p) { return p.role == part.role && p.layer == part.layer; });
      if (found == sum.parts.end()) {
        sum.parts.push_back(part);
      } else {
        *found = concatenated(*found, part);
        require(found->rank <= kMaxAdapterRank, "{}: the combined rank is {}, but must be at most {}", sum.path,
                found->rank, kMaxAdapterRank);
      }
    }
  }
  std::ranges::stable_sort(sum.parts, {}, [](const Adapter::Part& p) { return std::pair(p.layer, p.role); });
  return sum;
}

TensorStream merged(const StoredModel& model, std::span<const Adapter> adapters) {
  std::vector<TensorView> headers = model.tensors;
  std::vector<std::vector<const Adapter::Part*>> parts(headers.size());
  const auto manifest = tensor_manifest(model.config);
  for (size_t i = 0; i < manifest.size(); ++i) {
    for (const Adapter& adapter : adapters) {
      if (const auto* part = adapter.find(manifest[i].role, manifest[i].layer)) parts[i].push_back(part);
    }
    if (!parts[i].empty()) headers[i].type = DType::F32;
  }
  const auto pool = std::make_shared<ThreadPool>();
  return {headers, [parts, pool, from = model.tensors, buffer = std::vector<float>()](size_t i) mutable {
            if (parts[i].empty()) return from[i].bytes;
            buffer = to_floats(from[i]);
            for (const Adapter::Part* part : parts[i]) add_product(*part, buffer, *pool);
            return std::as_bytes(std::span<const float>(buffer));
          }};
}

}  // namespace folio::core
