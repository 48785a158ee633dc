// Helpers for tests of the engine on its own thread: a small engine, and a gate that blocks its thread after a step.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "infer/engine/text_stream.h"
#include "tests/infer/engine/letter_tokenizer.h"
#include "tests/infer/support.h"

namespace folio::infer::test {

class Gate : public AsyncEngine::Output {
 public:
  static std::shared_ptr<Gate> after_steps_of(AsyncEngine& engine) {
    const auto gate = std::make_shared<Gate>();
    engine.call([&engine, gate](Engine&) { engine.deliver_after_step(gate); });
    return gate;
  }
  void close() { set(false); }
  void open() { set(true); }
  bool deliver(Engine&, Clock::time_point) override {
    std::unique_lock lock(mutex_);
    is_waiting_ = true;
    changed_.notify_all();
    changed_.wait(lock, [this] { return is_open_; });
    is_waiting_ = false;
    return false;
  }
  /// Waits until the engine's thread is blocked.
  void await_thread() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return is_waiting_ && !is_open_; });
  }

 private:
  void set(bool open) {
    const std::lock_guard lock(mutex_);
    is_open_ = open;
    changed_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_open_ = true;
  bool is_waiting_ = false;
};

/// An engine with a small model whose tokens are letters, requests for it, and their outputs.
class LetterEngine : public ::testing::Test {
 protected:
  [[nodiscard]] Request request(uint64_t seed, int64_t n = 1) const {
    return {.prompt = random_tokens(1 + seed * 7 % 60, seed % 5, 37),
            .options = {.max_tokens = static_cast<int64_t>(20 + seed * 11 % 30),
                        .sampler = {.temperature = 1.0F, .top_p = 1.0F, .seed = seed},
                        .n = n},
            .tokenizer = &tokenizer_};
  }
  /// Returns the output of each choice of a request that runs alone.
  [[nodiscard]] std::vector<std::string> alone(const Request& request) const {
    Cpu cpu({.n_threads = 1});
    Engine engine(model_, cpu);
    const RequestId id = engine.add(request);
    while (engine.step()) continue;
    std::vector<std::string> texts;
    for (const GenerateResult& result : engine.take_all(id)) texts.push_back(result.text);
    return texts;
  }

  /// Reads a stream to its end. Returns the output of each choice.
  static std::vector<std::string> read(TextStream& stream, size_t n_choices = 1) {
    std::vector<std::string> texts(n_choices);
    while (!stream.ended()) {
      for (const TextPiece& piece : stream.next(std::chrono::seconds(1))) texts.at(piece.choice) += piece.text;
    }
    return texts;
  }

  LetterTokenizer tokenizer_;
  core::StoredModel model_ = random_model(small_shapes()[1].config);  // vocabulary 37, context 100
  Cpu cpu_{{.n_threads = 1}};
  Engine engine_{model_, cpu_, {.max_positions = 400}};
};

}  // namespace folio::infer::test
