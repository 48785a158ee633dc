#include "infer/engine/branch.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/error.h"
#include "infer/engine/perplexity.h"

namespace folio::infer {
namespace {

using core::require;

SamplerOptions sampler_options(const Request& request, size_t choice) {
  SamplerOptions options = request.options.sampler;
  options.seed = choice_seed(options.seed, choice);
  return options;
}

std::vector<int32_t> suppressed(const data::Tokenizer* tokenizer) {
  return tokenizer == nullptr ? std::vector<int32_t>{} : tokenizer->suppressed_tokens();
}

}  // namespace

Branch::Branch(RequestId id, size_t index, const Request& request, const core::ModelConfig& config, BlockManager& cache,
               std::optional<FormMask> form)
    : ScheduledBranch(id, index),
      request_(request),
      cache_(cache),
      vocab_size_(static_cast<size_t>(config.vocab_size)),
      context_(request.options.context == 0 ? config.context_length : request.options.context),
      sampler_(sampler_options(request, index), suppressed(request.tokenizer), request.prompt.size(), std::move(form)),
      filter_(request.options.stops),
      pace_(request.options.speculate),
      n_prompt_(request.prompt.size()) {
  if (goes_on()) {
    show(check_room());
  } else if (n_rows() == 0) {
    finish(FinishReason::Length);
  }
}

void Branch::started() {
  if (std::exchange(started_, true)) return;
  start_ = first_token_ = end_ = Clock::now();
  n_prompt_cached_ = static_cast<size_t>(n_cached());
}

void Branch::was_preempted() {
  in_flight_ = 0;
  drafted_.resize(n_copied_);
  draft_memory_.reset();
  candidates_.clear();  // its last row is computed again, too
  has_candidates_ = false;
}

std::span<const int32_t> Branch::tokens() const {
  return history().first(n_rows()).subspan(std::min(forgotten_, n_rows()));
}

// The last row in any case: the next token comes from its logits. And whatever is asked for of the prompt's rows.
size_t Branch::shareable() const {
  const size_t n = tokens().size();
  const bool asks = reports() && (request_.on_logits || request_.on_log_probs || request_.observer);
  return std::min(n == 0 ? 0 : n - 1, asks && reported_ < n_prompt_ ? reported_ : n);
}

int64_t Branch::max_positions() const {
  if (!goes_on()) return static_cast<int64_t>(n_rows());
  const auto all =
      static_cast<int64_t>(n_prompt_) - 1 + request_.options.max_tokens;  // the last one sampled is not run
  return std::min(request_.options.slide ? context_ : all, context_);
}

// Rows that the history so far needs: a token that is only predicted has none.
size_t Branch::n_rows() const {
  if (goes_on()) return history().size();
  if (!reports()) return 0;
  if (request_.on_logits || request_.observer) return n_prompt_;
  return request_.on_log_probs ? n_prompt_ - 1 : 0;
}

// Tokens that the cache does not hold yet. It may hold the row of one that is still being drawn.
size_t Branch::n_fresh() const {
  const size_t held = forgotten_ + static_cast<size_t>(runs() ? cache_.length(sequence()) : 0);
  return n_rows() - std::min(held, n_rows());
}

bool Branch::is_reported(size_t index) const {
  if (!reports() || index < reported_) return false;
  return (request_.on_logits && index < n_prompt_) || (request_.on_log_probs && index + 1 < n_prompt_);
}

size_t Branch::append_rows(std::vector<Row>& rows, size_t most, size_t& most_reported) {
  if (history_.empty()) history_ = request_.prompt;
  const size_t fresh = n_fresh();
  const size_t first = n_rows() - fresh;
  size_t n = 0;
  for (; n < std::min(most, fresh); ++n) {
    const size_t index = first + n;
    const bool reported = is_reported(index);
    if (reported && most_reported == 0) break;
    if (reported) --most_reported;
    rows.push_back({.token = history()[index],
                    .sequence = sequence(),
                    .position = static_cast<int64_t>(index - forgotten_),
                    .wants_logits = reported || (is_last(index) && shows_logits()),
                    .sampler = is_last(index) && !searches() ? &sampler_ : nullptr,
                    .history = history()});
  }
  n_drafts_ = 0;
  if (n > 0 && is_last(first + n - 1)) append_drafts(rows, most - n);
  return n + n_drafts_;
}

// Rows of tokens that may come next. Each is drawn after, too: if the token drawn before it is the draft, its own is
// that of the text.
void Branch::append_drafts(std::vector<Row>& rows, size_t most) {
  cut_drafts();
  n_drafts_ = std::min(most, n_drafts());
  for (size_t n = history().size(); n < history().size() + n_drafts_; ++n) {
    rows.push_back({.token = drafted_[n],
                    .sequence = sequence(),
                    .position = static_cast<int64_t>(n - forgotten_),
                    .wants_logits = false,
                    .sampler = &sampler_,
                    .history = std::span(drafted_).first(n + 1)});
  }
}

size_t Branch::n_drafts() const { return drafted_.size() - std::min(drafted_.size(), history().size()); }

// As many as may be right: the text goes on behind the last of them. A text whose last row alone is missing draws in
// the next step.
std::optional<Drafter::Text> Branch::to_draft(size_t most) {
  if (in_flight_ > 0) return {};  // perhaps with drafts
  drafted_.resize(n_copied_);
  const bool has_form = sampler_.form() != nullptr;
  if (!has_form) most = std::min(most, pace_.n_wanted());
  if (most == 0 || !goes_on() || shows_logits() || !runs() || n_fresh() != 1) return {};
  const auto n = static_cast<int64_t>(history().size());
  const int64_t by_tokens = request_.options.max_tokens - (n - static_cast<int64_t>(n_prompt_)) - 1;
  const int64_t by_context = context_ - (n - static_cast<int64_t>(forgotten_)) - 1;
  most = std::min(most, static_cast<size_t>(std::max<int64_t>(0, std::min(by_tokens, by_context))));
  if (most == 0) return {};
  drafted_.insert(drafted_.end(), history().begin() + static_cast<std::ptrdiff_t>(n_copied_), history().end());
  n_copied_ = history().size();
  if (has_form) {
    draft_by_form(most);
    const size_t n_wanted = std::min(most, pace_.n_wanted());
    if (n_drafts() >= n_wanted) return {};
    most = n_wanted - n_drafts();
  }
  return Drafter::Text{.tokens = drafted_,
                       .first = forgotten_,
                       .most = most,
                       .n_misses = pace_.n_misses(),
                       .sampler = sampler_,
                       .memory = draft_memory_};
}

// Tokens that come next whatever the model says; and, if it speculates, those that take most of the bytes that do.
void Branch::draft_by_form(size_t most) {
  while (n_drafts() < most) {
    int32_t token = sampler_.form()->forced(drafted_);
    if (token < 0 && n_drafts() < pace_.n_wanted()) token = sampler_.form()->likely(drafted_);
    if (token < 0) return;
    drafted_.push_back(token);
  }
}

// No row is spent on a draft that the form refuses, or behind which the text ends.
void Branch::cut_drafts() {
  FormMask* form = sampler_.form();
  if (form == nullptr) return;
  for (size_t n = history().size(); n < drafted_.size(); ++n) {
    if (!form->goes_on_with(drafted_[n], std::span(drafted_).first(n))) drafted_.resize(n);
  }
}

Row Branch::row_ahead(size_t draw) {
  return {.token = drawn_token(draw),
          .sequence = sequence(),
          .position = static_cast<int64_t>(history().size() - forgotten_),
          .wants_logits = false,
          .sampler = &sampler_,
          .history = history()};
}

bool Branch::needs_next_token() const {
  if (n_fresh() > 0 || searches()) return true;
  return !ends_next() && (request_.options.form || request_.options.sampler.needs_history() ||
                          request_.options.speculate > 0 || context_ends(history().size() + 1));
}

bool Branch::ends_next() const {
  const size_t n = history().size() + 1;
  return static_cast<int64_t>(n - n_prompt_) >= request_.options.max_tokens ||
         (!request_.options.slide && context_ends(n));
}

bool Branch::context_ends(size_t n_tokens) const { return static_cast<int64_t>(n_tokens - forgotten_) >= context_; }

StepOutput Branch::take(const StepOutput& output, size_t n_rows) {
  const size_t first = forgotten_ + static_cast<size_t>(cache_.length(sequence())) - in_flight_;
  const size_t end = first + n_rows - n_drafts_;
  in_flight_ -= end - first - 1;  // the last one is computed again unless its token can be taken
  size_t n_reported = 0;
  for (size_t i = first; i < end; ++i) n_reported += is_reported(i) ? 1 : 0;
  const bool drew = is_last(end - 1) && !searches();
  const bool wanted = is_last(end - 1) && shows_logits();  // the row of the next token, which may be reported, too
  const auto logits = output.logits.first((n_reported + (wanted && !is_reported(end - 1) ? 1 : 0)) * vocab_size_);
  if (n_reported > 0) report(logits.first(n_reported * vocab_size_), std::max(first, reported_));
  const auto drawn = output.tokens.first(drew ? 1 + n_drafts_ : 0);
  if (drew) {
    take_token(drawn.front(), wanted ? logits.last(vocab_size_) : std::span<const float>{});
    take_drafts(drawn);
  } else {
    if (wanted) find_candidates(logits.last(vocab_size_));
    --in_flight_;
  }
  if (!goes_on() && n_fresh() == 0) finish(FinishReason::Length);
  return {.logits = output.logits.subspan(logits.size()), .tokens = output.tokens.subspan(drawn.size())};
}

// Nothing is drawn where the form leaves nothing: then the text ends, and that is no fault.
void Branch::take_token(int32_t drawn, std::span<const float> logits) {
  FormMask* form = sampler_.form();
  if (drawn == kNothingLeft && form != nullptr) {
    const FinishReason reason =
        end_of_form().value_or(form->may_end(history()) ? FinishReason::Stop : FinishReason::Form);
    --in_flight_;
    return finish(reason);
  }
  const int32_t token = token_of(drawn, static_cast<int64_t>(history().size()));
  --in_flight_;
  go_on(token, logits);
}

// drawn[i + 1] comes after draft i, so it counts if drawn[i] was that draft and the text goes on. The rows behind the
// last draft that was right are taken back.
void Branch::take_drafts(std::span<const int32_t> drawn) {
  const size_t n_drafts = std::exchange(n_drafts_, 0);
  const size_t n_before = history().size() - (done_ ? 0 : 1);  // before the drafts
  size_t n_right = 0;
  while (n_right < n_drafts && !done_ && drawn[n_right] == drafted_[n_before + n_right]) {
    take_token(drawn[n_right + 1], {});
    ++n_right;
  }
  pace_.learn(n_drafts, n_right);
  n_tried_ += n_drafts;
  n_right_ += n_right;
  drafted_.resize(n_copied_);
  if (n_drafts > 0) recall();
}

// Hands out what is wanted of the prompt's rows from `first` on.
void Branch::report(std::span<const float> logits, size_t first) {
  const size_t n = logits.size() / vocab_size_;
  reported_ = first + n;
  if (request_.on_logits) request_.on_logits(logits);
  if (!request_.on_log_probs) return;
  std::vector<double> log_probs;
  for (size_t i = first; i < std::min(first + n, n_prompt_ - 1); ++i) {
    const auto row = logits.subspan((i - first) * vocab_size_, vocab_size_);
    log_probs.push_back(-negative_log_likelihood(row, history()[i + 1]));
    require(std::isfinite(log_probs.back()), "the model's output is not finite at position {}; its weights are damaged",
            i);
  }
  if (!log_probs.empty()) request_.on_log_probs(log_probs);
}

// Of a beam. p is the model's, over the whole vocabulary, of which some tokens are never taken. A text whose form is
// whole with a token ends with it, as one does with a stop text; one that could not go on behind it is none.
void Branch::find_candidates(std::span<const float> logits) {
  const int64_t position = std::ssize(history());
  if (!all_finite(logits)) static_cast<void>(token_of(kNotFinite, position));
  const float largest = largest_of(logits);
  ranking_.reset(logits, largest, 1.0, 0);
  const auto [low, high] = ranking_.total_bounds();
  const double log_total = largest + std::log((low + high) / 2);
  const auto width = static_cast<size_t>(request_.options.beams.width);
  candidates_.clear();
  has_candidates_ = true;
  FormMask* form = sampler_.form();
  if (form != nullptr) {
    allowed_logits_.assign(logits.begin(), logits.end());
    if (!form->keep_allowed(allowed_logits_, history())) return;
    const float likeliest = largest_of(allowed_logits_);
    if (likeliest == kForbidden) return;
    ranking_.reset(allowed_logits_, likeliest, 1.0, 0);
  }
  size_t n_going_on = 0;
  for (size_t i = 0; i < ranking_.size() && n_going_on < width; ++i) {
    const auto& [token, logit, weight] = ranking_[i];
    if (sampler_.forbids(token, history())) continue;
    const WayOn way_on = form == nullptr || ends(token) ? WayOn::Tokens : form->way_on(history(), token);
    if (way_on == WayOn::None) continue;
    const bool stops = way_on == WayOn::End || ends_with_word(history(), token, request_.options.stop_words) ||
                       (request_.tokenizer != nullptr && filter_.would_stop(request_.tokenizer->token_bytes(token)));
    using enum BeamSearch::Ending;
    const BeamSearch::Ending ending = ends(token) ? EndToken : stops ? StopText : None;
    candidates_.push_back(
        {.beam = index(), .token = token, .log_prob = log_prob_ + (logit - log_total), .ending = ending});
    n_going_on += ending == None ? 1 : 0;
  }
  if (candidates_.empty() && form == nullptr) static_cast<void>(token_of(kNothingLeft, position));
}

void Branch::become(const Branch& other) {
  filter_ = other.filter_;
  history_ = other.history_;
  log_prob_ = other.log_prob_;
}

void Branch::follow(const BeamSearch::Candidate& candidate) {
  if (history().size() == n_prompt_) first_token_ = Clock::now();
  candidates_.clear();
  has_candidates_ = false;
  log_prob_ = candidate.log_prob;
  history_.push_back(candidate.token);
  if (request_.tokenizer != nullptr) static_cast<void>(filter_.push(request_.tokenizer->token_bytes(candidate.token)));
}

// With the token that was drawn, and the logits that it was drawn from if they are wanted.
void Branch::go_on(int32_t token, std::span<const float> logits) {
  if (history().size() == n_prompt_) first_token_ = Clock::now();
  if (ends(token)) return finish(FinishReason::Stop);
  const bool stops = ends_with_word(history(), token, request_.options.stop_words);
  history_.push_back(token);
  if (request_.on_token) request_.on_token(index(), token, logits);
  std::string text = request_.tokenizer == nullptr ? "" : filter_.push(request_.tokenizer->token_bytes(token));
  text += stops || filter_.stopped() ? end(FinishReason::Stop) : check_room();
  show(text);
  if (!done_ && !text.empty() && request_.is_enough && request_.is_enough(index())) finish(FinishReason::Stop);
}

bool Branch::ends(int32_t token) const {
  const std::vector<int32_t>& more = request_.options.end_tokens;
  return (request_.tokenizer != nullptr && request_.tokenizer->ends_text(token)) ||
         std::find(more.begin(), more.end(), token) != more.end();
}

// What the form makes of the text: whether it ends, without a token that says so.
std::optional<FinishReason> Branch::end_of_form() {
  FormMask* form = sampler_.form();
  if (form == nullptr) return {};
  const WayOn way_on = form->way_on(history());
  if (way_on == WayOn::Tokens) return {};
  return way_on == WayOn::End ? FinishReason::Stop : FinishReason::Form;
}

// Ends by its form, or for want of tokens or positions, or makes room by sliding; returns text that was held back.
std::string Branch::check_room() {
  if (const auto reason = end_of_form()) return end(*reason);
  if (static_cast<int64_t>(history().size() - n_prompt_) >= request_.options.max_tokens)
    return end(FinishReason::Length);
  if (!context_ends(history().size())) return {};
  if (!request_.options.slide) return end(FinishReason::Length);
  if (runs()) cache_.truncate(sequence(), 0);
  in_flight_ = 0;
  forgotten_ = history().size() - static_cast<size_t>(context_ / 2);
  return {};
}

std::string Branch::end(FinishReason reason) {
  done_ = true;
  reason_ = reason;
  stop_clock();
  return filter_.finish();
}

void Branch::stop_clock() {
  end_ = Clock::now();
  if (!started_) start_ = first_token_ = end_;
}

void Branch::finish(FinishReason reason) { show(end(reason)); }

void Branch::recall() {
  if (in_flight_ == 0) return;
  cache_.truncate(sequence(), cache_.length(sequence()) - static_cast<int64_t>(std::exchange(in_flight_, 0)));
}

void Branch::remember() {
  const auto n = static_cast<size_t>(cache_.length(sequence())) - in_flight_;
  cache_.remember(sequence(), tokens().first(std::min(n, tokens().size())));
}

void Branch::remember_tail() {
  if (!request_.options.remember_tail || !runs()) return;
  remember();
  cache_.remember_tail(sequence(), tokens().first(static_cast<size_t>(cache_.length(sequence()))));
}

void Branch::show(const std::string& text) {
  text_ += text;
  if (request_.on_text && !text.empty()) request_.on_text(index(), text);
  if (done_ && request_.on_end) request_.on_end(index(), result());
}

GenerateResult Branch::result() const {
  const auto seconds = [](Clock::duration d) { return std::chrono::duration<double>(d).count(); };
  const bool began = first_token_ > start_;
  return {.tokens = {history().begin() + static_cast<std::ptrdiff_t>(n_prompt_), history().end()},
          .text = text_,
          .finish_reason = reason_,
          .n_cached = n_prompt_cached_,
          .n_drafts = n_tried_,
          .n_right = n_right_,
          .prefill_seconds = seconds((began ? first_token_ : end_) - start_),
          .decode_seconds = began ? seconds(end_ - first_token_) : 0.0};
}

}  // namespace folio::infer
