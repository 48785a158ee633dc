// A completion in progress, with one engine request per prompt. Output is sent as the chunks of a stream or as one
// whole answer, as fast as the client reads. The engine pauses the requests of a stream whose client reads too slowly.
// Callbacks on the engine's thread only write events to a queue. Everything else runs on the service's thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "infer/engine/event_queue.h"
#include "infer/server/http.h"
#include "infer/server/metrics.h"
#include "infer/server/replies.h"
#include "infer/server/text_offsets.h"

namespace folio::infer::server {

inline constexpr int kClientClosedRequest = 499;  ///< nginx's status for a client that disconnected

/// Output of one choice in a step.
struct ChoiceUpdate {
  size_t choice = 0;
  std::chrono::steady_clock::time_point at = std::chrono::steady_clock::now();
  size_t n_tokens = 0;
  ChoiceText text{};
  // Set in the choice's last update: reasoning tokens, prompt tokens found in the KV cache, draft tokens tried, and
  // drafts accepted.
  size_t n_reasoning = 0;
  size_t n_cached = 0;
  size_t n_drafts = 0;
  size_t n_right = 0;

  /// Returns the bytes of memory that the update uses until it is sent, without data that several choices share.
  [[nodiscard]] size_t cost() const;
};

class Completion : public std::enable_shared_from_this<Completion> {
 public:
  using Clock = std::chrono::steady_clock;

  /// Creates a completion that start() runs. `served` and `metrics` must outlive it. `log_texts`: texts() is needed.
  Completion(CompletionRequest request, const ServedModel& served, std::string id, std::shared_ptr<HttpReply> reply,
             Metrics& metrics, Clock::time_point arrived, bool log_texts);

  /// Sets `on_done`, which is called once, when the completion has ended; after an error, possibly before start().
  void expect(std::function<void(const Completion&)> on_done);
  /// Submits the engine requests, with adapter id `adapter`. Calls `on_delivery`, on any thread, when receive() is due.
  void start(AsyncEngine& engine, int32_t adapter, std::function<void()> on_delivery);
  void receive();
  /// Ends the completion with an error, and sends the error unless the client has disconnected.
  void fail(const ApiError& error);

  [[nodiscard]] const CompletionRequest& request() const { return request_; }
  /// Returns the number of sequences of all prompts, including beams that are not returned.
  [[nodiscard]] size_t n_sequences() const {
    return request_.prompts.size() * static_cast<size_t>(request_.n_sequences());
  }
  [[nodiscard]] const Usage& usage() const { return usage_; }
  [[nodiscard]] Clock::time_point arrived() const { return arrived_; }
  /// Returns the status that was sent, or 499 if the client disconnected.
  [[nodiscard]] int status() const { return status_; }
  [[nodiscard]] const std::string& id() const { return id_; }
  /// Returns the beginning of each choice's text; empty without `log_texts`.
  [[nodiscard]] const std::vector<std::string>& texts() const { return texts_; }

 private:
  [[nodiscard]] size_t n_each() const { return static_cast<size_t>(request_.options.n); }
  /// Returns the tokenizer that decodes the answers. In chats and constrained answers, it decodes markers as text.
  [[nodiscard]] const data::Tokenizer& answer_tokenizer() const;
  [[nodiscard]] Request engine_request(size_t prompt);
  void take_text(size_t choice, AnswerUpdate answer);
  void on_prompt_logits(size_t prompt, std::span<const float> logits);
  void measure(const ChoiceUpdate& update);
  void take(ChoiceUpdate update);
  void finish(ChoiceUpdate& update, const GenerateResult& result);
  void stream(size_t choice, ChoiceText piece, size_t cost);
  void end();
  void be_done();
  void cancel();

  CompletionRequest request_;
  const ServedModel& served_;
  std::string id_;
  std::shared_ptr<HttpReply> reply_;                 ///< null when nothing more will be sent
  std::shared_ptr<EventQueue<ChoiceUpdate>> queue_;  ///< set from start() until all requests have ended
  Metrics& metrics_;
  std::unique_ptr<Replies> replies_;
  std::function<void(const Completion&)> on_done_;
  std::vector<ChoiceText> choices_;                  ///< output of each choice; in a stream, the output not sent yet
  std::vector<std::string> texts_;                   ///< the return value of texts()
  std::vector<AnswerReader> readers_;                ///< one per choice of a chat; used on the engine's thread
  std::vector<std::vector<TokenLogprob>> pending_;   ///< per choice, tokens without text so far; on the engine's thread
  std::vector<CharacterCounter> characters_;         ///< one per choice; computes text_offset of its tokens
  std::vector<std::vector<size_t>> prompt_offsets_;  ///< text_offset of each prompt's tokens, if needed for echo
  std::vector<size_t> n_prompt_logits_;              ///< logits rows received per prompt; used on the engine's thread
  std::vector<std::optional<Clock::time_point>> last_token_;
  Usage usage_;
  Clock::time_point arrived_;
  int status_ = 0;
  bool begun_ = false;
  bool done_ = false;  ///< true: on_done_ was called
};

}  // namespace folio::infer::server
