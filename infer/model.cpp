#include "infer/model.h"

#include <utility>

#include "core/model_files.h"

namespace folio::infer {

namespace {

bool usable_in_place(const core::TensorView& tensor) {
  return tensor.type == core::DType::F32 && reinterpret_cast<uintptr_t>(tensor.bytes.data()) % alignof(float) == 0;
}

}  // namespace

Model::Model(const std::filesystem::path& path) : Model(core::read_model(path)) {}

Model::Model(core::StoredModel stored) : stored_(std::move(stored)) {
  const auto manifest = core::tensor_manifest(config());
  const auto& tensors = stored_.tensors;
  layers.resize(static_cast<size_t>(config().n_layers));
  for (size_t i = 0; i < manifest.size(); ++i) {
    if (!usable_in_place(tensors[i])) copies_.push_back(core::to_floats(tensors[i]));
    const float* data = usable_in_place(tensors[i]) ? tensors[i].floats().data() : copies_.back().data();
    weight_bytes_ += static_cast<uint64_t>(manifest[i].elements()) * sizeof(float);
    LayerWeights* layer = manifest[i].layer < 0 ? nullptr : &layers[static_cast<size_t>(manifest[i].layer)];
    switch (manifest[i].role) {
      case core::Role::TokenEmbedding:
        token_embedding = data;
        break;
      case core::Role::AttentionNorm:
        layer->attention_norm = data;
        break;
      case core::Role::Wq:
        layer->wq = data;
        break;
      case core::Role::Wk:
        layer->wk = data;
        break;
      case core::Role::Wv:
        layer->wv = data;
        break;
      case core::Role::Wo:
        layer->wo = data;
        break;
      case core::Role::FfnNorm:
        layer->ffn_norm = data;
        break;
      case core::Role::W1:
        layer->w1 = data;
        break;
      case core::Role::W3:
        layer->w3 = data;
        break;
      case core::Role::W2:
        layer->w2 = data;
        break;
      case core::Role::OutputNorm:
        output_norm = data;
        break;
      case core::Role::Output:
        output = data;
        break;
    }
  }
  if (output == nullptr) output = token_embedding;
}

}  // namespace folio::infer
