// Draws a token from logits: applies structured output's mask, biases, penalties, top-k, top-p, min-p and temperature
// in llama.cpp's order, then samples. The random number is a hash of (seed, position), so the batch does not affect it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <type_traits>
#include <vector>

#include "core/formats/generation_config.h"
#include "core/shared_vector.h"
#include "infer/sampling/form_mask.h"
#include "infer/sampling/ranking.h"

namespace folio::infer {

struct SamplerOptions {
  float temperature = 0.8F;  ///< 0: always the likeliest token
  int32_t top_k = 0;         ///< keep the k likeliest tokens; 0 or -1: off
  float top_p = 0.95F;       ///< keep the likeliest tokens with this total probability; 1: off (Holtzman et al. 2020)
  float min_p = 0.0F;        ///< minimum probability relative to the likeliest token's; 0: off (Nguyen et al. 2024)
  /// Divides positive logits of repeated tokens and multiplies negative ones; 1: off (Keskar et al. 2019).
  float repetition_penalty = 1.0F;
  int32_t repeat_last_n = 64;  ///< number of last tokens that repetition_penalty applies to; 0: none
  /// Subtracted from the logits of generated tokens: presence_penalty once, frequency_penalty per occurrence; 0: off.
  float presence_penalty = 0.0F;
  float frequency_penalty = 0.0F;
  struct Bias {
    int32_t token;
    float bias;
  };
  core::SharedVector<Bias> logit_bias{};  ///< added to the logits of these tokens; each may occur only once
  /// Token sequences that are never completed: a word's last token is not drawn after its other tokens.
  std::vector<std::vector<int32_t>> bad_words{};
  uint64_t seed = 0;

  /// Calls visit(name, member, low, high, default in requests, help) for each numeric option. Names are OpenAI's or
  /// vLLM's. Range checks, flags, and the server's fields and their descriptions are derived from this list.
  template <typename Visit>
  static void visit_fields(Visit visit) {
    using S = SamplerOptions;
    visit("temperature", &S::temperature, 0.0, 100.0, 1.0, "sampling temperature; 0: greedy");
    visit("top_p", &S::top_p, 0.0, 1.0, 1.0, "total probability of the most likely tokens to sample from; 1: off");
    visit("top_k", &S::top_k, -1.0, double{INT32_MAX}, 0.0,
          "number of most likely tokens to sample from; 0 or -1: off");
    visit("min_p", &S::min_p, 0.0, 1.0, 0.0, "minimum probability relative to the most likely token; 0: off");
    visit("repetition_penalty", &S::repetition_penalty, 1e-3, 100.0, 1.0,
          "penalty on repeated tokens: divides positive logits, multiplies negative ones; 1: off");
    visit("repeat_last_n", &S::repeat_last_n, 0.0, double{INT32_MAX}, double{INT32_MAX},
          "number of last tokens that the repetition penalty considers; 0: none");
    visit("presence_penalty", &S::presence_penalty, -2.0, 2.0, 0.0,
          "amount subtracted from the logit of each generated token; 0: off");
    visit("frequency_penalty", &S::frequency_penalty, -2.0, 2.0, 0.0,
          "amount subtracted from a token's logit per generated occurrence; 0: off");
  }

  /// Returns the default options of requests to a server.
  [[nodiscard]] static SamplerOptions of_requests() {
    SamplerOptions options;
    visit_fields([&](const char*, auto member, double, double, double otherwise, const char*) {
      options.*member = static_cast<std::remove_reference_t<decltype(options.*member)>>(otherwise);
    });
    return options;
  }

  /// Returns true if a draw depends on the earlier tokens of the sequence, not only on the logits.
  [[nodiscard]] bool needs_history() const {
    return repetition_penalty != 1.0F || presence_penalty != 0.0F || frequency_penalty != 0.0F || has_long_bad_words();
  }
  /// Returns true if the host must draw the tokens, because sampling on GPUs doesn't support some of these options.
  [[nodiscard]] bool on_host() const {
    return presence_penalty != 0.0F || frequency_penalty != 0.0F || !logit_bias.empty() || has_long_bad_words();
  }
  /// Returns true if a bad word has several tokens. Words of one token are in Sampler::never().
  [[nodiscard]] bool has_long_bad_words() const {
    return std::ranges::any_of(bad_words, [](const std::vector<int32_t>& word) { return word.size() > 1; });
  }
};

/// Returns `base` with the sampling settings that `config` contains. Throws core::Error if a setting is out of range;
/// the message names the file, the setting, its range and a remedy.
[[nodiscard]] SamplerOptions with_config(SamplerOptions base, const core::GenerationConfig& config);

/// Results of a draw that yields no token.
inline constexpr int32_t kNotFinite = -1;    ///< a logit is not finite
inline constexpr int32_t kNothingLeft = -2;  ///< no token may be drawn

/// Returns `drawn` if it is a token, otherwise throws core::Error with the reason. `position` is the drawn token's
/// position in its sequence, for the message.
[[nodiscard]] int32_t token_of(int32_t drawn, int64_t position);

/// Returns true if `history` followed by `token` ends with one of `words`. Words must not be empty.
[[nodiscard]] bool ends_with_word(std::span<const int32_t> history, int32_t token,
                                  std::span<const std::vector<int32_t>> words);

class Sampler {
 public:
  /// Creates the sampler of one sequence. Tokens in `never` are not drawn. The first n_prompt tokens of a history don't
  /// count as generated. `form`, if set, must have the same n_prompt. Throws core::Error if an option is out of range.
  Sampler(const SamplerOptions& options, std::vector<int32_t> never, size_t n_prompt = 0,
          std::optional<FormMask> form = {});

  [[nodiscard]] const SamplerOptions& options() const { return options_; }
  [[nodiscard]] std::span<const int32_t> never() const { return never_; }
  /// Returns the mask of the tokens that the request's structured output allows; null: the output is unconstrained.
  [[nodiscard]] FormMask* form() { return form_ ? &*form_ : nullptr; }
  /// Returns true if the host must draw the tokens: the output is structured, or SamplerOptions::on_host().
  [[nodiscard]] bool on_host() const { return form_.has_value() || options_.on_host(); }
  /// Returns true if `token` is in never() or completes a bad word after `history`. Does not check form().
  [[nodiscard]] bool forbids(int32_t token, std::span<const int32_t> history) const;

  /// Draws a token and returns it, or kNotFinite or kNothingLeft if there is none. Overwrites `logits` (vocab_size).
  /// `history` is the sequence so far. `position` is the position of the drawn token. Throws core::Error if a token of
  /// `history` or of the options is outside the vocabulary.
  [[nodiscard]] int32_t draw(std::span<float> logits, std::span<const int32_t> history, int64_t position);
  /// Draws a token as draw() does, but throws core::Error if there is none.
  [[nodiscard]] int32_t sample(std::span<float> logits, std::span<const int32_t> history, int64_t position) {
    return token_of(draw(logits, history, position), position);
  }

 private:
  [[nodiscard]] static float& logit_of(int32_t id, std::span<float> logits);
  void penalize(std::span<float> logits, std::span<const int32_t> history) const;
  template <typename F>
  [[nodiscard]] size_t at_total(F f);
  [[nodiscard]] size_t n_in_top_p();
  void keep_min_p(size_t n);
  [[nodiscard]] int32_t sample_kept(double largest, double uniform);
  [[nodiscard]] int32_t sample_all(double uniform);

  SamplerOptions options_;
  std::vector<int32_t> never_;
  size_t n_prompt_;
  std::optional<FormMask> form_;
  Ranking ranking_;
  std::vector<Ranking::Candidate> kept_;  ///< candidates that top-p and min-p keep, most likely first
};

}  // namespace folio::infer
