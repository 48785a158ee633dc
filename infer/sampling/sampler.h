// From logits to a token: what a form forbids, biases, penalties, top-k, top-p, min-p, temperature, in llama.cpp's
// order, then one sample. Its random number is a hash of (seed, position): a sequence's text does not depend on what
// runs beside it.
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
  float temperature = 0.8F;  ///< 0: the likeliest token
  int32_t top_k = 0;         ///< keep the k likeliest; 0 or -1: off
  float top_p = 0.95F;       ///< keep the fewest that have this much probability; 1: off, 0: one (Holtzman et al. 2020)
  float min_p = 0.0F;        ///< keep those with this share of the likeliest's probability; 0: off (Nguyen et al. 2024)
  float repetition_penalty = 1.0F;  ///< divides positive logits, multiplies negative ones; 1: off (Keskar et al. 2019)
  int32_t repeat_last_n = 64;       ///< over so many last tokens; 0: none
  /// Taken off the logits of tokens that were generated, once, and as often as they were. As OpenAI's; 0: off.
  float presence_penalty = 0.0F;
  float frequency_penalty = 0.0F;
  struct Bias {
    int32_t token;
    float bias;
  };
  core::SharedVector<Bias> logit_bias{};  ///< added to the logits of these tokens, each of which is there once
  /// Tokens that never come one after the other, in the prompt and what follows it: the last of a word is not drawn
  /// behind its others.
  std::vector<std::vector<int32_t>> bad_words{};
  uint64_t seed = 0;

  /// The one list of the numbers: visit(name, member, low, high, what it is in a request that does not say it, help).
  /// A name is OpenAI's, or vLLM's. Checks, flags, the server's fields and their description follow from it.
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

  /// What a request to a server has where it says nothing.
  [[nodiscard]] static SamplerOptions of_requests() {
    SamplerOptions options;
    visit_fields([&](const char*, auto member, double, double, double otherwise, const char*) {
      options.*member = static_cast<std::remove_reference_t<decltype(options.*member)>>(otherwise);
    });
    return options;
  }

  /// Whether a draw depends on the tokens before it by more than their logits.
  [[nodiscard]] bool needs_history() const {
    return repetition_penalty != 1.0F || presence_penalty != 0.0F || frequency_penalty != 0.0F || has_long_bad_words();
  }
  /// Whether a machine that draws itself can't do this: the host draws instead.
  [[nodiscard]] bool on_host() const {
    return presence_penalty != 0.0F || frequency_penalty != 0.0F || !logit_bias.empty() || has_long_bad_words();
  }
  /// Those of one token are Sampler::never()'s.
  [[nodiscard]] bool has_long_bad_words() const {
    return std::ranges::any_of(bad_words, [](const std::vector<int32_t>& word) { return word.size() > 1; });
  }
};

/// `base` with the values that the config specifies. Throws core::Error with file, name, range and remedy if one is
/// outside of its range.
[[nodiscard]] SamplerOptions with_config(SamplerOptions base, const core::GenerationConfig& config);

/// What a draw gives where there is no token.
inline constexpr int32_t kNotFinite = -1;    ///< a logit is not finite
inline constexpr int32_t kNothingLeft = -2;  ///< no token may be drawn

/// `drawn`, which is a token. Throws core::Error that says why it is none; `position` is the one that was sampled for.
[[nodiscard]] int32_t token_of(int32_t drawn, int64_t position);

/// Whether `history` and then `token` end with one of the words, none of which is empty.
[[nodiscard]] bool ends_with_word(std::span<const int32_t> history, int32_t token,
                                  std::span<const std::vector<int32_t>> words);

class Sampler {
 public:
  /// `never` are ids that are suppressed, beside the bad words of one token. The first n_prompt tokens of a history
  /// were not generated. With a form, whose n_prompt is the same, only tokens that it allows are drawn. Throws
  /// core::Error if an option is out of its range.
  Sampler(const SamplerOptions& options, std::vector<int32_t> never, size_t n_prompt = 0,
          std::optional<FormMask> form = {});

  [[nodiscard]] const SamplerOptions& options() const { return options_; }
  [[nodiscard]] std::span<const int32_t> never() const { return never_; }
  /// Null where the text keeps to none.
  [[nodiscard]] FormMask* form() { return form_ ? &*form_ : nullptr; }
  /// Whether a machine that draws itself can't do this: see SamplerOptions::on_host().
  [[nodiscard]] bool on_host() const { return form_.has_value() || options_.on_host(); }
  /// Whether `token` is suppressed behind these tokens; what a form forbids is not asked.
  [[nodiscard]] bool forbids(int32_t token, std::span<const int32_t> history) const;

  /// A token, kNotFinite, or kNothingLeft. `logits` (vocab_size) are used as scratch; `history` is the sequence so far,
  /// `position` the one that is sampled for. Throws core::Error if an id of `never` or `history` has no logit.
  [[nodiscard]] int32_t draw(std::span<float> logits, std::span<const int32_t> history, int64_t position);
  /// The same, but throws core::Error if there is no token.
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
