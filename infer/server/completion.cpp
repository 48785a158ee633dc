#include "infer/server/completion.h"

#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <functional>
#include <utility>

#include "core/error.h"
#include "infer/forward/machine_lost.h"

namespace folio::infer::server {
namespace {

constexpr int kClientWentAway = 499;  // for the log alone, as nginx calls it

ApiError api_error(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const MachineLost& e) {
    return ApiError(503, e.what());
  } catch (const core::Error& e) {  // the request can't run, or the model's output is not finite
    return ApiError(400, e.what());
  } catch (const std::exception& e) {
    return ApiError(500, e.what());
  }
}

}  // namespace

ChoiceUpdate& ChoiceUpdates::for_choice(const std::shared_ptr<Completion>& completion, size_t choice) {
  if (all_.empty() || all_.back().to != completion || all_.back().choice != choice) {
    all_.push_back({.to = completion, .choice = choice, .at = std::chrono::steady_clock::now()});
  }
  return all_.back();
}

Completion::Completion(CompletionRequest request, const ServedModel& served, std::string id,
                       std::shared_ptr<HttpReply> reply, ChoiceUpdates& updates, Metrics& metrics)
    : request_(std::move(request)),
      served_(served),
      id_(std::move(id)),
      reply_(std::move(reply)),
      updates_(updates),
      metrics_(metrics),
      replies_(request_, served, id_, std::time(nullptr)),
      choices_(request_.prompts.size() * n_each()),
      n_sent_(choices_.size()),
      n_prompt_logits_(request_.prompts.size()),
      last_token_(choices_.size()),
      n_running_(request_.prompts.size()),
      arrived_(Clock::now()) {
  for (size_t i = 0; i < choices_.size() && request_.echo; ++i) {
    choices_[i].text = request_.prompts[i / n_each()].text;
  }
  for (size_t i = 0; i < choices_.size() && request_.tools != nullptr; ++i) {
    readers_.emplace_back(request_.tools->writing->format, request_.tools->has_answer,
                          std::hash<std::string>()(fmt::format("{}/{}", id_, i)));
  }
  for (const Prompt& prompt : request_.prompts) usage_.prompt_tokens += prompt.tokens.size();
}

void Completion::expect(std::function<void(const Completion&)> on_done) {
  on_done_ = std::move(on_done);
  reply_->on_lost([self = shared_from_this()] {
    self->reply_.reset();
    self->status_ = kClientWentAway;
    self->cancel();
  });
}

void Completion::start(AsyncEngine& engine, int32_t adapter) {
  engine_ = &engine;
  request_.options.adapter = adapter;
  for (size_t p = 0; p < request_.prompts.size(); ++p) {
    ids_.push_back(engine.submit(engine_request(p), [self = shared_from_this(), p](Outcome outcome) {
      self->updates_.for_choice(self, p * self->n_each()).outcome = std::move(outcome);
    }));
  }
}

// Its callbacks are called from the engine's thread.
Request Completion::engine_request(size_t prompt) {
  const auto self = shared_from_this();
  const auto update = [self, first = prompt * n_each()](size_t choice) -> ChoiceUpdate& {
    return self->updates_.for_choice(self, first + choice);
  };
  const data::Tokenizer& tokenizer = request_.tools == nullptr ? served_.tokenizer : request_.tools->writing->tokenizer;
  Request request{.prompt = request_.prompts[prompt].tokens, .options = request_.options, .tokenizer = &tokenizer};
  request.on_text = [update](size_t choice, std::string_view text) { update(choice).text += text; };
  request.wants_token_logits = request_.top_logprobs.has_value();
  request.on_token = [self, update](size_t choice, int32_t token, std::span<const float> logits) {
    ChoiceUpdate& u = update(choice);
    ++u.n_tokens;
    if (!logits.empty()) u.tokens.push_back(token_logprob(token, logits, *self->request_.top_logprobs));
  };
  request.on_end = [update](size_t choice, const GenerateResult& result) { update(choice).result = result; };
  if (request_.echo && request_.top_logprobs) {
    request.on_logits = [self, prompt](std::span<const float> logits) { self->on_prompt_logits(prompt, logits); };
  }
  return request;
}

// The row of a token says how likely the next one was.
void Completion::on_prompt_logits(size_t prompt, std::span<const float> logits) {
  const std::vector<int32_t>& tokens = request_.prompts[prompt].tokens;
  const auto vocab_size = static_cast<size_t>(served_.tokenizer.vocab_size());
  std::vector<TokenLogprob> seen;
  for (; !logits.empty(); logits = logits.subspan(vocab_size)) {
    const size_t i = n_prompt_logits_[prompt]++;
    if (i == 0) seen.push_back({.token = tokens[0]});
    if (i + 1 < tokens.size()) {
      seen.push_back(token_logprob(tokens[i + 1], logits.first(vocab_size), *request_.top_logprobs));
    }
  }
  for (size_t i = 0; i < n_each(); ++i) {
    std::ranges::copy(seen, std::back_inserter(updates_.for_choice(shared_from_this(), prompt * n_each() + i).tokens));
  }
}

void Completion::receive(ChoiceUpdate update) {
  measure(update);
  ChoiceText& choice = choices_[update.choice];
  read(update.choice, update.text, update.result.has_value());
  std::move(update.tokens.begin(), update.tokens.end(), std::back_inserter(choice.tokens));
  if (update.result) {
    finish(update.choice, *update.result);
  }
  if (request_.stream && reply_ != nullptr &&
      (!choice.text.empty() || !choice.calls.empty() || !choice.finish_reason.empty())) {
    stream(update.choice, std::exchange(choice, {}));
  }
  if (!update.outcome) return;
  if (update.outcome->error) fail(api_error(update.outcome->error));
  if (--n_running_ == 0) end();
}

// Takes calls of tools out of a choice's text.
void Completion::read(size_t index, std::string_view text, bool is_last) {
  ChoiceText& choice = choices_[index];
  if (readers_.empty()) {
    choice.text += text;
    return;
  }
  const auto add = [&](AnswerUpdate&& update) {
    choice.text += update.content;
    for (CallUpdate& call : update.calls) {
      if (choice.calls.empty() || choice.calls.back().index != call.index) {
        choice.calls.push_back(std::move(call));
      } else {
        choice.calls.back().arguments += call.arguments;
      }
    }
  };
  add(readers_[index].read(text));
  if (is_last) add(readers_[index].end());
}

// OpenAI's API knows no end for want of tokens: such a text is cut off.
void Completion::finish(size_t index, const GenerateResult& result) {
  ChoiceText& choice = choices_[index];
  usage_.completion_tokens += result.tokens.size();
  metrics_.drafts += result.n_drafts;
  metrics_.drafts_right += result.n_right;
  if (index % n_each() == 0) usage_.cached_tokens += result.n_cached;
  choice.score = result.score;
  const bool has_calls = !readers_.empty() && readers_[index].is_whole();
  if (result.finish_reason == FinishReason::Form) {
    choice.finish_reason = finish_reason_name(FinishReason::Length);
    choice.stop_reason = finish_reason_name(FinishReason::Form);
  } else if (result.finish_reason == FinishReason::Stop && has_calls && !request_.tools->is_named) {
    choice.finish_reason = "tool_calls";
  } else {
    choice.finish_reason = finish_reason_name(result.finish_reason);
  }
}

void Completion::measure(const ChoiceUpdate& update) {
  if (update.n_tokens == 0) return;
  auto& last = last_token_[update.choice];
  if (last) {
    metrics_.between_tokens.add(std::chrono::duration<double>(update.at - *last).count());
  } else {
    metrics_.first_token.add(std::chrono::duration<double>(update.at - arrived_).count());
  }
  last = update.at;
}

void Completion::stream(size_t index, ChoiceText piece) {
  if (!std::exchange(begun_, true)) {
    status_ = 200;
    reply_->add_header("Cache-Control", "no-cache");
    reply_->begin(200, "text/event-stream");
    for (size_t i = 0; i < choices_.size(); ++i) reply_->write(replies_.first_chunk(i));
  }
  // The client may go away at any of these.
  if (reply_ != nullptr) reply_->write(replies_.chunk(index, piece, n_sent_[index]));
  n_sent_[index] += n_characters(piece.text);
}

void Completion::end() {
  if (const auto reply = std::exchange(reply_, {})) {
    status_ = 200;
    if (!request_.stream) {
      reply->send(200, "application/json", replies_.whole(choices_, usage_));
    } else {
      if (request_.include_usage) reply->write(replies_.usage_chunk(usage_));
      reply->write(Replies::last_event());
      reply->end();
    }
  }
  on_done_(*this);
}

void Completion::cancel() {
  if (engine_ == nullptr) return end();  // it waits for its adapter
  for (const RequestId id : ids_) engine_->cancel(id);
}

void Completion::fail(const ApiError& error) {
  const auto reply = std::exchange(reply_, {});
  if (reply == nullptr) return;
  status_ = error.status();
  if (begun_) {
    reply->write(Replies::error_event(error));
    reply->end();
  } else {
    if (error.status() == 503) reply->add_header("Retry-After", "1");
    reply->send(error.status(), "application/json", error_body(error));
  }
  cancel();
}

}  // namespace folio::infer::server
