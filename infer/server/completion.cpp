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

constexpr size_t kMostUnread = size_t{256} << 10U;  // bytes of a stream's updates: it is paused
constexpr int kClientWentAway = 499;                // for the log alone, as nginx calls it

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

std::vector<ChoiceUpdate> ChoiceUpdates::take() {
  for (const ChoiceUpdate& update : all_) update.to->add_backlog(update.cost());
  return std::exchange(all_, {});
}

size_t ChoiceUpdate::cost() const {
  size_t n = sizeof(ChoiceUpdate) + sizeof(ChoiceText) + answer.reasoning.size() + answer.content.size();
  for (const CallUpdate& call : answer.calls) n += sizeof call + call.arguments.size();
  for (const TokenLogprob& token : tokens) n += sizeof token + token.top.size() * sizeof token.top.front();
  return n;
}

Completion::Completion(CompletionRequest request, const ServedModel& served, std::string id,
                       std::shared_ptr<HttpReply> reply, ChoiceUpdates& updates, Metrics& metrics)
    : request_(std::move(request)),
      served_(served),
      id_(std::move(id)),
      reply_(std::move(reply)),
      writer_(std::make_shared<ReplyWriter>(reply_)),
      backlog_(request_.stream ? std::make_shared<Backlog>(kMostUnread) : nullptr),
      updates_(updates),
      metrics_(metrics),
      replies_(request_.make_replies ? request_.make_replies(request_, served, id_, std::time(nullptr))
                                     : std::make_unique<Replies>(request_, served, id_, std::time(nullptr))),
      choices_(request_.prompts.size() * n_each()),
      characters_(choices_.size()),
      n_prompt_logits_(request_.prompts.size()),
      last_token_(choices_.size()),
      n_running_(request_.prompts.size()),
      arrived_(Clock::now()) {
  for (size_t p = 0; p < request_.prompts.size() && request_.echo; ++p) {
    const auto text = std::make_shared<const std::string>(request_.prompts[p].text);
    for (size_t i = 0; i < n_each(); ++i) choices_[p * n_each() + i].echo = text;
    if (!request_.top_logprobs) continue;
    prompt_offsets_.push_back(text_offsets(served.tokenizer, request_.prompts[p]));
    static_cast<void>(characters_[p * n_each()].add(*text));
    for (size_t i = 1; i < n_each(); ++i) characters_[p * n_each() + i] = characters_[p * n_each()];
  }
  for (size_t i = 0; i < choices_.size() && request_.chat; ++i) {
    readers_.emplace_back(request_.thinking, request_.tools.get(),
                          std::hash<std::string>()(fmt::format("{}/{}", id_, i)));
  }
  for (const Prompt& prompt : request_.prompts) usage_.prompt_tokens += prompt.tokens.size();
}

void Completion::expect(std::function<void(const Completion&)> on_done) {
  on_done_ = std::move(on_done);
  writer_->on_written([weak = weak_from_this()](size_t cost) {
    if (const auto self = weak.lock()) self->was_read(cost);
  });
  reply_->on_lost([self = shared_from_this()] {
    if (self->done_) return;  // the reply had all of it
    self->reply_.reset();
    self->writer_->drop();
    self->status_ = kClientWentAway;
    self->cancel();
  });
}

void Completion::start(AsyncEngine& engine, int32_t adapter) {
  engine_ = &engine;
  request_.options.adapter = adapter;
  for (size_t p = 0; p < request_.prompts.size(); ++p) {
    ids_.push_back(engine.submit(engine_request(p), [self = shared_from_this(), p](const Outcome& outcome) {
      ChoiceUpdate& update = self->updates_.for_choice(self, p * self->n_each());
      update.request_ended = true;
      update.error = outcome.error;
    }));
  }
}

// Its callbacks are called from the engine's thread.
Request Completion::engine_request(size_t prompt) {
  const auto self = shared_from_this();
  const auto update = [self, first = prompt * n_each()](size_t choice) -> ChoiceUpdate& {
    return self->updates_.for_choice(self, first + choice);
  };
  const bool has_marks = served_.forms != nullptr && (request_.chat || request_.options.form != nullptr);
  const data::Tokenizer& tokenizer = request_.tools != nullptr ? request_.tools->writing->tokenizer
                                     : has_marks               ? served_.forms->tokenizer()
                                                               : served_.tokenizer;
  Request request{.prompt = request_.prompts[prompt].tokens, .options = request_.options, .tokenizer = &tokenizer};
  request.on_text = [self, update, first = prompt * n_each()](size_t choice, std::string_view text) {
    update(choice).answer.append(self->read(first + choice, text));
  };
  if (request_.tools != nullptr) {
    request.is_enough = [self, first = prompt * n_each()](size_t choice) {
      return self->readers_[first + choice].is_enough();
    };
  }
  request.wants_token_logits = request_.top_logprobs.has_value();
  request.on_token = [self, update, first = prompt * n_each()](size_t choice, int32_t token,
                                                               std::span<const float> logits) {
    ChoiceUpdate& u = update(choice);
    ++u.n_tokens;
    if (self->request_.chat && self->readers_[first + choice].is_reasoning()) ++u.n_reasoning;
    if (!logits.empty()) u.tokens.push_back(token_logprob(token, logits, *self->request_.top_logprobs));
  };
  request.on_end = [self, update, first = prompt * n_each()](size_t choice, const GenerateResult& result) {
    AnswerReader* reader = self->request_.chat ? &self->readers_[first + choice] : nullptr;
    if (reader != nullptr) update(choice).answer.append(reader->end());
    update(choice).end = {.finish_reason = result.finish_reason,
                          .score = result.score,
                          .n_tokens = result.tokens.size(),
                          .n_cached = result.n_cached,
                          .n_drafts = result.n_drafts,
                          .n_right = result.n_right,
                          .has_whole_calls = reader != nullptr && reader->has_whole_calls()};
  };
  request.backlog = backlog_;
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
    if (i == 0) seen.push_back({.token = tokens[0], .text_offset = prompt_offsets_[prompt][0]});
    if (i + 1 < tokens.size()) {
      seen.push_back(token_logprob(tokens[i + 1], logits.first(vocab_size), *request_.top_logprobs));
      seen.back().text_offset = prompt_offsets_[prompt][i + 1];
    }
  }
  if (seen.empty()) return;
  const auto shared = std::make_shared<const std::vector<TokenLogprob>>(std::move(seen));
  for (size_t i = 0; i < n_each(); ++i) {
    updates_.for_choice(shared_from_this(), prompt * n_each() + i).prompt_tokens = shared;
  }
}

void Completion::receive(ChoiceUpdate update) {
  measure(update);
  const size_t cost = update.cost();
  ChoiceText& choice = choices_[update.choice];
  if (request_.include_reasoning) choice.answer.reasoning += std::exchange(update.answer.reasoning, {});
  update.answer.reasoning.clear();
  choice.answer.append(std::move(update.answer));
  usage_.reasoning_tokens += update.n_reasoning;
  if (update.prompt_tokens) choice.prompt_tokens.push_back(std::move(update.prompt_tokens));
  for (TokenLogprob& token : update.tokens) {
    token.text_offset = characters_[update.choice].add(served_.tokenizer.token_bytes(token.token));
    choice.tokens.push_back(std::move(token));
  }
  if (update.end) finish(update.choice, *update.end);
  if (request_.stream && reply_ != nullptr &&
      (choice.has_text() || !choice.answer.empty() || !choice.finish_reason.empty())) {
    stream(update.choice, std::exchange(choice, {}), cost);
  } else {
    was_read(cost);
  }
  if (!update.request_ended) return;
  if (update.error) fail(api_error(update.error));
  if (--n_running_ == 0) end();
}

AnswerUpdate Completion::read(size_t choice, std::string_view text) {
  return request_.chat ? readers_[choice].read(text) : AnswerUpdate{.content = std::string(text)};
}

// OpenAI's API knows no end for want of tokens: such a text is cut off.
void Completion::finish(size_t index, const ChoiceEnd& result) {
  ChoiceText& choice = choices_[index];
  usage_.completion_tokens += result.n_tokens;
  metrics_.drafts += result.n_drafts;
  metrics_.drafts_right += result.n_right;
  if (index % n_each() == 0) usage_.cached_tokens += result.n_cached;
  choice.score = result.score;
  if (result.finish_reason == FinishReason::Form) {
    choice.finish_reason = finish_reason_name(FinishReason::Length);
    choice.stop_reason = finish_reason_name(FinishReason::Form);
  } else if (result.finish_reason == FinishReason::Stop && result.has_whole_calls && !request_.tools->is_named) {
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

void Completion::stream(size_t index, ChoiceText piece, size_t cost) {
  if (!std::exchange(begun_, true)) {
    status_ = 200;
    reply_->add_header("Cache-Control", "no-cache");
    writer_->begin(200, "text/event-stream");
    writer_->add([this, i = size_t{0}](std::string& text) mutable {
      text += replies_->first_chunk(i);
      return ++i < choices_.size();
    });
  }
  writer_->add(replies_->chunk(index, std::move(piece)), cost);
}

// Or never will be.
void Completion::was_read(size_t cost) {
  if (backlog_ != nullptr && backlog_->remove(cost) && engine_ != nullptr) engine_->wake();
}

// All requests have ended. It is done when its client has read most of the answer, or has gone.
void Completion::end() {
  if (reply_ == nullptr) return be_done();
  status_ = 200;
  const auto written = [self = shared_from_this()] { self->be_done(); };
  if (!request_.stream) return writer_->send(200, "application/json", replies_->whole(choices_, usage_), written);
  writer_->add([this](std::string& text) {
    text += replies_->last_events(usage_);
    return false;
  });
  writer_->end(written);
}

void Completion::be_done() {
  reply_.reset();
  if (!std::exchange(done_, true)) on_done_(*this);
}

void Completion::cancel() {
  if (engine_ == nullptr || n_running_ == 0) return end();  // it waits for its adapter, or for its client
  for (const RequestId id : ids_) engine_->cancel(id);
}

void Completion::fail(const ApiError& error) {
  const auto reply = std::exchange(reply_, {});
  if (reply == nullptr) return;
  const bool is_inside = writer_->is_inside();
  writer_->drop();
  status_ = error.status();
  if (is_inside) {
    reply->abort();
  } else if (begun_) {
    reply->write(replies_->error_event(error));
    reply->end();
  } else {
    if (error.status() == 503) reply->add_header("Retry-After", "1");
    reply->send(error.status(), "application/json", error_body(error));
  }
  cancel();
}

}  // namespace folio::infer::server
