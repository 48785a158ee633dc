// The families of models that run here. A family is a Llama with some parts more, and with names of its own in files:
// one row of a table. Who reads, trains or runs a model asks for the parts, not for the family.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace folio::core {

enum class Family : uint8_t { Llama, Mistral, Qwen2, Qwen3 };

/// Which numbers of a head RoPE turns together: (2i, 2i + 1), or (i, i + head_dim / 2).
enum class RopePairs : uint8_t { Adjacent, Halves };

/// How config.json says that attention has a sliding window.
enum class HfWindow : uint8_t {
  None,      ///< it cannot
  Number,    ///< sliding_window, 4096 if missing; null: none
  Switched,  ///< the same if use_sliding_window is true, in the layers that layer_types or max_window_layers say
};

struct FamilyInfo {
  Family family;
  std::string_view name;      ///< of --family, and Hugging Face's model_type
  std::string_view hf_class;  ///< Hugging Face's architecture
  std::string_view gguf;      ///< GGUF's general.architecture, and the prefix of its keys
  RopePairs pairs;            ///< in memory and in GGUF; Hugging Face's files all have halves
  bool qkv_bias = false;      ///< queries, keys and values have biases
  bool qk_norm = false;       ///< each head of the queries and keys is normalized before it is rotated
  HfWindow window = HfWindow::None;
  int64_t hf_head_dim = 0;  ///< where config.json does not say it; 0: hidden_size / num_attention_heads
};

/// The table. Of families with one GGUF architecture the first is the one that such a file is read as.
[[nodiscard]] std::span<const FamilyInfo> families();
[[nodiscard]] const FamilyInfo& info(Family family);

/// The family with this name, or this GGUF architecture. Throws Error "WHAT is NAME, but only these run here: …".
[[nodiscard]] const FamilyInfo& family_named(std::string_view name, const std::string& what);
[[nodiscard]] const FamilyInfo& family_of_gguf(std::string_view architecture, const std::string& what);

/// Throws Error: a file has a tensor that no model of the family has here. Names the part that it belongs to, if it is
/// one that models are known to have, such as experts or attention sinks.
[[noreturn]] void fail_extra_tensor(const std::string& where, std::string_view tensor, Family family);

// A family in JSON is its name.
template <typename Json>
void to_json(Json& json, Family family) {
  json = std::string(info(family).name);
}
template <typename Json>
void from_json(const Json& json, Family& family) {
  family = family_named(json.template get<std::string>(), "family").family;
}

}  // namespace folio::core

template <>
struct fmt::formatter<folio::core::Family> : fmt::formatter<std::string_view> {
  auto format(folio::core::Family family, fmt::format_context& context) const {
    return fmt::formatter<std::string_view>::format(folio::core::info(family).name, context);
  }
};
