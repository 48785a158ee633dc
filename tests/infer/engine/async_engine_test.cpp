// Tests infer/engine/async_engine.h: outputs don't depend on concurrent requests, and an error ends only its own
// request.
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
  static std::shared_ptr<TextStream> stream(const std::shared_ptr<AsyncEngine>& engine, const Request& request) {
    return TextStream::submit(engine, {request}, true);
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
        const std::string text = read(*own)[0];
        n_wrong += text == expected[i] && own->take_results().front().text == text ? 0 : 1;
        static_cast<void>(async->statistics());
      }
    }));
  }
  for (auto& thread : threads) thread.get();
  EXPECT_EQ(n_wrong, 0);
  static_cast<void>(read(*stream(async, request(1))));
  const EngineStatistics statistics = async->statistics();
  EXPECT_GE(statistics.tokens, kRequests);
  EXPECT_GT(statistics.cached_tokens, 0U);
}

TEST_F(AsyncEngineTest, CallbackErrorsEndOnlyTheirRequest) {
  const auto async = std::make_shared<AsyncEngine>(engine_);
  Request failing = request(5);
  failing.options.max_tokens = 30;
  failing.is_enough = [](size_t) -> bool { throw std::runtime_error("enough"); };
  const auto other = stream(async, request(4));
  const auto failed = stream(async, failing);
  EXPECT_THROW(read(*failed), std::runtime_error);
  EXPECT_EQ(read(*other), alone(request(4)));
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
      EXPECT_EQ(read(*other), alone(request(4)));
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

TEST_F(AsyncEngineTest, WorkThatFailsAfterAFailedStepEndsAllRequests) {
  AsyncEngine async(engine_);
  Request failing = request(5);
  failing.on_token = [](size_t, int32_t, std::span<const float>) { throw std::runtime_error("enough"); };
  std::promise<std::exception_ptr> error;
  const auto fail = [](Engine&) { throw core::Error("wrong"); };
  async.submit({{failing, [&](RequestId, const std::exception_ptr&) { async.call(fail); }},
                {request(4), [&](RequestId, const std::exception_ptr& e) { error.set_value(e); }}});
  EXPECT_TRUE(error.get_future().get());
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
  EXPECT_EQ(read(*text), alone(running));
  async.stop();
  EXPECT_FALSE(async.call_and_wait([](Engine&) { ADD_FAILURE(); }));
}

}  // namespace
}  // namespace folio::infer
