#include "infer/model/model.h"

#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <new>
#include <utility>

#include "core/formats/gguf.h"
#include "core/formats/model_files.h"
#include "core/quants.h"
#include "infer/cpu/repack.h"

namespace folio::infer {
namespace {

bool in_blocks(const core::TensorView& tensor) {
  return tensor.shape.size() > 1 && core::quant_info(tensor.type) != nullptr;
}

// Memory for all groups: on large pages where the system has them, since decoding walks through all of it.
uint8_t* allocate(size_t bytes) {
  constexpr size_t kLargePage = size_t{2} << 20U;
  const size_t whole = (bytes + kLargePage - 1) / kLargePage * kLargePage;
  void* memory = std::aligned_alloc(kLargePage, whole);
  if (memory == nullptr) throw std::bad_alloc();
  ::madvise(memory, whole, MADV_HUGEPAGE);
  return static_cast<uint8_t*>(memory);
}

}  // namespace

void Model::Free::operator()(uint8_t* p) const { std::free(p); }

Model::Model(const std::filesystem::path& path, size_t n_threads) : Model(core::read_model(path), n_threads) {}

Model::Model(core::StoredModel stored, size_t n_threads) : stored_(std::move(stored)) {
  const auto start = std::chrono::steady_clock::now();
  const auto manifest = core::tensor_manifest(config());
  layers.resize(static_cast<size_t>(config().n_layers));
  for (const core::TensorView& tensor : stored_.tensors) repacked_bytes_ += in_blocks(tensor) ? group_bytes(tensor) : 0;
  std::unique_ptr<core::ThreadPool> pool;
  if (repacked_bytes_ > 0) {
    repacked_.reset(allocate(repacked_bytes_));
    pool = std::make_unique<core::ThreadPool>(n_threads);
  }
  size_t offset = 0;
  for (size_t i = 0; i < manifest.size(); ++i) {
    const core::TensorView& tensor = stored_.tensors[i];
    const bool is_matrix = tensor.shape.size() > 1;
    place(manifest[i], tensor,
          !is_matrix          ? Matrix{}
          : in_blocks(tensor) ? groups(tensor, *pool, offset)
                              : matrix(tensor));
  }
  if (config().tie_embeddings) output = token_embedding;
  weight_bytes_ += repacked_bytes_;
  if (repacked_bytes_ > 0) {
    repack_seconds_ = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }
}

void Model::place(const core::TensorSpec& spec, const core::TensorView& tensor, const Matrix& matrix) {
  LayerWeights* layer = spec.layer < 0 ? nullptr : &layers[static_cast<size_t>(spec.layer)];
  switch (spec.role) {
    case core::Role::TokenEmbedding:
      token_embedding = matrix;
      break;
    case core::Role::AttentionNorm:
      layer->attention_norm = vector(tensor);
      break;
    case core::Role::Wq:
      layer->wq = matrix;
      break;
    case core::Role::Wk:
      layer->wk = matrix;
      break;
    case core::Role::Wv:
      layer->wv = matrix;
      break;
    case core::Role::Wo:
      layer->wo = matrix;
      break;
    case core::Role::FfnNorm:
      layer->ffn_norm = vector(tensor);
      break;
    case core::Role::W1:
      layer->w1 = matrix;
      break;
    case core::Role::W3:
      layer->w3 = matrix;
      break;
    case core::Role::W2:
      layer->w2 = matrix;
      break;
    case core::Role::OutputNorm:
      output_norm = vector(tensor);
      break;
    case core::Role::Output:
      output = matrix;
      break;
  }
}

const float* Model::vector(const core::TensorView& tensor) {
  const std::vector<float> values = core::to_floats(tensor);
  const auto bytes = std::as_bytes(std::span(values));
  copies_.emplace_back(bytes.begin(), bytes.end());
  weight_bytes_ += bytes.size();
  return reinterpret_cast<const float*>(copies_.back().data());
}

Matrix Model::matrix(const core::TensorView& tensor) {
  const size_t size = core::info(tensor.type).block_bytes;
  const std::byte* data = tensor.bytes.data();
  if (reinterpret_cast<uintptr_t>(data) % size != 0) {
    copies_.emplace_back(tensor.bytes.begin(), tensor.bytes.end());
    data = copies_.back().data();
  }
  weight_bytes_ += tensor.bytes.size();
  Matrix m{.weights = reinterpret_cast<const float*>(data),
           .n_out = static_cast<size_t>(tensor.shape[0]),
           .k = static_cast<size_t>(tensor.shape[1])};
  if (tensor.type == core::DType::F16) m.weights = reinterpret_cast<const kernels::F16*>(data);
  if (tensor.type == core::DType::BF16) m.weights = reinterpret_cast<const kernels::BF16*>(data);
  return m;
}

Matrix Model::groups(const core::TensorView& tensor, core::ThreadPool& pool, size_t& offset) {
  const size_t bytes = group_bytes(tensor);
  const Matrix m{.weights = repack(tensor, {repacked_.get() + offset, bytes}, pool),
                 .n_out = static_cast<size_t>(tensor.shape[0]),
                 .k = static_cast<size_t>(tensor.shape[1])};
  if (stored_.gguf) stored_.gguf->release(tensor);
  offset += bytes;
  return m;
}

}  // namespace folio::infer
