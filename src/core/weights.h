// A model's weights, apart from any file format: one tensor for each entry of the manifest, in its order, rows of Wq
// and Wk in adjacent RoPE pairs. Readers give a StoredModel, training gives Weights; every writer takes views.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/manifest.h"
#include "core/model_config.h"
#include "core/tensor_view.h"

namespace folio::core {

class GgufFile;

/// All weights of a model in memory, F32.
struct Weights {
  ModelConfig config;
  std::vector<std::vector<float>> tensors;

  /// Views of them under the manifest's GGUF names.
  [[nodiscard]] std::vector<TensorView> views() const;
};

/// What a file is; only of llama2.c's, the versions are told apart.
enum class ModelFormat { Gguf, HuggingFace, Llama2cV0, Llama2cV1, Llama2cV2 };

/// "GGUF", "Hugging Face", "llama2.c v0", …
[[nodiscard]] std::string_view format_name(ModelFormat format);

/// Whether it is one of llama2.c's, which have no tokenizer in them.
[[nodiscard]] bool is_llama2c(ModelFormat format);

/// A model in a file: its tensors where they lie, or copied where the file has them in another layout.
struct StoredModel {
  std::string path;
  ModelFormat format;
  ModelConfig config;
  std::vector<TensorView> tensors;                   ///< with the names that the file gives them
  std::vector<std::shared_ptr<const void>> storage;  ///< what the views look at
  std::shared_ptr<const GgufFile> gguf;              ///< where it is one: its tokenizer is inside
};

/// Whether weights may have the type: F32, F16, BF16, or a block type of quants.h.
[[nodiscard]] bool is_weight_type(DType type);

/// Throws Error that names the tensor and the types that weights may have, unless it is of one of them. `where` is the
/// file, or empty.
void require_weight_type(const TensorView& tensor, const std::string& where);

/// The values of a tensor as floats, exactly. Throws Error for types that weights don't have.
[[nodiscard]] std::vector<float> to_floats(const TensorView& tensor);

/// Copies of all tensors as floats.
[[nodiscard]] Weights to_weights(const StoredModel& model);

/// The same model with other vocabulary rows: row i of the embedding (and of the output) is row source_row[i] of
/// `model`. Throws Error if a source is out of range.
[[nodiscard]] StoredModel with_vocabulary(const StoredModel& model, std::span<const int32_t> source_row);

/// Matrices as `type` (F32, F16, BF16, Q8_0, Q4_0 or Q4_1), vectors (the norms) as F32. With Q4_0 and Q4_1 the
/// embedding and the output are Q8_0. Throws Error that names the tensor if its rows are not whole blocks. Conversion
/// happens as the bytes are asked for, which throws Error that names the tensor if a finite value is too large for the
/// type. `tensors` are in the manifest's order.
[[nodiscard]] TensorStream stream_as(std::vector<TensorView> tensors, DType type);

}  // namespace folio::core
