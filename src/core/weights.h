// A model's weights, independent of the file format: one tensor per entry of the manifest, in manifest order, with the
// rows of Wq and Wk ordered by the family's RopePairs. Readers return a StoredModel, training uses Weights, and writers
// accept views.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/formats/generation_config.h"
#include "core/manifest.h"
#include "core/model_config.h"
#include "core/tensor_view.h"

namespace folio::core {

class GgufFile;
class MappedFile;

/// All weights of a model in memory as F32.
struct Weights {
  ModelConfig config;
  std::vector<std::vector<float>> tensors{};

  /// Returns views of the tensors, with their GGUF names.
  [[nodiscard]] std::vector<TensorView> views() const;
};

/// File formats; llama2.c has three versions.
enum class ModelFormat { Gguf, HuggingFace, Llama2cV0, Llama2cV1, Llama2cV2 };

/// Returns the name of a format: "GGUF", "Hugging Face", "llama2.c v0", …
[[nodiscard]] std::string_view format_name(ModelFormat format);

/// Returns true for llama2.c's formats, whose files contain no tokenizer.
[[nodiscard]] bool is_llama2c(ModelFormat format);

/// A model read from files. Tensors are views of the mapped files, or copies if a file stores them in another layout.
struct StoredModel {
  std::string path;
  ModelFormat format;
  ModelConfig config;
  std::vector<TensorView> tensors{};                   ///< in manifest order, with their names in the file
  std::vector<std::shared_ptr<const void>> storage{};  ///< owns the bytes of copies
  std::shared_ptr<const GgufFile> gguf{};              ///< the GGUF file, with the tokenizer; null for other formats
  std::vector<std::shared_ptr<const MappedFile>> files{};
  GenerationConfig generation{};  ///< empty unless assigned from read_generation_config()

  /// Returns true if the tensor's bytes are part of a mapped file.
  [[nodiscard]] bool maps(const TensorView& tensor) const;
  /// Releases the memory of the tensor's mapped pages. Later reads load them from the file again.
  void release(const TensorView& tensor) const;
};

/// Throws Error that names the tensor unless it has a type for weights: F32, F16, BF16, or a block type of quants.h.
/// `where` is the file, or empty.
void require_weight_type(const TensorView& tensor, const std::string& where);

/// Returns a tensor's exact values as floats. Throws Error unless the tensor has a type for weights.
[[nodiscard]] std::vector<float> to_floats(const TensorView& tensor);

/// Returns copies of all tensors as floats.
[[nodiscard]] Weights to_weights(const StoredModel& model);

/// Returns a copy of the model with a reordered vocabulary: row i of the embedding (and the output) is row
/// source_row[i] of `model`. Throws Error if a row is out of range.
[[nodiscard]] StoredModel with_vocabulary(const StoredModel& model, std::span<const int32_t> source_row);

/// Returns a smaller model of the same width: the embedding, the first `n_layers` layers (at most as many as the model
/// has) and the output, without the multi-token prediction module.
[[nodiscard]] StoredModel with_layers(StoredModel model, int64_t n_layers);

/// Returns a stream that converts matrices to `type` (F32, F16, BF16 or one that quantize() writes) and vectors to F32.
/// Tensors are converted on all cores when their bytes are requested. Throws Error that names the tensor if its rows
/// are not whole blocks or, when its bytes are requested, if a finite value is too large for the type.
[[nodiscard]] TensorStream stream_as(TensorStream stream, DType type);

/// Returns a stream that converts tensor i to types[i], such as uniform_types() or mixture_types() for a whole model.
[[nodiscard]] TensorStream stream_as(TensorStream stream, std::span<const DType> types);

}  // namespace folio::core
