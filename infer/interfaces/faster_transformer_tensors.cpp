#include "infer/interfaces/faster_transformer_tensors.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <type_traits>

#include "core/error.h"

namespace folio::infer::faster_transformer {
namespace {

using core::require;

struct Name {
  std::string_view name;
  std::string_view refusal = "";  ///< why the tensor is not supported; empty: it is supported
};

constexpr std::string_view kSoftPrompts = "prompts must be tokens";

constexpr std::array kInputs = {
    Name{"input_ids"},
    Name{"input_lengths"},
    Name{"output_seq_len"},
    Name{"runtime_top_k"},
    Name{"runtime_top_p"},
    Name{"temperature"},
    Name{"repetition_penalty"},
    Name{"len_penalty"},
    Name{"random_seed"},
    Name{"stop_words_list"},
    Name{"bad_words_list"},
    Name{"start_id"},
    Name{"end_id"},
    Name{"session_len"},
    Name{"continue_gen"},
    Name{"input_lengths_h", "input_lengths is already in CPU memory"},
    Name{"prompt_learning_task_name_ids", kSoftPrompts},
    Name{"request_prompt_lengths", kSoftPrompts},
    Name{"request_prompt_lengths_h", kSoftPrompts},
    Name{"request_prompt_embedding", kSoftPrompts},
    Name{"request_prompt_type", kSoftPrompts},
    Name{"beam_search_diversity_rate", "beam search has no diversity penalty"},
    Name{"presence_penalty", "FasterTransformer's counts the prompt, this engine's does not; use repetition_penalty"},
    Name{"min_length", "outputs have no minimum length"},
    Name{"is_return_context_cum_log_probs", "log-probabilities are returned only for generated tokens"},
    Name{"is_return_context_embeddings", "embeddings are not returned"},
    Name{"memory_len", "attention covers the whole sequence"},
    Name{"top_p_decay", "top-p is constant"},
    Name{"top_p_min", "top-p is constant"},
    Name{"top_p_reset_ids", "top-p is constant"},
};

constexpr std::array kOutputs = {
    Name{"output_ids"},
    Name{"sequence_length"},
    Name{"cum_log_probs"},
    Name{"output_log_probs"},
    Name{"response_input_lengths", "it would repeat input_lengths"},
    Name{"context_embeddings", "embeddings are not returned"},
    Name{"is_finished", "a sequence shorter than its output_seq_len has finished"},
};

void check_names(std::string_view kind, std::span<const Name> names, const TensorMap& tensors) {
  for (const auto& [name, tensor] : tensors) {
    const auto found = std::ranges::find(names, name, &Name::name);
    if (found == names.end()) {
      std::vector<std::string_view> known;
      for (const Name& n : names) {
        if (n.refusal.empty()) known.push_back(n.name);
      }
      core::fail("unknown {} tensor {}, expected one of {}", kind, name, fmt::join(known, ", "));
    }
    require(found->refusal.empty(), "{} tensor {} is not supported: {}", kind, name, found->refusal);
  }
}

std::string_view type_name(DataType type) {
  constexpr std::array<std::string_view, 5> kNames{"bool", "int32", "uint32", "uint64", "float32"};
  return kNames[type];
}

}  // namespace

size_t Tensor::size() const {
  size_t n = 1;
  for (const size_t s : shape) n *= s;
  return n;
}

std::string shape_text(std::span<const size_t> shape) { return fmt::format("[{}]", fmt::join(shape, ", ")); }

void require_shape(std::string_view name, const Tensor& tensor, std::initializer_list<size_t> shape,
                   std::string_view why) {
  const auto text = [&] { return shape_text({shape.begin(), shape.size()}); };
  const auto own = [&] { return shape_text(tensor.shape); };
  require(std::ranges::equal(tensor.shape, shape), "{} has shape {}, expected {}{}{}", name, own, text,
          why.empty() ? "" : ": ", why);
}

void require_data(std::string_view name, const Tensor& tensor, std::initializer_list<DataType> types) {
  require(tensor.where != MEMORY_GPU, "{} is in GPU memory, expected CPU memory", name);
  const auto needed = [&] {
    std::vector<std::string_view> names;
    for (const DataType type : types) names.push_back(type_name(type));
    return fmt::format("{}", fmt::join(names, " or "));
  };
  require(std::ranges::find(types, tensor.type) != types.end(), "{} has type {}, expected {}", name,
          type_name(tensor.type), needed);
  require(tensor.data != nullptr || tensor.size() == 0, "{} has no data", name);
}

void check_output_names(const TensorMap& tensors) { check_names("output", kOutputs, tensors); }

int64_t integer_at(const Tensor& tensor, size_t i) {
  switch (tensor.type) {
    case TYPE_INT32:
      return static_cast<const int32_t*>(tensor.data)[i];
    case TYPE_UINT32:
      return static_cast<const uint32_t*>(tensor.data)[i];
    default:
      return static_cast<int64_t>(static_cast<const uint64_t*>(tensor.data)[i]);
  }
}

Inputs::Inputs(const TensorMap& tensors) : tensors_(tensors) { check_names("input", kInputs, tensors); }

const Tensor* Inputs::find(std::string_view name) const {
  const auto found = tensors_.find(name);
  return found == tensors_.end() ? nullptr : &found->second;
}

const Tensor& Inputs::required(std::string_view name, size_t n_dimensions, std::string_view needs) const {
  const Tensor* tensor = find(name);
  require(tensor != nullptr, "input tensor {} is missing, expected shape {}", name, needs);
  require(
      tensor->shape.size() == n_dimensions, "{} has shape {}, expected {}", name,
      [&] { return shape_text(tensor->shape); }, needs);
  require_data(name, *tensor, {TYPE_INT32, TYPE_UINT32});
  return *tensor;
}

const Tensor* Inputs::values_of_each(std::string_view name, size_t n, std::initializer_list<DataType> types) const {
  const Tensor* tensor = find(name);
  if (tensor == nullptr) return nullptr;
  const std::vector<size_t>& shape = tensor->shape;
  require(
      shape.empty() || (shape.size() == 1 && (shape[0] == 1 || shape[0] == n)), "{} has shape {}, expected [1]{}", name,
      [&] { return shape_text(shape); }, n == 1 ? "" : fmt::format(" or [{}], a value per sequence", n));
  require_data(name, *tensor, types);
  return tensor;
}

template <typename T>
std::vector<T> Inputs::of_each(std::string_view name, size_t n, T low, T high) const {
  const Tensor* tensor = std::is_same_v<T, float>     ? values_of_each(name, n, {TYPE_FP32})
                         : std::is_same_v<T, int64_t> ? values_of_each(name, n, {TYPE_INT32, TYPE_UINT32})
                                                      : values_of_each(name, n, {TYPE_UINT64, TYPE_UINT32, TYPE_INT32});
  if (tensor == nullptr) return {};
  std::vector<T> values(n);
  for (size_t i = 0; i < n; ++i) {
    const size_t at = tensor->size() == 1 ? 0 : i;
    values[i] = tensor->type == TYPE_FP32 ? static_cast<T>(static_cast<const float*>(tensor->data)[at])
                                          : static_cast<T>(integer_at(*tensor, at));
    require(values[i] >= low && values[i] <= high, "{} is {} for sequence {}, but must be in [{}, {}]", name, values[i],
            i, low, high);
  }
  return values;
}
template std::vector<int64_t> Inputs::of_each(std::string_view, size_t, int64_t, int64_t) const;
template std::vector<uint64_t> Inputs::of_each(std::string_view, size_t, uint64_t, uint64_t) const;
template std::vector<float> Inputs::of_each(std::string_view, size_t, float, float) const;

bool Inputs::flag(std::string_view name) const {
  const Tensor* tensor = values_of_each(name, 1, {TYPE_BOOL});
  return tensor != nullptr && *static_cast<const bool*>(tensor->data);
}

std::vector<Words> Inputs::words_of_each(std::string_view name, size_t n, int64_t vocab_size) const {
  const Tensor* tensor = find(name);
  if (tensor == nullptr) return {};
  const std::vector<size_t>& shape = tensor->shape;
  const bool of_all = shape.size() == 2 && shape[0] == 2;
  require(
      of_all || (shape.size() == 3 && shape[0] == n && shape[1] == 2),
      "{} has shape {}, expected [{}, 2, L] or [2, L]: token ids, and the end offset of each word", name,
      [&] { return shape_text(shape); }, n);
  require_data(name, *tensor, {TYPE_INT32});
  const size_t length = shape.back();
  std::vector<Words> words(n);
  for (size_t i = 0; i < n; ++i) {
    const int32_t* ids = static_cast<const int32_t*>(tensor->data) + (of_all ? 0 : i * 2 * length);
    const std::span<const int32_t> ends(ids + length, length);
    int32_t begin = 0;
    for (const int32_t end : ends) {
      if (end < 0) continue;
      require(end > begin && static_cast<size_t>(end) <= length,
              "{}: a word ends at offset {}, expected one above {} and at most {}", name, end, begin, length);
      for (int32_t at = begin; at < end; ++at) {
        require(ids[at] >= 0 && ids[at] < vocab_size, "{} has token {}, which is outside the vocabulary of {}", name,
                ids[at], vocab_size);
      }
      words[i].emplace_back(ids + begin, ids + end);
      begin = end;
    }
  }
  return words;
}

}  // namespace folio::infer::faster_transformer
