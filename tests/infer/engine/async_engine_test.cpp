// Tests infer/engine/async_engine.h: outputs don't depend on concurrent requests, an error ends only its own request,
// and every request ends exactly once.
#include "infer/engine/async_engine.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <thread>
#include <utility>

#include "infer/engine/text_stream.h"
#include "infer/forms/forms.h"
#include "tests/infer/engine/gate.h"

namespace folio::infer {
namespace {

class AsyncEngineTest : public test::LetterEngine {
 protected:
  // Submits a request, waits for its end, and returns its result or rethrows its error.
  static GenerateResult ended(AsyncEngine& engine, Request request) {
    std::promise<GenerateResult> promise;
    GenerateResult result;
    request.on_end = [&](size_t, const GenerateResult& r) { result = r; };
    engine.submit({{std::move(request), [&](RequestId, const std::exception_ptr& error) {
                      error ? promise.set_exception(error) : promise.set_value(result);
                    }}});
    return promise.get_future().get();
  }

  static std::shared_ptr<TextStream> stream(const std::shared_ptr<AsyncEngine>& engine, const Request& request) {
    return TextStream::submit(engine, {request}, true);
  }
  static std::string text_of(TextStream& stream) {
    std::string text;
    while (!stream.ended()) {
      for (const TextPiece& piece : stream.next(std::chrono::seconds(1))) text += piece.text;
    }
    return text;
  }
};

// Half of the requests have output constraints (forms), each shared by several requests. Some requests are abandoned or
// canceled.
TEST_F(AsyncEngineTest, OutputsDoNotDependOnOtherRequests) {
  constexpr uint64_t kRequests = 24;
  const auto tokens = std::make_shared<forms::TokenTree>(tokenizer_);
  std::vector<std::shared_ptr<forms::Form>> all;
  for (const char* regex : {"[A-F]{3,30}G", "([A-T]{2}[0-4])*", "A{5}|(BC*D){3,}", "[0-9:-T]{40}"}) {
    all.push_back(forms::make_form({.kind = forms::FormOptions::Kind::Regex, .text = regex}, tokens));
  }
  const auto some = [&](uint64_t seed) {
    Request r = request(seed);
    r.options.max_tokens = static_cast<int64_t>(1 + seed * 11 % 30);
    if (seed / 4 % 2 == 1) r.options.form = all[seed % all.size()];
    r.options.speculate = seed % 3;
    return r;
  };
  std::vector<std::string> expected;
  for (uint64_t i = 0; i < kRequests; ++i) expected.push_back(alone(some(i))[0]);
  const auto async = std::make_shared<AsyncEngine>(engine_);
  std::vector<std::future<void>> threads;
  std::atomic<int> n_wrong = 0;
  for (uint64_t thread = 0; thread < 4; ++thread) {
    threads.push_back(std::async(std::launch::async, [&, thread] {
      for (uint64_t i = thread; i < kRequests; i += 4) {
        const auto own = stream(async, some(i));
        if (i % 3 == 0) static_cast<void>(stream(async, some(i + 1)));  // abandoned: the stream is destroyed
        if (i % 3 == 1)
          async->cancel(async->submit({{some(i + 2), [](RequestId, const std::exception_ptr&) {}}}).front());
        const std::string text = text_of(*own);
        n_wrong += text == expected[i] && own->take_results().front().text == text ? 0 : 1;
        static_cast<void>(async->statistics());
      }
    }));
  }
  for (auto& thread : threads) thread.get();
  EXPECT_EQ(n_wrong, 0);
  static_cast<void>(ended(*async, request(1)));
  const EngineStatistics statistics = async->statistics();
  EXPECT_GE(statistics.tokens, kRequests);
  EXPECT_GT(statistics.cached_tokens, 0U);
}

TEST_F(AsyncEngineTest, CallbackErrorsEndOnlyTheirRequest) {
  const auto async = std::make_shared<AsyncEngine>(engine_);
  Request failing = request(5);
  failing.options.max_tokens = 30;
  failing.on_text = [](size_t, std::string_view) { throw std::runtime_error("enough"); };
  const auto other = stream(async, request(4));
  EXPECT_THROW(ended(*async, failing), std::runtime_error);
  EXPECT_EQ(text_of(*other), alone(request(4))[0]);
}

TEST_F(AsyncEngineTest, CallbackErrorsOfACancelledRequestEndOnlyIt) {
  for (const bool stops : {false, true}) {
    const auto async = std::make_shared<AsyncEngine>(engine_);
    const auto gate = test::Gate::after_steps_of(*async);
    Request failing = request(5);
    failing.prompt = {1};
    failing.options.max_tokens = 80;
    failing.on_end = [](size_t, const GenerateResult&) { throw std::runtime_error("enough"); };
    gate->close();
    const auto other = stream(async, request(4));
    std::promise<std::exception_ptr> error;
    const auto on_end = [&](RequestId, const std::exception_ptr& e) { error.set_value(e); };
    const RequestId id = async->submit({{failing, on_end}}).front();
    gate->await_thread();
    if (!stops) async->cancel(id);
    gate->open();
    if (stops) async->stop();
    EXPECT_THROW(std::rethrow_exception(error.get_future().get()), std::runtime_error);
    if (!stops) {
      EXPECT_EQ(text_of(*other), alone(request(4))[0]);
    }
  }
}

TEST_F(AsyncEngineTest, WorkThatLosesTheMachineEndsAllRequests) {
  AsyncEngine async(engine_);
  std::promise<std::exception_ptr> error;
  async.call([&](Engine&) {
    async.submit({{request(4), [&](RequestId, const std::exception_ptr& e) { error.set_value(e); }}});
    async.call([](Engine&) { throw MachineLost("gone"); });
  });
  EXPECT_THROW(std::rethrow_exception(error.get_future().get()), MachineLost);
  EXPECT_TRUE(async.loss());
}

TEST_F(AsyncEngineTest, DamagedWeightsFailEveryRequest) {
  const auto damaged = test::damaged_model(model_.config);
  Engine engine(damaged, cpu_);
  AsyncEngine async(engine);
  for (int i = 0; i < 2; ++i) EXPECT_ERROR(ended(async, request(1)), "not finite");
}

TEST_F(AsyncEngineTest, CancelledRequestsKeepTheirTokens) {
  AsyncEngine async(engine_);
  Request slow = request(5);
  slow.options.max_tokens = 80;
  slow.prompt = {1};
  std::promise<void> began;
  std::promise<void> cancelled;
  std::promise<GenerateResult> end;
  bool has_begun = false;
  slow.on_token = [&](size_t, int32_t, std::span<const float>) {
    if (std::exchange(has_begun, true)) return;
    began.set_value();
    cancelled.get_future().wait();
  };
  slow.on_end = [&](size_t, const GenerateResult& r) { end.set_value(r); };
  const RequestId id = async.submit({{slow, [](RequestId, const std::exception_ptr&) {}}}).front();
  began.get_future().wait();
  async.cancel(id);
  cancelled.set_value();
  const GenerateResult result = end.get_future().get();
  EXPECT_EQ(result.finish_reason, FinishReason::Interrupted);
  EXPECT_EQ(result.tokens.size(), 1U);
  slow.on_token = {};
  slow.on_end = {};
  EXPECT_EQ(alone(slow)[0].substr(0, result.text.size()), result.text);
  async.cancel(id);  // has no effect, since the request has ended
}

TEST_F(AsyncEngineTest, RequestsSubmittedTogetherStartTogether) {
  std::vector<size_t> started;  // number of sequences started in each step
  engine_.watch([&](const StepReport& report) { started.push_back(report.started.size()); });
  {
    AsyncEngine async(engine_);
    std::vector<Request> requests;
    for (uint64_t i = 0; i < 4; ++i) requests.push_back(request(i));
    const auto queue = std::make_shared<EventQueue<TextPiece>>(async);
    queue->submit(std::move(requests));
    while (!queue->ended()) static_cast<void>(queue->next(std::chrono::seconds(60)));
  }
  EXPECT_EQ(started.front(), 4U);
}

TEST_F(AsyncEngineTest, CallersCanWaitForWorkOnItsThread) {
  AsyncEngine async(engine_);
  const Request running = request(3);
  const auto text = stream(std::shared_ptr<AsyncEngine>(&async, [](AsyncEngine*) {}), running);
  std::thread::id thread;
  EXPECT_TRUE(async.call_and_wait([&](Engine& engine) {
    EXPECT_EQ(&engine, &engine_);
    thread = std::this_thread::get_id();
  }));
  EXPECT_NE(thread, std::this_thread::get_id());
  EXPECT_THROW(static_cast<void>(async.call_and_wait([](Engine&) { throw core::Error("wrong"); })), core::Error);
  EXPECT_EQ(text_of(*text), alone(running)[0]);
  async.stop();
  EXPECT_FALSE(async.call_and_wait([](Engine&) { ADD_FAILURE(); }));
}

TEST_F(AsyncEngineTest, StoppingEndsEveryRequestOnce) {
  std::atomic<int> n_ended = 0;
  {
    AsyncEngine async(engine_);
    for (uint64_t i = 0; i < 50; ++i)
      async.submit({{request(i), [&](RequestId, const std::exception_ptr&) { ++n_ended; }}});
  }
  EXPECT_EQ(n_ended, 50);
  EXPECT_EQ(engine_.cache().blocks_in_use(), 0);
}

}  // namespace
}  // namespace folio::infer
