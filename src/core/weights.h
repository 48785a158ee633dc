// A model's weights, independent of the file format: one tensor for each entry of the manifest, in its order, with the
// rows of Wq and Wk as the family's RopePairs say. Readers return a StoredModel, training has Weights; writers take
// views.
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

/// All weights of a model in memory, F32.
struct Weights {
  ModelConfig config;
  std::vector<std::vector<float>> tensors;

  /// Views of the tensors, named as in a GGUF.
  [[nodiscard]] std::vector<TensorView> views() const;
};

/// The file formats; llama2.c has three versions.
enum class ModelFormat { Gguf, HuggingFace, Llama2cV0, Llama2cV1, Llama2cV2 };

/// "GGUF", "Hugging Face", "llama2.c v0", …
[[nodiscard]] std::string_view format_name(ModelFormat format);

/// Whether it is a llama2.c format. Its files contain no tokenizer.
[[nodiscard]] bool is_llama2c(ModelFormat format);

/// A model in a file. Tensors are views of the mapped files, or copies if these store them in another layout.
struct StoredModel {
  std::string path;
  ModelFormat format;
  ModelConfig config;
  std::vector<TensorView> tensors;                   ///< with their names in the file
  std::vector<std::shared_ptr<const void>> storage;  ///< owns the bytes of copies
  std::shared_ptr<const GgufFile> gguf;              ///< for a GGUF, which contains the tokenizer; otherwise null
  std::vector<std::shared_ptr<const MappedFile>> files{};
  GenerationConfig generation{};  ///< empty until read_generation_config() is asked for it

  /// Whether the tensor is a view of a mapped file.
  [[nodiscard]] bool maps(const TensorView& tensor) const;
  /// Releases the memory of its pages where it is: see MappedFile::release.
  void release(const TensorView& tensor) const;
};

/// Whether weights may have this type: F32, F16, BF16, or a block type of quants.h.
[[nodiscard]] bool is_weight_type(DType type);

/// Throws Error that names the tensor and the permitted types unless the tensor has one of them. `where` is the file,
/// or empty.
void require_weight_type(const TensorView& tensor, const std::string& where);

/// The exact values of a tensor as floats. Throws Error if weights may not have its type.
[[nodiscard]] std::vector<float> to_floats(const TensorView& tensor);

/// Copies of all tensors as floats.
[[nodiscard]] Weights to_weights(const StoredModel& model);

/// A copy of the model with its vocabulary reordered: row i of the embedding (and of the output) is row source_row[i]
/// of `model`. Throws Error if a row is out of range.
[[nodiscard]] StoredModel with_vocabulary(const StoredModel& model, std::span<const int32_t> source_row);

/// The model's first layers alone, with its embedding and output: a small model of the same widths. n_layers is at most
/// the model's.
[[nodiscard]] StoredModel with_layers(StoredModel model, int64_t n_layers);

/// Matrices as `type` (F32, F16, BF16 or one that quantize() writes), vectors (the norms) as F32. With Q4_0 and Q4_1
/// the embedding and the output are Q8_0. Throws Error that names the tensor if its rows are not whole blocks. Tensors
/// are converted when their bytes are requested, by all cores; this throws Error that names the tensor if a finite
/// value is too large for the type. The tensors are in the manifest's order.
[[nodiscard]] TensorStream stream_as(TensorStream stream, DType type);

/// The same with a type for each tensor, such as mixture_types().
[[nodiscard]] TensorStream stream_as(TensorStream stream, std::span<const DType> types);

}  // namespace folio::core
