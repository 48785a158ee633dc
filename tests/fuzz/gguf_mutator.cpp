#include "tests/fuzz/gguf_mutator.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <vector>

#include "tests/fuzz/gguf_fields.h"

namespace folio::fuzz {
namespace {

constexpr std::array<uint64_t, 30> kNumbers{
    0,     1,     2,      3,          4,          6,          7,          8,          16,         31,
    32,    33,    48,     63,         64,         65,         127,        128,        255,        256,
    65535, 65536, 131072, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 1ULL << 32, 1ULL << 62, 1ULL << 63, ~0ULL};
constexpr std::array kKeys{"general.architecture",
                           "general.alignment",
                           "general.name",
                           "llama.block_count",
                           "llama.context_length",
                           "llama.embedding_length",
                           "llama.feed_forward_length",
                           "llama.attention.head_count",
                           "llama.attention.head_count_kv",
                           "llama.attention.key_length",
                           "llama.attention.value_length",
                           "llama.attention.layer_norm_rms_epsilon",
                           "llama.rope.dimension_count",
                           "llama.rope.freq_base",
                           "llama.rope.scaling.type",
                           "llama.rope.scaling.factor",
                           "llama.rope.scale_linear",
                           "llama.rope.scaling.llama3.factor",
                           "llama.rope.scaling.llama3.low_freq_factor",
                           "llama.vocab_size",
                           "llama.expert_count",
                           "llama.expert_used_count",
                           "llama.expert_feed_forward_length",
                           "qwen2moe.expert_shared_feed_forward_length",
                           "dots1.expert_shared_count",
                           "dots1.leading_dense_block_count",
                           "dots1.expert_group_count",
                           "dots1.expert_group_used_count",
                           "dots1.expert_weights_scale",
                           "dots1.expert_weights_norm",
                           "dots1.expert_gating_func",
                           "dots1.nextn_predict_layers",
                           "qwen2.attention.head_count",
                           "qwen3.attention.key_length",
                           "qwen3.attention.value_length",
                           "qwen3.attention.sliding_window",
                           "tokenizer.ggml.model",
                           "tokenizer.ggml.pre",
                           "tokenizer.ggml.tokens",
                           "tokenizer.ggml.scores",
                           "tokenizer.ggml.token_type",
                           "tokenizer.ggml.merges",
                           "tokenizer.ggml.bos_token_id",
                           "tokenizer.ggml.eos_token_id",
                           "tokenizer.ggml.unknown_token_id",
                           "tokenizer.ggml.padding_token_id",
                           "tokenizer.ggml.add_bos_token",
                           "tokenizer.ggml.add_eos_token",
                           "tokenizer.ggml.add_space_prefix",
                           "tokenizer.chat_template"};
constexpr std::array kStrings{"llama",
                              "qwen2",
                              "qwen3",
                              "qwen2moe",
                              "qwen3moe",
                              "olmoe",
                              "dots1",
                              "gpt-oss",
                              "gpt2",
                              "gpt-2",
                              "none",
                              "linear",
                              "yarn",
                              "",
                              "a",
                              "\n",
                              "Ġ",
                              "Ċ",
                              "Ã©",
                              "Ã ©",
                              "▁",
                              "▁a",
                              "<|endoftext|>",
                              "<0x0A>",
                              "<s>",
                              "</s>",
                              "\xC3",
                              "\xED\xA0\x80",
                              "Ġ a",
                              "a b c",
                              "<unk>"};
constexpr std::array kTensors{"token_embd.weight",          "output.weight",
                              "output_norm.weight",         "rope_freqs.weight",
                              "blk.0.attn_q.weight",        "blk.0.attn_k.weight",
                              "blk.0.attn_norm.weight",     "blk.0.attn_q.bias",
                              "blk.0.attn_q_norm.weight",   "blk.1.attn_q.weight",
                              "blk.0.ffn_gate.weight",      "blk.0.ffn_gate_inp.weight",
                              "blk.0.ffn_gate_exps.weight", "blk.0.ffn_up_shexp.weight",
                              "blk.0.exp_probs_b.bias",     "blk.0.attn_qkv.weight"};

// Generates random numbers by SplitMix64 (https://prng.di.unimi.it/splitmix64.c), cheap to seed for each mutation.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint64_t operator()() {
    uint64_t z = (state_ += 0x9E3779B97F4A7C15);
    z = (z ^ (z >> 30U)) * 0xBF58476D1CE4E5B9;
    z = (z ^ (z >> 27U)) * 0x94D049BB133111EB;
    return z ^ (z >> 31U);
  }
  uint64_t below(uint64_t n) { return (*this)() % n; }
  bool one_in(uint64_t n) { return below(n) == 0; }
  /// Returns one of kNumbers, or any number.
  uint64_t number() { return one_in(4) ? (*this)() : kNumbers[below(kNumbers.size())]; }
  template <typename List>
  auto& of(List& list) {
    return list[below(list.size())];
  }

 private:
  uint64_t state_;
};

class Mutation {
 public:
  Mutation(GgufFields& fields, Random& random, ByteMutator mutate_bytes)
      : f_(fields), random_(random), mutate_bytes_(mutate_bytes) {}

  void step() {
    switch (random_.below(14)) {
      case 0:
        return change_list(f_.pairs);
      case 1:
        return change_list(f_.tensors);
      case 2:
        return rename();
      case 3:
      case 4:
      case 5:
        if (!f_.pairs.empty()) change_value(random_.of(f_.pairs).value);
        return;
      case 6:
        return add_pair();
      case 7:
        return change_dims();
      case 8:
        if (!f_.tensors.empty()) random_.of(f_.tensors).type = static_cast<uint32_t>(random_.below(34));
        return;
      case 9:
      case 10:
        return resize_everywhere();
      case 11:
        return change_text(f_.data, f_.data.size() + 64);
      case 12:
        return change_alignment();
      default:
        f_.version =
            random_.one_in(8) ? static_cast<uint32_t>(random_.number()) : 2 + static_cast<uint32_t>(random_.below(2));
    }
  }

  // Sets a tensor's offset, or the data's size, to a wrong value. Must be called after lay_out(), which corrects them.
  void break_layout() {
    if (random_.one_in(2)) f_.data.resize(random_.below(f_.data.size() + 1));
    if (f_.tensors.empty()) return;
    GgufFieldTensor& tensor = random_.of(f_.tensors);
    const uint64_t alignment = alignment_of(f_);
    switch (random_.below(4)) {
      case 0:
        tensor.offset = random_.number();
        break;
      case 1:
        tensor.offset += alignment;
        break;
      case 2:
        tensor.offset -= alignment;
        break;
      default:
        tensor.offset = random_.of(f_.tensors).offset;
    }
  }

 private:
  void change_text(std::string& text, size_t max_size) {
    std::string buffer = text;
    buffer.resize(std::max<size_t>(max_size, 1));
    auto* bytes = reinterpret_cast<uint8_t*>(buffer.data());
    buffer.resize(mutate_bytes_(bytes, std::min(text.size(), buffer.size()), buffer.size()));
    text = buffer;
  }

  template <typename List>
  void change_list(List& list) {
    if (list.empty()) return;
    const auto at = list.begin() + static_cast<std::ptrdiff_t>(random_.below(list.size()));
    switch (random_.below(3)) {
      case 0:
        list.erase(at);
        break;
      case 1:
        std::swap(*at, random_.of(list));
        break;
      default: {
        auto copy = *at;
        list.insert(at, std::move(copy));
      }
    }
  }

  void rename() {
    const bool pair = f_.tensors.empty() || (!f_.pairs.empty() && random_.one_in(2));
    if (pair && f_.pairs.empty()) return;
    std::string& name = pair ? random_.of(f_.pairs).key : random_.of(f_.tensors).name;
    if (random_.one_in(2)) return change_text(name, name.size() + 8);
    name = pair ? kKeys[random_.below(kKeys.size())] : kTensors[random_.below(kTensors.size())];
  }

  GgufFieldValue new_value(uint32_t type, int depth) {
    GgufFieldValue value{.type = type, .bytes = {}, .item_type = 0, .items = {}};
    if (type == kGgufString) {
      value.bytes = kStrings[random_.below(kStrings.size())];
    } else if (type == kGgufArray) {
      value.item_type = static_cast<uint32_t>(random_.below(depth < 5 ? kGgufTypes : kGgufArray));
      for (uint64_t n = random_.below(4); n > 0; --n) value.items.push_back(new_value(value.item_type, depth + 1));
    } else {
      const uint64_t bits = type == 7 ? random_.below(random_.one_in(8) ? 256 : 2) : random_.number();
      value.bytes.assign(reinterpret_cast<const char*>(&bits), gguf_scalar_bytes(type));
      if (type == 6 && random_.one_in(2)) {
        const float real = random_.one_in(2) ? 1e-5F : 10000.0F;
        std::memcpy(value.bytes.data(), &real, sizeof(real));
      }
    }
    return value;
  }

  void change_value(GgufFieldValue& value) {
    if (random_.one_in(6)) {
      value = new_value(static_cast<uint32_t>(random_.below(kGgufTypes)), 0);
    } else {
      vary(value, 0);
    }
  }

  // Changes a value and keeps its type. An array may also be nested in a new array.
  void vary(GgufFieldValue& value, int depth) {
    if (value.type == kGgufString && random_.one_in(2)) {
      change_text(value.bytes, value.bytes.size() + 16);
    } else if (value.type != kGgufArray) {
      value = new_value(value.type, depth);
    } else if (random_.one_in(12) && depth < 6) {
      GgufFieldValue outer{.type = kGgufArray, .bytes = {}, .item_type = kGgufArray, .items = {value}};
      value = std::move(outer);
    } else if (value.items.empty() || random_.one_in(3)) {
      value.items.push_back(new_value(value.item_type, depth + 1));
    } else if (random_.one_in(2)) {
      change_list(value.items);
    } else {
      vary(random_.of(value.items), depth + 1);
    }
  }

  void add_pair() {
    f_.pairs.push_back({.key = kKeys[random_.below(kKeys.size())], .value = {}});
    constexpr std::array<uint32_t, 6> kUsual{4, 6, 7, kGgufString, kGgufArray, 10};
    f_.pairs.back().value = new_value(random_.one_in(4) ? random_.below(kGgufTypes) : kUsual[random_.below(6)], 0);
  }

  void change_dims() {
    if (f_.tensors.empty()) return;
    std::vector<uint64_t>& dims = random_.of(f_.tensors).dims;
    if (dims.empty() || random_.one_in(4)) {
      dims.push_back(random_.one_in(2) ? 1 : random_.number());
    } else if (random_.one_in(4)) {
      dims.pop_back();
    } else {
      random_.of(dims) = random_.number();
    }
  }

  // Changes a size, such as the model's width, wherever its value occurs in shapes and uint32 metadata, so that the
  // file may stay valid.
  void resize_everywhere() {
    if (f_.tensors.empty() || random_.of(f_.tensors).dims.empty()) return;
    const GgufFieldTensor& tensor = random_.of(f_.tensors);
    if (tensor.dims.empty()) return;
    const uint64_t from = tensor.dims[random_.below(tensor.dims.size())];
    const uint64_t to = random_.one_in(2) ? 1 + random_.below(64) : random_.number();
    for (GgufFieldTensor& t : f_.tensors) std::replace(t.dims.begin(), t.dims.end(), from, to);
    for (GgufFieldPair& pair : f_.pairs) {
      if (pair.value.type != 4 || pair.value.bytes.size() != 4) continue;
      uint32_t value = 0;
      std::memcpy(&value, pair.value.bytes.data(), 4);
      const auto replacement = static_cast<uint32_t>(to);
      if (value == from) std::memcpy(pair.value.bytes.data(), &replacement, 4);
    }
  }

  void change_alignment() {
    std::erase_if(f_.pairs, [](const GgufFieldPair& pair) { return pair.key == "general.alignment"; });
    if (random_.one_in(4)) return;
    const uint64_t value = random_.one_in(4) ? random_.number() : uint64_t{1} << random_.below(13);
    const uint32_t type = random_.one_in(8) ? 10 : 4;
    GgufFieldPair pair{.key = "general.alignment", .value = new_value(type, 0)};
    std::memcpy(pair.value.bytes.data(), &value, pair.value.bytes.size());
    f_.pairs.push_back(std::move(pair));
  }

  GgufFields& f_;
  Random& random_;
  ByteMutator mutate_bytes_;
};

}  // namespace

size_t mutate_gguf(uint8_t* data, size_t size, size_t max_size, uint32_t seed, ByteMutator mutate_bytes) {
  Random random(seed);
  auto fields = parse_gguf_fields({reinterpret_cast<const char*>(data), size});
  if (!fields || random.one_in(16)) return mutate_bytes(data, size, max_size);
  Mutation mutation(*fields, random, mutate_bytes);
  for (uint64_t steps = 1 + random.below(4); steps > 0; --steps) mutation.step();
  if (!random.one_in(8)) lay_out(*fields, max_size);
  if (random.one_in(8)) mutation.break_layout();
  GgufBytes result = serialize(*fields);
  if (random.one_in(8)) {  // overwrites a count, length, type, dimension or offset
    const auto& [place, width] = random.of(result.numbers);
    const uint64_t wrong = random.number();
    std::memcpy(result.bytes.data() + place, &wrong, width);
  }
  if (random.one_in(16)) result.bytes.resize(random.below(result.bytes.size() + 1));
  if (result.bytes.size() > max_size) return mutate_bytes(data, size, max_size);
  std::copy(result.bytes.begin(), result.bytes.end(), data);
  return result.bytes.size();
}

}  // namespace folio::fuzz
