#include "infer/engine/active_request.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/error.h"
#include "infer/engine/perplexity.h"

namespace folio::infer {
namespace {

using core::require;

int64_t context_of(const Request& request, const core::ModelConfig& config) {
  const int64_t most = config.context_length;
  const int64_t context = request.options.context == 0 ? most : request.options.context;
  require(context >= 2 && context <= most, "a context of {} is not in [2, {}], the model's", context, most);
  return context;
}

std::vector<int32_t> suppressed(const data::Tokenizer* tokenizer) {
  return tokenizer == nullptr ? std::vector<int32_t>{} : tokenizer->suppressed_tokens();
}

}  // namespace

std::string_view finish_reason_name(FinishReason reason) {
  switch (reason) {
    case FinishReason::Stop:
      return "stop";
    case FinishReason::Interrupted:
      return "interrupted";
    default:
      return "length";
  }
}

ActiveRequest::ActiveRequest(RequestId id, Request request, const core::ModelConfig& config, BlockManager& cache)
    : ScheduledJob(id),
      request_(std::move(request)),
      cache_(cache),
      vocab_size_(static_cast<size_t>(config.vocab_size)),
      context_(context_of(request_, config)),
      sampler_(request_.options.sampler, suppressed(request_.tokenizer), request_.prompt.size()),
      filter_(request_.options.stops),
      pace_(request_.options.speculate),
      history_(request_.prompt),
      n_prompt_(request_.prompt.size()) {
  require(n_prompt_ > 0, "the prompt is empty");
  require(static_cast<int64_t>(n_prompt_) <= context_,
          "the prompt has {} tokens, more than the context of {}; shorten it", n_prompt_, context_);
  for (const int32_t token : history_) {
    require(token >= 0 && token < config.vocab_size, "token {} is outside the vocabulary of {}", token,
            config.vocab_size);
  }
  require(request_.tokenizer == nullptr || request_.tokenizer->vocab_size() == config.vocab_size,
          "the tokenizer has {} tokens, the model {}",
          request_.tokenizer == nullptr ? 0 : request_.tokenizer->vocab_size(), config.vocab_size);
  for (const int32_t token : sampler_.never()) {
    require(token >= 0 && token < config.vocab_size, "the tokenizer suppresses token {}, but has {}", token,
            config.vocab_size);
  }
  for (const SamplerOptions::Bias& b : request_.options.sampler.logit_bias) {
    require(b.token >= 0 && b.token < config.vocab_size, "there is a logit bias of token {}, but the vocabulary has {}",
            b.token, config.vocab_size);
  }
  require(request_.tokenizer != nullptr || request_.options.stops.empty(), "stop strings need a tokenizer");
  if (samples()) {
    static_cast<void>(check_room());  // no text was held back yet
  } else if (n_rows() == 0) {
    finish(FinishReason::Length);
  }
}

void ActiveRequest::started() {
  if (std::exchange(started_, true)) return;
  start_ = first_token_ = end_ = Clock::now();
  n_prompt_cached_ = static_cast<size_t>(n_cached());
}

void ActiveRequest::was_preempted() {
  drafted_.resize(n_copied_);
  draft_memory_.reset();
}

std::span<const int32_t> ActiveRequest::tokens() const {
  return std::span(history_).first(n_rows()).subspan(std::min(forgotten_, n_rows()));
}

// The last row in any case: the next token comes from its logits. And whatever is asked for of the prompt's rows.
size_t ActiveRequest::shareable() const {
  const size_t n = tokens().size();
  const bool asks = request_.on_logits || request_.on_log_probs || request_.observer;
  return std::min(n == 0 ? 0 : n - 1, asks && reported_ < n_prompt_ ? reported_ : n);
}

int64_t ActiveRequest::max_positions() const {
  if (!samples()) return static_cast<int64_t>(n_rows());
  const auto all =
      static_cast<int64_t>(n_prompt_) - 1 + request_.options.max_tokens;  // the last one sampled is not run
  return std::min(request_.options.slide ? context_ : all, context_);
}

// Rows that the history so far needs: a token that is only predicted has none.
size_t ActiveRequest::n_rows() const {
  if (samples()) return history_.size();
  if (request_.on_logits || request_.observer) return n_prompt_;
  return request_.on_log_probs ? n_prompt_ - 1 : 0;
}

// Tokens that the cache does not hold yet. It may hold the row of one that is still being drawn.
size_t ActiveRequest::n_fresh() const {
  const size_t held = forgotten_ + static_cast<size_t>(runs() ? cache_.length(sequence()) : 0);
  return n_rows() - std::min(held, n_rows());
}

bool ActiveRequest::is_reported(size_t index) const {
  if (index < reported_) return false;
  return (request_.on_logits && index < n_prompt_) || (request_.on_log_probs && index + 1 < n_prompt_);
}

size_t ActiveRequest::append_rows(std::vector<Row>& rows, size_t most, size_t& most_reported) {
  const size_t fresh = n_fresh();
  const size_t first = n_rows() - fresh;
  size_t n = 0;
  for (; n < std::min(most, fresh); ++n) {
    const size_t index = first + n;
    const bool reported = is_reported(index);
    if (reported && most_reported == 0) break;
    if (reported) --most_reported;
    rows.push_back({.token = history_[index],
                    .sequence = sequence(),
                    .position = static_cast<int64_t>(index - forgotten_),
                    .wants_logits = reported || (is_last(index) && request_.wants_token_logits),
                    .sampler = is_last(index) ? &sampler_ : nullptr,
                    .history = history_});
  }
  n_drafts_ = 0;
  if (n > 0 && is_last(first + n - 1)) append_drafts(rows, most - n);
  return n + n_drafts_;
}

// Rows of tokens that may come next. Each is drawn after, too: if the token drawn before it is the draft, its own is
// that of the text.
void ActiveRequest::append_drafts(std::vector<Row>& rows, size_t most) {
  n_drafts_ = std::min(most, n_drafts());
  for (size_t n = history_.size(); n < history_.size() + n_drafts_; ++n) {
    rows.push_back({.token = drafted_[n],
                    .sequence = sequence(),
                    .position = static_cast<int64_t>(n - forgotten_),
                    .wants_logits = false,
                    .sampler = &sampler_,
                    .history = std::span(drafted_).first(n + 1)});
  }
}

size_t ActiveRequest::n_drafts() const { return drafted_.size() - std::min(drafted_.size(), history_.size()); }

// As many as may be right: the text goes on behind the last of them. A text whose last row alone is missing draws in
// the next step.
std::optional<Drafter::Text> ActiveRequest::to_draft(size_t most) {
  drafted_.resize(n_copied_);
  most = std::min(most, pace_.n_wanted());
  if (most == 0 || !samples() || request_.wants_token_logits || !runs() || n_fresh() != 1) return {};
  const auto n = static_cast<int64_t>(history_.size());
  const int64_t by_tokens = request_.options.max_tokens - (n - static_cast<int64_t>(n_prompt_)) - 1;
  const int64_t by_context = context_ - (n - static_cast<int64_t>(forgotten_)) - 1;
  most = std::min(most, static_cast<size_t>(std::max<int64_t>(0, std::min(by_tokens, by_context))));
  if (most == 0) return {};
  drafted_.insert(drafted_.end(), history_.begin() + static_cast<std::ptrdiff_t>(n_copied_), history_.end());
  n_copied_ = history_.size();
  return Drafter::Text{.tokens = drafted_,
                       .first = forgotten_,
                       .most = most,
                       .n_misses = pace_.n_misses(),
                       .sampler = sampler_,
                       .memory = draft_memory_};
}

Row ActiveRequest::row_ahead(size_t draw) {
  return {.token = drawn_token(draw),
          .sequence = sequence(),
          .position = static_cast<int64_t>(history_.size() - forgotten_),
          .wants_logits = false,
          .sampler = &sampler_,
          .history = history_};
}

bool ActiveRequest::needs_next_token() const {
  if (n_fresh() > 0) return true;
  return !ends_next() && (request_.options.sampler.needs_history() || request_.options.speculate > 0 ||
                          context_ends(history_.size() + 1));
}

bool ActiveRequest::ends_next() const {
  const size_t n = history_.size() + 1;
  return static_cast<int64_t>(n - n_prompt_) >= request_.options.max_tokens ||
         (!request_.options.slide && context_ends(n));
}

bool ActiveRequest::context_ends(size_t n_tokens) const { return static_cast<int64_t>(n_tokens - forgotten_) >= context_; }

StepOutput ActiveRequest::take(const StepOutput& output, size_t n_rows) {
  const size_t first = forgotten_ + static_cast<size_t>(cache_.length(sequence())) - in_flight_;
  const size_t end = first + n_rows - n_drafts_;
  in_flight_ -= end - first - 1;  // the last one is computed again unless its token can be taken
  size_t n_reported = 0;
  for (size_t i = first; i < end; ++i) n_reported += is_reported(i) ? 1 : 0;
  const bool drew = is_last(end - 1);
  const bool wanted = drew && request_.wants_token_logits;  // the row that was drawn from, which may be reported, too
  const auto logits = output.logits.first((n_reported + (wanted && !is_reported(end - 1) ? 1 : 0)) * vocab_size_);
  if (n_reported > 0) report(logits.first(n_reported * vocab_size_), std::max(first, reported_));
  const auto drawn = output.tokens.first(drew ? 1 + n_drafts_ : 0);
  if (drew) {
    const int32_t token = token_of(drawn.front(), static_cast<int64_t>(history_.size()));
    --in_flight_;
    go_on(token, wanted ? logits.last(vocab_size_) : std::span<const float>{});
    take_drafts(drawn);
  } else {
    --in_flight_;
  }
  if (!samples() && n_fresh() == 0) finish(FinishReason::Length);
  return {.logits = output.logits.subspan(logits.size()), .tokens = output.tokens.subspan(drawn.size())};
}

// drawn[i + 1] comes after draft i, so it counts if drawn[i] was that draft and the text goes on. The rows behind the
// last draft that was right are taken back.
void ActiveRequest::take_drafts(std::span<const int32_t> drawn) {
  const size_t n_drafts = std::exchange(n_drafts_, 0);
  const size_t n_before = history_.size() - (done_ ? 0 : 1);  // before the drafts
  size_t n_right = 0;
  while (n_right < n_drafts && !done_ && drawn[n_right] == drafted_[n_before + n_right]) {
    const int32_t token = token_of(drawn[n_right + 1], static_cast<int64_t>(history_.size()));
    --in_flight_;
    ++n_right;
    go_on(token, {});
  }
  pace_.learn(n_drafts, n_right);
  n_tried_ += n_drafts;
  n_right_ += n_right;
  drafted_.resize(n_copied_);
  if (n_drafts > 0) recall();
}

// Hands out what is wanted of the prompt's rows from `first` on.
void ActiveRequest::report(std::span<const float> logits, size_t first) {
  const size_t n = logits.size() / vocab_size_;
  reported_ = first + n;
  if (request_.on_logits) request_.on_logits(logits);
  if (!request_.on_log_probs) return;
  std::vector<double> log_probs;
  for (size_t i = first; i < std::min(first + n, n_prompt_ - 1); ++i) {
    const auto row = logits.subspan((i - first) * vocab_size_, vocab_size_);
    log_probs.push_back(-negative_log_likelihood(row, history_[i + 1]));
    require(std::isfinite(log_probs.back()), "the model's output is not finite at position {}; its weights are damaged",
            i);
  }
  if (!log_probs.empty()) request_.on_log_probs(log_probs);
}

// With the token that was drawn, and the logits that it was drawn from if they are wanted.
void ActiveRequest::go_on(int32_t token, std::span<const float> logits) {
  if (history_.size() == n_prompt_) first_token_ = Clock::now();
  if (ends(token)) return finish(FinishReason::Stop);
  history_.push_back(token);
  if (request_.on_token) request_.on_token(token, logits);
  std::string text = request_.tokenizer == nullptr ? "" : filter_.push(request_.tokenizer->token_bytes(token));
  text += filter_.stopped() ? end(FinishReason::Stop) : check_room();
  show(text);
}

bool ActiveRequest::ends(int32_t token) const {
  const std::vector<int32_t>& more = request_.options.end_tokens;
  return (request_.tokenizer != nullptr && request_.tokenizer->ends_text(token)) ||
         std::find(more.begin(), more.end(), token) != more.end();
}

// Ends for want of tokens or positions, or makes room by sliding; returns text that was held back.
std::string ActiveRequest::check_room() {
  if (static_cast<int64_t>(history_.size() - n_prompt_) >= request_.options.max_tokens)
    return end(FinishReason::Length);
  if (!context_ends(history_.size())) return {};
  if (!request_.options.slide) return end(FinishReason::Length);
  if (runs()) cache_.truncate(sequence(), 0);
  in_flight_ = 0;
  forgotten_ = history_.size() - static_cast<size_t>(context_ / 2);
  return {};
}

std::string ActiveRequest::end(FinishReason reason) {
  done_ = true;
  reason_ = reason;
  end_ = Clock::now();
  if (!started_) start_ = first_token_ = end_;
  return filter_.finish();
}

void ActiveRequest::finish(FinishReason reason) { show(end(reason)); }

void ActiveRequest::recall() {
  if (in_flight_ == 0) return;
  cache_.truncate(sequence(), cache_.length(sequence()) - static_cast<int64_t>(std::exchange(in_flight_, 0)));
}

void ActiveRequest::remember() {
  const auto n = static_cast<size_t>(cache_.length(sequence())) - in_flight_;
  cache_.remember(sequence(), tokens().first(std::min(n, tokens().size())));
}

void ActiveRequest::show(const std::string& text) {
  text_ += text;
  if (request_.on_text && !text.empty()) request_.on_text(text);
}

GenerateResult ActiveRequest::result() const {
  const auto seconds = [](Clock::duration d) { return std::chrono::duration<double>(d).count(); };
  const bool began = first_token_ > start_;
  return {.tokens = {history_.begin() + static_cast<std::ptrdiff_t>(n_prompt_), history_.end()},
          .text = text_,
          .finish_reason = reason_,
          .n_cached = n_prompt_cached_,
          .n_drafts = n_tried_,
          .n_right = n_right_,
          .prefill_seconds = seconds((began ? first_token_ : end_) - start_),
          .decode_seconds = began ? seconds(end_ - first_token_) : 0.0};
}

}  // namespace folio::infer
