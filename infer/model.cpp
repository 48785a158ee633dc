#include "infer/model.h"

#include "core/error.h"
#include "core/manifest.h"
#include "core/model_files.h"

namespace folio::infer {

Model::Model(const std::filesystem::path& path) : file_(path), config_(core::config_from_gguf(file_)) {
  const auto manifest = core::tensor_manifest(config_);
  const auto views = core::manifest_tensors(file_, config_);
  layers.resize(static_cast<size_t>(config_.n_layers));
  for (size_t i = 0; i < manifest.size(); ++i) {
    core::require(views[i].type == core::DType::F32,
                  "{}: tensor {} has type {}, but this engine runs F32 weights; export the model with --type f32",
                  path.string(), views[i].name, core::info(views[i].type).name);
    weight_bytes_ += views[i].bytes.size();
    const float* data = views[i].floats().data();
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
